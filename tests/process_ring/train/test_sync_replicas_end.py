"""Synchronous replicas that end, early or late, in all styles of use: those that wait go on."""

from __future__ import annotations

import threading
import time

import pytest
from replicas import cluster
from speed import patience

import hpcflow as hf


class Worker(threading.Thread):
    """One replica that makes a number of steps of its own."""

    def __init__(self, spec, server, index, steps, style):
        super().__init__(daemon=True)
        self.spec, self.server, self.index, self.steps = spec, server, index, steps
        self.style, self.done, self.error = style, 0, None

    def run(self):
        self.chief = self.index == 0
        device = hf.train.replica_device_setter(
            cluster=self.spec, worker_device=f"/job:worker/task:{self.index}")
        try:
            with hf.Graph().as_default(), hf.device(device):
                self.step = hf.train.get_or_create_global_step()
                w = hf.Variable(hf.zeros([3]))
                self.opt = hf.train.SyncReplicasOptimizer(
                    hf.train.GradientDescentOptimizer(0.1), 2, 2)
                self.train = self.opt.minimize(
                    hf.reduce_sum(hf.square(w - 1.0)), global_step=self.step)
                self.init = hf.global_variables_initializer()
                getattr(self, self.style)()
        except Exception as e:  # noqa: BLE001
            self.error = e

    def work(self, session, should_stop=lambda: False):
        while self.done < self.steps and not should_stop():
            session.run(self.train)
            self.done += 1

    def monitored(self):
        hook = self.opt.make_session_run_hook(self.chief)
        with hf.train.MonitoredTrainingSession(
                self.server.target, self.chief, hooks=[hook]) as session:
            self.work(session, session.should_stop)

    def supervised(self):
        local = self.opt.chief_init_op if self.chief else self.opt.local_step_init_op
        tokens, runner = self.opt.get_init_tokens_op(), self.opt.get_chief_queue_runner()
        supervisor = hf.train.Supervisor(
            is_chief=self.chief, init_op=self.init, local_init_op=local, global_step=self.step,
            ready_for_local_init_op=self.opt.ready_for_local_init_op, recovery_wait_secs=0.05)
        session = supervisor.prepare_or_wait_for_session(
            self.server.target, start_standard_services=False)
        if self.chief:
            supervisor.start_queue_runners(session, [runner])
            session.run(tokens)
        self.work(session, supervisor.should_stop)
        supervisor.stop()  # and the session stays open, as in many programs

    def own_loop(self):
        tokens, runner = self.opt.get_init_tokens_op(), self.opt.get_chief_queue_runner()
        missing = hf.report_uninitialized_variables(hf.global_variables())
        with hf.Session(self.server.target) as session:
            if self.chief:
                session.run(self.init)
            while session.run(missing).size:
                time.sleep(0.01)
            session.run(self.opt.chief_init_op if self.chief else self.opt.local_step_init_op)
            if self.chief:
                runner.create_threads(session, hf.train.Coordinator(), start=True)
                session.run(tokens)
            self.work(session)


@pytest.mark.parametrize("steps", [(5, 5), (3, 8), (8, 3)])
@pytest.mark.parametrize("style", ["monitored", "supervised", "own_loop"])
def test_who_ends_releases_who_waits(style, steps):
    with cluster(2) as (spec, servers):
        workers = [Worker(spec, servers["worker", i], i, steps[i], style) for i in (0, 1)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(patience())
        assert not any(w.is_alive() for w in workers), [w.done for w in workers]
    for worker in workers:
        # When the chief closes its session there are no more updates: an end like that of data. It
        # may have taken tokens of both before, if the other one was slow.
        ended = style == "own_loop" and steps != (8, 3) and not worker.chief
        assert worker.error is None or ended and isinstance(
            worker.error, hf.errors.OutOfRangeError), worker.error
    assert workers[0].done == steps[0]
    assert style != "supervised" or workers[1].done == steps[1]
