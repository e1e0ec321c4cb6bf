"""Collective operations between GPUs of several ranks, against what NumPy says of them.

``mpirun -n N python linked.py GPUS WAY [HALF]``: every rank prints a line for each value that is
wrong, and for operations that have not gone by WAY. HALF is what a rank writes at a time for the
others where they share memory, in bytes.
"""

from __future__ import annotations

import itertools
import sys
from typing import Any

import numpy as np
from gpu_ring.rank_program import stand_in

import hpcflow as hf
from hpcflow import dtypes
from hpcflow.host.tuning import gpu as tuning
from hpcflow.runtime.collective.collective_device import WAYS

_SHAPES: tuple[tuple[int, ...], ...] = ((), (6,), (0, 3), (5, 2), (20011,))
_FLOATS = ("float16", "bfloat16", "float32", "float64")
_TYPES = (*_FLOATS, "int8", "uint8", "int16", "int32", "int64", "bool", "complex64")
#: Rounding of quotients; sums of these numbers are exact.
_TOLERANCE = {"bfloat16": 1e-2, "float16": 1e-3, "float32": 1e-6, "float64": 1e-14,
              "complex64": 1e-6}
STEPS = 2


def _value(rank: int, step: int, shape: tuple[int, ...], name: str) -> np.ndarray:
    random = np.random.default_rng([rank, step, *shape])
    value = random.integers(-9, 10, shape)
    if name in ("uint8",):
        value = abs(value)
    value = np.asarray(value).astype(getattr(dtypes, name).np)
    if name in _FLOATS and value.size and rank == 1 and value.ndim == 1:
        value[0] = np.nan
    return value


def _joined(values: list[np.ndarray], reduction: str) -> np.ndarray:
    wide = np.float64 if values[0].dtype.kind not in "iuc" else values[0].dtype
    stack = np.stack([v.astype(wide) for v in values])
    if reduction == "mean":
        total = stack.sum(0, dtype=np.int64 if wide != np.float64 and stack.dtype.kind in "iu"
                          else stack.dtype)
        found = np.trunc(total / len(values)) if stack.dtype.kind in "iu" else total / len(values)
    else:
        found = {"sum": lambda s: s.sum(0, dtype=wide), "min": lambda s: s.min(0),
                 "max": lambda s: s.max(0)}[reduction](stack)
    return np.asarray(found).astype(values[0].dtype)


def _cases(ranks: int, rank: int) -> Any:
    """Name, placeholder values by rank and step, op, expected by step."""
    every = itertools.product(_TYPES, ("sum", "mean", "min", "max"))
    for i, (name, reduction) in enumerate(every):
        shape = _SHAPES[i % len(_SHAPES)]
        if reduction in {"complex64": ("min", "max"), "bool": ("sum", "mean")}.get(name, ()):
            continue
        yield (f"allreduce {reduction} {name} {list(shape)}", name, lambda k, s=shape: s,
               lambda x, r=reduction: hf.mpi.allreduce(x, r),
               lambda values, r=reduction: _joined(values, r))
    for name in ("float32", "bfloat16", "int16", "bool"):
        width = 7001 if name == "float32" else 3
        yield (f"broadcast {name}", name, lambda k, w=width: (4, w),
               lambda x: hf.mpi.broadcast(x, ranks - 1), lambda values: values[-1])
        yield (f"broadcast {name} []", name, lambda k: (),
               lambda x: hf.mpi.broadcast(x, ranks - 1), lambda values: values[-1])
        yield (f"allgather {name}", name, lambda k, w=width: (k, w),
               hf.mpi.allgather, np.concatenate)
        yield (f"alltoall {name}", name, lambda k, w=width: (2 * ranks, w), hf.mpi.alltoall,
               lambda values: np.concatenate([np.split(v, ranks)[rank] for v in values]))
    for name, reduction in (("float32", "sum"), ("float32", "max"), ("int32", "mean"),
                            ("float16", "mean"), ("complex64", "sum")):
        width = 7001 if name == "float32" else 3
        yield (f"reduce_scatter {reduction} {name}", name, lambda k, w=width: (2 * ranks, w),
               lambda x, r=reduction: hf.mpi.reduce_scatter(x, r),
               lambda values, r=reduction: np.split(_joined(values, r), ranks)[rank])


def main(gpus: int, way: str, half: int) -> int:
    """Run all cases in one graph, in several steps; 1 if anything is wrong."""
    tuning.LINK_HALF_BYTES = half
    stand_in(gpus)
    rank, ranks, wrong = hf.mpi.rank(), hf.mpi.size(), 0
    cases = list(_cases(ranks, rank))
    with hf.Graph().as_default(), hf.device("/gpu:0"):
        placed = [hf.placeholder(getattr(dtypes, c[1]),
                                 [None] * len(c[2](0)) if i % 2 else c[2](rank))
                  for i, c in enumerate(cases)]
        # Each rank makes them in an order of its own as far as data goes.
        results = [c[3](hf.identity(x)) for c, x in zip(cases, placed, strict=True)]
        several = hf.mpi.allreduce([hf.fill([n], float(rank)) for n in (3, 0, 70000)], "sum")
        with hf.Session() as session:
            for step in range(STEPS):
                values = [[_value(k, step, c[2](k), c[1]) for k in range(ranks)] for c in cases]
                feed = {x: v[rank] for x, v in zip(placed, values, strict=True)}
                found = session.run([*results, *several], feed)
                for case, got, given in zip(cases, found, values, strict=False):
                    expected = case[4](given)
                    if got.dtype != expected.dtype or got.shape != expected.shape or (
                            not np.allclose(got.astype(complex), expected.astype(complex),
                                            rtol=_TOLERANCE.get(case[1], 0), equal_nan=True)):
                        wrong += 1
                        print(f"rank {rank} step {step} {case[0]}: {got.tolist()} "
                              f"not {expected.tolist()}"[:300])
                for got in found[len(cases) :]:
                    if not np.all(got == sum(range(ranks))):
                        wrong += 1
                        print("several tensors", got[:5])
    used = dict(WAYS)
    print(f"rank {rank}: {used}", flush=True)
    return int(bool(wrong) or used.get(way, 0) < STEPS * len(cases) * 8 // 10)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2], int((sys.argv[3:] or [1 << 20])[0])))
