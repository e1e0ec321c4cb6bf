"""Gradients that a training update computes block by block as it reads them."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow import config
from hpcflow.compiler.native import group_call
from hpcflow.host import tuning
from hpcflow.loops import compiling, lazy_array
from hpcflow.resources.variables import VariableState

SIZE = 5000
OPTIMIZERS = {
    "descent": lambda: hf.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: hf.train.MomentumOptimizer(0.1, 0.9),
    "adagrad": lambda: hf.train.AdagradOptimizer(0.1),
    "adam": lambda: hf.train.AdamOptimizer(0.1),
    "rmsprop": lambda: hf.train.RMSPropOptimizer(0.1),
}
GRADIENTS = {
    "scaled": lambda v, g, h: g * 0.5 + 0.0,
    "of two arrays": lambda v, g, h: g * h - h,
    "with a penalty": lambda v, g, h: g + 0.01 * v,
    "by functions": lambda v, g, h: hf.tanh(g) * 2.0,
}


@pytest.fixture
def small(monkeypatch):
    """Blocks of some hundred elements, loops compiled at once; counts what is deferred."""
    for module, name, value in (
            (tuning.compiler, "LINES_LARGE", 1), (tuning.compiler, "LINES_FLAT_CALL", 0),
            (tuning.kernels, "RULE_WORKING_SET_BYTES", 4096),
            (tuning.kernels, "RULE_LEAST_PART", 64),
            (tuning.loops, "COMPILE_WORTH_SECONDS", 0.0), (compiling, "_programs", {})):
        monkeypatch.setattr(module, name, value)
    made = []

    class Counted(lazy_array.Deferred):
        __slots__ = ()

        def __new__(cls, *args):
            made.append(lazy_array.Deferred(*args))
            return made[-1]

    monkeypatch.setattr(group_call, "Deferred", Counted)
    return made


def trained(optimizer, gradient, use_resource=False):
    """The variable after each of four steps."""
    random = np.random.RandomState(0)
    with hf.Graph().as_default(), hf.Session() as session:
        v = hf.get_variable("v", initializer=random.standard_normal(SIZE).astype(np.float32),
                            use_resource=use_resource)
        g, h = (hf.placeholder(hf.float32, [SIZE]) for _ in range(2))
        read = v.value() if use_resource else v
        train = optimizer().apply_gradients([(gradient(read, g, h), v)])
        session.run(hf.global_variables_initializer())
        found = []
        for _ in range(4):
            session.run(train, {t: random.standard_normal(SIZE).astype(np.float32)
                                for t in (g, h)})
            compiling.wait()
            found.append(session.run(v))
        return found


@pytest.mark.parametrize(("optimizer", "gradient", "use_resource"), [
    ("descent", "scaled", False), ("descent", "with a penalty", True),
    ("momentum", "of two arrays", False), ("adagrad", "by functions", False),
    ("adagrad", "with a penalty", False), ("adam", "scaled", True),
    ("rmsprop", "of two arrays", False),  # too many arrays for one loop
])
def test_the_same_bits_with_and_without(monkeypatch, small, optimizer, gradient, use_resource):
    arguments = OPTIMIZERS[optimizer], GRADIENTS[gradient], use_resource
    monkeypatch.setattr(config.flags, "compile", False)
    expected = trained(*arguments)
    small.clear()
    monkeypatch.setattr(config.flags, "compile", True)
    found = trained(*arguments)
    assert len(small) == 3  # the first has no loop yet
    for a, b in zip(found, expected, strict=True):
        if gradient == "by functions":  # which are approximate
            np.testing.assert_allclose(a, b, 1e-5, 1e-6)
        else:
            np.testing.assert_array_equal(a, b)


def test_a_gradient_that_is_fetched_is_a_value(graph, monkeypatch, small):
    monkeypatch.setattr(config.flags, "compile", True)
    v, g = hf.Variable(hf.ones([SIZE])), hf.placeholder(hf.float32, [SIZE])
    gradient = g * 2.0
    train = hf.train.GradientDescentOptimizer(0.5).apply_gradients([(gradient, v)])
    with hf.Session() as session:
        session.run(v.initializer)
        _, fetched = session.run([train, gradient], {g: np.ones(SIZE)})
        assert fetched.tolist() == [2.0] * SIZE
        assert session.run(v).tolist() == [0.0] * SIZE
    assert not small


def test_an_update_of_another_shape_names_it(graph, monkeypatch, small):
    monkeypatch.setattr(config.flags, "compile", True)
    v = hf.Variable(hf.ones([SIZE]), validate_shape=False)
    g = hf.placeholder(hf.float32, [None])
    train = hf.raw_ops.ApplyGradientDescent(var=v._ref(), alpha=0.1, delta=g * 2.0 + 1.0 - 3.0)
    with hf.Session() as session:
        session.run(v.initializer)
        session.run(train.op, {g: np.ones(SIZE)})
        with pytest.raises(hf.errors.InvalidArgumentError, match=r"same shape.*\[5000\].*\[4000\]"):
            session.run(train.op, {g: np.ones(SIZE - 1000)})
        np.testing.assert_array_equal(session.run(v), np.ones(SIZE, np.float32))


def test_the_variable_stays_where_it_is(graph, monkeypatch, small):
    """A penalty reads the variable, which nevertheless is updated in place."""
    monkeypatch.setattr(config.flags, "compile", True)
    v, g = hf.Variable(hf.ones([SIZE])), hf.placeholder(hf.float32, [SIZE])
    train = hf.train.GradientDescentOptimizer(0.5).apply_gradients([(g + 0.1 * v, v)])
    copied = []
    writable = VariableState.writable

    def watched(state):
        before = id(state.value)
        array = writable(state)
        copied.append(id(array) != before)
        return array

    monkeypatch.setattr(VariableState, "writable", watched)
    with hf.Session() as session:
        session.run(v.initializer)
        for _ in range(3):
            session.run(train, {g: np.ones(SIZE)})
            compiling.wait()
    assert len(small) == 2  # the first has no loop yet
    assert copied[1:] == [False, False]  # the first replaces the constant it was set to
