"""Every op type that has a kernel for the device gives there what it gives on the CPU."""

from __future__ import annotations

import pytest
from gpu_ring.cases import cases_by_type, chosen, device_types, differences, placing

MOST = 6  # cases of one op type
# What the compiler bypasses or knows, leaves in host memory, or an import replaces.
ELSEWHERE = frozenset({
    "Identity", "PlaceholderWithDefault", "PreventGradient", "Shape", "ShapeN", "Size",
    "StopGradient"})


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


def test_op_types_with_a_kernel() -> None:
    """What has a kernel for the device keeps it."""
    assert len(device_types()) >= 600
