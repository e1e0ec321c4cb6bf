"""The networks of `programs.convnets` as PyTorch modules."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

RATE = 1e-4


def open_case(torch: ModuleType, case, options):
    """Make a network: (function that runs one step, close)."""
    torch.set_num_threads(options["threads"])
    torch.manual_seed(1)
    images, labels = batch_of(torch, options)
    net = Network(torch, options["layers"], options["image"]).module
    if not options["training"]:
        return torch.no_grad()(lambda: net(images)), lambda: None
    loss_of = torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(net.parameters(), lr=RATE)

    def step():
        optimizer.zero_grad()
        loss_of(net(images), labels).backward()
        optimizer.step()

    return step, lambda: None


def batch_of(torch: ModuleType, options):
    """Random images with random labels."""
    random = np.random.default_rng(0)
    height, width = options["image"]
    dims = options["batch"], 3, height, width
    labels = random.integers(1000, size=options["batch"])
    found = random.standard_normal(dims, np.float32), labels
    return [torch.from_numpy(values).to(torch.get_default_device()) for values in found]


class Network:
    """Builds the modules; `depth` and `size` are the channels and the height of what is built."""

    def __init__(self, torch: ModuleType, layers, image):
        self.torch = torch
        self.depth, self.size = 3, image[0]
        self.flat = False
        self.module = torch.nn.Sequential(*[
            module for kind, *numbers in layers for module in getattr(self, kind)(*numbers)])

    def conv(self, outer: int, window: int, stride: int = 1, padding: str = "SAME"):
        """Convolution, bias and relu."""
        pad = (window - 1) // 2 if padding == "SAME" else 0
        made = self.torch.nn.Conv2d(self.depth, outer, window, stride, pad)
        self._moved(outer, window, stride, pad)
        return [self._scaled(made), self.torch.nn.ReLU(inplace=True)]

    def pool(self, window: int, stride: int, padding: str = "VALID"):
        """The largest of each window."""
        pad = (window - 1) // 2 if padding == "SAME" else 0
        self._moved(self.depth, window, stride, pad)
        return [self.torch.nn.MaxPool2d(window, stride, pad)]

    def mean(self, window):
        """The mean of each window."""
        self._moved(self.depth, window, 1, 0)
        return [self.torch.nn.AvgPool2d(window, 1)]

    def inception(self, one, three_in, three, five_in, five, pooled):
        """Four branches, joined along the channels."""
        depth = self.depth
        branches = []
        for parts in ([(one, 1)], [(three_in, 1), (three, 3)], [(five_in, 1), (five, 5)], None):
            self.depth = depth
            modules = (self.pool(3, 1, "SAME") + self.conv(pooled, 1) if parts is None
                       else [m for part in parts for m in self.conv(*part)])
            branches.append(self.torch.nn.Sequential(*modules))
        self.depth = one + three + five + pooled
        return [joined(self.torch, branches)]

    def norm_conv(self, outer: int, window: int, stride: int = 1, relu: bool = True):
        """Convolution and batch normalization, and relu or not."""
        nn, pad = self.torch.nn, (window - 1) // 2
        made = nn.Conv2d(self.depth, outer, window, stride, pad, bias=False)
        self._moved(outer, window, stride, pad)
        nn.init.kaiming_normal_(made.weight)
        norm = nn.BatchNorm2d(outer, eps=1e-3, track_running_stats=False)
        return [made, norm, nn.ReLU(inplace=True)] if relu else [made, norm]

    def residual(self, inner: int, stride: int = 1):
        """Three convolutions around a narrow waist, added to their input."""
        nn, depth, size, outer = self.torch.nn, self.depth, self.size, 4 * inner
        same = stride == 1 and depth == outer
        short = nn.Identity() if same else nn.Sequential(*self.norm_conv(outer, 1, stride, False))
        self.depth, self.size = depth, size
        deep = (self.norm_conv(inner, 1) + self.norm_conv(inner, 3, stride)
                + self.norm_conv(outer, 1, 1, False))
        return [added(self.torch, nn.Sequential(*deep), short)]

    def dense(self, outer: int, relu: bool = True):
        """A fully connected layer."""
        nn = self.torch.nn
        inner = self.depth if self.flat else self.depth * self.size**2
        modules = [] if self.flat else [nn.Flatten()]
        self.depth, self.flat = outer, True
        modules.append(self._scaled(nn.Linear(inner, outer)))
        return [*modules, nn.ReLU(inplace=True)] if relu else modules

    def _moved(self, depth: int, window: int, stride: int, pad):
        self.depth, self.size = depth, (self.size + 2 * pad - window) // stride + 1

    def _scaled(self, module):
        init = self.torch.nn.init
        init.kaiming_normal_(module.weight)
        init.zeros_(module.bias)
        return module


def added(torch: Any, deep: Any, short: Any) -> Any:
    """A module that adds what two give on one input, and clips below zero."""

    class Added(torch.nn.Module):
        """Two ways from one input."""

        def __init__(self) -> None:
            super().__init__()
            self.deep, self.short = deep, short

        def forward(self, x: Any) -> Any:
            """Both ways of `x`."""
            return torch.relu_(self.deep(x) + self.short(x))

    return Added()


def joined(torch: Any, branches: list) -> Any:
    """A module that runs `branches` on one input and joins their channels."""

    class Joined(torch.nn.Module):
        """Branches side by side."""

        def __init__(self) -> None:
            super().__init__()
            self.branches = torch.nn.ModuleList(branches)

        def forward(self, x: Any) -> Any:
            """All branches of `x`."""
            return torch.cat([branch(x) for branch in self.branches], 1)

    return Joined()
