"""Linear algebra: inverses, determinants, decompositions, systems, their gradients and errors."""

from __future__ import annotations

import numpy as np
import pytest
from gradcheck import check_gradient
from pairs import pairs

import hpcflow as hf
from hpcflow import raw_ops

RNG = np.random.default_rng(5)
_START = RNG.bit_generator.state
REAL = ("float32", "float64")
COMPLEX = (*REAL, "complex64", "complex128")


@pytest.fixture(autouse=True)
def same_numbers():
    """Every test draws the same numbers, whichever ran before."""
    RNG.bit_generator.state = _START


def matrices(*shape, dtype="float64"):
    values = RNG.normal(size=shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * RNG.normal(size=shape)
    return values.astype(dtype)


def definite(*shape, dtype="float64"):
    a = matrices(*shape, dtype=dtype)
    return (a @ adjoint(a) + np.eye(shape[-1])).astype(dtype)


def adjoint(x):
    return x.swapaxes(-1, -2).conj()


def close(a, b, dtype="float64"):
    limit = 2e-3 if np.dtype(dtype).itemsize // (np.dtype(dtype).kind == "c" or 1) < 8 else 1e-9
    if np.dtype(dtype).name == "complex64":
        limit = 2e-3
    np.testing.assert_allclose(a, b, rtol=limit, atol=limit)


@pytest.mark.parametrize("dtype", COMPLEX)
@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 4), (0, 0), (0, 3, 3)])
def test_inverse_and_determinant(session, dtype, shape):
    x = matrices(*shape, dtype=dtype) + 2 * np.eye(shape[-1], dtype=dtype)
    inverse, flipped, determinant = session.run(
        [hf.matrix_inverse(x), hf.matrix_inverse(x, adjoint=True), hf.matrix_determinant(x)])
    assert inverse.dtype == determinant.dtype == dtype
    close(inverse @ x, np.broadcast_to(np.eye(shape[-1]), shape), dtype)
    close(flipped, adjoint(inverse), dtype)
    close(determinant, np.linalg.det(x), dtype)
    sign, logarithm = session.run(hf.linalg.slogdet(x))
    assert sign.dtype == logarithm.dtype == dtype
    close(sign * np.exp(logarithm), determinant, dtype)


@pytest.mark.parametrize("dtype", COMPLEX)
@pytest.mark.parametrize("flipped", [False, True])
def test_solve(session, dtype, flipped):
    a, b = matrices(2, 5, 5, dtype=dtype), matrices(2, 5, 3, dtype=dtype)
    x = session.run(hf.matrix_solve(a, b, adjoint=flipped))
    assert x.dtype == dtype
    close((adjoint(a) if flipped else a) @ x, b, dtype)


@pairs(
    ("dtype", COMPLEX),
    ("lower", [True, False]),
    ("flipped", [False, True]),
    ("size", [1, 5, 150]),
)
def test_triangular_solve(session, dtype, lower, flipped, size):
    a = 0.3 * matrices(2, size, size, dtype=dtype) / np.sqrt(size) + 2 * np.eye(size, dtype=dtype)
    b = matrices(2, size, 3, dtype=dtype)
    x = session.run(hf.matrix_triangular_solve(a, b, lower, flipped))
    triangle = np.tril(a) if lower else np.triu(a)
    close((adjoint(triangle) if flipped else triangle) @ x, b, dtype)


def test_triangular_solve_reads_one_triangle(session):
    a = np.array([[2.0, np.nan], [1.0, 4.0]])
    b = np.array([[2.0], [5.0]])
    close(session.run(hf.matrix_triangular_solve(a, b)), [[1.0], [1.0]])


@pytest.mark.parametrize("dtype", COMPLEX)
def test_cholesky(session, dtype):
    x = definite(3, 4, 4, dtype=dtype)
    lower, solved = session.run(
        [hf.cholesky(x), hf.cholesky_solve(hf.cholesky(x), np.ones((3, 4, 2), dtype))])
    close(lower @ adjoint(lower), x, dtype)
    assert not np.triu(lower, 1).any()
    close(x @ solved, np.ones((3, 4, 2)), dtype)


