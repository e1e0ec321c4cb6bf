"""``bench kernels``: 40 ops as sessions run them, beside the same computation in other libraries.

Every program has the same number of threads. A peer with the same graph API runs the very same
file (`programs.kernels`); PyTorch has a program of its own, with tensors in its default layout.
"""

from __future__ import annotations

import contextlib
from typing import Any, NamedTuple

import numpy as np

import hpcflow
from hpcflow.tools.bench.contestants import Local, Peer, core_count
from hpcflow.tools.bench.programs import kernels as program
from hpcflow.tools.bench.registry import Options, with_title
from hpcflow.tools.bench.sampling import (
    OURS,
    Plan,
    Rounds,
    measured,
    plan_of,
    ratio_of,
)
from hpcflow.tools.table import Row

#: The program of each peer.
PROGRAMS = {"torch": "kernels_torch", "tensorflow": "kernels"}


class Case(NamedTuple):
    """A line of the table: a kind of `programs.kernels` with its arguments."""

    title: str
    kind: str
    args: dict[str, Any]


def _case(title: str, kind: str, **args: Any) -> Case:
    return Case(title, kind, args)


_CONV2 = {"image": (32, 27, 27, 64), "window": (5, 5, 192)}
_CONV3 = {"image": (8, 28, 28, 256), "window": (3, 3, 256)}
_CONV4 = {"image": (8, 28, 28, 512), "window": (1, 1, 128)}
_MAPS, _ROWS = (32, 55, 55, 64), {"rows": 100_000, "width": 128, "count": 8192}
_POOL = {"image": _MAPS, "window": 3, "stride": 2}
_FLOATS = 4_000_000

CASES = (
    _case("matmul 1024 x 1024 x 1024", "matmul", m=1024, k=1024, n=1024),
    _case("matmul 128 x 4096 x 4096", "matmul", m=128, k=4096, n=4096),
    _case("matmul, transposed a, 4096 x 128 x 1024", "matmul", m=4096, k=128, n=1024,
          transpose_a=True),
    _case("matmul, transposed b, 128 x 4096 x 1024", "matmul", m=128, k=4096, n=1024,
          transpose_b=True),
    _case("batch matmul 64 of 128 x 64 x 128", "batch_matmul", batch=64, m=128, k=64, n=128),
    _case("dense layer with bias and relu, 256 x 1024 x 1024", "dense", batch=256, inputs=1024,
          outputs=1024),
    _case("conv 11x11/4, 32 of 224x224x3 to 64", "conv", image=(32, 224, 224, 3),
          window=(11, 11, 64), stride=4, same=False),
    _case("conv 5x5, 32 of 27x27x64 to 192", "conv", **_CONV2),
    _case("conv 3x3, 8 of 28x28x256 to 256", "conv", **_CONV3),
    _case("conv 1x1, 8 of 28x28x512 to 128", "conv", **_CONV4),
    _case("conv 3x3 with bias and relu, 4 of 56x56x128", "conv_bias_relu",
          image=(4, 56, 56, 128), window=(3, 3, 128)),
    _case("depthwise conv 3x3, 8 of 56x56x128", "depthwise", image=(8, 56, 56, 128), window=3),
    _case("conv 5x5, gradient by the input", "conv", **_CONV2, part="input"),
    _case("conv 3x3, gradient by the input", "conv", **_CONV3, part="input"),
    _case("conv 1x1, gradient by the input", "conv", **_CONV4, part="input"),
    _case("conv 5x5, gradient by the filter", "conv", **_CONV2, part="filter"),
    _case("conv 3x3, gradient by the filter", "conv", **_CONV3, part="filter"),
    _case("conv 1x1, gradient by the filter", "conv", **_CONV4, part="filter"),
    _case("max pool 3x3/2, 32 of 55x55x64", "pool", **_POOL),
    _case("max pool, gradient", "pool", **_POOL, backward=True),
    _case("mean pool 3x3/2, 32 of 55x55x64", "pool", **_POOL, mean=True),
    _case("mean pool, gradient", "pool", **_POOL, mean=True, backward=True),
    _case("LRN radius 2, 32 of 27x27x96", "lrn", image=(32, 27, 27, 96), radius=2),
    _case("LRN, gradient", "lrn", image=(32, 27, 27, 96), radius=2, backward=True),
    _case("batch norm in training, 32 of 28x28x128", "batch_norm", image=(32, 28, 28, 128)),
    _case("batch norm, gradient", "batch_norm", image=(32, 28, 28, 128), backward=True),
    _case("softmax 1024 x 1000", "softmax", rows=1024, columns=1000),
    _case("log softmax 64 x 50,000", "softmax", rows=64, columns=50_000, log=True),
    _case("cross entropy and gradient 1024 x 1000", "cross_entropy", rows=1024, columns=1000),
    _case("sparse cross entropy and gradient 1024 x 1000", "cross_entropy", rows=1024,
          columns=1000, sparse=True),
    _case("LSTM step, 64 x 512", "lstm", batch=64, units=512),
    _case("LSTM step with gradients, 64 x 512", "lstm", batch=64, units=512, backward=True),
    _case("embedding: gather 8,192 of 100,000 x 128", "gather", **_ROWS),
    _case("embedding: scatter-add 8,192 of 100,000 x 128", "scatter_add", **_ROWS),
    _case("embedding: dense gradient of 8,192 of 10,000 x 128", "embedding_gradient", rows=10_000,
          width=128, count=8192),
    _case("gradient descent, 4 M floats", "optimizer", name="GradientDescent", size=_FLOATS),
    _case("momentum, 4 M floats", "optimizer", name="Momentum", size=_FLOATS, momentum=0.9),
    _case("Adagrad, 4 M floats", "optimizer", name="Adagrad", size=_FLOATS),
    _case("RMSProp, 4 M floats", "optimizer", name="RMSProp", size=_FLOATS),
    _case("Adam, 4 M floats", "optimizer", name="Adam", size=_FLOATS),
)


