"""The models of `programs.forward` as PyTorch modules."""

from __future__ import annotations

import importlib
import itertools
import os
import sys
from types import ModuleType
from typing import Any

import numpy as np

BATCH, PIXELS, HIDDEN, CLASSES = 64, 784, 100, 10
SENTENCES, UNROLL, UNITS, WORDS, SAMPLED = 32, 20, 512, 40_000, 512
LSTM_BATCH, LSTM_TIME, LSTM_UNITS = 64, 28, 128
IMAGES, SIDE = 64, 32
EXAMPLES, NUMBERS, COLUMNS, BUCKETS, WIDTH = 256, 13, 26, 10_000, 16
DEEP = (256, 128)
PRODUCTS, SIZE, BRANCH = 100, 128, 768


def open_case(torch: ModuleType, case, options):
    """Build a case: (function that runs one step, close)."""
    if options["kind"] == "convnets":  # beside this file
        sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
        return importlib.import_module("convnets_torch").open_case(torch, case, options)
    torch.set_num_threads(options["threads"])
    torch.manual_seed(1)
    if options["kind"] == "control_flow":
        return torch.no_grad()(PLAIN[options["plain"]](torch)), lambda: None
    model, loss_of, optimizer = KINDS[options["kind"]](torch)
    if not options["training"]:
        return torch.no_grad()(lambda: loss_of().item()), lambda: None
    made = optimizer(model.parameters(), lr=0.01)

    def step():
        made.zero_grad()
        loss = loss_of()
        loss.backward()
        made.step()
        return loss.item()

    return step, lambda: None


def perceptron(torch: ModuleType):
    """The network of Figure 1."""
    nn, random = torch.nn, np.random.RandomState(0)
    model = nn.Sequential(nn.Linear(PIXELS, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, CLASSES))
    x = random.rand(BATCH, PIXELS).astype(np.float32)
    y = np.eye(CLASSES, dtype=np.float32)[random.randint(0, CLASSES, BATCH)]
    entropy = nn.CrossEntropyLoss()
    return model, lambda: entropy(model(torch.from_numpy(x)), torch.from_numpy(y)), \
        torch.optim.Adagrad


def language_model(torch: ModuleType):
    """An LSTM over words; a step draws the classes that it compares with."""
    nn, random = torch.nn, np.random.RandomState(0)
    model = nn.ModuleDict({"table": nn.Embedding(WORDS, UNITS), "lstm": nn.LSTM(UNITS, UNITS),
                           "outer": nn.Embedding(WORDS, UNITS), "bias": nn.Embedding(WORDS, 1)})
    words = torch.from_numpy(random.randint(0, WORDS, (UNROLL, SENTENCES)))
    labels = torch.from_numpy(random.randint(0, WORDS, SENTENCES * UNROLL))
    zeros = torch.zeros(SENTENCES * UNROLL, dtype=torch.int64)
    entropy = nn.CrossEntropyLoss()

    def loss_of():
        hidden = model["lstm"](model["table"](words))[0].reshape(-1, UNITS)
        drawn = torch.randint(WORDS, (SAMPLED,))
        right = (hidden * model["outer"](labels)).sum(1, keepdim=True) + model["bias"](labels)
        others = hidden @ model["outer"](drawn).T + model["bias"](drawn).T
        others = others.masked_fill(labels[:, None] == drawn, -1e9)
        return entropy(torch.cat([right, others], 1), zeros)

    return model, loss_of, torch.optim.SGD


def looped_lstm(torch: ModuleType):
    """An LSTM over rows of images."""
    nn, random = torch.nn, np.random.RandomState(0)
    model = nn.ModuleDict({"lstm": nn.LSTM(LSTM_TIME, LSTM_UNITS, batch_first=True),
                           "dense": nn.Linear(LSTM_UNITS, CLASSES)})
    x = torch.from_numpy(random.rand(LSTM_BATCH, LSTM_TIME, LSTM_TIME).astype(np.float32))
    y = torch.from_numpy(random.randint(0, CLASSES, LSTM_BATCH))
    entropy = nn.CrossEntropyLoss()
    return model, lambda: entropy(model["dense"](model["lstm"](x)[0][:, -1]), y), \
        torch.optim.Adagrad


