"""The programs of `programs.gpu_models` as PyTorch computes them: (feed, train) of each.

``feed()`` copies the next batch of the host into tensors that stay where they are, so that
``train()``, a step on these, can be recorded.
"""

from __future__ import annotations

from types import ModuleType

import gpu_models  # type: ignore[import-not-found]  # a child finds it beside this file


def open_case(torch: ModuleType, case, options):
    """Make a program: (feed, train)."""
    torch.manual_seed(1)
    return KINDS[options["kind"]](torch, **options["args"])


def feeder(torch: ModuleType, batches):
    """(the tensors on the device, the function that fills them)."""
    hosts = [[torch.from_numpy(values) for values in batch] for batch in batches]
    tensors, turns = [values.to(torch.get_default_device()) for values in hosts[0]], [0]

    def feed():
        turns[0] += 1
        for target, source in zip(tensors, hosts[turns[0] % len(hosts)]):
            target.copy_(source)

    return tensors, feed


def perceptron(torch: ModuleType, batch: int, hidden: int):
    """A hidden layer, ten classes, Adagrad."""
    nn = torch.nn
    net = nn.Sequential(nn.Linear(784, hidden), nn.ReLU(), nn.Linear(hidden, 10))
    optimizer = torch.optim.Adagrad(net.parameters(), 0.01)
    (x, y), feed = feeder(torch, gpu_models.perceptron_batches(batch))

    def train():
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()

    return feed, train


def language_model(torch: ModuleType, batch: int, steps: int, units: int, words: int):
    """One LSTM over all steps at once, a softmax over all words, clipped gradients."""
    nn = torch.nn
    embedding, lstm = nn.Embedding(words, units), nn.LSTM(units, units, batch_first=True)
    linear = nn.Linear(units, words)
    parameters = [p for module in (embedding, lstm, linear) for p in module.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=1.0)
    batches = gpu_models.word_batches(batch, steps, words)
    (x, y), feed = feeder(torch, [(a, b.astype("int64")) for a, b in batches])

    def train():
        optimizer.zero_grad()
        scores = linear(lstm(embedding(x))[0]).reshape(-1, words)
        nn.functional.cross_entropy(scores, y.reshape(-1)).backward()
        nn.utils.clip_grad_norm_(parameters, 5.0)
        optimizer.step()

    return feed, train


KINDS = {function.__name__: function for function in (perceptron, language_model)}
