"""Factors of a sparse matrix by alternating least squares: those of the reference (1.15.5)."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.contrib.factorization import WALSModel
from hpcflow.contrib.factorization.python.ops import factorization_ops

RNG = np.random.RandomState(0)
MATRIX = (RNG.randint(1, 6, (7, 5)) * (RNG.rand(7, 5) < 0.5)).astype(np.float32)
ROWS = np.random.RandomState(1).randn(7, 3).astype(np.float32)
COLUMNS = np.random.RandomState(2).randn(5, 3).astype(np.float32)
INDICES = np.argwhere(MATRIX)[np.random.RandomState(3).permutation(np.count_nonzero(MATRIX))]


def cut(values, shards):
    return values if shards == 1 else np.split(values, [-(-len(values) // 2)])


# shards of rows and columns, their weights, regularization; then what two rounds give: losses,
# regularizations and sums of weights of the steps over rows and columns, sums of absolute factors
# of rows and columns
CASES = [
    ((2, 2, 0.5, [[0.1, 0.2, 0.3], [0.4, 0.5]], 0.1),
     [2.6011, 5.2675, 6.6, 1.467, 5.2155, 6.6], [23.8576, 11.8073]),
    ((2, 1, None, None, 0.2),
     [2.6819, 5.6356, 3.5, 1.8302, 6.1185, 3.5], [15.9833, 12.2246]),
    ((1, 2, [1, 2, 3, 4, 5, 6, 7.0], 2.0, 0.3),
     [14.8439, 33.2603, 189.5, 11.4247, 33.0443, 189.5], [38.8677, 11.3733]),
]


def steps_of(model):
    given = hf.SparseTensor(INDICES, MATRIX[tuple(INDICES.T)], MATRIX.shape)
    turned = hf.SparseTensor(INDICES[:, ::-1].copy(), MATRIX[tuple(INDICES.T)], MATRIX.shape[::-1])
    return (model.update_row_factors(sp_input=given),
            model.update_col_factors(sp_input=turned, transpose_input=True))


@pytest.mark.parametrize(("arguments", "numbers", "sums"), CASES)
def test_factors_and_losses(arguments, numbers, sums):
    rows, columns, row_weights, col_weights, regularization = arguments
    with hf.Graph().as_default(), hf.Session() as session:
        model = WALSModel(7, 5, 3, 0.1, regularization, cut(ROWS, rows), cut(COLUMNS, columns),
                          rows, columns, row_weights, col_weights)
        row, column = steps_of(model)
        session.run([model.initialize_op])
        for _ in range(2):
            session.run(model.row_update_prep_gramian_op)
            found = session.run(row)
            session.run(model.col_update_prep_gramian_op)
            other = session.run(column)
        np.testing.assert_allclose([*found[2:], *other[2:]], numbers, rtol=1e-4)
        np.testing.assert_allclose([np.abs(found[0]).sum(), np.abs(other[0]).sum()], sums,
                                   rtol=1e-4)
        kept = np.concatenate(session.run(model.col_factors))
        order = list(dict.fromkeys(INDICES[:, 1]))
        np.testing.assert_allclose(kept[order], other[0], rtol=1e-5)


def test_a_projection_is_a_step_that_keeps_the_factors():
    with hf.Graph().as_default(), hf.Session() as session:
        model = factorization_ops.WALSModel(7, 5, 3, row_init=ROWS, col_init=lambda: COLUMNS)
        given = hf.SparseTensor(INDICES, MATRIX[tuple(INDICES.T)], MATRIX.shape)
        step = model.update_row_factors(sp_input=given)[0]
        one, several = (model.project_row_factors(sp_input=given, projection_weights=weights)
                        for weights in (None, [1.0] * 7))
        session.run([model.initialize_op, model.worker_init])
        session.run(model.row_update_prep_gramian_op)
        session.run(model.initialize_row_update_op)
        expected = session.run(step)
        for found in session.run([one, several]):
            np.testing.assert_allclose(found, expected, rtol=1e-6)
        assert np.array_equal(session.run(model.row_factors[0]), ROWS)


@pytest.mark.parametrize("arguments", [{"row_weights": None}, {"col_weights": -1.0},
                                       {"row_weights": [1.0, 2.0]},
                                       {"num_row_shards": 2, "row_init": [ROWS]}])
def test_forms_that_do_not_fit(arguments):
    with hf.Graph().as_default(), pytest.raises(ValueError, match="WALSModel"):
        WALSModel(7, 5, 3, **arguments)