def test_cholesky_reads_the_lower_triangle(session):
    x = definite(4, 4)
    close(session.run(hf.cholesky(np.tril(x))), np.linalg.cholesky(x))


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 4)])
@pytest.mark.parametrize("weight", [0.0, 0.5])
def test_least_squares(session, shape, weight):
    a, b = matrices(2, *shape), matrices(2, shape[0], 2)
    fast, slow = session.run([hf.matrix_solve_ls(a, b, weight),
                              hf.matrix_solve_ls(a, b, fast=False)])
    padded = np.concatenate([a, np.sqrt(weight) * np.broadcast_to(
        np.eye(shape[1]), (2, shape[1], shape[1]))], 1)
    rhs = np.concatenate([b, np.zeros((2, shape[1], 2))], 1)
    for i in range(2):
        close(fast[i], np.linalg.lstsq(padded[i], rhs[i], rcond=None)[0])
        close(slow[i], np.linalg.lstsq(a[i], b[i], rcond=None)[0])


def test_least_squares_of_any_rank(session):
    a = np.ones((4, 2))
    close(session.run(hf.matrix_solve_ls(a, np.ones((4, 1)), fast=False)), [[0.5], [0.5]])


@pytest.mark.parametrize("dtype", COMPLEX)
def test_self_adjoint_eig(session, dtype):
    x = definite(2, 4, 4, dtype=dtype)
    (e, v), values = session.run([hf.self_adjoint_eig(x), hf.self_adjoint_eigvals(x)])
    assert e.dtype == values.dtype == dtype
    close(x @ v, v * e[:, None, :], dtype)
    assert (np.diff(e.real) >= 0).all()
    close(values, e, dtype)
    if dtype in REAL:
        both = session.run(raw_ops.SelfAdjointEig(input=x))
        close(both, np.concatenate([e[:, None], v], 1), dtype)


@pairs(
    ("dtype", COMPLEX),
    ("full", [False, True]),
    ("shape", [(2, 3, 5), (4, 2)]),
)
def test_svd(session, dtype, full, shape):
    x = matrices(*shape, dtype=dtype)
    tensors = hf.svd(x, full_matrices=full)
    (s, u, v), alone = session.run([tensors, hf.svd(x, compute_uv=False)])
    inner = min(shape[-2:])
    assert [tuple(t.shape.as_list()) for t in tensors] == [s.shape, u.shape, v.shape]
    assert s.dtype == np.dtype(dtype).type(0).real.dtype
    assert (u.shape[-1], v.shape[-1]) == (shape[-2:] if full else (inner, inner))
    close((u[..., :inner] * s[..., None, :]) @ adjoint(v[..., :inner]), x, dtype)
    close(alone, s, dtype)


@pytest.mark.parametrize("dtype", COMPLEX)
@pytest.mark.parametrize("full", [False, True])
def test_qr(session, dtype, full):
    x = matrices(2, 5, 3, dtype=dtype)
    q, r = session.run(hf.qr(x, full_matrices=full))
    close(q @ r, x, dtype)
    close(adjoint(q) @ q, np.broadcast_to(np.eye(5 if full else 3), (2, *[5 if full else 3] * 2)),
          dtype)


def test_old_names(session):
    x = definite(2, 3, 3)
    close(*session.run([raw_ops.BatchCholesky(input=x), hf.cholesky(x)]))
    close(*session.run([raw_ops.BatchMatrixInverse(input=x), hf.matrix_inverse(x)]))
    close(*session.run([raw_ops.BatchMatrixDeterminant(input=x), hf.matrix_determinant(x)]))
    close(*session.run([raw_ops.BatchSvd(input=x)[0], hf.svd(x, compute_uv=False)]))
    close(*session.run([raw_ops.BatchSelfAdjointEigV2(input=x)[0], hf.self_adjoint_eigvals(x)]))
    close(*session.run([raw_ops.BatchMatrixSolve(matrix=x, rhs=x), hf.matrix_solve(x, x)]))


