"""Synchronous replicas over MPI: parameter servers, workers, backup workers, uneven data."""

from __future__ import annotations

import time
from contextlib import contextmanager

import numpy as np
import pytest
from replicas import TRUTH, batch, serial
from speed import patience

import hpcflow as hf


@contextmanager
def cluster():
    """(task, server) of this rank on a duplicate of the world; leaves when every rank is done."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD.Dup()
    ps = min(comm.size // 2, 2)
    task = hf.mpi.task(jobs={"ps": ps} if ps else {}, comm=comm)
    server = hf.train.Server(task.cluster, task.job, task.index)
    with hf.Graph().as_default():
        yield task, server
    server.join()


class Model:
    """Linear regression with synchronous replicas, as every worker builds it."""

    def __init__(self, task, needed, total, group=None):
        with hf.device(hf.train.replica_device_setter(
                cluster=task.cluster, worker_device=f"/job:worker/task:{task.index}")):
            self.step = hf.train.get_or_create_global_step()
            self.finished = hf.Variable(0, name="finished", trainable=False)
            self.x = hf.placeholder(hf.float32, [None, 3])
            self.y = hf.placeholder(hf.float32, [None, 1])
            self.w = hf.Variable(hf.zeros([3, 1]), name="w")
            loss = hf.reduce_mean(hf.square(hf.matmul(self.x, self.w) - self.y))
            optimizer = hf.train.SyncReplicasOptimizer(
                hf.train.GradientDescentOptimizer(0.1), needed, total, group=group)
            self.train_op = optimizer.minimize(loss, global_step=self.step)
            leads = task.index == 0 if group is None else task.index % total == 0
            self.hook = optimizer.make_session_run_hook(leads)
            self.finish = hf.assign_add(self.finished, 1, use_locking=True).op

    def train(self, task, server, data, hooks=(), rows=-1):
        """Train on `data` until a hook stops, or for `rows` steps; the number of steps."""
        steps = 0
        feed = dict(zip((self.x, self.y), data, strict=True))
        with hf.train.MonitoredTrainingSession(
                server.target, task.index == 0, hooks=[self.hook, *hooks]) as session:
            while not session.should_stop() and steps != rows:
                session.run(self.train_op, feed)
                steps += 1
        return steps

    def result(self, task, server):
        """(global step, weights) once every worker has finished."""
        with hf.Session(server.target) as session:
            session.run(self.finish)
            deadline = time.monotonic() + patience()
            while session.run(self.finished) < task.cluster.num_tasks("worker"):
                assert time.monotonic() < deadline
                time.sleep(0.01)
            return session.run([self.step, self.w])


@pytest.mark.ranks(1)
def test_equal_batches_are_serial_descent():
    with cluster() as (task, server):
        if task.job == "ps":
            return
        workers = task.cluster.num_tasks("worker")
        model = Model(task, workers, workers)
        model.train(task, server, batch(0), [hf.train.StopAtStepHook(last_step=30)])
        if task.cluster.num_tasks("worker") == 1 and "ps" not in task.cluster.jobs:
            return  # a session without a cluster owns its variables
        step, w = model.result(task, server)
        assert step >= 30
        np.testing.assert_allclose(w, serial(int(step)), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("backups", [0, 1])
def test_training_with_backup_workers(backups):
    with cluster() as (task, server):
        if task.job == "ps":
            return
        workers = task.cluster.num_tasks("worker")
        model = Model(task, max(workers - backups, 1), workers)
        hooks = [hf.train.StopAtStepHook(last_step=200)]
        steps = model.train(task, server, batch(task.index), hooks)
        # With a backup worker the others may have made all steps before one of them begins.
        assert steps > 0 or backups
        if "ps" not in task.cluster.jobs:
            return
        step, w = model.result(task, server)
        assert step >= 200
        np.testing.assert_allclose(w, TRUTH, atol=0.02)


def test_asynchronous_groups_of_synchronous_replicas():
    with cluster() as (task, server):
        if task.job == "ps":
            return
        workers = task.cluster.num_tasks("worker")
        each = workers // 2 or 1
        count = workers // each
        if task.index >= each * count:
            return
        model = Model(task, each, each, (task.index // each, count))
        hooks = [hf.train.StopAtStepHook(last_step=200)]
        steps = model.train(task, server, batch(task.index), hooks)
        assert steps > 0 or count > 1  # another group may have made all steps before
        if "ps" not in task.cluster.jobs or each * count < workers:
            return
        step, w = model.result(task, server)
        assert step >= 200
        np.testing.assert_allclose(w, TRUTH, atol=0.02)


@pytest.mark.parametrize("chief_first", [True, False])
def test_workers_run_out_of_data_at_different_times(chief_first):
    with cluster() as (task, server):
        if task.job == "ps":
            return
        workers = task.cluster.num_tasks("worker")
        model = Model(task, workers, workers)
        rows = 4 + 3 * (task.index if chief_first else workers - task.index)
        steps = model.train(task, server, batch(0), rows=rows)
        # The chief ends by its own data; its end ends the others, however far they have come, since
        # a replica that is ahead may give more than one gradient to a step.
        assert steps == rows if task.index == 0 else 0 <= steps <= rows
