"""Products, solutions and sums of linear operators, circulant and Toeplitz kinds."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.linear_operators import LinearOperator, addition, algebra

L = hf.linalg
A = np.array([[4.0, 1, 0], [1, 3, 1], [0, 1, 2]])
X = np.arange(6.0).reshape(3, 2)


def run(value, feeds=None):
    with hf.Session() as session:
        return session.run(value, feeds)


KINDS = {
    "diag": lambda: L.LinearOperatorDiag([2.0, 3.0, 4.0]),
    "identity": lambda: L.LinearOperatorIdentity(3),
    "scaled": lambda: L.LinearOperatorScaledIdentity(3, 2.0),
    "tril": lambda: L.LinearOperatorLowerTriangular(A.astype(np.float32)),
    "zeros": lambda: L.LinearOperatorZeros(3),
    "circulant": lambda: L.LinearOperatorCirculant([1.0, 2.0, 2.0], hf.float32),
    "matrix": lambda: L.LinearOperatorFullMatrix(A.astype(np.float32)),
    "toeplitz": lambda: L.LinearOperatorToeplitz([4.0, 1.0, 2.0], [4.0, -1.0, 3.0]),
    "householder": lambda: L.LinearOperatorHouseholder([1.0, 2.0, 2.0]),
}


@pytest.mark.parametrize("left", KINDS)
def test_products_solutions_and_sums_of_two_operators(left):
    with hf.Graph().as_default():
        one, wanted, found = KINDS[left](), [], []
        a = one.to_dense()
        for make in KINDS.values():
            other = make()
            b = other.to_dense()
            found += [one.matmul(other).to_dense(), one.matmul(other, True, True).to_dense()]
            wanted += [hf.matmul(a, b), hf.matmul(a, b, adjoint_a=True, adjoint_b=True)]
            (total,) = addition.add_operators([one, other])
            found.append(total.to_dense())
            wanted.append(a + b)
            if left != "zeros":
                found.append(one.solve(other).to_dense())
                wanted.append(hf.matrix_solve(a, b))
        for x, y in zip(*run([found, wanted])):
            np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-4)


def test_products_are_of_the_simplest_kind_and_keep_batches():
    with hf.Graph().as_default():
        diag = KINDS["diag"]()
        assert isinstance(diag.matmul(KINDS["scaled"]()), L.LinearOperatorDiag)
        assert isinstance(diag.matmul(KINDS["tril"]()), L.LinearOperatorLowerTriangular)
        assert diag.matmul(KINDS["identity"]()) is diag
        assert isinstance(KINDS["scaled"]().inverse(), L.LinearOperatorScaledIdentity)
        wide = L.LinearOperatorIdentity(3, batch_shape=[2])
        assert run(wide.matmul(diag).to_dense()).shape == (2, 3, 3)
        assert run(diag.matmul(wide).to_dense()).shape == (2, 3, 3)


@pytest.mark.parametrize("kind, shape", [(L.LinearOperatorCirculant2D, (2, 3)),
                                         (L.LinearOperatorCirculant3D, (2, 3, 2))])
def test_circulant_blocks(kind, shape):
    random = np.random.default_rng(7)
    kernel = random.normal(size=(2, *shape))
    with hf.Graph().as_default():
        spectrum = hf.constant(np.fft.fftn(kernel, axes=range(1, 1 + len(shape))))
        op = kind(spectrum, hf.float64)
        size = int(np.prod(shape))
        x = random.normal(size=(2, size, 3))
        dense, product, solved, turned, diag, first, sizes = run(
            [op.to_dense(), op.matmul(x), op.solve(x), op.matmul(x, adjoint=True), op.diag_part(),
             op.convolution_kernel(), op.shape_tensor()])
    np.testing.assert_allclose(dense[..., 0], kernel.reshape(2, size), atol=1e-10)
    np.testing.assert_allclose(product, dense @ x, atol=1e-10)
    np.testing.assert_allclose(dense @ solved, x, atol=1e-8)
    np.testing.assert_allclose(turned, dense.transpose(0, 2, 1) @ x, atol=1e-10)
    np.testing.assert_allclose(diag, np.diagonal(dense, axis1=1, axis2=2), atol=1e-10)
    np.testing.assert_allclose(first, kernel, atol=1e-10)
    assert sizes.tolist() == [2, size, size]


def test_toeplitz_with_batches_and_complex_numbers():
    col, row = np.array([[1 + 1j, 2, 3j], [4, 5, 6]]), np.array([1 + 1j, 7, -8j])
    with hf.Graph().as_default():
        op = L.LinearOperatorToeplitz(col, row)
        dense, product, turned, again = run([op.to_dense(), op.matmul(X.astype(complex)), op.matmul(
            X.astype(complex), adjoint=True), op.adjoint().to_dense()])
    for i in range(3):
        for j in range(3):
            wanted = col[:, i - j] if i >= j else np.full(2, row[j - i])
            np.testing.assert_allclose(dense[:, i, j], wanted)
    np.testing.assert_allclose(product, dense @ X, atol=1e-10)
    np.testing.assert_allclose(again, dense.conj().transpose(0, 2, 1))
    np.testing.assert_allclose(turned, again @ X, atol=1e-10)


def test_programs_register_what_their_operators_make():
    class Own(LinearOperator):
        pass

    class Special(Own):
        pass

    algebra.RegisterMatmul(Own, LinearOperator)(lambda a, b: "product")
    algebra.RegisterMatmul(Special, Special)(lambda a, b: "special")
    algebra.RegisterAdjoint(Own)(lambda a: "adjoint")
    assert algebra.matmul(Own(hf.float32), KINDS["diag"]()) == "product"
    assert algebra.matmul(Special(hf.float32), Own(hf.float32)) == "product"
    assert algebra.matmul(Special(hf.float32), Special(hf.float32)) == "special"
    assert Special(hf.float32).adjoint() == "adjoint"
    with pytest.raises(ValueError, match="has already been registered"):
        algebra.RegisterAdjoint(Own)(lambda a: None)
    with pytest.raises(TypeError, match="must be callable"):
        algebra.RegisterSolve(Own, Own)("no")


@pytest.mark.parametrize("make, error, text", [
    (lambda: L.LinearOperatorIdentity(2.0), TypeError, "must be integer"),
    (lambda: L.LinearOperatorIdentity([2]), ValueError, "must be a 0-D Tensor"),
    (lambda: L.LinearOperatorIdentity(-1), ValueError, "must be non-negative"),
    (lambda: L.LinearOperatorZeros(2, batch_shape=2), ValueError, "must be a 1-D"),
    (lambda: L.LinearOperatorIdentity(hf.Variable(2)), TypeError, "num_rows.*reference"),
    (lambda: L.LinearOperatorFullMatrix(A, is_square=False).is_square, ValueError, "was square"),
    (lambda: addition.add_operators([]), ValueError, "at least one"),
    (lambda: addition.add_operators([KINDS["diag"](), L.LinearOperatorIdentity(2)]), ValueError,
     "same domain dimension"),
    (lambda: L.LinearOperatorToeplitz(1.0, [1.0]), ValueError, "at least 1 dimension"),
])  # fmt: skip
def test_what_is_no_operator_is_refused(make, error, text):
    with hf.Graph().as_default(), pytest.raises(error, match=text):
        make()


def test_sizes_are_checked_in_steps_if_a_program_asks_for_it():
    with hf.Graph().as_default():
        rows, x = hf.placeholder(hf.int32), hf.placeholder(hf.float32)
        op = L.LinearOperatorIdentity(rows, assert_proper_shapes=True)
        product = op.matmul(x)
        assert run(product, {rows: 3, x: X}).shape == (3, 2)
        for size, text in ((2, "not compatible"), (-3, "non-negative"), ([3], "0-D")):
            with pytest.raises(hf.errors.InvalidArgumentError, match=text):
                run(product, {rows: size, x: X})


def test_matrices_of_other_ranks_are_multiplied():
    with hf.Graph().as_default():
        a, some = hf.constant(np.arange(12.0).reshape(2, 3, 2)), hf.placeholder(hf.float64)
        b = hf.constant(np.arange(4.0).reshape(2, 2))
        product = hf.matmul(a, b, transpose_b=True)
        assert product.shape.as_list() == [2, 3, 2]
        total = hf.gradients(product, [a, b])
        got, other, grads = run([product, hf.matmul(some, b), total], {some: np.ones([5, 1, 2])})
    np.testing.assert_allclose(got, np.arange(12.0).reshape(2, 3, 2) @ np.arange(4.0).reshape(
        2, 2).T)
    assert other.shape == (5, 1, 2) and [g.shape for g in grads] == [(2, 3, 2), (2, 2)]