# ---------------------------------------------------------------- gradients


@pytest.mark.parametrize("flipped", [False, True])
def test_gradients_of_systems(flipped):
    a, b = 0.4 * matrices(2, 3, 3) + 2 * np.eye(3), matrices(2, 3, 2)
    check_gradient(lambda x: hf.matrix_inverse(x, adjoint=flipped), a)
    check_gradient(lambda x, y: hf.matrix_solve(x, y, adjoint=flipped), a, b)
    for lower in (True, False):
        check_gradient(lambda x, y: hf.matrix_triangular_solve(x, y, lower, flipped), a, b)


def test_gradient_of_a_complex_system():
    a = matrices(3, 3, dtype="complex128") + 3 * np.eye(3)
    check_gradient(hf.matrix_solve, a, matrices(3, 2, dtype="complex128"))


def test_gradients_of_complex_matrices():
    x = matrices(2, 3, 3, dtype="complex128") + 2 * np.eye(3)
    for build in (hf.matrix_inverse, hf.matrix_determinant,
                  lambda a: hf.linalg.slogdet(a).log_abs_determinant):
        check_gradient(build, x, second=False)
    check_gradient(lambda a: hf.cholesky(hf.matmul(a, hf.linalg.adjoint(a))), x, second=False)
    check_gradient(hf.matrix_triangular_solve, x, matrices(2, 3, 2, dtype="complex128"),
                   second=False)


def test_logarithms_of_determinants(session):
    for dtype in COMPLEX:
        x = definite(2, 3, 3, dtype=dtype)
        close(session.run(hf.linalg.logdet(x)), np.linalg.slogdet(x)[1], dtype)
    x = np.diag(np.full(400, 1e-3))
    sign, logarithm = session.run(hf.linalg.slogdet(-x[:399, :399]))
    assert sign == -1 and logarithm == pytest.approx(399 * np.log(1e-3))
    check_gradient(lambda a: hf.linalg.slogdet(a)[1], definite(2, 3, 3))


@pytest.mark.parametrize("fast", [True, False])
def test_complex_least_squares(session, fast):
    a, b = matrices(2, 5, 3, dtype="complex128"), matrices(2, 5, 2, dtype="complex128")
    expected = np.linalg.pinv(a) @ b
    close(session.run(hf.matrix_solve_ls(a, b, fast=fast)), expected)


def test_gradients_of_determinant_and_cholesky():
    check_gradient(lambda x: hf.matrix_determinant(x), matrices(2, 3, 3))
    check_gradient(lambda x: hf.cholesky((x + hf.matrix_transpose(x)) / 2.0), definite(2, 3, 3),
                   forms=["static"])


def test_cholesky_grad_is_the_gradient(session):
    x, grad = hf.constant(definite(2, 3, 3)), hf.constant(matrices(2, 3, 3))
    lower = hf.cholesky(x)
    close(*session.run([raw_ops.CholeskyGrad(l=lower, grad=grad),
                        hf.gradients(lower, x, grad)[0]]))


@pytest.mark.parametrize("shape", [(4, 3), (3, 4)])
def test_gradients_of_least_squares(shape):
    check_gradient(lambda a, b: hf.matrix_solve_ls(a, b, 0.3), matrices(2, *shape),
                   matrices(2, shape[0], 2))


def test_gradients_of_eigenvalues_and_vectors():
    x = 0.3 * definite(2, 3, 3) + np.diag([0.0, 2.0, 4.0])  # eigenvalues that are apart
    check_gradient(hf.self_adjoint_eigvals, x)
    # The sign of a vector is arbitrary, but not that of its square.
    check_gradient(lambda x: [y * y for y in hf.self_adjoint_eig(x)], x)


