"""Tridiagonal matrices against dense ones, logarithms of matrices."""

from __future__ import annotations

import numpy as np
import pytest
from gradcheck import check_gradient
from op_forms import evaluate

import hpcflow as hf

RNG = np.random.default_rng(29)


def dense(diagonals):
    size = diagonals.shape[-1]
    found = np.zeros((*diagonals.shape[:-2], size, size), diagonals.dtype)
    rows = np.arange(size)
    found[..., rows, rows] = diagonals[..., 1, :]
    found[..., rows[:-1], rows[1:]] = diagonals[..., 0, :-1]
    found[..., rows[1:], rows[:-1]] = diagonals[..., 2, 1:]
    return found


def normal(dtype, *shape):
    x = RNG.normal(size=shape)
    return (x + 1j * RNG.normal(size=shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("batch, size", [((), 1), ((), 2), ((3,), 7), ((2, 2), 5), ((0,), 3)])
def test_products_and_solutions(batch, size, dtype):
    diagonals, rhs = normal(dtype, *batch, 3, size), normal(dtype, *batch, size, 2)
    whole = dense(diagonals)
    found = evaluate(hf.linalg.tridiagonal_matmul, diagonals, rhs)
    np.testing.assert_allclose(found, whole @ rhs, rtol=1e-12, atol=1e-12)
    found = evaluate(hf.linalg.tridiagonal_solve, diagonals, rhs)
    np.testing.assert_allclose(found, np.linalg.solve(whole, rhs), rtol=1e-8, atol=1e-8)


def test_rows_are_exchanged():
    diagonals = np.array([[1.0, 1, 0], [0, 0, 1], [0, 1, 1]])
    found = evaluate(hf.linalg.tridiagonal_solve, diagonals, np.ones((3, 1)))
    np.testing.assert_allclose(found, np.linalg.solve(dense(diagonals), np.ones((3, 1))))
    without = evaluate(lambda d, r: hf.linalg.tridiagonal_solve(d, r, partial_pivoting=False),
                       diagonals, np.ones((3, 1)))
    assert np.isnan(without).all()


@pytest.mark.parametrize("pivoting", [True, False])
def test_forms_of_diagonals(pivoting):
    diagonals, rhs = normal("float64", 2, 3, 4) + [[0], [4], [0]], normal("float64", 2, 4)
    whole = dense(diagonals)
    rows = [diagonals[..., 0, :-1], diagonals[..., 1, :], diagonals[..., 2, 1:]]
    solve, product = hf.linalg.tridiagonal_solve, hf.linalg.tridiagonal_matmul
    with hf.Session() as session:
        found = session.run([
            solve(diagonals, rhs, partial_pivoting=pivoting), solve(whole, rhs, "matrix"),
            solve(rows, rhs, "sequence"),
            solve(diagonals, rhs[:, None], transpose_rhs=True)[..., 0, :]])
        expected = np.linalg.solve(whole, rhs[..., None])[..., 0]
        for values in found:
            np.testing.assert_allclose(values, expected, rtol=1e-10)
        for values in session.run([product(whole, whole, "matrix"),
                                   product(rows, whole, "sequence")]):
            np.testing.assert_allclose(values, whole @ whole, rtol=1e-10, atol=1e-12)


def test_conjugated_right_sides():
    diagonals, rhs = normal("complex128", 3, 4), normal("complex128", 2, 4)
    found = evaluate(lambda a, b: hf.linalg.tridiagonal_solve(
        a, b, transpose_rhs=True, conjugate_rhs=True), diagonals, rhs)
    np.testing.assert_allclose(found, np.linalg.solve(dense(diagonals), rhs.conj().T).T, rtol=1e-8)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_gradients(dtype):
    diagonals = normal(dtype, 2, 3, 4) + np.array([[0], [4], [0]])
    rhs = normal(dtype, 2, 4, 2)
    if dtype == "float64":
        check_gradient(hf.linalg.tridiagonal_solve, diagonals, rhs)
        check_gradient(hf.linalg.tridiagonal_matmul, diagonals, rhs)
        return
    whole = dense(diagonals)
    with hf.Session() as session:  # against the gradients of the dense forms
        d, w, r = hf.constant(diagonals), hf.constant(whole), hf.constant(rhs)
        for sparse, full in ((hf.linalg.tridiagonal_solve(d, r), hf.matrix_solve(w, r)),
                             (hf.linalg.tridiagonal_matmul(d, r), hf.matmul(w, r))):
            ones = hf.ones_like(r)
            by_d, by_r = session.run(hf.gradients(sparse, [d, r], ones))
            by_w, expected = session.run(hf.gradients(full, [w, r], ones))
            np.testing.assert_allclose(by_r, expected, rtol=1e-9)
            kept = dense(by_d)
            np.testing.assert_allclose(kept, np.where(kept != 0, by_w, 0), rtol=1e-9)


def test_what_is_refused():
    solve = hf.linalg.tridiagonal_solve
    for arguments, message in (
            ((np.ones((2, 4)), np.ones((4, 1))), "3 diagonals"),
            ((np.ones((3, 4)), np.ones((5, 1))), "equal|compatible"),
            ((np.ones((3, 4)), np.ones((4, 1)), "other"), "diagonals_format"),
            (([np.ones(4)] * 2, np.ones((4, 1)), "sequence"), "length 3"),
            (([np.ones(2), np.ones(4), np.ones(4)], np.ones((4, 1)), "sequence"), "shorter"),
            ((np.ones((3, 4)), np.ones((4, 1)), "matrix"), "square")):
        with pytest.raises(ValueError, match=message):
            solve(*arguments)
    with pytest.raises(ValueError, match="perturb_singular"):
        solve(np.ones((3, 4)), np.ones((4, 1)), perturb_singular=True)


@pytest.mark.parametrize("pivoting", [True, False])
def test_results_of_what_is_not_invertible_are_no_numbers(pivoting):
    regular = [[1.0, 1, 0], [2, 2, 2], [0, 1, 1]]
    last = [[0.0, 1, 0], [1, 1, 1], [0, 0, 1]]  # its last two rows are the same
    found = evaluate(lambda d, r: hf.linalg.tridiagonal_solve(d, r, partial_pivoting=pivoting),
                     np.array([np.zeros((3, 3)), regular, last]), np.ones((3, 3, 2)))
    assert np.isnan(found[[0, 2]]).all()
    np.testing.assert_allclose(found[1], np.linalg.solve(dense(np.array(regular)), np.ones((3, 2))))



@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 4), (1, 1), (0, 2, 2)])
def test_logarithms_of_matrices(shape):
    a = normal("complex128", *shape) / 2 + 2 * np.eye(shape[-1])
    log = evaluate(hf.linalg.logm, a)
    with hf.Session() as session:
        np.testing.assert_allclose(session.run(hf.linalg.expm(log)), a, rtol=1e-10, atol=1e-10)
    large = np.diag([1e-6, 1.0, 1e6]).astype(complex)
    np.testing.assert_allclose(np.diag(evaluate(hf.linalg.logm, large)),
                               np.log([1e-6, 1, 1e6]), rtol=1e-9, atol=1e-9)


def test_perturbing_needs_pivoting(session):
    solved = hf.raw_ops.TridiagonalSolve(np.ones((3, 4)), np.ones((4, 1)), partial_pivoting=False,
                                         perturb_singular=True)
    with pytest.raises(hf.errors.InvalidArgumentError, match="perturb_singular"):
        session.run(solved)
