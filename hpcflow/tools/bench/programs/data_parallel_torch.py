"""The networks of `programs.convnets` trained by DistributedDataParallel over Gloo."""

import importlib

convnets = importlib.import_module("programs.convnets_torch")


def open_case(torch, case, options):
    """One rank's part of a network: (function that runs one step, close)."""
    distributed = torch.distributed
    torch.set_num_threads(options["threads"])
    torch.manual_seed(1)
    store = distributed.FileStore(options["store"], options["size"])
    distributed.init_process_group(
        "gloo", store=store, rank=options["rank"], world_size=options["size"])
    images, labels = convnets.batch_of(torch, options)
    net = convnets.Network(torch, options["layers"], options["image"]).module
    net = torch.nn.parallel.DistributedDataParallel(net)
    loss_of = torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(net.parameters(), lr=convnets.RATE)

    def step():
        optimizer.zero_grad()
        loss_of(net(images), labels).backward()
        optimizer.step()

    return step, distributed.destroy_process_group
