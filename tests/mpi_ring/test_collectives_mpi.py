"""Collective operations over MPI: sessions of ranks without a cluster, training, one writer."""

from __future__ import annotations

import gc
import time
import weakref
from pathlib import Path

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.comm import world
from hpcflow.host.tuning import runtime as tuning

pytestmark = pytest.mark.ranks(4)


@pytest.fixture
def ranks():
    """(rank, size), in a graph of its own."""
    here = world.world()
    with hf.Graph().as_default():
        yield here.rank, here.size


def part(index, shape=(5, 3), dtype=np.float32):
    return np.random.default_rng(index).standard_normal(shape).astype(dtype)


@pytest.mark.ranks(1)
def test_ranks(ranks):
    assert (hf.mpi.rank(), hf.mpi.size()) == ranks
    assert (hf.mpi.local_rank(), hf.mpi.local_size()) == ranks  # one node


@pytest.mark.parametrize("length", [0, 1, 1000, 100_003, 3_000_000])
@pytest.mark.parametrize("reduction", ["sum", "mean", "max"])
def test_allreduce(ranks, length, reduction):
    rank, size = ranks
    x = hf.placeholder(hf.float32, [length])
    total = hf.mpi.allreduce(x, reduction)
    want = getattr(np, reduction)([part(i, (length,)) for i in range(size)], 0)
    with hf.Session() as session:
        for _ in range(3):
            got = session.run(total, {x: part(rank, (length,))})
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_steps_for_shapes_that_come_often_wait_for_no_rank(ranks, monkeypatch):
    """A rank that would compile its step again for the shape of a feed, before the others."""
    rank, size = ranks
    monkeypatch.setattr(tuning, "SHAPES_WORTH", 1e9 if rank else 0.0)
    x = hf.placeholder(hf.float32, [None])
    total = hf.mpi.allreduce(x)
    with hf.Session() as session:
        for _ in range(tuning.SHAPES_FEWEST_RUNS + 2):
            assert session.run(total, {x: [1.0, rank]}).tolist() == [size, sum(range(size))]


def test_results_do_not_wait_for_the_collector_of_cycles(ranks):
    total = hf.mpi.allreduce(hf.random_normal([1000]))
    with hf.Session() as session:
        session.run(total)
        gc.collect()
        gc.disable()
        try:
            result = weakref.ref(session.run(total))
            assert result() is None
        finally:
            gc.enable()


