"""Collective operations: values, types and shapes, gradients, disagreement, failure."""

from __future__ import annotations

import re
import threading
import time

import gradcheck
import numpy as np
import pytest
from collective_cases import deliver, part, run_all
from replicas import run_replicas, values
from thresholds import lower

import hpcflow as hf
from hpcflow import config
from hpcflow.comm import reduction
from hpcflow.host import tuning

SIZES = [1, 2, 3, 4]
RNG = np.random.default_rng(7)


# ---------------------------------------------------------------- values


@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("reduction", ["sum", "mean", "min", "max"])
def test_allreduce(count, reduction):
    got = run_all(count, lambda i: hf.mpi.allreduce(hf.constant(part(i)), reduction))
    whole = np.stack([part(i) for i in range(count)])
    want = getattr(np, reduction)(whole, 0)
    for value in got:
        np.testing.assert_allclose(value, want, rtol=1e-6)
        np.testing.assert_array_equal(value, got[0])


@pytest.mark.parametrize("length", [0, 1, 2, 7, 8192, 300_001])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_lengths(count, length):
    got = run_all(count, lambda i: hf.mpi.allreduce(
        hf.constant(np.arange(length, dtype=np.float64)) * float(i + 1)))
    want = np.arange(length) * float(count * (count + 1) // 2)
    for value in got:
        np.testing.assert_array_equal(value, want)


def test_many_blocks(monkeypatch):
    lower(monkeypatch, "REDUCE_SEGMENT_BYTES")
    got = run_all(3, lambda i: hf.mpi.allreduce(hf.constant(part(i, (9973,)))))
    np.testing.assert_allclose(got[2], sum(part(i, (9973,)) for i in range(3)), rtol=1e-5,
                               atol=1e-6)


def test_a_list_travels_together():
    shapes = [(3,), (), (2, 2), (0, 4)]
    got = run_all(2, lambda i: hf.mpi.allreduce(
        [hf.constant(part(i + k, s)) for k, s in enumerate(shapes)]))
    for k, shape in enumerate(shapes):
        assert got[0][k].shape == shape
        np.testing.assert_allclose(got[0][k], part(k, shape) + part(k + 1, shape), rtol=1e-6)


def test_results_are_not_overwritten_by_later_steps():
    def program(index, target):
        x = hf.placeholder(hf.float32, [50_000])
        total = hf.mpi.allreduce(x)
        kept = hf.Variable(hf.zeros([50_000]))
        keep = hf.assign(kept, total)
        with hf.Session(target) as session:
            session.run(kept.initializer)
            first = session.run(total, {x: np.full(50_000, index + 1)})
            session.run(keep.op, {x: np.full(50_000, 10)})
            session.run(total, {x: np.zeros(50_000)})
            return first, session.run(kept)

    for first, kept in values(run_replicas(2, program)):
        assert (first == 3).all() and (kept == 20).all()


@pytest.mark.parametrize("count", SIZES)
def test_broadcast(count):
    root = count - 1
    got = run_all(count, lambda i: [
        hf.mpi.broadcast(hf.constant(part(i)), root),
        hf.mpi.broadcast(hf.constant(i), root),
        hf.mpi.broadcast(hf.constant(part(i, (70_000,))), root)])
    for a, b, c in got:
        np.testing.assert_array_equal(a, part(root))
        np.testing.assert_array_equal(c, part(root, (70_000,)))
        assert b == root


@pytest.mark.parametrize("count", SIZES)
def test_allgather_of_different_rows(count):
    got = run_all(count, lambda i: hf.mpi.allgather(hf.constant(part(i, (i, 3)))))
    want = np.concatenate([part(i, (i, 3)) for i in range(count)])
    for value in got:
        np.testing.assert_array_equal(value, want)


@pytest.mark.parametrize("count", SIZES)
def test_reduce_scatter(count):
    rows = 2 * count
    got = run_all(count, lambda i: hf.mpi.reduce_scatter(hf.constant(part(i, (rows, 2))), "mean"))
    want = np.mean([part(i, (rows, 2)) for i in range(count)], 0)
    np.testing.assert_allclose(np.concatenate(got), want, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("count", SIZES)
def test_alltoall(count):
    data = [np.arange(count * 2) + 100 * i for i in range(count)]
    got = run_all(count, lambda i: hf.mpi.alltoall(hf.constant(data[i])))
    for i, value in enumerate(got):
        np.testing.assert_array_equal(
            value, np.concatenate([d[2 * i : 2 * i + 2] for d in data]))


def test_barrier_waits_for_all():
    came = []

    def program(index, target):
        op = hf.mpi.barrier()
        with hf.Session(target) as session:
            session.run(op)
            time.sleep(0.1 * index)
            came.append(index)
            session.run(op)
            return len(came)

    assert values(run_replicas(3, program)) == [3, 3, 3]


def test_unknown_shapes():
    def program(index, target):
        x = hf.placeholder(hf.float32)
        fetches = [hf.mpi.allreduce(x), hf.mpi.broadcast(x, 1), hf.mpi.alltoall(x)]
        with hf.Session(target) as session:
            for rows in (2, 4, 40_000):
                total, one, mixed = session.run(fetches, {x: part(index, (rows, 2))})
                np.testing.assert_allclose(total, part(0, (rows, 2)) + part(1, (rows, 2)),
                                           rtol=1e-5, atol=1e-6)
                np.testing.assert_array_equal(one, part(1, (rows, 2)))
                assert mixed.shape == (rows, 2)

    values(run_replicas(2, program))


def test_one_master_for_all_tasks():
    """In one graph: a collective operation on each task, in a step of one session."""
    spec = {"worker": ["one-a:1", "one-b:1", "one-c:1"]}
    servers = [hf.train.Server(spec, "worker", i) for i in range(3)]
    try:
        with hf.Graph().as_default():
            x = hf.placeholder(hf.float32, [4])
            totals = []
            for i in range(3):
                with hf.device(f"/job:worker/task:{i}"):
                    totals.append(hf.mpi.allreduce(x * float(i + 1)))
            with hf.Session(servers[1].target) as session:
                for k in range(3):
                    for total in session.run(totals, {x: np.full(4, k)}):
                        np.testing.assert_array_equal(total, np.full(4, 6 * k))
    finally:
        for server in servers:
            server._server.close()


def test_two_levels_are_one_sum():
    """Members on two nodes: reduced within the node, then across."""
    from hpcflow.runtime.collective.collective_parts import Layout
    from hpcflow.runtime.collective.collective_work import Allreduce

    nodes = [[0, 2], [1, 3]]
    data = [part(i, (20_001,)) for i in range(4)]
    works = [Allreduce(Layout(i, nodes), "mean", np.dtype(np.float32), [(20_001,)])
             for i in range(4)]
    assert all(w.layout.levels is not None for w in works)
    jobs = [w.open([d]) for w, d in zip(works, data, strict=True)]
    deliver([job.lanes[0] for job in jobs])
    for job in jobs:
        [value] = job.result()
        np.testing.assert_allclose(value, np.mean(data, 0), rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(value, jobs[0].result()[0])


@pytest.mark.parametrize("nodes", [[[0, 1, 2]], [[0, 2], [1, 3]]])
@pytest.mark.parametrize("length", [50_001, 9_001])
def test_shared_memory_gives_the_same_bits(monkeypatch, nodes, length):
    from hpcflow.comm import shared_memory
    from hpcflow.runtime.collective.collective_parts import Layout
    from hpcflow.runtime.collective.collective_work import Allreduce

    monkeypatch.setattr(tuning.comm, "REDUCE_SEGMENT_BYTES", 1 << 15)  # several blocks
    count = sum(map(len, nodes))
    data = [part(i, (length,)) for i in range(count)]
    works = [Allreduce(Layout(i, nodes), "mean", np.dtype(np.float32), [(length,)])
             for i in range(count)]
    rooms = [shared_memory.Room(w.room_sizes[list(w.layout.local).index(w.layout.me)])
             for w in works]
    arrays = [w.share([shared_memory.enter_room(rooms[k].address) for k in w.layout.local])
              for w in works]
    results = []
    for shared, keeps in ((False, True), (True, False), (True, True), (True, True), (True, False)):
        jobs = [w.open([d]) for w, d in zip(works, data, strict=True)]
        for job, parts in zip(jobs, arrays, strict=True):
            job.shared = parts if shared else None
        for lane in range(works[0].lanes):
            most = 1 if shared and len(nodes) == 1 else None
            deliver([job.lanes[lane] for job in jobs], most)
        found = [job.result()[0] for job in jobs]
        np.testing.assert_array_equal(np.stack(found), np.stack([found[0]] * count))
        results += found if keeps else [value.copy() for value in found]
    for value in results:
        np.testing.assert_array_equal(value, results[0])
    np.testing.assert_allclose(results[0], np.mean(data, 0), rtol=1e-5, atol=1e-6)


def test_rooms_in_memory(monkeypatch):
    from hpcflow import config
    from hpcflow.comm import shared_memory

    monkeypatch.setattr(shared_memory, "_made", 0)
    monkeypatch.setattr(config.flags, "shared_bytes", 10_000)
    room, rest = shared_memory.make_room(6_000), shared_memory.make_room(6_000)
    assert (room.nbytes, rest.nbytes) == (6_000, 4_000)
    assert shared_memory.make_room(1) is None
    theirs = shared_memory.enter_room(room.address)
    theirs[7] = 3
    assert room.memory[7] == 3
    pid, number, token, nbytes = room.address
    for wrong in ([pid, number, "00" * 16, nbytes], [pid, number, token, nbytes + 1],
                  [pid, 10**6, token, nbytes], rest.address[:2] + room.address[2:]):
        assert shared_memory.enter_room(wrong) is None
    room.shut(used=True)
    rest.shut(used=False)
    assert shared_memory.enter_room(room.address) is None
    assert shared_memory.make_room(6_000).nbytes == 4_000


def test_the_tree_is_the_same_for_every_cut():
    for leaves in (1, 2, 6, 8, 12):
        names = {(0, i): str(i) for i in range(leaves)}
        whole = reduction.join(names, leaves, lambda a, b: f"({a}{b})")
        for ranks in range(1, leaves + 1):
            if leaves % ranks == 0:
                count = leaves // ranks
                nodes = [n for r in range(ranks)
                         for n in reduction.cover(r * count, (r + 1) * count, leaves)]
                given = {n: reduction.join(names, leaves, lambda a, b: f"({a}{b})", n)
                         for n in nodes}
                assert reduction.join(given, leaves, lambda a, b: f"({a}{b})") == whole


# ---------------------------------------------------------------- what the builders refuse


def test_refusals():
    with hf.Graph().as_default():
        x = hf.constant([1.0])
        with pytest.raises(ValueError, match="reduction must be one of"):
            hf.mpi.allreduce(x, "product")
        with pytest.raises(TypeError, match="no mean of bool"):
            hf.mpi.allreduce(hf.constant([True]), "mean")
        with pytest.raises(TypeError, match="no sum of bool"):
            hf.mpi.reduce_scatter(hf.constant([True]))
        with pytest.raises(TypeError, match="no max of complex64"):
            hf.mpi.allreduce(hf.constant([1j], hf.complex64), "max")
        with pytest.raises(ValueError, match="got a scalar"):
            hf.mpi.allgather(hf.constant(1.0))
        with pytest.raises(ValueError, match="reduction must be one of"):
            hf.mpi.allreduce(hf.IndexedSlices(x, hf.constant([0])), "product")
        with pytest.raises(TypeError, match="no max of complex64"):
            hf.mpi.allreduce(hf.IndexedSlices(hf.constant([1j], hf.complex64), hf.constant([0])),
                             "max")
        root = hf.mpi.broadcast(x, 3)
        with hf.Session() as session, pytest.raises(hf.errors.InvalidArgumentError, match="root 3"):
            session.run(root)


def test_static_shapes():
    with hf.Graph().as_default():
        x = hf.placeholder(hf.float32, [6, 2])
        assert hf.mpi.allreduce(x).shape.as_list() == [6, 2]
        assert hf.mpi.broadcast(x).shape.as_list() == [6, 2]
        assert hf.mpi.alltoall(x).shape.as_list() == [6, 2]
        assert hf.mpi.allgather(x).shape.as_list() == [None, 2]
        assert hf.mpi.reduce_scatter(x).shape.as_list() == [None, 2]
        assert hf.mpi.allreduce(hf.placeholder(hf.float32)).shape.ndims is None


# ---------------------------------------------------------------- gradients


@pytest.mark.parametrize("build", [
    lambda x: hf.mpi.allreduce(x), lambda x: hf.mpi.allreduce(x, "mean"),
    lambda x: hf.mpi.allreduce(x, "max"), lambda x: hf.mpi.broadcast(x),
    lambda x: hf.mpi.allgather(x), lambda x: hf.mpi.reduce_scatter(x),
    lambda x: hf.mpi.reduce_scatter(x, "mean"), lambda x: hf.mpi.reduce_scatter(x, "min"),
    lambda x: hf.mpi.alltoall(x)])
def test_gradients_of_one_rank(build):
    gradcheck.check_gradient(lambda x: build(x) * x, RNG.standard_normal((4, 2)))


@pytest.mark.parametrize(("build", "rows"), [
    (lambda x: hf.mpi.allreduce(x), None), (lambda x: hf.mpi.allreduce(x, "mean"), None),
    (lambda x: hf.mpi.allreduce(x, "min"), None), (lambda x: hf.mpi.broadcast(x, 1), None),
    (lambda x: hf.mpi.allgather(x), "different"), (lambda x: hf.mpi.reduce_scatter(x), None),
    (lambda x: hf.mpi.reduce_scatter(x, "mean"), None),
    (lambda x: hf.mpi.reduce_scatter(x, "max"), None), (lambda x: hf.mpi.alltoall(x), None)])
def test_gradients_across_ranks(build, rows):
    """The gradient of the sum over ranks of each rank's loss, against difference quotients."""
    data = [part(i, (4 + (i if rows else 0), 2), np.float64) for i in range(2)]

    def program(index, target):
        x = hf.placeholder(hf.float64, data[index].shape)
        y = build(x)
        weights = hf.cast(hf.range(hf.size(y)) + 1 + index, hf.float64)
        loss = hf.reduce_sum(hf.reshape(hf.square(y), [-1]) * weights)
        total = hf.mpi.allreduce(loss)
        gradient = hf.gradients(loss, x)[0]
        quotients = []
        with hf.Session(target) as session:
            exact = session.run(gradient, {x: data[index]})
            for rank in range(2):
                for position in range(data[rank].size):
                    ends = []
                    for sign in (1, -1):
                        moved = data[index].copy()
                        if rank == index:
                            moved.flat[position] += sign * 1e-6
                        ends.append(session.run(total, {x: moved}))
                    if rank == index:
                        quotients.append((ends[0] - ends[1]) / 2e-6)
        np.testing.assert_allclose(exact.ravel(), quotients, rtol=1e-5, atol=1e-6)

    values(run_replicas(2, program))


# ---------------------------------------------------------------- disagreement and failure


def errors_of(results):
    assert all(isinstance(r, hf.errors.OpError) for r in results), results
    return [str(r) for r in results]


@pytest.mark.parametrize(("first", "second", "parts"), [
    (lambda: hf.mpi.allreduce(hf.ones([3])), lambda: hf.mpi.allreduce(hf.ones([4])),
     ["float32[3]", "float32[4]", "rank"]),
    (lambda: hf.mpi.allreduce(hf.ones([3])), lambda: hf.mpi.allreduce(hf.ones([3], hf.float64)),
     ["float32[3]", "float64[3]"]),
    (lambda: hf.mpi.allreduce(hf.ones([3]), name="one"), lambda: hf.mpi.barrier("two"),
     ["'one' (MpiAllreduce", "'two' (MpiBarrier"]),
    (lambda: hf.mpi.allreduce(hf.ones([3])), lambda: hf.mpi.allreduce(hf.ones([3]), "max"),
     ["sum float32[3]", "max float32[3]"])])
def test_ranks_that_do_different_things(first, second, parts):
    def program(index, target):
        fetch = second() if index else first()
        with hf.Session(target) as session:
            session.run(fetch)

    for text in errors_of(run_replicas(2, program, close=False)):
        for wanted in parts:
            assert wanted in text, text


def test_shapes_that_differ_at_run_time():
    def program(index, target):
        x = hf.placeholder(hf.float32, [None, 2])
        total = hf.mpi.allreduce(x)
        with hf.Session(target) as session:
            with pytest.raises(hf.errors.InvalidArgumentError, match=r"\[3,2\] on rank"):
                session.run(total, {x: np.ones((2 + index, 2))})
            return session.run(total, {x: np.ones((2, 2))})  # the group is as before

    for value in values(run_replicas(2, program)):
        np.testing.assert_array_equal(value, np.full((2, 2), 2))


def test_another_step_of_the_group():
    """Both steps are known to all; then the ranks run different ones."""
    def program(index, target):
        one, two = hf.mpi.allreduce(hf.ones([3]), name="one"), hf.mpi.allgather(
            hf.ones([2]), name="two")
        with hf.Session(target) as session:
            session.run(one)
            session.run(two)
            session.run(two if index else one)

    for text in errors_of(run_replicas(2, program, close=False)):
        assert "'one'" in text and "'two'" in text, text


def test_a_rank_that_has_finished():
    def program(index, target):
        total = hf.mpi.allreduce(hf.ones([3]), name="lonely")
        with hf.Session(target) as session:
            session.run(total)
            if index:
                raise ValueError  # its server is closed
            session.run(total)

    error, _ = run_replicas(2, program)
    assert isinstance(error, hf.errors.FailedPreconditionError)
    assert "lonely" in str(error) and "finished" in str(error)


def test_stragglers_are_waited_for():
    def program(index, target):
        total = hf.mpi.allreduce(hf.ones([3]))
        with hf.Session(target) as session:
            session.run(total)
            time.sleep(2.5 * index)
            return session.run(total)[0]

    assert values(run_replicas(2, program)) == [2, 2]


def test_a_rank_that_does_not_come_in_time(capfd):
    ready, left = threading.Barrier(2), threading.Event()

    def program(index, target):
        total = hf.mpi.allreduce(hf.ones([3]), name="late")
        with hf.Session(target) as session:
            session.run(total)
            ready.wait()
            if index:
                left.wait()
                with pytest.raises(hf.errors.AbortedError, match="late"):
                    session.run(total)
            else:
                config.flags.reload({"HPCFLOW_COLLECTIVE_TIMEOUT": "4",
                                     "HPCFLOW_STALL_SECONDS": "0.2"})
                with pytest.raises(hf.errors.DeadlineExceededError, match=r"late.*waited for rank"):
                    session.run(total)
                config.flags.reload()
                left.set()
            return session.run(total)[0]  # the next step works

    try:
        assert values(run_replicas(2, program)) == [2, 2]
    finally:
        config.flags.reload()
    report = capfd.readouterr().err
    assert "collective operation 'late'" in report
    assert re.search(r"received from rank \d+: 'late' \(12 bytes, ", report)
    assert re.search(r"sent to rank \d+: 'late' \(12 bytes, ", report)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("length", [3, 200_000])
def test_a_failing_step_fails_everywhere_and_the_next_works(length, known):
    def program(index, target):
        x = hf.placeholder(hf.float32, [length] if known else None)
        bad = hf.placeholder(hf.bool, [])
        check = hf.Assert(hf.logical_not(bad), ["rank failed on purpose"])
        with hf.control_dependencies([check]):
            y = hf.identity(x)
        both = hf.mpi.allreduce(x), hf.mpi.allreduce(y, name="second")
        with hf.Session(target) as session:
            feed = {x: np.ones(length), bad: False}
            for turn in range(4):
                failing = turn % 2 == 1
                if failing and index == 1:
                    with pytest.raises(hf.errors.InvalidArgumentError, match="on purpose"):
                        session.run(both, {**feed, bad: True})
                elif failing:
                    with pytest.raises(hf.errors.AbortedError, match=r"rank .*on purpose"):
                        session.run(both, feed)
                else:
                    assert session.run(both, feed)[1][-1] == 3

    values(run_replicas(3, program))


def test_the_end_of_the_data_of_one_rank_is_the_end_for_all():
    def program(index, target):
        queue = hf.FIFOQueue(10, [hf.float32], [[]])
        fill, close = queue.enqueue_many([hf.ones([3 + 2 * index])]), queue.close()
        total = hf.mpi.allreduce(queue.dequeue())
        steps = 0
        with hf.Session(target) as session:
            session.run(fill)
            session.run(close)
            with pytest.raises(hf.errors.OutOfRangeError):
                while True:
                    assert session.run(total) == 2
                    steps += 1
        return steps

    assert values(run_replicas(2, program)) == [3, 3]


def test_a_failure_in_the_first_step():
    """Before the ranks have compared what they run."""
    def program(index, target):
        x = hf.placeholder(hf.float32, [None])
        total = hf.mpi.allreduce(hf.check_numerics(x, "not a number"))
        with hf.Session(target) as session:
            with pytest.raises(hf.errors.OpError, match="not a number"):
                session.run(total, {x: [np.nan if index else 1.0]})
            return session.run(total, {x: [1.0]})[0]

    assert values(run_replicas(2, program)) == [2, 2]


def test_timeouts_of_steps():
    over = threading.Event()

    def program(index, target):
        total = hf.mpi.allreduce(hf.ones([3]))
        options = hf.RunOptions(timeout_in_ms=300)
        with hf.Session(target) as session:
            session.run(total)
            if index:
                over.wait()
                with pytest.raises(hf.errors.AbortedError):
                    session.run(total)
            else:
                with pytest.raises(hf.errors.DeadlineExceededError):
                    session.run(total, options=options)
                over.set()
            return session.run(total)[0]

    assert values(run_replicas(2, program)) == [2, 2]


def test_concurrent_steps_are_refused():
    """Of two steps of a rank one waits for the other rank, which comes when one is refused."""
    refused = threading.Event()

    def program(index, target):
        x = hf.placeholder(hf.float32, [2])
        total = hf.mpi.allreduce(x)
        outcomes = []
        with hf.Session(target) as session:
            session.run(total, {x: [1, 1]})

            def run():
                try:
                    outcomes.append(session.run(total, {x: [1, 1]})[0])
                except hf.errors.FailedPreconditionError as error:
                    outcomes.append(str(error))
                    refused.set()

            if index == 0:
                threads = [threading.Thread(target=run) for _ in range(2)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
            else:
                refused.wait()
                run()
        return outcomes

    first, second = values(run_replicas(2, program))
    assert "run at once" in first[0] and [*first[1:], *second] == [2, 2]


def test_branches_that_differ():
    """One rank's step ends without the operation."""
    def program(index, target):
        take = hf.placeholder(hf.bool, [])
        y = hf.cond(take, lambda: hf.mpi.allreduce(hf.ones([2]), name="inside"),
                    lambda: hf.zeros([2]))
        with hf.Session(target) as session:
            session.run(y, {take: True})
            session.run(y, {take: False})
            return session.run(y, {take: index == 0})

    first, second = run_replicas(2, program, close=False)
    assert isinstance(first, hf.errors.FailedPreconditionError)
    assert "inside" in str(first) and "without it" in str(first)
    assert isinstance(second, np.ndarray)


def test_a_branch_that_is_taken_one_step_later(monkeypatch):
    """The operation of a later step is not taken for that of an earlier one: both are named."""
    def program(index, target):
        take, x = hf.placeholder(hf.bool, []), hf.placeholder(hf.float32, [2])
        y = hf.cond(take, lambda: hf.mpi.allreduce(x, name="inside"), lambda: hf.zeros([2]))
        found = []
        with hf.Session(target) as session:
            for number in range(4):
                try:
                    found.append(session.run(y, {
                        take: number != (1 if index else 2), x: [number, number]}).tolist())
                except hf.errors.FailedPreconditionError as error:
                    found.append(str(error))
        return found

    monkeypatch.setattr(tuning.runtime, "COLLECTIVE_ASK_SECONDS", 1000.0)
    first, second = values(run_replicas(2, program))
    assert first[0] == second[0] == [0, 0] and first[3] == second[3] == [6, 6]
    assert second[1] == [0, 0] and first[2] == [0, 0], (first, second)
    for message, step in (first[1], 1), (second[2], 2):
        assert f"of step {step} of its group" in message and f"of step {step + 1}:" in message


def test_branches_that_all_leave_out():
    """Any steps may do without an operation, if they do so everywhere."""
    def program(index, target):
        take, x = hf.placeholder(hf.bool, []), hf.placeholder(hf.float32, [2])
        y = hf.cond(take, lambda: hf.mpi.allreduce(x, name="inside"), lambda: hf.zeros([2]))
        with hf.Session(target) as session:
            return [session.run(y, {take: number % 3 == 0, x: [number, index]}).tolist()
                    for number in range(20)]

    first, second, third = values(run_replicas(3, program))
    assert first == second == third
    assert first == [[3 * n, 3] if n % 3 == 0 else [0, 0] for n in range(20)]
