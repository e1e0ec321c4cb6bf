"""The oracle's valid cases of every op type with a kernel for the device, on CPU and device."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections import defaultdict
from collections.abc import Iterator
from typing import Any
from unittest import mock

import families  # noqa: F401  (fills the table's families)
import numpy as np
from arrays import as_array
from case import Case, encode
from table import Table
from worker import Evaluation, describe

import hpcflow as hf
from hpcflow import kernels
from hpcflow.compiler.distribute.place import Placer
from hpcflow.kernels import registry

SEED = 7
# Largest difference, relative to the largest number, by the bytes of the type.
TOLERANCE = {2: 2e-2, 4: 1e-4, 8: 1e-4, 16: 1e-6}


def device_types() -> list[str]:
    """The op types that have a kernel for the device."""
    from hpcflow.graph.opdef import registered_ops

    kernels.load()
    return sorted(op for op in registered_ops() if any(
        k.device_type in (registry.ANY_ARRAY_DEVICE, "GPU") for k in
        registry.registered_kernels(op)))


@functools.cache
def cases_by_type() -> dict[str, list[Case]]:
    """Op type -> its valid cases, of the types with a kernel for the device."""
    wanted, found = set(device_types()), defaultdict(list)
    for case in Table(describe(), SEED, False).fill():
        if case.op in wanted and not case.bad:
            found[case.op].append(case)
    return dict(found)


def chosen(cases: list[Case], most: int) -> list[Case]:
    """At most so many of the cases, spread over all."""
    return cases[:: max(1, -(-len(cases) // most))][:most]


@contextlib.contextmanager
def placing() -> Iterator[dict[str, tuple[str, str]]]:
    """Op name -> its type and device, of all that is placed meanwhile, by the last step."""
    found: dict[str, tuple[str, str]] = {}
    place = Placer.place

    def noting(self: Placer, graph: Any, colocated: Any = None) -> None:
        place(self, graph, colocated)
        found.update({n.name: (n.type, n.device) for n in graph.nodes})

    with mock.patch.object(Placer, "place", noting):
        yield found


class OnComputedScalars(Evaluation):
    """A case whose inputs of rank 0 are computed in the step, on the device where there is one."""

    def input(self, spec: Any) -> Any:
        tensor = super().input(spec)
        if isinstance(spec, list) or "variable" in spec or not is_scalar(
                self.arrays[spec["array"]]):
            return tensor
        vector = hf.reshape(tensor, [1])
        return hf.reduce_all(vector) if tensor.dtype is hf.bool else hf.reduce_sum(vector)


def is_scalar(value: Any) -> bool:
    """True for an input of rank 0 of a type that sums are made of."""
    return isinstance(value, np.ndarray) and value.shape == () and value.dtype.name in (
        "bool", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64")


def evaluate(case: Case, gpus: int, kind: type[Evaluation] = Evaluation) -> Evaluation:
    """The case in a session that has so many GPUs, and so prefers them, or none; fed, as the CPU
    computes what follows from constants when a step is compiled."""
    if case.form == "constant":
        case = dataclasses.replace(case, form="static")
    arrays: list[np.ndarray] = []
    config = hf.ConfigProto(device_count={"GPU": gpus}, allow_soft_placement=True)
    evaluation = kind(hf, config, encode(case, arrays), arrays)
    evaluation.run()
    return evaluation


def differences(case: Case, kind: type[Evaluation] = Evaluation) -> list[str]:
    """In what the device differs from the CPU on this case."""
    cpu, gpu = evaluate(case, 0, kind), evaluate(case, 1, kind)
    ours, theirs = cpu.record["error"], gpu.record["error"]
    if ours or theirs:
        same = ours and theirs and ours[0] == theirs[0]
        return [] if same else [f"{case.title}: error on the CPU {ours}, on the GPU {theirs}"]
    if case.check == "moments":
        return []
    found = []
    for kind, values in cpu.results.items():
        others = gpu.results.get(kind, [])
        for a, b in zip(map(as_array, values), map(as_array, others), strict=True):
            wrong = _difference(a, b, case.check == "values")
            if wrong:
                found.append(f"{case.title}: {kind} {wrong}")
    return found


def _difference(a: Any, b: Any, by_value: bool) -> str:
    """What is wrong with `b`, if anything is."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return f"is {b.dtype}{list(b.shape)}, on the CPU {a.dtype}{list(a.shape)}"
    if not (by_value and a.size):
        return ""
    if a.dtype.kind in "biuO":
        return "" if np.array_equal(a, b) else f"differs: {b.tolist()}, on the CPU {a.tolist()}"
    with np.errstate(all="ignore"):
        x, y = a.astype(np.complex128), b.astype(np.complex128)
        scale = np.abs(x[np.isfinite(x)]).max(initial=0) or 1.0
        same = (x == y) | (np.isnan(x) & np.isnan(y))
        error = np.where(same, 0, np.abs(x - y) / scale).max()
    limit = TOLERANCE[a.dtype.itemsize]
    return "" if error <= limit else f"differs by {error:.2g} of the largest number"