def test_means_of_integers_and_extremes_of_slices(ranks):
    """Short and long, and in the memory that ranks share."""
    rank, size = ranks
    data = [np.random.default_rng(i).integers(-128, -100, 300_001).astype(np.int8)
            for i in range(size)]
    x = hf.constant(data[rank])
    slices = hf.IndexedSlices(hf.constant([[rank], [-rank]]), hf.constant([0, rank + 1]))
    most = hf.mpi.allreduce(slices, "max")
    fetches = [hf.mpi.allreduce(x, "mean"), hf.mpi.allreduce(x[:5], "mean"), most.indices,
               most.values]
    want = -(-np.sum(data, 0, dtype=np.int64) // size)
    with hf.Session() as session:
        for _ in range(2):
            long, short, rows, values = session.run(fetches)
            np.testing.assert_array_equal(long, want)
            np.testing.assert_array_equal(short, want[:5])
            assert dict(zip(rows.tolist(), values[:, 0].tolist(), strict=True)) == {
                0: size - 1, **{i + 1: -i for i in range(size)}}


def test_all_operations_in_one_step(ranks):
    rank, size = ranks
    rows = 2 * size
    x = hf.constant(part(rank, (rows, 3)))
    half = hf.cast(x, hf.bfloat16)
    fetches = [hf.mpi.broadcast(x, size - 1), hf.mpi.allgather(x[: rank + 1]),
               hf.mpi.reduce_scatter(x), hf.mpi.alltoall(x), hf.mpi.allreduce(half, "max")]
    data = [part(i, (rows, 3)) for i in range(size)]
    with hf.control_dependencies(fetches):
        last = hf.mpi.barrier()
    with hf.Session() as session:
        for _ in range(3):
            (one, gathered, scattered, mixed, _), _ = session.run([fetches, last])
            np.testing.assert_array_equal(one, data[-1])
            np.testing.assert_array_equal(
                gathered, np.concatenate([d[: i + 1] for i, d in enumerate(data)]))
            mine = slice(2 * rank, 2 * rank + 2)
            np.testing.assert_allclose(scattered, np.sum(data, 0)[mine], rtol=1e-5, atol=1e-6)
            np.testing.assert_array_equal(mixed, np.concatenate([d[mine] for d in data]))


def model():
    """Linear regression on a placeholder of rows: (x, y, variables, loss)."""
    x = hf.placeholder(hf.float32, [None, 3])
    y = hf.placeholder(hf.float32, [None, 1])
    w = hf.Variable(part(5, (3, 1)), name="w")
    b = hf.Variable(hf.zeros([1]), name="b")
    return x, y, [w, b], hf.reduce_mean(hf.square(hf.matmul(x, w) + b - y))


@pytest.mark.ranks(1)
def test_training_is_that_of_the_whole_batch(ranks):
    rank, size = ranks
    x, y, variables, loss = model()
    optimizer = hf.mpi.DistributedOptimizer(hf.train.MomentumOptimizer(0.1, 0.9))
    train = optimizer.minimize(loss)
    alone = hf.train.MomentumOptimizer(0.1, 0.9, name="alone").minimize(loss)
    data = part(0, (4 * size, 3)), part(1, (4 * size, 1))
    mine = slice(4 * rank, 4 * rank + 4)
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        for _ in range(10):
            session.run(train, {x: data[0][mine], y: data[1][mine]})
        got = session.run(variables)
        session.run(hf.global_variables_initializer())
        for _ in range(10):
            session.run(alone, {x: data[0], y: data[1]})
        for a, b in zip(got, session.run(variables), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


@pytest.mark.ranks(1)
def test_monitored_training_with_one_writer(ranks, tmp_path_factory):
    """Every rank passes the same arguments; rank 0 restores, saves, and all follow it."""
    rank, _ = ranks
    from mpi4py import MPI

    path = Path(MPI.COMM_WORLD.bcast(
        str(tmp_path_factory.mktemp("checkpoints")) if rank == 0 else None))
    w = hf.Variable(hf.fill([3], float(rank + 1)), name="w")
    step = hf.train.get_or_create_global_step()
    optimizer = hf.mpi.DistributedOptimizer(hf.train.GradientDescentOptimizer(1.0))
    train = optimizer.minimize(hf.reduce_sum(w) * float(rank), global_step=step)
    mean = np.mean(range(hf.mpi.size()))
    for turn in range(2):
        hooks = [hf.mpi.BroadcastVariablesHook(0), hf.train.StopAtStepHook(num_steps=4)]
        with hf.train.MonitoredTrainingSession(
                is_chief=rank == 0, checkpoint_dir=str(path), hooks=hooks,
                save_summaries_steps=None) as session:
            for _ in range(3):
                session.run(train)
            seen = session.run([w, step])
            session.run(train)
            assert session.should_stop()
        MPI.COMM_WORLD.Barrier()  # the checkpoint is there
        assert seen[1] == 4 * turn + 3
        np.testing.assert_allclose(seen[0], np.full(3, 1 - mean * (4 * turn + 3)), rtol=1e-5)
    saved = hf.train.latest_checkpoint(str(path))
    assert saved is not None and saved.endswith("-8")
    reader = hf.train.NewCheckpointReader(saved)
    np.testing.assert_allclose(reader.get_tensor("w"), np.full(3, 1 - mean * 8), rtol=1e-5)


def test_workers_of_a_cluster():
    """Replicas that are workers beside parameter servers reduce among themselves."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD.Dup()
    ps = {"ps": 1} if comm.size > 1 else {}
    task = hf.mpi.task(jobs=ps, comm=comm)
    server = hf.train.Server(task.cluster, task.job, task.index)
    if task.job == "worker":
        workers = task.cluster.num_tasks("worker")
        with hf.Graph().as_default(), hf.device(f"/job:worker/task:{task.index}"):
            total = hf.mpi.allreduce(hf.constant(float(task.index + 1)))
            with hf.Session(server.target) as session:
                for _ in range(3):
                    assert session.run(total) == workers * (workers + 1) / 2
    server.join()


@pytest.mark.parametrize("ranks_of_slices", [1, 2, 4])
def test_equal_bits_for_every_number_of_ranks(ranks_of_slices):
    """Eight slices on as many of the ranks as there are, compared with those of one rank."""
    from mpi4py import MPI

    everyone = MPI.COMM_WORLD
    if ranks_of_slices > everyone.size:
        pytest.skip("needs more ranks")
    comm = everyone.Split(everyone.rank < ranks_of_slices)
    if everyone.rank < ranks_of_slices:
        alone = trained(MPI.COMM_SELF.Dup())
        together = trained(comm)
        for a, b in zip(alone, together, strict=True):
            np.testing.assert_array_equal(a, b)
    everyone.Barrier()


def trained(comm):
    """Variables after some reproducible steps on the ranks of `comm`."""
    slices, rows = 8, 4
    task = hf.mpi.task(comm=comm)
    server = hf.train.Server(task.cluster, task.job, task.index)
    count = slices * rows // comm.size
    with hf.Graph().as_default(), hf.device(f"/job:worker/task:{task.index}"):
        x = hf.placeholder(hf.float32, [count, 20])
        y = hf.placeholder(hf.float32, [count, 1])

        def loss(images, labels):
            shape = hf.random_normal_initializer(seed=3)
            w = hf.get_variable("w", [20, 16], initializer=shape)
            v = hf.get_variable("v", [16, 1], initializer=shape)
            return hf.reduce_mean(hf.square(hf.matmul(hf.tanh(hf.matmul(images, w)), v) - labels))

        optimizer = hf.mpi.DistributedOptimizer(
            hf.train.AdamOptimizer(0.01), slices=slices, place=(task.index, comm.size))
        train = optimizer.minimize(loss, inputs=[x, y])
        data = part(8, (slices * rows, 20)), part(9, (slices * rows, 1))
        mine = slice(count * task.index, count * (task.index + 1))
        with hf.Session(server.target) as session:
            session.run(hf.global_variables_initializer())
            for _ in range(5):
                session.run(train, {x: data[0][mine], y: data[1][mine]})
            result = session.run(hf.global_variables())
    server.join()
    return result


def test_a_failing_step_fails_on_all_ranks(ranks):
    rank, size = ranks
    x = hf.placeholder(hf.float32, [300_000])
    total = hf.mpi.allreduce(hf.check_numerics(x, "bad number"))
    good, bad = np.ones(300_000), np.full(300_000, np.nan)
    with hf.Session() as session:
        for _ in range(3):
            assert session.run(total, {x: good})[-1] == size
            kind = hf.errors.InvalidArgumentError if rank == 0 else hf.errors.AbortedError
            with pytest.raises(kind, match="bad number"):
                session.run(total, {x: good if rank else bad})


def test_stragglers_are_waited_for(ranks):
    rank, size = ranks
    total = hf.mpi.allreduce(hf.constant(1))
    with hf.Session() as session:
        session.run(total)
        time.sleep(1.6 * (rank == size - 1))
        assert session.run(total) == size


def reduced_in_rooms():
    """For each schedule so far, which of its operations share memory."""
    from hpcflow.runtime.cluster import server

    groups = server.mpi_network().collectives()._groups.values()
    return [[r is not None for r in agreement.rooms]
            for group in groups for agreement in group._agreements.values()]


def test_a_failed_step_leaves_shared_memory_usable(ranks, monkeypatch):
    rank, size = ranks
    from hpcflow.comm import shared_memory

    monkeypatch.setattr(shared_memory, "_made", 0)
    length = 300_001
    x = hf.placeholder(hf.float32, [length])
    fine = hf.placeholder(hf.bool, [])
    with hf.control_dependencies([hf.Assert(fine, ["no"])]):
        later = x + 1.0
    totals = [hf.mpi.allreduce(x, name="first_in_rooms"), hf.mpi.allreduce(later, name="second")]
    with hf.Session() as session:
        for turn in range(6):
            bad = turn % 2 == 1
            feeds = {x: part(rank, (length,)) * (turn + 1), fine: not bad or rank < size - 1}
            if bad:
                with pytest.raises(hf.errors.OpError):
                    session.run(totals, feeds)
                continue
            got = session.run(totals, feeds)
            want = sum(part(i, (length,)) for i in range(size)) * (turn + 1)
            np.testing.assert_allclose(got[0], want, rtol=1e-4, atol=1e-4)
            np.testing.assert_allclose(got[1], want + size, rtol=1e-4, atol=1e-4)
    assert size == 1 or [True, True] in reduced_in_rooms()


def test_what_is_kept_of_a_result_in_shared_memory_stays_as_it_was(ranks):
    """In a variable that is updated, in what is fetched and written to, and in a queue."""
    rank, size = ranks
    length = 300_001
    x = hf.placeholder(hf.float32, [length])
    pair = hf.mpi.allreduce([x, x * 2.0], name="kept_in_rooms")
    v = hf.get_variable("kept", [length], initializer=hf.zeros_initializer())
    taken = hf.assign(v, pair[0])
    queue = hf.FIFOQueue(10, hf.float32, shapes=[[length]])
    put = queue.enqueue(pair[1])
    with hf.control_dependencies([taken]):
        moved = hf.assign_add(v, hf.fill([length], float(rank)))
    total = sum(part(i, (length,)) for i in range(size))
    with hf.Session() as session:
        session.run(v.initializer)
        for turn in range(1, 6):
            fetches = [pair[0], moved.op, *[put] * (turn in (2, 3) and rank == size - 1)]
            got = session.run(fetches, {x: part(rank, (length,)) * turn})[0]
            np.testing.assert_allclose(got, turn * total, rtol=1e-4, atol=1e-4)
            got[:] = -1
            np.testing.assert_allclose(session.run(v), turn * total + rank, rtol=1e-4, atol=1e-3)
        for turn in (2, 3) if rank == size - 1 else ():
            np.testing.assert_allclose(session.run(queue.dequeue()), 2 * turn * total, rtol=1e-4,
                                       atol=1e-4)
    assert size == 1 or [True] in reduced_in_rooms()


@pytest.mark.parametrize("alone", [True, False])
def test_gradients_are_made_where_they_are_reduced(ranks, monkeypatch, alone):
    """Those that nothing else reads: what is fetched, or read twice, has memory of its own."""
    from hpcflow.runtime.collective.collective_run import Operation

    rank, size = ranks
    given = []
    plain = Operation.place

    def place(self, index):
        found = plain(self, index)
        given.append((self.name, index, found is not None))
        return found

    monkeypatch.setattr(Operation, "place", place)
    x = hf.placeholder(hf.float32, [200, 300])
    name = f"in_place_{alone}"
    products = [hf.matmul(x, x, transpose_a=True), hf.matmul(x, x * 2.0, transpose_a=True),
                hf.matmul(x, x + 1.0, transpose_a=True)]
    twice = hf.reduce_sum(products[1])
    if alone:
        reduced = [hf.mpi.allreduce(p, name=name) for p in products]
    else:
        reduced = hf.mpi.allreduce(products, name=name)
    with hf.Session() as session:
        for turn in range(1, 6):
            parts = [part(i, (200, 300)) * turn for i in range(size)]
            got, total, kept = session.run([reduced, twice, products[2]], {x: parts[rank]})
            wanted = [[p.T @ p, p.T @ (p * 2), p.T @ (p + 1)] for p in parts]
            for value, *all_of in zip(got, *wanted, strict=True):
                np.testing.assert_allclose(value, np.sum(all_of, 0), rtol=1e-3, atol=1e-2)
            np.testing.assert_allclose(total, wanted[rank][1].sum(), rtol=1e-3)
            np.testing.assert_allclose(kept, wanted[rank][2], rtol=1e-3, atol=1e-2)
    assert [index for _, index, _ in given] == [0] * 5 * (size > 1)
    assert size == 1 or given[-1][-1]


@pytest.mark.parametrize("reduction", ["sum", "mean", "max"])
def test_ranks_of_two_nodes_reduce_in_two_levels(monkeypatch, reduction):
    """As if every second rank were on another node."""
    from mpi4py import MPI

    from hpcflow.runtime.cluster.endpoint import Endpoint

    monkeypatch.setattr(Endpoint, "nodes_of", lambda self, ranks: [
        [i for i in range(len(ranks)) if i % 2 == node] for node in (0, 1) if node < len(ranks)])
    task = hf.mpi.task(comm=MPI.COMM_WORLD.Dup())
    server = hf.train.Server(task.cluster, task.job, task.index)
    with hf.Graph().as_default(), hf.device(f"/job:worker/task:{task.index}"):
        total = hf.mpi.allreduce(hf.constant(part(task.index, (3, 400_001))), reduction)
        with hf.Session(server.target) as session:
            want = getattr(np, reduction)([part(i, (3, 400_001)) for i in range(task.size)], 0)
            for _ in range(3):
                np.testing.assert_allclose(session.run(total), want, rtol=1e-5, atol=1e-6)
        levels = [g.layout.levels for g in server._server.endpoint.collectives._groups.values()]
        assert any(found is not None for found in levels) == (task.size >= 4)
    server.join()
