"""Edges between ranks: compressed values, large values in pieces."""

from __future__ import annotations

import threading
from contextlib import contextmanager

import numpy as np
import pytest
from thresholds import lower

import hpcflow as hf
from hpcflow.comm import world


@contextmanager
def cluster():
    """(task, server) of this rank, all ranks workers; leaves when every rank is done."""
    from mpi4py import MPI

    task = hf.mpi.task(comm=MPI.COMM_WORLD.Dup())
    server = hf.train.Server(task.cluster, task.job, task.index)
    with hf.Graph().as_default():
        yield task, server
    server.join()


@pytest.mark.parametrize("shape", [[40_000], None])
def test_compressed_values(shape):
    with cluster() as (task, server):
        last = world.world().size - 1
        x = hf.placeholder(hf.float32, shape)
        with hf.device(f"/job:worker/task:{last}"):
            bits = hf.bitcast(x * 1.0, hf.int32)
        proto = hf.ConfigProto()
        proto.graph_options.enable_bfloat16_sendrecv = True
        values = np.random.RandomState(task.index).standard_normal(40_000).astype(np.float32)
        with hf.Session(server.target, config=proto) as session:
            for factor in (1.0, 3.0):
                sent = (values * np.float32(factor)).view(np.uint32)
                if task.index != last:
                    sent = sent & 0xFFFF0000
                got = session.run(bits, {x: values * np.float32(factor)})
                np.testing.assert_array_equal(got.view(np.uint32), sent)


def test_wrong_clusters_and_devices_on_every_rank():
    """Each rank gets the error, and the ranks go on."""
    size = world.world().size
    too_many = {"ps": [f"mpi://{i}" for i in range(size)], "worker": [f"mpi://{size}"]}
    if size > 1:
        with pytest.raises(hf.errors.InvalidArgumentError, match="at least as many ranks"):
            hf.train.Server(too_many, "ps", world.world().rank)
    with cluster() as (task, server):
        x = hf.placeholder(hf.float32, [2])
        with hf.device(f"/job:worker/task:{size}"):
            nowhere = x + 1.0
        with hf.device(f"/job:worker/task:{(task.index + 1) % size}"):
            huge = hf.zeros([1 << 22, 1 << 20]) + x[0]
            fine = x + 2.0
        with hf.Session(server.target) as session:
            with pytest.raises(hf.errors.InvalidArgumentError, match="Not in the cluster"):
                session.run(nowhere, {x: [1, 2]})
            with pytest.raises(hf.errors.ResourceExhaustedError, match="Out of memory"):
                session.run(hf.reduce_sum(huge + 1.0), {x: [1, 2]})
            np.testing.assert_array_equal(session.run(fine, {x: [1, 2]}), [3, 4])


def test_large_values_just_before_their_use(monkeypatch):
    """Parameters of other ranks, also in steps that fail before they are needed."""
    from hpcflow.runtime.cluster.receiving import Receiving

    lower(monkeypatch, "LATE_BYTES_PER_SECOND", "LATE_MESSAGE_SECONDS")
    late = []
    receive = Receiving._receive_late
    monkeypatch.setattr(Receiving, "_receive_late",
                        lambda *args: late.append(1) or receive(*args))
    with cluster() as (task, server):
        size = world.world().size
        x = hf.placeholder(hf.float32, [8, 300])
        checked = hf.check_numerics(x, "wrong")
        y = x
        for k in range(6):
            with hf.device(f"/job:worker/task:{(task.index + k) % size}"):
                w = hf.fill([300, 300], np.float32((k + 1) / 300)) + 0.0 * hf.reduce_sum(x)
            with hf.device(f"/job:worker/task:{task.index}"):
                y = hf.tanh(hf.matmul(y, w))
        with hf.device(f"/job:worker/task:{task.index}"):
            y += 0.0 * checked
        given = np.full([8, 300], 0.5, np.float32)
        wanted = given
        for k in range(6):
            wanted = np.tanh(wanted @ np.full([300, 300], (k + 1) / 300, np.float32))
        options = hf.RunOptions(timeout_in_ms=60_000)
        with hf.Session(server.target) as session:
            for _ in range(2):
                np.testing.assert_allclose(session.run(y, {x: given}, options), wanted, 1e-5)
                with pytest.raises(hf.errors.InvalidArgumentError, match="wrong"):
                    session.run(y, {x: given * np.float32(np.nan)}, options)
        assert bool(late) == (size > 1)


