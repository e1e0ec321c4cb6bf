"""The cases of ``bench gpu``: kernels, training steps of networks of images, other models."""

from __future__ import annotations

from typing import Any, NamedTuple

from hpcflow.host.tuning import programs as tuning
from hpcflow.tools.bench.contestants import core_count
from hpcflow.tools.bench.convnets import NETWORKS, Network

FLOAT32, TF32, HALF = "float32", "TF32", "float16"

BATCH = 64


class Case(NamedTuple):
    """A line of the table.

    Attributes:
        program: the file in ``programs`` that has it, for PyTorch with the ending ``_torch``.
        options: what that is given.
        repeat: steps between two waits for the GPU.
        recorded: PyTorch runs it as a CUDA graph as well.
        seconds: the time in which no more rounds begin.
    """

    title: str
    precision: str
    program: str
    options: dict[str, Any]
    repeat: int = 20
    recorded: bool = False
    seconds: float = 1.5


# He and others, Deep residual learning (2015): 50 layers.
RESIDUAL = Network("ResNet-50", BATCH, 224, [
    ["norm_conv", 64, 7, 2], ["pool", 3, 2, "SAME"],
    *(["residual", 64] for _ in range(3)),
    ["residual", 128, 2], *(["residual", 128] for _ in range(3)),
    ["residual", 256, 2], *(["residual", 256] for _ in range(5)),
    ["residual", 512, 2], *(["residual", 512] for _ in range(2)),
    ["mean", 7], ["dense", 1000, False],
])  # fmt: skip

#: Every kind of layer once, for a rehearsal.
REHEARSED = Network("small network", 2, 32, [
    ["conv", 8, 3], ["pool", 3, 2, "SAME"], ["inception", 4, 4, 8, 2, 4, 4], ["residual", 4],
    ["residual", 4, 2], ["mean", 8], ["dense", 16], ["dense", 1000, False],
])  # fmt: skip

_CONVOLUTIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("conv 11x11/4 of 227x227x3 to 64",
     {"image": (BATCH, 227, 227, 3), "window": (11, 11, 64), "stride": 4, "same": False}),
    ("conv 5x5 of 27x27x64 to 192", {"image": (BATCH, 27, 27, 64), "window": (5, 5, 192)}),
    ("conv 3x3 of 56x56x128 to 256", {"image": (BATCH, 56, 56, 128), "window": (3, 3, 256)}),
    ("conv 3x3 of 14x14x512 to 512", {"image": (BATCH, 14, 14, 512), "window": (3, 3, 512)}),
    ("conv 1x1 of 28x28x512 to 128", {"image": (BATCH, 28, 28, 512), "window": (1, 1, 128)}),
)
_PARTS = {"forward": "", "input": ": by the input", "filter": ": by the filter"}
_MAPS: dict[str, Any] = {"image": (BATCH, 55, 55, 64), "window": 3, "stride": 2}
_NORMED: dict[str, Any] = {"image": (BATCH, 28, 28, 256)}
_RESPONSE: dict[str, Any] = {"image": (BATCH, 27, 27, 96), "radius": 2}
_FLOATS = 16_000_000
_OTHERS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("dense layer with bias and relu 1024 x 4096 x 4096", "dense",
     {"batch": 1024, "inputs": 4096, "outputs": 4096}),
    ("conv 3x3 of 56x56x128 with bias and relu", "conv_bias_relu",
     {"image": (BATCH, 56, 56, 128), "window": (3, 3, 128)}),
    ("depthwise conv 3x3 of 56x56x128", "depthwise",
     {"image": (BATCH, 56, 56, 128), "window": 3}),
    ("max pool 3x3/2 of 55x55x64", "pool", _MAPS),
    ("max pool: gradient", "pool", _MAPS | {"backward": True}),
    ("mean pool 3x3/2 of 55x55x64", "pool", _MAPS | {"mean": True}),
    ("mean pool: gradient", "pool", _MAPS | {"mean": True, "backward": True}),
    ("batch norm of 28x28x256", "batch_norm", _NORMED),
    ("batch norm: gradient", "batch_norm", _NORMED | {"backward": True}),
    ("LRN of 27x27x96", "lrn", _RESPONSE),
    ("LRN: gradient", "lrn", _RESPONSE | {"backward": True}),
    ("softmax 8192 x 1000", "softmax", {"rows": 8192, "columns": 1000}),
    ("log softmax 1280 x 10 000", "softmax", {"rows": 1280, "columns": 10_000, "log": True}),
    ("sparse cross entropy and gradient 1280 x 10 000", "cross_entropy",
     {"rows": 1280, "columns": 10_000, "sparse": True}),
    ("embedding: scatter-add 8192 of 100 000 x 128", "scatter_add",
     {"rows": 100_000, "width": 128, "count": 8192}),
    *((f"{name} of 16 M floats", "optimizer", {"name": name, "size": _FLOATS, **more})
      for name, more in (("GradientDescent", {}), ("Momentum", {"momentum": 0.9}),
                         ("Adagrad", {}), ("RMSProp", {}), ("Adam", {}))),
)
_MODELS: tuple[tuple[str, str, dict[str, Any], int, tuple[str, ...]], ...] = (
    ("Figure-1 perceptron (64)", "perceptron", {"batch": 64, "hidden": 100}, 50, (FLOAT32,)),
    ("LSTM language model 512-512 (64 x 20)", "language_model",
     {"batch": 64, "steps": 20, "units": 512, "words": 10_000}, 3, (FLOAT32, TF32)),
)


