"""Random graphs over ranks: every rank is a master of other graphs at the same time."""

from __future__ import annotations

import pytest
from random_check import SPREAD, Cluster, check, devices_of

import hpcflow as hf

GRAPHS = 4


@pytest.mark.parametrize("form", SPREAD, ids=["compiled", "node by node"])
def test_random_graphs(form):
    from mpi4py import MPI

    comm = MPI.COMM_WORLD.Dup()
    task = hf.mpi.task(comm=comm)
    server = hf.train.Server(task.cluster, task.job, task.index,
                             config=hf.ConfigProto(device_count={"CPU": 2}))
    count = task.cluster.num_tasks("worker")
    cluster = Cluster(server.target, devices_of(count, 2))
    for seed in range(GRAPHS):
        check(1000 + GRAPHS * task.index + seed, (), cluster, (form,))
    server.join()