def test_masters_that_serve_each_other():
    """Every rank runs steps over all ranks at once, in several threads, small and large."""
    with cluster() as (task, server):
        size = world.world().size
        x = hf.placeholder(hf.float32, [None])
        y = x
        for shift in range(1, size + 1):
            with hf.device(f"/job:worker/task:{(task.index + shift) % size}"):
                y = hf.sqrt(hf.square(y)) + 1.0
        failures = []

        def work(session, count, length):
            try:
                values = np.arange(length, dtype=np.float32)
                for i in range(count):
                    np.testing.assert_allclose(session.run(y, {x: values + i}), values + i + size,
                                               rtol=1e-5)
            except Exception as e:  # noqa: BLE001
                failures.append(e)

        with hf.Session(server.target) as session:
            threads = [threading.Thread(target=work, args=(session, count, length))
                       for count, length in [(40, 3), (40, 5000), (5, 300_000)]]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(90)
            assert not any(thread.is_alive() for thread in threads)
        assert not failures, failures[0]


@pytest.mark.parametrize("share", [True, False])
def test_several_values_in_one_message(monkeypatch, share):
    """Numbers, short and long arrays of several types, made anew in every step, over shared memory
    or not; a step that fails in between leaves nothing behind."""
    from hpcflow.runtime.wire import shared_edges

    if not share:
        monkeypatch.setattr(shared_edges, "enter_room", lambda address: None)
    with cluster() as (task, server):
        last = world.world().size - 1
        x = hf.placeholder(hf.float32, [])
        limit = hf.placeholder(hf.int32, [])
        with hf.device(f"/job:worker/task:{last}"):
            with hf.control_dependencies([hf.Assert(hf.less(limit, 3), ["too many"])]):
                here = hf.identity(x)
            made = [here, here + hf.range(5, dtype=hf.float32), hf.fill([70, 100], here) * 2.0,
                    hf.cast(here, hf.int64) + hf.zeros([3, 3], hf.int64), here > 0.0,
                    hf.fill([3, 20_000], -here)]
        with hf.device(f"/job:worker/task:{task.index}"):
            back = [hf.identity(hf.negative(v)) if v.dtype != hf.bool else hf.logical_not(v)
                    for v in made]
        with hf.Session(server.target) as session:
            for i in range(5):
                value = np.float32(task.index + i)
                if i == 2:
                    with pytest.raises(hf.errors.InvalidArgumentError, match="too many"):
                        session.run(back, {x: value, limit: 3})
                got = session.run(back, {x: value, limit: i % 3})
                assert got[0] == -value and got[4] == (not value > 0)
                np.testing.assert_array_equal(got[1], -(value + np.arange(5, dtype=np.float32)))
                np.testing.assert_array_equal(got[2], np.full([70, 100], -2 * value))
                np.testing.assert_array_equal(got[3], np.full([3, 3], -int(value)))
                np.testing.assert_array_equal(got[5], np.full([3, 20_000], value))


def test_long_values_lie_in_memory_that_both_ranks_have(monkeypatch):
    """They are written there by who sends them; steps at the same time have their own."""
    from hpcflow.runtime.wire import shared_edges

    entered = []
    enter_room = shared_edges.enter_room
    monkeypatch.setattr(shared_edges, "enter_room",
                        lambda address: entered.append(enter_room(address)) or entered[-1])
    with cluster() as (task, server):
        last = world.world().size - 1
        x = hf.placeholder(hf.float32, [100, 100])
        with hf.device(f"/job:worker/task:{last}"):
            far = hf.negative(x)
        with hf.device(f"/job:worker/task:{task.index}"):
            back = far * 2.0
        with hf.Session(server.target) as session:
            def run(seed):
                values = np.random.RandomState(seed).standard_normal((100, 100))
                for _ in range(20):
                    got = session.run(back, {x: values})
                    np.testing.assert_array_equal(got, values.astype(np.float32) * -2)
                    values += 1

            threads = [threading.Thread(target=run, args=(10 * task.index + i,)) for i in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    assert all(memory is not None for memory in entered)
    if task.index != last:  # every step's lane has memory at both ends
        assert len(entered) >= 1
