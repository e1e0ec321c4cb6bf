"""Sparse updates of optimizers on the device: of repeated rows in their order, in one kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gpu_ring import nvrtc
from gpu_ring.test_workloads import gpu_of

import hpcflow as hf
from hpcflow import raw_ops
from hpcflow.graph.opdef import registered_ops

OPS = sorted(op for op in registered_ops() if op.startswith("SparseApply"))
ROWS, WIDTH = 7, 3
IDS = np.int32([3, 1, 3, 0, 3, 6, 1])
MOST = 6  # launches: the order, the check of the ids, the update, and what the step ends with
SCALARS = {"lr_power": -0.5, "global_step": 2, "rho": 0.9, "momentum": 0.8, "decay": 0.9,
           "alpha": 0.05, "lr": 0.05, "learning_rate": 0.05}


def updated(op: str, dtype: str, gpus: int) -> list[np.ndarray]:
    """The variables after three sparse updates with other gradients."""
    random = np.random.default_rng(0)
    with hf.Graph().as_default():
        states: list[Any] = []
        given: dict[str, Any] = {}
        for arg in registered_ops()[op].inputs:
            if arg.is_ref:
                value = random.random((ROWS, WIDTH)) + 0.5
                states.append(hf.Variable(value.astype(dtype), use_resource=False))
                given[arg.name] = states[-1]._ref()
            elif arg.name == "grad":
                given["grad"] = hf.placeholder(dtype, [len(IDS), WIDTH])
            elif arg.name == "indices":
                given["indices"] = hf.placeholder(hf.int32, [None])
            else:
                kind = hf.int64 if arg.name == "global_step" else dtype
                given[arg.name] = hf.constant(SCALARS.get(arg.name, 0.1), kind)
        update = getattr(raw_ops, op)(**given).op
        with hf.Session(config=hf.ConfigProto(device_count={"GPU": gpus})) as session:
            session.run(hf.global_variables_initializer())
            for _ in range(3):
                grad = random.standard_normal((len(IDS), WIDTH)).astype(dtype)
                session.run(update, {given["grad"]: grad, given["indices"]: IDS})
            gpu = gpu_of(session) if gpus else None
            before = getattr(gpu, "launches", 0)
            session.run(update, {given["grad"]: 0 * grad, given["indices"]: IDS})
            launches = getattr(gpu, "launches", 0) - before
            assert launches <= MOST, f"{op} takes {launches} launches"
            return [np.asarray(v, np.float64) for v in session.run(states)]


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_updates_are_those_of_the_cpu(op: str, dtype: str) -> None:
    tolerance = 1e-4 if dtype == "float32" else 1e-10
    for ours, theirs in zip(updated(op, dtype, 1), updated(op, dtype, 0), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


@pytest.mark.usefixtures("stand_in_only")
def test_updates_compile() -> None:
    """The kernels of all rules are CUDA C++."""
    from gpu_ring.stand_in import FormPrograms

    updated("SparseApplyAdagrad", "float32", 1)
    updated("SparseApplyMomentum", "float64", 1)
    texts = [k.text() for k in FormPrograms.written if "state0" in k.body]
    assert len(texts) >= 2
    wrong = [found for t in texts if (found := nvrtc.errors(t, "-std=c++17", "--fmad=false"))]
    assert not wrong, wrong[0]
