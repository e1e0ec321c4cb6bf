"""Gradients through conditionals, loops and tensor arrays, by finite differences."""

from __future__ import annotations

import numpy as np
import pytest
from gradcheck import check_gradient

import hpcflow as hf
from hpcflow import raw_ops

RNG = np.random.default_rng(31)


def normal(*shape):
    return RNG.normal(size=shape)


@pytest.mark.parametrize("taken", [True, False])
def test_cond(taken):
    def build(x, y):
        predicate = hf.placeholder_with_default(np.array(taken), [])
        return hf.cond(predicate, lambda: x * x * y, lambda: hf.sin(x) + y)

    check_gradient(build, normal(2, 3), normal(3), second=False)


def test_loop():
    def build(x, w):
        i = hf.constant(0)
        return hf.while_loop(lambda i, v: i < 3, lambda i, v: [i + 1, hf.tanh(hf.matmul(v, w))],
                             [i, x])[1]

    check_gradient(build, normal(2, 3), normal(3, 3), second=False, forms=["static"])


def test_loop_without_a_step():
    def build(x):
        return hf.while_loop(lambda v: hf.reduce_sum(v) > 1e9, lambda v: v * v, [x])

    check_gradient(build, normal(3), second=False, forms=["static"])


def test_loop_with_a_condition_inside():
    def build(x):
        def body(i, v):
            return i + 1, hf.cond(hf.equal(i % 2, 0), lambda: v * x, lambda: hf.sin(v))

        return hf.while_loop(lambda i, v: i < 4, body, [hf.constant(0), x])[1]

    check_gradient(build, normal(3), second=False, forms=["static"])


def test_array_written_and_read_in_a_loop():
    def build(x):
        source = hf.TensorArray(hf.float64, 4, clear_after_read=False).unstack(x)
        target = hf.TensorArray(hf.float64, 4)

        def body(i, total, array):
            total = total * 0.5 + source.read(i) * source.read(3 - i)
            return i + 1, total, array.write(i, total)

        start = [hf.constant(0), hf.zeros([2], hf.float64), target]
        return hf.while_loop(lambda i, *_: i < 4, body, start)[2].stack()

    check_gradient(build, normal(4, 2), second=False, forms=["static"])


def test_array_parts():
    def build(x):
        array = hf.TensorArray(hf.float64, 3, infer_shape=False).split(x, [2, 1, 3])
        doubled = hf.TensorArray(hf.float64, 3, infer_shape=False)
        for i in range(3):
            part = array.read(i)
            doubled = doubled.write(i, part * part)
        return doubled.concat()

    check_gradient(build, normal(6, 2), second=False, forms=["static"])


def test_array_gather_and_scatter():
    def build(x):
        array = hf.TensorArray(hf.float64, 4, element_shape=[2]).scatter([2, 0, 1, 3], x)
        return array.gather([1, 3]) * array.gather([2, 0])

    check_gradient(build, normal(4, 2), second=False, forms=["static"])


def test_first_form_of_arrays():
    def build(x):
        handle = raw_ops.TensorArray(size=4, dtype=hf.float64, clear_after_read=False)
        flow = raw_ops.TensorArrayUnpack(handle=handle, value=x, flow_in=0.0)
        whole = raw_ops.TensorArrayPack(handle=handle, flow_in=flow, dtype=hf.float64)
        return whole * whole

    check_gradient(build, normal(4, 2), second=False, forms=["static"])