SHAPES = [(3, 3), (4, 2), (2, 4), (2, 2, 3), (2, 3, 2)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_gradients_of_qr(shape, dtype):
    check_gradient(lambda x: list(hf.qr(x)), matrices(*shape, dtype=dtype), tolerance=1e-5)


@pytest.mark.parametrize("shape", SHAPES)
def test_gradients_of_singular_values_and_vectors(shape):
    def sizes(x):  # the phases of vectors are arbitrary
        return [abs(t) if t.dtype.is_complex else t for t in hf.svd(x)]

    x = matrices(*shape)
    check_gradient(lambda x: hf.svd(x, compute_uv=False), x, tolerance=1e-5)
    check_gradient(lambda x: list(hf.svd(x)), x, tolerance=1e-4)
    check_gradient(sizes, matrices(*shape, dtype="complex128"), tolerance=1e-5, second=False)


def test_gradients_of_all_singular_vectors():
    def rest(x):  # of many vectors only the space is determined
        v = hf.svd(x, full_matrices=True)[2][:, 2:]
        return hf.matmul(v, v, transpose_b=True)

    check_gradient(rest, matrices(2, 5), tolerance=1e-5, second=False)
    for shape in ((3, 4), (4, 3)):
        check_gradient(lambda x: list(hf.svd(x, full_matrices=True)), matrices(*shape),
                       tolerance=1e-5, second=False)


def test_gradients_of_qr_with_all_columns():
    check_gradient(lambda x: list(hf.qr(x, full_matrices=True)), matrices(3, 4), tolerance=1e-5,
                   forms=["static"])
    with hf.Graph().as_default():
        x = hf.constant(matrices(4, 3))
        with pytest.raises(NotImplementedError, match="full_matrices"):
            hf.gradients(hf.qr(x, full_matrices=True), x)


# ---------------------------------------------------------------- errors

SINGULAR = np.array([[1.0, 2.0], [2.0, 4.0]])


@pytest.mark.parametrize("build, message", [
    (lambda: hf.matrix_inverse(np.zeros((2, 2))), "not invertible"),
    (lambda: hf.matrix_solve(np.zeros((2, 2)), np.ones((2, 1))), "not invertible"),
    (lambda: hf.matrix_triangular_solve([[0.0, 0], [1, 1]], np.ones((2, 1), "f")), "not invert"),
    (lambda: hf.cholesky([[1.0, 2.0], [2.0, 1.0]]), "positive definite"),
    (lambda: hf.matrix_solve_ls(np.zeros((2, 2)), np.ones((2, 1))), "rank deficient"),
    (lambda: hf.matrix_solve_ls(SINGULAR, np.ones((2, 1)), -1.0), ">= 0"),
    (lambda: hf.matrix_solve_ls(SINGULAR, np.ones((2, 1)), -1.0, fast=False), ">= 0"),
])  # fmt: skip
def test_what_has_no_answer(session, build, message):
    with pytest.raises(hf.errors.InvalidArgumentError, match=message):
        session.run(build())


@pytest.mark.parametrize("op", ["MatrixInverse", "MatrixDeterminant", "Cholesky",
                                "SelfAdjointEigV2"])
def test_not_square(session, op):
    build = getattr(raw_ops, op)
    with pytest.raises(ValueError, match="square"):
        build(input=np.ones((2, 3)))
    x = hf.placeholder(hf.float64)
    y = build(input=x)
    y = y[0] if isinstance(y, (list, tuple)) else y
    for value in (np.ones((2, 3)), np.ones(3)):
        with pytest.raises(hf.errors.InvalidArgumentError, match=r"square|rank"):
            session.run(y, {x: value})


@pytest.mark.parametrize("op", ["MatrixSolve", "MatrixTriangularSolve"])
def test_systems_that_do_not_fit(session, op):
    build = getattr(raw_ops, op)
    with pytest.raises(ValueError, match="same batches and numbers of rows"):
        build(matrix=np.eye(3), rhs=np.ones((2, 1)))
    a, b = hf.placeholder(hf.float64), hf.placeholder(hf.float64)
    y = build(matrix=a, rhs=b)
    with pytest.raises(hf.errors.InvalidArgumentError, match="numbers of rows"):
        session.run(y, {a: np.eye(3), b: np.ones((2, 1))})
