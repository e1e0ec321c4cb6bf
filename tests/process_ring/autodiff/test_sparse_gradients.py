"""Gradients of sparse ops against finite differences."""

from __future__ import annotations

import numpy as np
import pytest
from gradcheck import check_gradient

import hpcflow as hf
from hpcflow import raw_ops

RNG = np.random.default_rng(5)
PLACES = np.array([[0, 1], [0, 3], [1, 0], [2, 2], [2, 3]], np.int64)
OTHERS = np.array([[0, 0], [0, 3], [2, 2]], np.int64)
SHAPE = np.array([3, 4], np.int64)
MIXED = PLACES[[3, 0, 4, 1, 2]]


def values(count=5):
    return RNG.uniform(0.5, 2.0, count)


def test_sparse_to_dense():
    def build(v, default):
        return raw_ops.SparseToDense(PLACES, SHAPE, v, default)

    check_gradient(build, values(), np.array(0.5))
    check_gradient(build, np.array(1.5), np.array(0.5))
    check_gradient(lambda v, d: raw_ops.SparseToDense(np.array([1, 3]), np.array([5]), v, d),
                   values(2), np.array(0.0))
    check_gradient(raw_ops.SparseToDense, PLACES, SHAPE, values(), np.array(0.5))


def test_reorder():
    check_gradient(lambda v: raw_ops.SparseReorder(MIXED, v, SHAPE)[1], values())


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_concat(axis):
    check_gradient(lambda a, b: raw_ops.SparseConcat(
        [MIXED, OTHERS], [a, b], [SHAPE, SHAPE], concat_dim=axis)[1], values(), values(3))


@pytest.mark.parametrize("thresh", [0.0, 2.2])
def test_add(thresh):
    check_gradient(lambda a, b: raw_ops.SparseAdd(
        PLACES, a, SHAPE, OTHERS, b, SHAPE, np.float64(thresh))[1], values(), values(3))


@pytest.mark.parametrize("dims", [(3, 4), (4,), (3, 1), (1, 4), ()])
@pytest.mark.parametrize("op", ["Add", "Mul", "Div"])
def test_with_dense(op, dims):
    build = getattr(raw_ops, f"SparseDenseCwise{op}")
    check_gradient(lambda v, d: build(PLACES, v, SHAPE, d), values(),
                   RNG.uniform(0.5, 2.0, dims))


def test_with_complex_dense():
    def numbers(*dims):
        return RNG.uniform(0.5, 2.0, dims) + 1j * RNG.normal(size=dims)

    for op in ("Mul", "Div"):
        check_gradient(lambda v, d, op=op: getattr(raw_ops, f"SparseDenseCwise{op}")(
            PLACES, v, SHAPE, d), numbers(5), numbers(3, 1), second=False)
    for adjoint_a, adjoint_b in ((False, False), (True, False), (False, True), (True, True)):
        dims = (3 if adjoint_a else 4, 2)
        check_gradient(lambda v, b, a=adjoint_a, c=adjoint_b: raw_ops.SparseTensorDenseMatMul(
            PLACES, v, SHAPE, b, adjoint_a=a, adjoint_b=c), numbers(5),
            numbers(*(dims[::-1] if adjoint_b else dims)), second=False)


def test_add_to_dense():
    check_gradient(lambda v, d: raw_ops.SparseTensorDenseAdd(MIXED, v, SHAPE, d), values(),
                   RNG.normal(size=(3, 4)))


@pytest.mark.parametrize("adjoint_b", [False, True])
@pytest.mark.parametrize("adjoint_a", [False, True])
def test_matmul(adjoint_a, adjoint_b):
    dims = (3 if adjoint_a else 4, 2)
    check_gradient(lambda v, b: raw_ops.SparseTensorDenseMatMul(
        MIXED, v, SHAPE, b, adjoint_a=adjoint_a, adjoint_b=adjoint_b), values(),
        RNG.normal(size=dims[::-1] if adjoint_b else dims))


def test_softmax():
    check_gradient(lambda v: raw_ops.SparseSoftmax(PLACES, v, SHAPE), values())


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("axes", [[0], [-1], [0, 1], []])
def test_reduce_sum(axes, keep):
    check_gradient(lambda v: raw_ops.SparseReduceSum(
        PLACES, v, SHAPE, np.array(axes, np.int32), keep_dims=keep), values())


def test_a_negative_index_has_no_part_in_the_sum():
    mine, others = [[0, 0], [1, 2], [2, -1]], [[1, 2], [2, 0]]
    with hf.Graph().as_default(), hf.Session() as session:
        found = session.run(raw_ops.SparseAddGrad(
            np.array([1.0, 2.0, 3.0]), np.array(mine), np.array(others),
            np.array([[0, 0], [1, 2], [2, 0]])))
    assert [part.tolist() for part in found] == [[1, 2, 0], [2, 3]]