def run(options: Options) -> list[Row]:
    """Measure every case with hpcflow and the peers in alternation."""
    plan, cases = plan_of(options), chosen_cases(options)
    with contextlib.ExitStack() as stack:
        peers = [
            stack.enter_context(Peer(name, python, PROGRAMS[name]))
            for name, python in options.peers.items()
        ]
        return with_summary([measure_case(case, peers, plan) for case in cases])


def chosen_cases(options: Options) -> list[Case]:
    """The cases asked for; CommandError if there is none."""
    return with_title(first_of_each_kind() if options.quick else CASES, options)


def first_of_each_kind() -> list[Case]:
    """A case for every function of `programs.kernels`."""
    found: dict[str, Case] = {}
    for case in CASES:
        found.setdefault(case.kind, case)
    return list(found.values())


def measure_case(case: Case, peers: list[Peer], plan: Plan) -> Row:
    """The line of one case."""
    options = {"kind": case.kind, "args": case.args, "threads": core_count()}
    ours = Local(OURS, *program.open_case(hpcflow, case.title, options))
    others = [peer.open(case.title, options) for peer in peers]
    return row_of(case.title, measured(ours, others, peers, plan))


def row_of(title: str, rounds: Rounds) -> Row:
    """Milliseconds per program, and the ratio of hpcflow's time to the faster peer's."""
    row: Row = {"case": title}
    row |= {f"{name} ms": 1e3 * float(np.median(np.concatenate(rounds[name]))) for name in rounds}
    ratios = [ratio_of(rounds[OURS], rounds[name]) for name in rounds if name != OURS]
    return row | {FASTER: max(ratios, default=None)}


#: hpcflow's time over that of the faster peer.
FASTER = "hpcflow/faster"


def with_summary(rows: list[Row]) -> list[Row]:
    """`rows`, and a last one that counts the ratios of at most one."""
    ratios = [row[FASTER] for row in rows if row[FASTER] is not None]
    if not ratios:
        return rows
    ahead = sum(ratio <= 1 for ratio in ratios)
    title = f"at or ahead of the faster peer: {ahead} of {len(ratios)}; the largest ratio:"
    return [*rows, {"case": title, FASTER: max(ratios)}]
