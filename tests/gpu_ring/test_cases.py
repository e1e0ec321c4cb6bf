"""Every op type that has a kernel for the device gives there what it gives on the CPU."""

from __future__ import annotations

import pytest
from gpu_ring.cases import cases_by_type, chosen, device_types, differences, placing

MOST = 6  # cases of one op type
ELSEWHERE: frozenset[str] = frozenset()


@pytest.mark.parametrize("op", device_types())
def test_device_agrees_with_cpu(op: str) -> None:
    found = cases_by_type().get(op)
    if not found:
        return  # internal, or made by others in the workloads
    with placing() as placed:
        wrong = [text for case in chosen(found, MOST) for text in differences(case)]
    assert not wrong, "\n".join(wrong)
    here = any(type_ == op and "GPU" in device for type_, device in placed.values())
    assert here != (op in ELSEWHERE), "on the device" if here else "not on the device"


def test_op_types_with_a_kernel() -> None:
    """What has a kernel for the device keeps it."""
    assert len(device_types()) >= 600
