"""Operands that are no tensors: NumPy arrays for inputs of a default type, foreign classes."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf


def test_arrays_of_a_type_that_is_not_allowed_are_cast_to_the_default(session):
    x = hf.constant(np.arange(6, dtype=np.float32))
    y = hf.reshape(x, np.array([2.0, 3.0]))
    assert y.op.inputs[1].dtype is hf.int32
    np.testing.assert_array_equal(session.run(y), [[0, 1, 2], [3, 4, 5]])
    assert session.run(hf.reduce_sum(x, np.array([0.0]))) == 15
    assert hf.tile(x, np.array([2], np.int64)).op.inputs[1].dtype is hf.int64


def test_lists_are_not_cast(session):
    with pytest.raises(TypeError, match="parameter 'shape' has DataType float32 not in list"):
        hf.reshape(hf.ones([6]), [2.0, 3.0])


class Foreign:
    """No tensor can be made of it, but it knows what to do with one."""

    def __rmul__(self, other):
        return "product", other

    def __rmatmul__(self, other):
        return "matrix product", other


def test_a_foreign_class_answers_for_itself():
    x = hf.ones([2, 2])
    assert x * Foreign() == ("product", x)
    assert x @ Foreign() == ("matrix product", x)
    with pytest.raises(TypeError, match="to Tensor"):
        x + Foreign()


def test_a_variable_with_a_foreign_class(graph):
    v = hf.get_variable("v", [2], initializer=hf.zeros_initializer())
    assert (v * Foreign())[0] == "product"
