"""Every op type that has a kernel for the device gives there what it gives on the CPU."""

from __future__ import annotations

import functools
from collections import defaultdict

import pytest
from case import Case
from gpu_ring.cases import (
    OnComputedScalars,
    cases_by_type,
    chosen,
    device_types,
    differences,
    is_scalar,
    placing,
)

from hpcflow import config
from hpcflow.kernels.math import special

MOST = 6  # cases of one op type
# What the compiler bypasses or knows, leaves in host memory, or an import replaces.
ELSEWHERE = frozenset({
    "Identity", "PlaceholderWithDefault", "PreventGradient", "Shape", "ShapeN", "Size",
    "StopGradient"})


@pytest.fixture(autouse=True)
def checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every kernel is checked at every call."""
    monkeypatch.setattr(config.flags, "check_stages", True)


@pytest.mark.parametrize("op", device_types())
def test_device_agrees_with_cpu(op: str) -> None:
    found = cases_by_type().get(op)
    if not found:
        return  # internal, or made by others in the workloads
    wrong, here = [], False
    for case in chosen(found, MOST):
        with placing() as placed:
            wrong += differences(case)
        here |= any(type_ == op and "GPU" in device for type_, device in placed.values())
    assert not wrong, "\n".join(wrong)
    assert here != (op in ELSEWHERE), "on the device" if here else "not on the device"


# Of these some cases differed that are not among the first ones: floats that are out of range of
# small whole numbers, bfloat16 with broadcasting or in long sums.
@pytest.mark.parametrize("op", ["Cast", "FloorMod", "BiasAdd", "BiasAddGrad", "L2Loss"])
def test_further_cases(op: str) -> None:
    narrow = [c for c in cases_by_type()[op] if op == "Cast" or any(
        getattr(x, "dtype", None) == "bfloat16" for x in c.inputs.values())]
    wrong = [text for case in chosen(narrow, 60) for text in differences(case)]
    assert narrow and not wrong, "\n".join(wrong)


@functools.cache
def with_scalars() -> dict[str, list[Case]]:
    """Op type -> its cases that have an input of rank 0."""
    found = {op: [c for c in cases if any(map(is_scalar, c.inputs.values()))]
             for op, cases in cases_by_type().items()}
    return {op: cases for op, cases in found.items() if cases}


@pytest.mark.parametrize("op", with_scalars())
def test_scalars_of_the_device(op: str) -> None:
    """A scalar that is computed in the step is as good as one of the host."""
    wrong = [text for case in chosen(with_scalars()[op], 2)
             for text in differences(case, OnComputedScalars)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("op", [*special.NAMES, "Zeta"])
def test_special_functions_of_every_type(op: str) -> None:
    """CuPy's have loops for two types alone."""
    of_types: dict[str, list[Case]] = defaultdict(list)
    for case in cases_by_type()[op]:
        of_types[next(iter(case.inputs.values())).dtype.name].append(case)
    assert len(of_types) in (2, 4)
    wrong = [text for cases in of_types.values() for case in chosen(cases, 3)
             for text in differences(case)]
    assert not wrong, "\n".join(wrong)


def test_op_types_with_a_kernel() -> None:
    """What has a kernel for the device keeps it."""
    assert len(device_types()) >= 600
