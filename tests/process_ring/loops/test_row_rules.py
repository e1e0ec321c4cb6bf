"""Sparse updates as one loop over rows: the bits of the same update in rounds."""

from __future__ import annotations

import numpy as np
import pytest
from thresholds import lower

import hpcflow as hf
from hpcflow import config
from hpcflow.kernels.arrays import partition
from hpcflow.kernels.common import indices
from hpcflow.kernels.training import block_rules, row_rules, update_rules
from hpcflow.loops import compiling

pytestmark = pytest.mark.skipif(not compiling.enabled(), reason="there is no compiler")
RNG = np.random.default_rng(0)
# Op type: (states, scalars); the scalars come in the order of the op.
UPDATES = {
    "Momentum": (2, {"lr": 0.1, "momentum": 0.9}), "Adagrad": (2, {"lr": 0.1}),
    "Ftrl": (3, {"lr": 0.1, "l1": 0.02, "l2": 0.3, "lr_power": -0.5}),
    "FtrlV2": (3, {"lr": 0.1, "l1": 0.02, "l2": 0.3, "l2_shrinkage": 0.1, "lr_power": -0.5}),
    "RMSProp": (3, {"lr": 0.1, "rho": 0.9, "momentum": 0.5, "epsilon": 1e-6}),
    "Adadelta": (3, {"lr": 0.1, "rho": 0.9, "epsilon": 1e-6}),
}
WITHOUT_LOOP = {"Ftrl": (3, {"lr": 0.1, "l1": 0.02, "l2": 0.3, "lr_power": -0.7})}


@pytest.fixture
def ran(monkeypatch):
    """Loops are compiled after the first step; those that have run."""
    lower(monkeypatch, "COMPILE_WORTH_SECONDS")
    found, run = [], row_rules.RowLoop.run

    def counted(self):
        done = run(self)
        found.extend([self] if done else [])
        return done

    monkeypatch.setattr(row_rules.RowLoop, "run", counted)
    return found


def after(name, states, scalars, grad, rows, steps=4):
    """The states after some steps, between which loops are compiled."""
    with hf.Graph().as_default(), hf.Session() as session:
        variables = [hf.Variable(v) for v in states]
        names = ["var", "accum", "linear", "ms", "mom", "accum_update"]
        order = {"Adadelta": ["var", "accum", "accum_update"], "RMSProp": ["var", "ms", "mom"]}
        given = dict(zip(order.get(name, names), variables))
        update = getattr(hf.raw_ops, f"SparseApply{name}")(
            **given, **{k: grad.dtype.type(v) for k, v in scalars.items()}, grad=grad,
            indices=rows)
        session.run(hf.global_variables_initializer())
        for _ in range(steps):
            session.run(update)
            compiling.wait()
        return session.run(variables)


def compared(name, count, scalars, monkeypatch, dtype=np.float32, width=21, many=50):
    states = [(RNG.random((30, width)) + 0.1).astype(dtype) for _ in range(count)]
    grad = RNG.standard_normal((many, width)).astype(dtype)
    rows = RNG.integers(30, size=many).astype(np.int32)
    found = after(name, states, scalars, grad, rows)
    monkeypatch.setattr(config.flags, "jit", False)
    for a, b in zip(found, after(name, states, scalars, grad, rows), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", UPDATES)
def test_bits_of_the_rounds(name, dtype, ran, monkeypatch):
    compared(name, *UPDATES[name], monkeypatch, dtype)
    assert ran


def test_parts_of_many_rows(ran, monkeypatch):
    lower(monkeypatch, "INDICES_LARGE_BYTES")
    compared("Adagrad", *UPDATES["Adagrad"], monkeypatch, width=1, many=300)
    assert ran


@pytest.mark.parametrize("name", WITHOUT_LOOP)
def test_other_powers_have_no_loop(name, ran, monkeypatch):
    compared(name, *WITHOUT_LOOP[name], monkeypatch)
    assert not ran


def test_no_rows(ran):
    states = [np.ones((3, 2), np.float32)] * 2
    none = np.zeros((0, 2), np.float32), np.zeros(0, np.int32)
    for found in after("Adagrad", states, {"lr": 0.1}, *none):
        np.testing.assert_array_equal(found, states[0])


def test_columns_are_added_up_by_the_loop(monkeypatch):
    """Updates that do not lie in order, like those of one of several joined tables."""
    lower(monkeypatch, "COMPILE_WORTH_SECONDS")
    columns = RNG.standard_normal((40, 50)).astype(np.float32)[:, 7:30]
    rows, expected = RNG.integers(9, size=40), np.zeros((9, 23), np.float32)
    np.add.at(expected, rows, columns)
    for rounds in ("allowed", "forbidden"):
        if rounds == "forbidden":
            monkeypatch.setattr(indices, "_combine_in_rounds", None)
        target = np.zeros((9, 23), np.float32)
        indices.combine_rows(np.add, target, rows, columns)
        compiling.wait()
        np.testing.assert_array_equal(target, expected)


@pytest.mark.parametrize("dtype", [np.float16, hf.bfloat16.np, np.bool_])
def test_types_that_lie_otherwise_than_they_are_computed_have_no_loop(dtype):
    """They are combined and updated in rounds, and nothing is tried that cannot be compiled."""
    target, rows = np.zeros((9, 4), dtype), np.arange(5)
    assert indices._row_loop(np.add, target, rows, np.ones((5, 4), dtype)) is None
    assert block_rules.known_row_loop(update_rules.momentum, np.dtype(dtype), 2, 1, 2,
                                      "int64") is None


def test_few_elements_are_told_apart_by_the_loop(monkeypatch):
    lower(monkeypatch, "COMPILE_WORTH_SECONDS")
    x = RNG.integers(30, size=100)
    expected = partition._in_order_by_sorting(np, x, np.dtype(np.int64))
    partition._in_order(np, x, np.dtype(np.int64))
    compiling.wait()
    monkeypatch.setattr(partition, "_in_order_by_sorting", None)
    for found, wanted in zip(partition._in_order(np, x, np.dtype(np.int64)), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)
