"""Matrix products, tensordot, einsum, cross products and traces, run."""

from __future__ import annotations

import numpy as np
import op_forms
import pytest
from op_forms import failing
from pairs import pairs

import hpcflow as hf
from hpcflow import raw_ops

pytestmark = pytest.mark.filterwarnings("error")
RNG = np.random.default_rng(11)


def sample(dtype, *shape):
    values = RNG.normal(size=shape) * 3
    if np.dtype(dtype).kind == "c":
        values = values + 1j * RNG.normal(size=shape)
    return values.astype(dtype)


def evaluate(build, *inputs, forms=op_forms.FORMS):
    """The value of `build` in every form; BLAS may round differently from call to call."""
    values = [op_forms.evaluate(build, *inputs, forms=(form,)) for form in forms]
    for value in values[1:]:
        limit = tolerance(value.dtype)
        np.testing.assert_allclose(value, values[0], rtol=limit, atol=limit)
    return values[0]


def tolerance(dtype):
    return {2: 1e-2, 4: 1e-5, 8: 1e-5, 16: 1e-12}[np.dtype(dtype).itemsize]


@pairs(
    ("dtype", [np.float16, np.float32, np.float64, np.int32, np.complex64,
                                   np.complex128]),
    ("flip_a", [False, True]),
    ("flip_b", [False, True]),
)
def test_matmul(dtype, flip_a, flip_b):
    a, b = sample(dtype, 3, 4), sample(dtype, 4, 5)
    x, y = (a.T.copy() if flip_a else a), (b.T.copy() if flip_b else b)
    got = evaluate(lambda p, q: hf.matmul(p, q, flip_a, flip_b), x, y)
    np.testing.assert_allclose(got, a @ b, rtol=tolerance(dtype), atol=tolerance(dtype))
    got = evaluate(lambda p, q: hf.matmul(p, q, adjoint_a=flip_a, adjoint_b=flip_b), x, y)
    expected = (x.conj().T if flip_a else x) @ (y.conj().T if flip_b else y)
    np.testing.assert_allclose(got, expected, rtol=tolerance(dtype), atol=tolerance(dtype))


@pairs(
    ("dtype", [np.float16, np.float32, np.int32, np.complex64]),
    ("flip_a", [False, True]),
    ("flip_b", [False, True]),
)
def test_batches(dtype, flip_a, flip_b):
    a, b = sample(dtype, 2, 3, 3, 4), sample(dtype, 2, 3, 4, 5)
    x = np.swapaxes(a, -1, -2).copy() if flip_a else a
    y = np.swapaxes(b, -1, -2).copy() if flip_b else b
    got = evaluate(lambda p, q: hf.matmul(p, q, flip_a, flip_b), x, y)
    np.testing.assert_allclose(got, a @ b, rtol=tolerance(dtype), atol=tolerance(dtype))
    got = evaluate(lambda p, q: hf.matmul(p, q, adjoint_a=flip_a, adjoint_b=flip_b), x, y)
    expected = (np.swapaxes(x.conj(), -1, -2) if flip_a else x) @ (
        np.swapaxes(y.conj(), -1, -2) if flip_b else y)
    np.testing.assert_allclose(got, expected, rtol=tolerance(dtype), atol=tolerance(dtype))


def test_empty_products():
    a, b = np.ones((2, 3), np.float32), np.ones((3, 4), np.float32)
    assert evaluate(hf.matmul, a[:0], b).shape == (0, 4)
    np.testing.assert_array_equal(evaluate(hf.matmul, a[:, :0], b[:0]), np.zeros((2, 4)))


def test_products_that_do_not_fit():
    a, b = np.ones((64, 784), np.float32), np.ones((100, 10), np.float32)
    for message in failing(hf.matmul, a, b):
        assert "64" in message and "784" in message and "100" in message
    failing(hf.matmul, np.ones((2, 3, 4), np.float32), np.ones((3, 4, 5), np.float32))
    with pytest.raises(ValueError, match="Only one of transpose_a and adjoint_a"):
        hf.matmul(hf.constant(a), hf.constant(b), transpose_a=True, adjoint_a=True)
    with pytest.raises(ValueError, match="Only one of transpose_b and adjoint_b"):
        hf.matmul(hf.constant(a), hf.constant(b), transpose_b=True, adjoint_b=True)


def test_sparse_hints():
    a, b = sample(np.float32, 3, 4), sample(np.float32, 4, 5)
    for flags in ({"a_is_sparse": True}, {"b_is_sparse": True}):
        with hf.Graph().as_default(), hf.Session() as session:
            product = hf.matmul(a, b, **flags)
            assert product.op.type == "SparseMatMul"
            np.testing.assert_allclose(session.run(product), a @ b, rtol=1e-5)
    np.testing.assert_allclose(evaluate(hf.sparse_matmul, a, b), a @ b, rtol=1e-5)
    short = hf.cast(hf.constant(a), hf.bfloat16)
    with hf.Session() as session:
        got = session.run(raw_ops.SparseMatMul(a=short, b=b))
    np.testing.assert_allclose(got, a @ b, rtol=0.05, atol=0.3)


