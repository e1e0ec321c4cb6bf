"""Bijectors of triangular matrices: their inverses, and determinants by differences."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf

pytestmark = pytest.mark.usefixtures("graph")

bijectors = hf.contrib.distributions.bijectors
X = np.random.RandomState(0).randn(2, 6)
INDICES = np.tril_indices(3)

# Each takes a vector of 6 elements to a matrix of which the lower triangle counts.
FILL = bijectors.FillTriangular


def scale():
    return bijectors.ScaleTriL(diag_shift=np.float64(1e-5))


MADE = {
    "fill": lambda: FILL(),
    "scale": lambda: scale(),
    "scale of exp": lambda: bijectors.ScaleTriL(bijectors.Exp(), None),
    "diagonal": lambda: bijectors.Chain([bijectors.TransformDiagonal(bijectors.Exp()), FILL()]),
    "product": lambda: bijectors.Chain(
        [bijectors.CholeskyOuterProduct(validate_args=True), scale()]),
    "inverse": lambda: bijectors.Chain([bijectors.MatrixInverseTriL(), scale()]),
}


@pytest.mark.parametrize("name", MADE)
def test_triangular_matrices(session, name):
    made = MADE[name]()
    x = hf.placeholder(hf.float64, [None, 6])
    y = made.forward(x)
    rows = session.run(y, {x: X})
    assert made.forward_event_shape([6]) == [3, 3] and made.inverse_event_shape([3, 3]) == [6]
    assert session.run(made.forward_event_shape_tensor([6])).tolist() == [3, 3]
    assert session.run(made.inverse_event_shape_tensor([3, 3])).tolist() == [6]
    np.testing.assert_allclose(session.run(made.inverse(hf.constant(rows))), X, rtol=1e-7)
    forward = session.run(made.forward_log_det_jacobian(x, 1), {x: X})
    inverse = session.run(made.inverse_log_det_jacobian(hf.constant(rows), 2))
    np.testing.assert_allclose(forward, -inverse, rtol=1e-7, atol=1e-12)
    for row, value in zip(X, forward, strict=True):
        moved = np.concatenate([row + 1e-6 * np.eye(6), row - 1e-6 * np.eye(6)])
        ahead, behind = session.run(y, {x: moved})[(slice(None), *INDICES)].reshape(2, 6, 6)
        expected = np.log(abs(np.linalg.det((ahead - behind) / 2e-6)))
        np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-7)


def test_upper_triangles_and_sizes_that_fill_none(session):
    upper = session.run(FILL(upper=True).forward([1.0, 2.0, 3.0]))
    np.testing.assert_array_equal(upper, np.triu(upper))
    with pytest.raises(ValueError, match="fills no triangle"):
        FILL().forward_event_shape([5])
    with pytest.raises(ValueError, match="must be square"):
        FILL().inverse_event_shape([2, 3])


def test_an_affine_function_by_a_linear_operator(session):
    scale = np.array([[2.0, 0.0], [1.0, -3.0]])
    made = bijectors.AffineLinearOperator(
        np.array([1.0, -1.0]), hf.linalg.LinearOperatorLowerTriangular(scale))
    y = made.forward(X[:, :2])
    np.testing.assert_allclose(session.run(y), X[:, :2] @ scale.T + [1, -1])
    np.testing.assert_allclose(session.run(made.inverse(session.run(y))), X[:, :2])
    assert session.run(made.forward_log_det_jacobian(X[0, :2], 1)) == pytest.approx(np.log(6))
    shifted = bijectors.AffineLinearOperator(hf.constant([1.0]))
    assert session.run(shifted.inverse([3.0])).tolist() == [2.0]
    assert session.run(shifted.forward_log_det_jacobian([3.0], 1)) == 0


def test_an_absolute_value_comes_from_two_numbers(session):
    made = bijectors.AbsoluteValue(validate_args=True)
    assert session.run(made.forward([-2.0, 3.0])).tolist() == [2, 3]
    assert [v.tolist() for v in session.run(made.inverse([2.0]))] == [[-2], [2]]
    assert session.run(made.inverse_log_det_jacobian([2.0], 0)) == (0, 0)
    with pytest.raises(hf.errors.InvalidArgumentError, match="was negative"):
        session.run(made.inverse([-1.0]))
