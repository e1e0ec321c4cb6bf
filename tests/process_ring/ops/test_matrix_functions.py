"""Triangles, exponentials, square roots, ranks and pseudo-inverses of matrices."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf

RNG = np.random.default_rng(11)


def run(x):
    with hf.Session() as session:
        return session.run(x)


@pytest.mark.parametrize("shape", [(4, 4), (2, 3, 3), (0, 2, 2), (1, 1), (2, 0, 0)])
def test_triangles_of_rows(shape):
    a = RNG.normal(size=shape)
    both, order = hf.linalg.lu(a)
    rebuilt, inverse = run([hf.linalg.lu_reconstruct(both, order),
                            hf.linalg.lu_matrix_inverse(both, order)])
    np.testing.assert_allclose(rebuilt, a, atol=1e-12)
    np.testing.assert_allclose(inverse, np.linalg.inv(a), rtol=1e-8)


def test_singular_matrix_has_no_triangles():
    with pytest.raises(hf.errors.InvalidArgumentError, match="not invertible"):
        run(hf.linalg.lu(np.zeros((2, 2)))[0])


def test_exponential_of_large_and_small():
    turn = np.array([[0.0, -40.0], [40.0, 0.0]])
    expected = [[np.cos(40), -np.sin(40)], [np.sin(40), np.cos(40)]]
    both = run(hf.linalg.expm(np.stack([turn, np.zeros((2, 2))])))
    np.testing.assert_allclose(both[0], expected, atol=1e-9)
    np.testing.assert_allclose(both[1], np.eye(2), atol=1e-15)


def test_ranks_and_pseudo_inverses():
    a = RNG.normal(size=(3, 5, 2)) @ RNG.normal(size=(3, 2, 4))
    rank, inverse = run([hf.linalg.matrix_rank(a), hf.linalg.pinv(a)])
    assert rank.tolist() == [2, 2, 2]
    np.testing.assert_allclose(inverse, np.linalg.pinv(a), rtol=1e-8, atol=1e-10)


def test_square_roots():
    a = RNG.normal(size=(2, 4, 4))
    a = a @ a.swapaxes(-1, -2) + np.eye(4)
    root = run(hf.linalg.sqrtm(a))
    np.testing.assert_allclose(root @ root, a, rtol=1e-9, atol=1e-11)


def test_roots_and_logarithms_of_matrices_with_negative_eigenvalues():
    a = RNG.uniform(-1, 1, (2, 31, 31)).astype(np.complex128)
    root, logarithm = run([hf.linalg.sqrtm(a), hf.linalg.logm(a)])
    np.testing.assert_allclose(root @ root, a, atol=1e-11)
    np.testing.assert_allclose(run(hf.linalg.expm(logarithm)), a, atol=1e-11)


def test_logarithms_without_a_basis_of_eigenvectors():
    block = np.array([[2, 1, 0], [0, 2, 1], [0, 0, 2]], np.complex128)
    np.testing.assert_allclose(run(hf.linalg.expm(hf.linalg.logm(block))), block, atol=1e-12)
    assert np.isnan(run(hf.linalg.logm(block * np.nan))).all()
    with pytest.raises(hf.errors.InvalidArgumentError, match="not invertible"):
        run(hf.linalg.logm(np.zeros((2, 2), np.complex128)))