def test_operands_that_are_no_tensors():
    with hf.Graph().as_default(), hf.Session() as session:
        x = hf.constant([[1.0, 2.0]], hf.float64)
        np.testing.assert_array_equal(session.run(hf.matmul([[3], [4]], x)), [[3, 6], [4, 8]])
        np.testing.assert_array_equal(session.run(hf.matmul(x, [[3], [4]])), [[11]])


@pytest.mark.parametrize("axes", [0, 1, 2, [[1], [0]], [[0, 1], [1, 0]], [1, 0], [[-1], [0]]],
                         ids=str)
def test_tensordot(axes):
    a = sample(np.float64, 3, 3) if isinstance(axes, list) else sample(np.float64, 2, 3, 3)
    b = sample(np.float64, 3, 3, 2)
    expected = np.tensordot(a, b, axes)
    got = evaluate(lambda x, y: hf.tensordot(x, y, axes), a, b, forms=("constant", "static"))
    np.testing.assert_allclose(got, expected)
    with hf.Graph().as_default(), hf.Session() as session:
        x = hf.placeholder(hf.float64, [None] * a.ndim)
        y = hf.placeholder(hf.float64, [None] * b.ndim)
        got = session.run(hf.tensordot(x, y, axes), {x: a, y: b})
    np.testing.assert_allclose(got, expected)


@pytest.mark.parametrize("axes, error", [
    (4, ValueError), ([[0]], ValueError), ([[0, 1], [0]], ValueError), ([[1], [2]], ValueError),
    ([[5], [0]], IndexError), ([[-5], [0]], IndexError)], ids=str)
def test_tensordot_axes_that_do_not_fit(axes, error):
    a, b = hf.constant(np.ones((2, 3))), hf.constant(np.ones((3, 4, 5)))
    with pytest.raises(error):
        hf.tensordot(a, b, axes)


@pytest.mark.parametrize("equation,shapes", [
    ("ij,jk->ik", [(2, 3), (3, 4)]), ("ij,jk", [(2, 3), (3, 4)]), ("ij->ji", [(2, 3)]),
    ("ij->", [(2, 3)]), ("ij->j", [(2, 3)]), ("i,j->ij", [(2,), (3,)]), ("i,i->", [(3,), (3,)]),
    ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]), ("bij,bkj->bik", [(2, 3, 4), (2, 5, 4)]),
    ("bij,bjk->ik", [(2, 3, 4), (2, 4, 5)]), ("ab,bc,cd->ad", [(2, 3), (3, 4), (4, 5)]),
    ("ab,bc,c->a", [(2, 3), (3, 4), (4,)]), ("abc,abc->b", [(2, 3, 4), (2, 3, 4)]),
    ("ij,kj->ik", [(2, 3), (4, 3)]), ("ijk,jil->kl", [(2, 3, 4), (3, 2, 5)]),
    ("ab,a->ab", [(2, 3), (2,)]), ("ba, b", [(2, 3), (2,)]),
    ("ii->i", [(3, 3)])])
def test_einsum(equation, shapes):
    inputs = [sample(np.float64, *s) for s in shapes]
    expected = np.einsum(equation, *inputs)
    got = evaluate(lambda *v: hf.einsum(equation, *v), *inputs, forms=("constant", "static"))
    np.testing.assert_allclose(got, expected, atol=1e-12)
    with hf.Graph().as_default(), hf.Session() as session:
        xs = [hf.placeholder(hf.float64, [None] * v.ndim) for v in inputs]
        got = session.run(hf.einsum(equation, *xs), dict(zip(xs, inputs)))
    np.testing.assert_allclose(got, expected, atol=1e-12)


@pytest.mark.parametrize("equation,shapes", [
    ("ij,jk->ik", [(2, 3)]), ("ij->k", [(2, 3)]), ("ij->ij", [(2,)]),
    ("ij,jk->ik", [(2, 3), (4, 5)]), ("ij->ii", [(2, 3)])])
def test_equations_that_do_not_fit(equation, shapes):
    with pytest.raises(ValueError, match="einsum"):
        hf.einsum(equation, *[hf.constant(np.ones(s)) for s in shapes])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_cross(dtype):
    a, b = sample(dtype, 4, 3), sample(dtype, 4, 3)
    np.testing.assert_allclose(evaluate(hf.cross, a, b), np.cross(a, b), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(evaluate(hf.cross, a[0], b[0]), np.cross(a[0], b[0]), rtol=1e-4,
                               atol=1e-4)
    failing(hf.cross, a[:, :2], b[:, :2], error=hf.errors.FailedPreconditionError)
    failing(hf.cross, a, b[0])


def test_trace():
    x = sample(np.float32, 2, 3, 3)
    np.testing.assert_allclose(evaluate(hf.trace, x), np.trace(x, axis1=1, axis2=2), rtol=1e-5)


def test_axes_of_tensordot_that_a_step_finds_out_of_range():
    with hf.Graph().as_default(), hf.Session() as session:
        axes = hf.placeholder(hf.int32, [2, 1])
        product = hf.tensordot(np.ones((2, 2)), hf.placeholder_with_default(np.ones((2, 2)), None),
                               axes)
        assert session.run(product, {axes: [[-1], [0]]}).tolist() == [[2, 2], [2, 2]]
        with pytest.raises(hf.errors.InvalidArgumentError):
            session.run(product, {axes: [[0], [7]]})