def residual_network(torch: ModuleType):
    """ResNet-20 of small images."""
    nn, random = torch.nn, np.random.RandomState(0)

    def normalized(inner, outer, window: int = 3, stride: int = 1):
        return nn.Sequential(nn.Conv2d(inner, outer, window, stride, window // 2, bias=False),
                             nn.BatchNorm2d(outer))

    depths = [16, 16, 16, 16, 32, 32, 32, 64, 64, 64]
    blocks = [_block(torch, normalized, a, b, 1 if a == b else 2)
              for a, b in itertools.pairwise(depths)]
    model = nn.Sequential(normalized(3, 16), nn.ReLU(), *blocks, nn.AdaptiveAvgPool2d(1),
                          nn.Flatten(), nn.Linear(64, CLASSES))
    x = torch.from_numpy(random.standard_normal((IMAGES, 3, SIDE, SIDE)).astype(np.float32))
    y = torch.from_numpy(random.randint(0, CLASSES, IMAGES))
    entropy = nn.CrossEntropyLoss()
    return model, lambda: entropy(model(x), y), \
        lambda parameters, lr: torch.optim.SGD(parameters, lr, momentum=0.9)


def _block(torch: Any, normalized: Any, inner: int, outer: int, stride: int) -> Any:
    class Block(torch.nn.Module):
        """Two convolutions beside a short cut."""

        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = normalized(inner, outer, 3, stride), normalized(outer, outer)
            self.short = (torch.nn.Identity() if stride == 1
                          else normalized(inner, outer, 1, stride))

        def forward(self, x: Any) -> Any:
            """The block of `x`."""
            return torch.relu_(self.second(torch.relu_(self.first(x))) + self.short(x))

    return Block()


def wide_and_deep(torch: ModuleType):
    """A linear model of many words beside a perceptron of their vectors and of numbers."""
    nn, random = torch.nn, np.random.RandomState(0)
    widths = (NUMBERS + COLUMNS * WIDTH, *DEEP)
    layers = [m for a, b in itertools.pairwise(widths) for m in (nn.Linear(a, b), nn.ReLU())]
    model = nn.ModuleDict({
        "wide": nn.ModuleList(nn.Embedding(BUCKETS, 1, sparse=True) for _ in range(COLUMNS)),
        "vectors": nn.ModuleList(nn.Embedding(BUCKETS, WIDTH, sparse=True)
                                 for _ in range(COLUMNS)),
        "deep": nn.Sequential(*layers, nn.Linear(widths[-1], 1))})
    numbers = torch.from_numpy(random.rand(EXAMPLES, NUMBERS).astype(np.float32))
    words = torch.from_numpy(np.minimum(random.zipf(1.3, (EXAMPLES, COLUMNS)), BUCKETS) - 1)
    y = torch.from_numpy(random.randint(0, 2, (EXAMPLES, 1)).astype(np.float32))
    entropy = nn.BCEWithLogitsLoss()

    def loss_of():
        found = [table(words[:, k]) for k, table in enumerate(model["vectors"])]
        wide = sum(table(words[:, k]) for k, table in enumerate(model["wide"]))
        return entropy(model["deep"](torch.cat([numbers, *found], 1)) + wide, y)

    return model, loss_of, torch.optim.Adagrad


def _factor(torch: ModuleType, size: int, seed: int):
    values = np.random.RandomState(seed).standard_normal((size, size))
    return torch.from_numpy(np.linalg.qr(values)[0].astype(np.float32))


def loop(torch: ModuleType):
    """Products of which each needs the one before."""
    w = _factor(torch, SIZE, 0)

    def step():
        y = w
        for _ in range(PRODUCTS):
            y = y @ w
        return y

    return step


def branches(torch: ModuleType):
    """Two chains of two products."""
    w, x = _factor(torch, BRANCH, 4), _factor(torch, BRANCH, 5)
    return lambda: ((x @ w @ w).max().item(), (w @ x @ w).max().item())


KINDS = {f.__name__: f for f in (perceptron, language_model, looped_lstm, residual_network,
                                 wide_and_deep)}
PLAIN = {f.__name__: f for f in (loop, branches)}