def cases(small: bool = False) -> list[Case]:
    """All cases, the networks and models first; `small` ones for a rehearsal."""
    found = [*_networks(small), *_models(small), *_kernels(small)]
    return [case._replace(repeat=1) for case in found] if small else found


def _networks(small: bool) -> list[Case]:
    chosen = [REHEARSED] if small else [
        *(n._replace(batch=BATCH) for n in NETWORKS if n.name != "OverFeat"), RESIDUAL]
    return [Case(f"{n.name} ({n.batch})", precision, "convnets",
                 {"batch": n.batch, "image": [n.image] * 2, "layers": n.layers, "training": True,
                  "threads": core_count()}, 2, True, 5.0)
            for n in chosen for precision in (FLOAT32, TF32)]


def _models(small: bool) -> list[Case]:
    return [Case(title, precision, "gpu_models",
                 {"kind": kind, "args": _shrunk(args) if small else args}, repeat, True, 4.0)
            for title, kind, args, repeat, precisions in _MODELS for precision in precisions]


def _kernels(small: bool) -> list[Case]:
    square = {"m": 4096, "k": 4096, "n": 4096}
    found: list[tuple[str, str, dict[str, Any], tuple[str, ...]]] = [
        ("matmul 4096 x 4096 x 4096", "matmul", square, (FLOAT32, TF32, HALF))]
    for title, args in _CONVOLUTIONS:
        parts = [p for p in _PARTS if p != "input" or args["image"][3] > 3]
        found += [(title + _PARTS[p], "conv", args | {"part": p}, (FLOAT32, TF32, HALF))
                  for p in parts]
    found += [(*row, (FLOAT32,)) for row in _OTHERS]
    return [_kernel(title, kind, _shrunk(args) if small else args, precision)
            for title, kind, args, precisions in found for precision in precisions]


def _kernel(title: str, kind: str, args: dict[str, Any], precision: str) -> Case:
    args = args | {"half": True} if precision == HALF else args
    return Case(title, precision, "kernels",
                {"kind": kind, "args": args, "threads": core_count(), "quiet": True})


def _shrunk(value: Any) -> Any:
    """The same with no number over what a rehearsal takes."""
    if isinstance(value, dict):
        return {name: _shrunk(v) for name, v in value.items()}
    if isinstance(value, tuple):
        return tuple(map(_shrunk, value))
    return min(value, tuning.BENCH_GPU_SMALL) if type(value) is int else value
