"""Loops over ranks: values, gradients, several masters, failures. With one rank there is one task.

Every rank runs every test, and is a master of its own steps over all ranks at the same time.
"""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pytest
from async_ops import later
from running import timed_out
from speed import patience
from spread_loops import PROGRAMS, build, chain, expected

import hpcflow as hf

pytestmark = pytest.mark.ranks(4)

TIMEOUT = hf.RunOptions(timeout_in_ms=int(1000 * patience()))


@contextmanager
def session():
    """(devices beginning with the own, session) of this rank; leaves when every rank is done."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD.Dup()
    task = hf.mpi.task(comm=comm)
    server = hf.train.Server(task.cluster, task.job, task.index)
    count = task.cluster.num_tasks("worker")
    devices = [f"/job:worker/task:{(task.index + i) % count}" for i in range(count)]
    with hf.Graph().as_default(), hf.Session(server.target) as opened:
        yield devices, opened
    server.join()


def check(got, wanted):
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
@pytest.mark.parametrize("parallel", [1, 10])
def test_values_and_gradients(program, parallel):
    wanted = expected(program)
    with session() as (devices, opened):
        fetches, feeds = build(program, devices, parallel, colocate=True)
        for _ in range(3):
            check(opened.run(fetches, feeds, TIMEOUT), wanted)


@pytest.mark.parametrize("size", [10, 5000, 300000])
def test_a_loop_around_all_ranks(size):
    """Iterations overlap while messages of all sizes are under way."""
    with session() as (devices, opened):
        def body(i, a):
            for device in devices[::-1]:
                with hf.device(device):
                    a = later(a + 1.0)
            return i + 1, a

        out = hf.while_loop(lambda i, _: i < 20, body, [0, hf.zeros([size])])[1]
        np.testing.assert_array_equal(opened.run(out, options=TIMEOUT),
                                      np.full(size, 20.0 * len(devices)))


@pytest.mark.ranks(1)
def test_independent_work_on_every_rank():
    """Each rank works on a variable of its own; one decides for all."""
    with session() as (devices, opened):
        def body(i, *values):
            following = []
            for device, value in zip(devices, values):
                with hf.device(device):
                    following.append(value * 0.5 + hf.to_float(i))
            return [i + 1, *following]

        values = []
        for device in devices:
            with hf.device(device):
                values.append(hf.ones([4]))
        out = hf.while_loop(lambda i, *_: i < 30, body, [0, *values])
        one = 1.0
        for i in range(30):
            one = one * 0.5 + i
        for value in opened.run(out[1:], options=TIMEOUT):
            np.testing.assert_allclose(value, np.full(4, one), rtol=1e-6)


def test_failures_in_a_loop():
    wanted = expected(chain)
    with session() as (devices, opened):
        def body(i, a):
            with hf.device(devices[-1]):
                a = hf.check_numerics(a / hf.to_float(3 - i), "in the loop")
            with hf.device(devices[len(devices) // 2]):
                return i + 1, a + 1.0

        bad = hf.while_loop(lambda i, _: i < 10, body, [0, hf.ones([3000])])[1]
        fetches, feeds = build(chain, devices)
        for _ in range(5):
            with pytest.raises(hf.errors.InvalidArgumentError, match="in the loop"):
                opened.run(bad, options=TIMEOUT)
            check(opened.run(fetches, feeds, TIMEOUT), wanted)


def test_timeouts_in_a_loop():
    with session() as (devices, opened):
        with hf.device(devices[-1]):
            queue = hf.FIFOQueue(1, hf.float32, [[]])

        def body(i, a):
            with hf.device(devices[-1]):
                a = a + queue.dequeue()
            return i + 1, a

        out = hf.while_loop(lambda i, _: i < 10, body, [0, 0.0])[1]
        for _ in range(2):
            timed_out(opened, out, "QueueDequeueV2, in iteration 0 of loop")
        one = hf.constant(1.0)
        with hf.device(devices[0]):
            fill = hf.while_loop(
                lambda i: i < 10,
                lambda i: hf.tuple([i + 1], control_inputs=[queue.enqueue(one)])[0], [0])
        assert opened.run([out, fill], options=TIMEOUT) == [10.0, 10]
