"""Synchronous replicas in any order of events: each push, take, update and token is a step."""

from __future__ import annotations

import random

import numpy as np
import pytest

import hpcflow as hf

SCHEDULES = 10
EVENTS = 70


class Replica:
    """One replica between two events.

    Attributes:
        pushes: the ops that hand its gradients in; `left` those that it has not run in this step.
        next_token: takes the token of its next step.
        leave: hands its token back, as its hook does at the end.
    """

    def __init__(self, train_op, optimizer):
        token = train_op.op.inputs[1].op
        assert token.type == "QueueDequeueV2"
        self.pushes = list(token.control_inputs)
        self.left = list(self.pushes)
        self.next_token = hf.assign(optimizer._local_step, optimizer._token_queue.dequeue())
        self.leave = optimizer._token_queue.enqueue(optimizer._local_step.value())


class Protocol:
    """Replicas of two dense variables and one with sparse gradients, whose gradients are all 1."""

    def __init__(self, replicas, needed, total, num_tokens):
        self.needed = needed
        with hf.Graph().as_default() as graph:
            self.step = hf.train.get_or_create_global_step()
            variables = [hf.Variable(0.0), hf.Variable([0.0, 0.0]), hf.Variable([0.0, 0.0, 0.0])]
            loss = (variables[0] + hf.reduce_sum(variables[1])
                    + hf.reduce_sum(hf.gather(variables[2], [0, 2])))
            optimizers = [hf.train.SyncReplicasOptimizer(
                hf.train.GradientDescentOptimizer(1.0), needed, total) for _ in range(replicas)]
            self.replicas = [Replica(o.minimize(loss, self.step), o) for o in optimizers]
            chief = optimizers[0]
            self.takes = [op.outputs for op in graph.get_operations()
                          if op.type.endswith("AccumulatorTakeGradient")][:len(variables)]
            self.counts = [a.num_accumulated() for a, _ in chief._accumulators]
            self.tokens = chief._token_queue.size()
            self.update = chief._sync_op
            self.values = [v.value() for v in variables]
            self.taken = {}  # accumulator -> its average, of the update that is under way
            start = [hf.global_variables_initializer(), hf.local_variables_initializer()]
            start += [o.local_step_init_op for o in optimizers]
            start += [chief.chief_init_op, chief.get_init_tokens_op(num_tokens)]
            self.session = hf.Session()
            for op in start:
                self.session.run(op)

    def events(self, running):
        """What may happen next, as calls; `running` are the replicas that run steps."""
        counts, tokens = self.session.run([self.counts, self.tokens])
        found = [lambda i=i: self.take(i) for i, count in enumerate(counts)
                 if i not in self.taken and count >= self.needed]
        if len(self.taken) == len(self.takes):
            found.append(self.finish)
        for replica in running:
            found += [lambda r=replica, op=op: self.push(r, op) for op in replica.left]
            if not replica.left and tokens:
                found.append(lambda r=replica: self.go_on(r))
        return found

    def take(self, i):
        self.taken[i] = self.session.run(list(self.takes[i]))

    def finish(self):
        feeds = {}
        for i, values in self.taken.items():
            feeds |= dict(zip(self.takes[i], values, strict=True))
        self.session.run(self.update, feeds)
        self.taken = {}

    def push(self, replica, op):
        self.session.run(op)
        replica.left.remove(op)

    def go_on(self, replica):
        self.session.run(replica.next_token.op)
        replica.left = list(replica.pushes)

    def check_values(self):
        """Every update was by an average of gradients that are 1, in all variables alike."""
        step, (a, b, c) = self.session.run([self.step, self.values])
        np.testing.assert_array_equal(np.hstack([a, b, c]),
                                      -step * np.float32([1, 1, 1, 1, 0, 1]))
        return step


@pytest.mark.parametrize("replicas, needed, total, num_tokens", [
    (2, 2, 2, -1), (2, 2, 2, 0), (3, 3, 3, -1), (3, 2, 3, -1), (3, 2, 3, 0), (1, 3, 1, 2),
    (2, 3, 2, -1)])
@pytest.mark.parametrize("leaving", [False, True])
def test_something_can_always_happen(replicas, needed, total, num_tokens, leaving):
    for seed in range(SCHEDULES):
        rng = random.Random(seed)
        protocol = Protocol(replicas, needed, total, num_tokens)
        running = list(protocol.replicas)
        with protocol.session:
            for number in range(EVENTS):
                if leaving and len(running) > 1 and not rng.randrange(20):
                    replica = rng.choice(running)
                    if replica.left == replica.pushes:  # between two steps
                        protocol.session.run(replica.leave)
                        running.remove(replica)
                events = protocol.events(running)
                assert events, f"seed {seed}: after {number} events everybody waits"
                rng.choice(events)()
            assert protocol.check_values() > 0, f"seed {seed}"


def test_a_replica_that_runs_no_steps_is_waited_for_until_it_leaves():
    protocol = Protocol(2, 2, 2, 0)
    stopped, other = protocol.replicas

    def run(replicas, limit):
        """Let what can happen do so, one after the other; whether there is more."""
        for _ in range(limit):
            events = protocol.events(replicas)
            if not events:
                return False
            events[0]()
        return True

    with protocol.session:
        assert not run([other], 10) and protocol.check_values() == 0
        for op in stopped.pushes:
            protocol.push(stopped, op)
        assert not run([], 10) and protocol.check_values() == 1
        protocol.go_on(stopped)  # and now it stops, with its token
        assert not run([other], 50)
        before = protocol.check_values()
        assert protocol.session.run(protocol.counts) == [1, 1, 1]
        protocol.session.run(stopped.leave)
        assert run([other], 50) and protocol.check_values() > before
