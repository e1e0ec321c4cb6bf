"""Synchronous replicas: averages, backup workers, the end, errors; a cluster in one process."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from replicas import TRUTH, batch, cluster, serial
from speed import patience

import hpcflow as hf


class Replica:
    """One worker: its graph and its training loop."""

    def __init__(self, spec, server, index, needed, total, last_step=None, rows=None,
                 num_tokens=-1, seed=0, group=None):
        self.server, self.index, self.rows = server, index, rows
        self.batch = batch(seed)
        self.graph = hf.Graph()
        self.steps = 0
        self.error = None
        with self.graph.as_default(), hf.device(hf.train.replica_device_setter(
                cluster=spec, worker_device=f"/job:worker/task:{index}")):
            self.step = hf.train.get_or_create_global_step()
            self.x = hf.placeholder(hf.float32, [None, 3])
            self.y = hf.placeholder(hf.float32, [None, 1])
            self.w = hf.Variable(hf.zeros([3, 1]), name="w")
            loss = hf.reduce_mean(hf.square(hf.matmul(self.x, self.w) - self.y))
            optimizer = hf.train.SyncReplicasOptimizer(
                hf.train.GradientDescentOptimizer(0.1), needed, total, group=group)
            self.train_op = optimizer.minimize(loss, global_step=self.step)
            leads = index == 0 if group is None else index % total == 0
            self.hooks = [optimizer.make_session_run_hook(leads, num_tokens)]
            if last_step is not None:
                self.hooks.append(hf.train.StopAtStepHook(last_step=last_step))

    def train(self):
        try:
            with self.graph.as_default(), hf.train.MonitoredTrainingSession(
                    self.server.target, self.index == 0, hooks=self.hooks) as session:
                feed = dict(zip((self.x, self.y), self.batch, strict=True))
                while not session.should_stop() and self.steps != self.rows:
                    session.run(self.train_op, feed)
                    self.steps += 1
        except Exception as e:  # noqa: BLE001
            self.error = e


def run_together(replicas):
    threads = [threading.Thread(target=r.train) for r in replicas]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(patience())
    assert not any(t.is_alive() for t in threads), "a replica hangs"
    for replica in replicas:
        assert replica.error is None, replica.error


def values(replica):
    with replica.graph.as_default(), hf.Session(replica.server.target) as session:
        return session.run([replica.step, replica.w])


@pytest.mark.parametrize("num_tokens", [-1, 0])
def test_the_average_of_equal_gradients_is_serial_descent(num_tokens):
    with cluster(2) as (spec, servers):
        replicas = [Replica(spec, servers["worker", i], i, 2, 2, last_step=20,
                            num_tokens=num_tokens) for i in (0, 1)]
        run_together(replicas)
        steps, w = values(replicas[0])
        assert 20 <= steps <= 22
        np.testing.assert_allclose(w, serial(int(steps)), rtol=1e-4, atol=1e-6)


def test_different_data_and_backup_workers():
    with cluster(3) as (spec, servers):
        replicas = [Replica(spec, servers["worker", i], i, 2, 3, last_step=150, seed=i)
                    for i in range(3)]
        run_together(replicas)
        steps, w = values(replicas[0])
        assert steps >= 150
        np.testing.assert_allclose(w, TRUTH, atol=0.02)


def test_more_gradients_than_replicas():
    with cluster(1) as (spec, servers):
        replica = Replica(spec, servers["worker", 0], 0, 3, 1, last_step=5)
        run_together([replica])
        steps, w = values(replica)
        assert steps >= 5 and replica.steps >= 3 * 5 - 3
        np.testing.assert_allclose(w, serial(int(steps)), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("rows", [(3, 9), (9, 3)])
def test_data_that_ends_at_different_times(rows):
    with cluster(2) as (spec, servers):
        replicas = [Replica(spec, servers["worker", i], i, 2, 2, rows=rows[i]) for i in (0, 1)]
        run_together(replicas)
        assert replicas[0].steps == rows[0]
        # A second training on the same servers.
        again = [Replica(spec, servers["worker", i], i, 2, 2, last_step=3) for i in (0,)]
        run_together(again)


class Supervised(Replica):
    """A replica whose program has a Supervisor, as those of the first versions."""

    def train(self):
        try:
            with self.graph.as_default():
                optimizer, chief = self.hooks[0]._sync_optimizer, self.index == 0
                runner, tokens = optimizer.get_chief_queue_runner(), optimizer.get_init_tokens_op()
                init = optimizer.chief_init_op if chief else optimizer.local_step_init_op
                supervisor = hf.train.Supervisor(
                    is_chief=chief, saver=None, recovery_wait_secs=0.1, local_init_op=init,
                    ready_for_local_init_op=optimizer.ready_for_local_init_op)
            feed = dict(zip((self.x, self.y), self.batch, strict=True))
            with supervisor.managed_session(self.server.target) as session:
                if chief:
                    supervisor.start_queue_runners(session, [runner])
                    session.run(tokens)
                while not supervisor.should_stop() and self.steps != self.rows:
                    session.run(self.train_op, feed)
                    self.steps += 1
        except Exception as e:  # noqa: BLE001
            self.error = e


@pytest.mark.parametrize("rows", [(3, 9), (9, 3)])
def test_supervised_replicas_whose_data_ends_at_different_times(rows):
    with cluster(2) as (spec, servers):
        replicas = [Supervised(spec, servers["worker", i], i, 2, 2, rows=rows[i]) for i in (0, 1)]
        run_together(replicas)
        assert replicas[0].steps == rows[0]


def test_what_waits_for_the_chief_finishes_its_step():
    with cluster(2) as (spec, servers):
        chief, other = (Replica(spec, servers["worker", i], i, 2, 2, num_tokens=0) for i in (0, 1))
        optimizer = chief.hooks[0]._sync_optimizer
        with chief.graph.as_default():
            start = [hf.global_variables_initializer(), optimizer.chief_init_op,
                     optimizer.get_init_tokens_op(0)]
        with hf.Session(other.server.target, graph=other.graph) as session:
            with hf.Session(chief.server.target, graph=chief.graph) as leading:
                for op in start:
                    leading.run(op)
                optimizer.get_chief_queue_runner().create_threads(leading, start=True)
                session.run(other.hooks[0]._sync_optimizer.local_step_init_op)
                feed = dict(zip((other.x, other.y), other.batch, strict=True))
                waiting = threading.Thread(target=session.run, args=(other.train_op, feed))
                waiting.start()
                waiting.join(0.3)
                assert waiting.is_alive()
                while optimizer._sync_op not in {p.begin for p in leading._partings._due}:
                    waiting.join(0.01)
            waiting.join(patience())
            assert not waiting.is_alive()


def test_slim_trains_synchronously(tmp_path):
    losses = {}

    def train(index, target, spec):
        slim = hf.contrib.slim
        with hf.Graph().as_default(), hf.device(hf.train.replica_device_setter(
                cluster=spec, worker_device=f"/job:worker/task:{index}")):
            counter = hf.get_variable("calls", [], hf.int32, hf.zeros_initializer(),
                                      collections=[hf.GraphKeys.LOCAL_VARIABLES])
            w = hf.Variable(hf.ones([3]), name="w")
            with hf.control_dependencies([hf.assign_add(counter, 1)]):
                loss = hf.reduce_sum(hf.square(w))
            optimizer = hf.train.SyncReplicasOptimizer(
                hf.train.GradientDescentOptimizer(0.1), 2, 2)
            train_op = slim.learning.create_train_op(loss, optimizer)
            losses[index] = slim.learning.train(
                train_op, str(tmp_path), master=target, is_chief=index == 0, number_of_steps=10,
                sync_optimizer=optimizer)

    with cluster(2) as (spec, servers):
        threads = [threading.Thread(target=train, args=(i, servers["worker", i].target, spec))
                   for i in (1, 0)]
        threads[0].start()
        threads[0].join(0.5)  # the worker waits for the chief to initialize
        threads[1].start()
        for thread in threads:
            thread.join(patience())
        assert not any(t.is_alive() for t in threads), "a replica hangs"
    assert set(losses) == {0, 1} and all(0 < loss < 1 for loss in losses.values()), losses


def test_groups_are_synchronous_within_and_do_not_wait_for_each_other():
    with cluster(4) as (spec, servers):
        replicas = [Replica(spec, servers["worker", i], i, 2, 2, last_step=20, group=(i // 2, 2))
                    for i in range(4)]
        run_together(replicas[:2])  # the other group has not begun
        steps, w = values(replicas[0])
        assert 20 <= steps <= 22
        np.testing.assert_allclose(w, serial(int(steps)), rtol=1e-4, atol=1e-6)
        later = [Replica(spec, servers["worker", i], i, 2, 2, last_step=300, seed=i,
                         group=(i // 2, 2)) for i in range(4)]
        run_together(later)  # both, and on different data
        steps, w = values(later[0])
        assert steps >= 300
        np.testing.assert_allclose(w, TRUTH, atol=0.02)


def test_sparse_gradients_and_averages():
    with cluster(1) as (spec, servers):
        graph = hf.Graph()
        with graph.as_default(), hf.device(hf.train.replica_device_setter(
                cluster=spec, worker_device="/job:worker/task:0")):
            step = hf.train.get_or_create_global_step()
            table = hf.Variable(np.zeros((5, 2), np.float32), name="table")
            loss = hf.reduce_sum(hf.gather(table, [1, 3, 3]))
            averages = hf.train.ExponentialMovingAverage(0.0)
            optimizer = hf.train.SyncReplicasOptimizer(
                hf.train.MomentumOptimizer(1.0, 0.5), 1, variable_averages=averages,
                variables_to_average=[table])
            train_op = optimizer.minimize(loss, global_step=step)
            assert optimizer.get_slot_names() == ["momentum"]
            assert optimizer.get_slot(table, "momentum") is not None
            assert optimizer.get_slot(table, "momentum") in optimizer.variables()
            hooks = [optimizer.make_session_run_hook(True, 0)]
            with hf.train.MonitoredTrainingSession(servers["worker", 0].target,
                                                   hooks=hooks) as session:
                session.run(train_op)
                expected = np.zeros((5, 2))
                expected[1], expected[3] = -1, -2
                np.testing.assert_array_equal(session.run(table), expected)
                session.run(train_op)
                np.testing.assert_array_equal(session.run(table)[[1, 3]], [[-2.5] * 2, [-5] * 2])


def test_wrong_use():
    with hf.Graph().as_default():
        v = hf.Variable(1.0)
        optimizer = hf.train.SyncReplicasOptimizer(hf.train.GradientDescentOptimizer(0.1), 3, 1)
        with pytest.raises(ValueError, match="Global step is required"):
            optimizer.minimize(v * 2.0)
        with pytest.raises(ValueError, match="at least one variable"):
            optimizer.apply_gradients([])
        with pytest.raises(ValueError, match=r"group=\(2, 2\): expected"):
            hf.train.SyncReplicasOptimizer(hf.train.GradientDescentOptimizer(0.1), 1, group=(2, 2))
        for call in (optimizer.get_init_tokens_op, optimizer.get_chief_queue_runner,
                     optimizer.make_session_run_hook(True).begin):
            with pytest.raises(ValueError, match="after apply_gradients"):
                call()
        optimizer.minimize(v * 2.0, global_step=hf.train.get_or_create_global_step())
        with pytest.raises(ValueError, match="Too few tokens"):
            optimizer.get_init_tokens_op(1)
        assert isinstance(optimizer.get_chief_queue_runner(), hf.train.QueueRunner)
