"""Checks and broadcasts that programs use for operators of their own."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.python.ops.linalg import linear_operator_util as util

pytestmark = pytest.mark.usefixtures("graph")
rng = np.random.default_rng(3)


@pytest.mark.parametrize(("check", "good", "bad"), [
    (util.assert_no_entries_with_modulus_zero, [1.0, -2.0], [1.0, 0.0]),
    (util.assert_no_entries_with_modulus_zero, [1j, 2 + 0j], [0j, 1 + 0j]),
    (util.assert_zero_imag_part, [1 + 0j], [1 + 1j]),
])
def test_checks_of_entries(session, check, good, bad):
    session.run(check(good, message="wrong entries"))
    x = hf.placeholder(hf.complex64 if isinstance(bad[0], complex) else hf.float32, [len(bad)])
    with pytest.raises(hf.errors.InvalidArgumentError, match="wrong entries"):
        session.run(check(x, message="wrong entries"), {x: bad})


def test_dimensions_of_operators(session):
    operator = hf.linalg.LinearOperatorFullMatrix(np.eye(2, dtype=np.float32))
    x = hf.placeholder(hf.float32)
    check = util.assert_compatible_matrix_dimensions(operator, x)
    session.run(check, {x: np.ones((2, 5))})
    with pytest.raises(hf.errors.InvalidArgumentError, match="not compatible"):
        session.run(check, {x: np.ones((3, 5))})


@pytest.mark.parametrize("known", [True, False])
def test_batches_broadcast(session, known):
    a, b = rng.normal(size=(2, 1, 3, 3)) + 3 * np.eye(3), rng.normal(size=(4, 3, 2))
    lower = np.tril(a)
    feeds = {}

    def tensor(value):
        if known:
            return hf.constant(value)
        fed = hf.placeholder(hf.float64)
        feeds[fed] = value
        return fed

    solutions = [util.matrix_solve_with_broadcast(tensor(a), tensor(b), adjoint=True),
                 util.matrix_triangular_solve_with_broadcast(tensor(lower), tensor(b)),
                 util.cholesky_solve_with_broadcast(tensor(lower), tensor(b))]
    found = session.run(solutions, feeds)
    turned = lower.swapaxes(-1, -2)
    for x, matrix in zip(found, (a.swapaxes(-1, -2), lower, lower @ turned), strict=True):
        np.testing.assert_allclose(matrix @ x, np.broadcast_to(b, (2, 4, 3, 2)), atol=1e-9)


def test_what_cannot_broadcast():
    with pytest.raises(TypeError, match="list"):
        util.broadcast_matrix_batch_dims(3)
    with pytest.raises(ValueError, match=r"[Ii]ncompatible|broadcast"):
        util.broadcast_matrix_batch_dims([np.ones((2, 1, 1)), np.ones((3, 1, 1))])


def test_hints():
    operator = hf.linalg.LinearOperatorIdentity(2)
    told = util.use_operator_or_provided_hint_unless_contradicting
    assert told(operator, "is_square", None, "other") is True
    assert told(operator, "is_square", True, "other") is True
    with pytest.raises(ValueError, match="other"):
        told(operator, "is_square", False, "other")


@pytest.mark.parametrize("kind", ["max", "avg"])
def test_fractional_pools_with_one_seed(session, kind):
    from hpcflow.python.ops import nn_ops

    pool = getattr(nn_ops, f"fractional_{kind}_pool_v2")
    x = rng.normal(size=(1, 9, 9, 2)).astype(np.float32)
    y, rows, columns = pool(hf.constant(x), 1.5, pseudo_random=True, seed=5)
    again, *_ = pool(hf.constant(x), [1.0, 1.5, 1.5, 1.0], pseudo_random=True, seed=5)
    first, cuts, sides, second = session.run([y, rows, columns, again])
    assert first.shape == (1, 6, 6, 2) and cuts[0] == 0 and cuts[-1] == 9 and len(sides) == 7
    np.testing.assert_array_equal(first, second)
    window = x[0, cuts[0]:cuts[1], sides[0]:sides[1]]
    expected = window.max((0, 1)) if kind == "max" else window.mean((0, 1))
    np.testing.assert_allclose(first[0, 0, 0], expected, rtol=1e-6)
