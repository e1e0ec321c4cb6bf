"""L-BFGS over the data of all ranks."""

from __future__ import annotations

import numpy as np
from mpi4py import MPI

import hpcflow as hf
from hpcflow.contrib.opt import LBFGSOptimizer

WORLD = MPI.COMM_WORLD


def test_all_ranks_find_the_minimum_of_all_data():
    rng = np.random.RandomState(0)
    points, targets = rng.randn(24, 4), rng.randn(24)
    rank, size = WORLD.Get_rank(), WORLD.Get_size()
    with hf.Graph().as_default(), hf.Session() as session:
        w = hf.Variable(np.full([4], float(rank)))  # all begin with the values of rank 0
        residual = hf.reduce_sum(points[rank::size] * w, 1) - targets[rank::size]
        optimizer = LBFGSOptimizer(hf.reduce_sum(residual ** 2), reduction="sum",
                                   gradient_tolerance=1e-9, loss_tolerance=0)
        session.run(hf.global_variables_initializer())
        optimizer.minimize(session)
        found = session.run(w)
    np.testing.assert_allclose(found, np.linalg.lstsq(points, targets, rcond=None)[0], atol=1e-7)
    assert all(np.array_equal(found, other) for other in WORLD.allgather(found))
