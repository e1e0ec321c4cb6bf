"""Linear operators agree with the matrices that they stand for."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf

RNG = np.random.RandomState(0)
L = hf.linalg


def normal(*shape):
    return RNG.randn(*shape)


def complex_normal(*shape):
    return normal(*shape) + 1j * normal(*shape)


def positive(n, *batch):
    a = normal(*batch, n, n)
    return a @ np.swapaxes(a, -1, -2) + n * np.eye(n)


A, B, C, D = positive(4, 2), normal(4, 4), complex_normal(3, 3), normal(3) + 3
U, V, W = normal(2, 5, 2), normal(5, 2), np.abs(normal(2))
BASE = np.abs(normal(5)) + 1
FIRST = normal(5)

# Name -> (makes the operator, the matrix that it is).
CASES = {
    "full": (lambda: L.LinearOperatorFullMatrix(A), A),
    "full_positive": (lambda: L.LinearOperatorFullMatrix(
        A, is_self_adjoint=True, is_positive_definite=True), A),
    "full_complex": (lambda: L.LinearOperatorFullMatrix(C), C),
    "diag": (lambda: L.LinearOperatorDiag(np.stack([D, -D])), np.stack([np.diag(D), -np.diag(D)])),
    "diag_complex": (lambda: L.LinearOperatorDiag(D * (1 + 2j)), np.diag(D * (1 + 2j))),
    "identity": (lambda: L.LinearOperatorIdentity(3, batch_shape=[2], dtype=hf.float64),
                 np.stack([np.eye(3)] * 2)),
    "scaled": (lambda: L.LinearOperatorScaledIdentity(3, np.array([2.0, -3.0])),
               np.stack([2 * np.eye(3), -3 * np.eye(3)])),
    "triangular": (lambda: L.LinearOperatorLowerTriangular(A), np.tril(A)),
    "composition": (lambda: L.LinearOperatorComposition([
        L.LinearOperatorFullMatrix(A), L.LinearOperatorFullMatrix(B)]), A @ B),
    "kronecker": (lambda: L.LinearOperatorKronecker([
        L.LinearOperatorFullMatrix(C), L.LinearOperatorDiag(D + 0j)]), np.kron(C, np.diag(D))),
    "blocks": (lambda: L.LinearOperatorBlockDiag([
        L.LinearOperatorFullMatrix(A), L.LinearOperatorDiag(D)]),
        np.stack([np.block([[a, np.zeros([4, 3])], [np.zeros([3, 4]), np.diag(D)]]) for a in A])),
    "low_rank": (lambda: L.LinearOperatorLowRankUpdate(
        L.LinearOperatorDiag(BASE, is_positive_definite=True), U),
        np.diag(BASE) + U @ np.swapaxes(U, -1, -2)),
    "low_rank_of_two": (lambda: L.LinearOperatorLowRankUpdate(
        L.LinearOperatorDiag(BASE), U, W, V), np.diag(BASE) + (U * W) @ V.T),
    "circulant": (lambda: L.LinearOperatorCirculant(
        np.fft.fft(FIRST), input_output_dtype=hf.complex128),
        np.stack([np.roll(FIRST, k) for k in range(5)], 1) + 0j),
    "householder": (lambda: L.LinearOperatorHouseholder(D),
                    np.eye(3) - 2 * np.outer(D, D) / (D @ D)),
    "adjoint": (lambda: L.LinearOperatorFullMatrix(C).adjoint(), C.conj().T),
    "inverse": (lambda: L.LinearOperatorFullMatrix(A).inverse(), np.linalg.inv(A)),
}


@pytest.mark.parametrize("name", CASES)
def test_an_operator_does_what_its_matrix_does(name):
    make, dense = CASES[name]
    n = dense.shape[-1]
    x = (normal(3, 1, n, 2) + (0j if np.iscomplexobj(dense) else 0)).astype(dense.dtype)
    adjoint = np.swapaxes(dense.conj(), -1, -2)
    with hf.Graph().as_default(), hf.Session() as session:
        op = make()
        assert op.shape.as_list() == list(dense.shape) and op.is_square
        wanted = {
            "dense": (op.to_dense(), dense),
            "product": (op.matmul(x), dense @ x),
            "of_adjoint": (op.matmul(x, adjoint=True), adjoint @ x),
            "vector": (op.matvec(x[0, 0, :, 0]), dense @ x[0, 0, :, 0]),
            "solution": (op.solve(x), np.linalg.inv(dense) @ x),
            "solution_of_adjoint": (op.solve(x, adjoint=True), np.linalg.inv(adjoint) @ x),
            "determinant": (op.determinant(), np.linalg.det(dense)),
            "log": (op.log_abs_determinant(), np.log(np.abs(np.linalg.det(dense)))),
            "trace": (op.trace(), np.trace(dense, axis1=-2, axis2=-1)),
            "diagonal": (op.diag_part(), np.diagonal(dense, axis1=-2, axis2=-1)),
            "sum": (op.add_to_tensor(np.ones(dense.shape, dense.dtype)), dense + 1),
            "turned": (op.adjoint().to_dense(), adjoint),
            "inverse": (op.inverse().matmul(x), np.linalg.inv(dense) @ x),
            "shape": (op.shape_tensor(), dense.shape),
        }
        found = session.run({key: value for key, (value, _) in wanted.items()})
        session.run(op.assert_non_singular())
    for key, (_, expected) in wanted.items():
        np.testing.assert_allclose(found[key], expected, rtol=1e-7, atol=1e-7, err_msg=key)


@pytest.mark.parametrize("name", ["full_positive", "identity", "low_rank"])
def test_positive_operators_have_cholesky_factors(name):
    make, dense = CASES[name]
    with hf.Graph().as_default(), hf.Session() as session:
        op = make()
        session.run([op.assert_positive_definite()])
        np.testing.assert_allclose(session.run(op.cholesky().to_dense()),
                                   np.linalg.cholesky(dense), atol=1e-9)


def test_zeros_and_rectangles():
    with hf.Graph().as_default(), hf.Session() as session:
        zeros = L.LinearOperatorZeros(3, 4, dtype=hf.float64, is_square=False)
        x = normal(4, 2)
        np.testing.assert_array_equal(session.run(zeros.matmul(x)), np.zeros([3, 2]))
        wide = L.LinearOperatorFullMatrix(normal(3, 4))
        both = wide @ L.LinearOperatorFullMatrix(normal(4, 5))
        assert both.shape.as_list() == [3, 5] and not both.is_square
        for ask in (wide.determinant, wide.log_abs_determinant, lambda: wide.solve(x)):
            with pytest.raises(NotImplementedError, match="not be square"):
                ask()
        with pytest.raises(ValueError, match="4"):
            wide.matmul(normal(3, 2))


def test_sizes_may_become_known_in_the_step():
    with hf.Graph().as_default(), hf.Session() as session:
        one, other = (hf.placeholder(hf.float64, [None, None]) for _ in range(2))
        x = hf.placeholder(hf.float64)
        op = L.LinearOperatorKronecker([L.LinearOperatorFullMatrix(one),
                                        L.LinearOperatorFullMatrix(other)])
        found = session.run(op.matmul(hf.reshape(x, [6, 2])), {
            one: A[0, :2, :2], other: B[:3, :3], x: np.arange(12.0)})
    np.testing.assert_allclose(found, np.kron(A[0, :2, :2], B[:3, :3]) @ np.arange(12.0).reshape(
        6, 2))


def test_promises_are_checked():
    with hf.Graph().as_default(), hf.Session() as session:
        with pytest.raises(ValueError, match="always non-singular"):
            L.LinearOperatorDiag(D, is_positive_definite=True, is_non_singular=False)
        for check, message in ((L.LinearOperatorDiag([1.0, 0.0]).assert_non_singular, "zero"),
                               (L.LinearOperatorDiag([1.0, -1.0]).assert_positive_definite,
                                "not positive definite"),
                               (L.LinearOperatorFullMatrix(B).assert_self_adjoint, "adjoint"),
                               (L.LinearOperatorFullMatrix(np.ones([2, 2])).assert_non_singular,
                                "Singular")):
            with pytest.raises(hf.errors.InvalidArgumentError, match=message):
                session.run(check())


def test_gradients_pass_through_operators():
    with hf.Graph().as_default(), hf.Session() as session:
        diag = hf.constant(D)
        op = L.LinearOperatorLowRankUpdate(L.LinearOperatorDiag(diag), normal(3, 1))
        grad = hf.gradients(op.log_abs_determinant(), diag)[0]
        dense = hf.gradients(hf.linalg.slogdet(op.to_dense())[1], diag)[0]
        np.testing.assert_allclose(*session.run([grad, dense]), rtol=1e-6)


def test_functions_of_matrices_take_operators():
    with hf.Graph().as_default(), hf.Session() as session:
        a, x = L.LinearOperatorFullMatrix(A, is_positive_definite=True, is_self_adjoint=True), A + 1
        c = L.LinearOperatorFullMatrix(C)
        kinds = [type(made).__name__ for made in (
            L.adjoint(a), L.cholesky(a), L.inv(a), hf.matmul(a, a), L.solve(a, a))]
        assert kinds == ["LinearOperatorFullMatrix", "LinearOperatorLowerTriangular",
                         "LinearOperatorInversion", "LinearOperatorComposition",
                         "LinearOperatorComposition"]
        pairs = [(hf.matmul(a, x), A @ x), (hf.matmul(x, a), x @ A),
                 (hf.matmul(C, c, adjoint_a=True, adjoint_b=True), (C @ C).conj().T),
                 (L.solve(a, x), np.linalg.solve(A, x)), (L.det(a), np.linalg.det(A)),
                 (L.logdet(a), np.log(np.linalg.det(A))), (L.trace(c), np.trace(C)),
                 (L.diag_part(c), np.diag(C)), (L.inv(c, adjoint=True).to_dense(),
                                                np.linalg.inv(C).conj().T)]
        for got, (_, expected) in zip(session.run([p[0] for p in pairs]), pairs, strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-10)
        with pytest.raises(ValueError, match="LinearOperator"):
            L.solve(A, a)
        with pytest.raises(ValueError, match="adjoint_a"):
            hf.matmul(a, A, transpose_a=True)
