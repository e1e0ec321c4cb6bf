"""If, While and For of functional_ops, whose branches and bodies are defined functions."""

import pytest

import hpcflow as hf
from hpcflow.python.framework import function
from hpcflow.python.ops import functional_ops


@function.Defun(hf.float32)
def double(x):
    return x * 2.0


@function.Defun(hf.float32)
def less_one(x):
    return x - 1.0


@function.Defun(hf.float32)
def small(x):
    return x < 100.0


@function.Defun(hf.int32, hf.float32)
def plus(i, x):
    return x + hf.cast(i, hf.float32)


def test_values_and_gradients():
    x = hf.placeholder(hf.float32, [])
    (chosen,) = functional_ops.If(x > 1.0, [x], double, less_one)
    (grown,) = functional_ops.While([x], small, double)
    (summed,) = functional_ops.For(1, 5, 2, [x], plus)
    grads = hf.gradients(chosen, x) + hf.gradients(grown, x)
    with hf.Session() as session:
        assert session.run([chosen, grown, summed, *grads], {x: 3.0}) == [6, 192, 7, 2, 64]
        assert session.run([chosen, grads[0]], {x: 0.5}) == [-0.5, 1.0]


def test_signatures_must_fit():
    with pytest.raises(ValueError, match="signatures do not match"):
        functional_ops.While([1.0], plus, double)
    with pytest.raises(ValueError, match="same types"):
        functional_ops.If(True, [1.0], double, small)
    with pytest.raises(ValueError, match="takes 1 inputs, but got 2"):
        functional_ops.If(True, [1.0, 2.0], double, less_one)
