"""Shapes that follow from what operations compute from constants."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.graph.shape_inference import constant_value
from hpcflow.python.framework.smart_cond import smart_cond


@pytest.fixture(autouse=True)
def graph():
    with hf.Graph().as_default() as g:
        yield g


A, B = 2, 3
SIZES = {
    "products": (lambda a, b: a * b, 6),
    "differences": (lambda a, b: b - a, 1),
    "quotients": (lambda a, b: b // a, 1),
    "choices": (lambda a, b: hf.where(a < b, b, a), 3),
    "sums": (lambda a, b: hf.reduce_sum([a, b]), 5),
    "casts": (lambda a, b: hf.cast(hf.cast(a, hf.float32) * 2.6, hf.int32), 5),
    "parts": (lambda a, b: hf.split([a, b], 2)[1][0], 3),
    "sizes": (lambda a, b: hf.size(hf.zeros([4, 2])) // a, 4),
    "chains": (lambda a, b: sum([a] * 300), 600),
}


@pytest.mark.parametrize("what", SIZES)
def test_sizes_that_are_computed(what):
    compute, size = SIZES[what]
    found = compute(hf.constant(A), hf.constant(B))
    x = hf.placeholder(hf.float32, [None, None])
    assert hf.reshape(x, hf.stack([-1, found])).shape.as_list() == [None, size]
    assert hf.zeros(hf.stack([found, 1])).shape.as_list() == [size, 1]


def test_what_depends_on_the_step_is_not_computed():
    x = hf.placeholder(hf.float32, [None, 6])
    sizes = [hf.placeholder_with_default(2, []) * 2, hf.shape(x)[0] * 2, hf.random_uniform(
        [], 1, 5, hf.int32) + 1, hf.py_func(lambda n: n, [2], hf.int32) * 2,
        hf.while_loop(lambda n: n < 5, lambda n: n + 1, [0]) * 2, hf.Variable(3) * 2]
    for size in sizes:
        assert hf.reshape(x, hf.stack([-1, size])).shape.as_list() == [None, None]
    failing = hf.constant(1) // hf.constant(0)
    assert hf.reshape(x, hf.stack([-1, failing])).shape.as_list() == [None, None]
    # Only shapes follow from computed values: checks of a program are left to its steps.
    assert constant_value(hf.constant(A) * hf.constant(B)) is None


def test_layers_take_widths_that_are_computed():
    x = hf.placeholder(hf.float32, [None, 4, 6])
    flat = hf.reshape(x, [-1, hf.constant(4) * x.shape[2].value])
    y = hf.layers.dense(flat, 2, kernel_initializer=hf.ones_initializer())
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        np.testing.assert_array_equal(session.run(y, {x: np.ones((1, 4, 6))}), [[24, 24]])


def test_conditions_that_are_computed():
    x, y = hf.constant(1), hf.constant(2)
    with hf.Session() as session:
        assert session.run(smart_cond(x * y > 0, lambda: hf.constant(5), pytest.fail)) == 5


def test_parts_of_shapes_from_outside_of_loops_and_branches():
    rows = hf.placeholder(hf.float32, [None, 6])
    shape, seen = hf.shape(rows), []

    def body(i):
        seen.append(hf.range(shape[1]).shape.as_list())
        seen.append(hf.zeros(shape[1:]).shape.as_list())
        return i + 1

    hf.while_loop(lambda i: i < 3, body, [0])
    hf.cond(hf.equal(shape[0], 2), lambda: body(1), lambda: body(2))
    assert seen == [[6]] * 6
