"""Clusters of ranks: parameter servers, sessions of several masters, errors, the end of a job.

Every test runs on all ranks and makes a cluster of its own on a duplicate of the world. With one
rank the only task is a worker, and the same bodies run over no network at all.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest
from speed import patience

import hpcflow as hf
from hpcflow import config
from hpcflow.comm import world


@contextmanager
def cluster(ps: int | None = None):
    """(task, server) of this rank; leaves when every rank is done."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD.Dup()
    ps = min(comm.size // 2, 2) if ps is None else ps
    task = hf.mpi.task(jobs={"ps": ps} if comm.size > 1 and ps else {}, comm=comm)
    server = hf.train.Server(task.cluster, task.job, task.index)
    with hf.Graph().as_default():
        yield task, server
    server.join()


def setter(task):
    return hf.train.replica_device_setter(
        cluster=task.cluster, worker_device=f"/job:worker/task:{task.index}")


def workers(task) -> int:
    return task.cluster.num_tasks("worker")


def wait_initialized(session, variables) -> None:
    deadline = time.monotonic() + patience()
    while True:
        try:
            session.run(variables)
            return
        except hf.errors.FailedPreconditionError:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def wait_for_value(session, variable, value) -> None:
    deadline = time.monotonic() + patience()
    while session.run(variable) != value:
        assert time.monotonic() < deadline, session.run(variable)
        time.sleep(0.01)


@pytest.mark.ranks(1)
def test_task_layout():
    with cluster() as (task, _):
        size = world.world().size
        assert task.size == size
        if size == 1:
            assert (task.job, task.index) == ("worker", 0)
        else:
            ps = task.cluster.num_tasks("ps")
            assert ps + workers(task) == size
            assert (task.job == "ps") == (task.rank < ps)
            assert task.cluster.task_address(task.job, task.index) == f"mpi://{task.rank}"


@pytest.mark.ranks(1)
def test_workers_share_variables_by_name():
    with cluster() as (task, server):
        if task.job == "ps":
            return
        with hf.device(setter(task)):
            total = hf.Variable(0, name="total", dtype=hf.int64)
            done = hf.Variable(0, name="done", dtype=hf.int64)
        with hf.Session(server.target) as session:
            if task.index == 0:
                session.run(hf.global_variables_initializer())
            wait_initialized(session, [total, done])
            add = hf.assign_add(total, np.int64(task.index + 1))
            for _ in range(50):
                session.run(add.op)
            session.run(hf.assign_add(done, np.int64(1)).op)
            wait_for_value(session, done, workers(task))
            expected = 50 * sum(range(1, workers(task) + 1))
            assert session.run(total) == expected


def test_state_outlives_sessions():
    with cluster() as (task, server):
        if task.job == "ps" or task.index:
            return
        with hf.device(setter(task)):
            v = hf.Variable([1.0, 2.0], name="kept")
        first = hf.Session(server.target)
        first.run(v.initializer)
        first.run(hf.assign_add(v, [1.0, 1.0]).op)
        first.close()
        if world.world().size == 1:
            return  # a session without a cluster owns its variables
        with hf.Session(server.target) as second:
            np.testing.assert_array_equal(second.run(v), [2.0, 3.0])


@pytest.mark.parametrize("value", [
    np.float32(3.5), np.arange(6, dtype=np.int16).reshape(2, 3), np.zeros((0, 4), np.float64),
    np.array([True, False]), np.array([1 + 2j], np.complex64), np.ones((300, 700), np.float32),
    np.array([b"a", b"", b"x" * 9000], object), b"text",
], ids=["scalar", "int16", "empty", "bool", "complex", "large", "strings", "string"])
@pytest.mark.parametrize("static", [True, False])
def test_values_travel(value, static):
    with cluster() as (task, server):
        if task.job == "ps":
            return
        far = f"/job:{'ps' if 'ps' in task.cluster.jobs else 'worker'}/task:0"
        array = np.asarray(value, dtype=object if isinstance(value, bytes) else None)
        dtype = hf.string if array.dtype.kind == "O" else hf.as_dtype(array.dtype)
        x = hf.placeholder(dtype, array.shape if static else None)
        with hf.device(far):
            y = hf.stack([x, x])
        with hf.device(f"/job:worker/task:{task.index}"):
            z = hf.identity(y)
        with hf.Session(server.target) as session:
            for _ in range(3):
                got = session.run(z, {x: value})
                np.testing.assert_array_equal(got, np.stack([array, array]))


def test_errors_come_from_where_they_happen():
    with cluster() as (task, server):
        if task.job == "ps":
            return
        far = f"/job:{'ps' if 'ps' in task.cluster.jobs else 'worker'}/task:0"
        x = hf.placeholder(hf.float32, [None, None])
        with hf.device(far):
            product = hf.matmul(x, x, name="far_product")
            after = hf.identity(product) + 1.0
        with hf.device(f"/job:worker/task:{task.index}"):
            end = hf.reduce_sum(after)
        with hf.Session(server.target) as session:
            for _ in range(3):
                with pytest.raises(hf.errors.InvalidArgumentError) as caught:
                    session.run(end, {x: np.ones((2, 3))})
                text = str(caught.value)
                for part in ("far_product", "MatMul", far.replace("/task", "/replica:0/task"),
                             "float32[2,3]", "test_cluster.py"):
                    assert part in text, text
                assert session.run(end, {x: np.ones((2, 2))}) == 12.0


def test_uninitialized_variable_is_named():
    with cluster() as (task, server):
        if task.job == "ps":
            return
        with hf.device(setter(task)):
            v = hf.Variable([1.0], name=f"never_{task.index}")
        with hf.Session(server.target) as session:
            with pytest.raises(hf.errors.FailedPreconditionError, match=f"never_{task.index}"):
                session.run(v)


def test_unserved_task_is_unavailable():
    with cluster() as (task, _):
        if task.job == "ps" or task.index:
            return
        config.flags.reload({"HPCFLOW_CONNECT_TIMEOUT": "0.5"})
        try:
            spec = {"worker": ["here:1"], "ps": ["nowhere:2"]}
            if world.world().size > 1:
                return  # a rank serves one task; see the process ring
            lonely = hf.train.Server(spec, "worker", 0)
            with hf.device("/job:ps/task:0"):
                c = hf.identity(hf.constant(1.0))
            with pytest.raises(hf.errors.UnavailableError, match=r"ps.*nowhere:2.* within 0\.5 s"):
                hf.Session(lonely.target).run(c)
        finally:
            config.flags.reload()


def test_masters_serve_each_other():
    """Every worker drives steps over all tasks at once."""
    with cluster() as (task, server):
        if task.job == "ps":
            return
        n = workers(task)
        x = hf.placeholder(hf.float32, [4])
        value = x
        for hop in range(2 * n):
            with hf.device(f"/job:worker/task:{(task.index + hop) % n}"):
                value = value + 1.0
        with hf.device(f"/job:worker/task:{task.index}"):
            value = hf.identity(value)
        with hf.Session(server.target) as session:
            for i in range(40):
                got = session.run(value, {x: np.full(4, i, np.float32)})
                np.testing.assert_array_equal(got, np.full(4, i + 2 * n))


def test_control_edges_cross_tasks():
    with cluster() as (task, server):
        if task.job == "ps":
            return
        far = f"/job:{'ps' if 'ps' in task.cluster.jobs else 'worker'}/task:0"
        with hf.device(far):
            v = hf.Variable(0.0, name=f"counter_{task.index}")
            bump = hf.assign_add(v, 1.0)
        with hf.device(f"/job:worker/task:{task.index}"), hf.control_dependencies([bump]):
            here = hf.constant(5.0) * 2.0
        with hf.device(far), hf.control_dependencies([here]):
            after = v.read_value()
        with hf.Session(server.target) as session:
            session.run(v.initializer)
            for i in range(1, 20):
                assert session.run([here, after]) == [10.0, float(i)]


def test_concurrent_steps_of_one_session():
    with cluster() as (task, server):
        if task.job == "ps":
            return
        with hf.device(setter(task)):
            v = hf.Variable(0, name=f"threads_{task.index}", dtype=hf.int32)
            w = hf.Variable(np.zeros((64, 64), np.float32), name=f"wide_{task.index}")
        add = hf.assign_add(v, 1)
        more = hf.assign_add(w, hf.identity(w) * 0.0 + 1.0)
        errors = []
        with hf.Session(server.target) as session:
            session.run([v.initializer, w.initializer])

            def work():
                try:
                    for _ in range(25):
                        session.run([add.op, more.op])
                except Exception as e:  # noqa: BLE001
                    errors.append(e)

            threads = [threading.Thread(target=work) for _ in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert not errors, errors[0]
            assert session.run(v) == 75
            assert session.run(w)[3, 5] == 75.0


def test_addresses_that_only_name_tasks():
    """A cluster of host:port addresses: every rank registers its own."""
    size = world.world().size
    if size == 1:
        pytest.skip("tasks of one process are tested in the process ring")
    from mpi4py import MPI

    rank = MPI.COMM_WORLD.rank
    spec = hf.train.ClusterSpec({
        "ps": ["localhost:2222"], "worker": [f"localhost:{3000 + i}" for i in range(size - 1)]})
    spec._network = hf.mpi.network(MPI.COMM_WORLD.Dup())
    server = hf.train.Server(spec, "ps" if rank == 0 else "worker", max(rank - 1, 0))
    if rank:
        with hf.Graph().as_default():
            with hf.device("/job:ps/task:0"):
                x = hf.constant(3.0) * 2.0
            with hf.Session(server.target) as session:
                assert session.run(x) == 6.0
    server.join()


@pytest.mark.ranks(1)
def test_gradient_descent_over_parameter_servers():
    """Asynchronous linear regression finds the weights."""
    with cluster() as (task, server):
        if task.job == "ps":
            return
        generator = np.random.default_rng(task.index)
        truth = np.array([[1.0], [-2.0], [0.5]], np.float32)
        with hf.device(setter(task)):
            x = hf.placeholder(hf.float32, [None, 3])
            y = hf.placeholder(hf.float32, [None, 1])
            w = hf.Variable(hf.zeros([3, 1]), name="w")
            step = hf.Variable(0, name="global_step", trainable=False)
            loss = hf.reduce_mean(hf.square(hf.matmul(x, w) - y))
            train = hf.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=step)
        with hf.Session(server.target) as session:
            if task.index == 0:
                session.run(hf.global_variables_initializer())
            wait_initialized(session, [w, step])
            for _ in range(150):
                batch = generator.standard_normal((16, 3)).astype(np.float32)
                session.run(train, {x: batch, y: batch @ truth})
            np.testing.assert_allclose(session.run(w), truth, atol=0.02)


def test_reset_clears_containers():
    with cluster() as (task, server):
        if task.job == "ps" or task.index or world.world().size == 1:
            return
        with hf.device(setter(task)):
            v = hf.Variable([4.0], name="reset_me")
        with hf.Session(server.target) as session:
            session.run(v.initializer)
            assert session.run(v) == [4.0]
            hf.Session.reset(server.target)
            with pytest.raises(hf.errors.AbortedError):
                session.run(v)
        with hf.Session(server.target) as session:
            with pytest.raises(hf.errors.FailedPreconditionError):
                session.run(v)
            session.run(v.initializer)
            assert session.run(v) == [4.0]


def test_variables_by_handle_live_where_they_are_placed():
    """Rows are read and changed on their server; the workers see one variable."""
    with cluster() as (task, server):
        if task.job != "worker":
            return
        with hf.device(setter(task)):
            table = hf.get_variable("handles", [4, 2], use_resource=True,
                                    initializer=hf.ones_initializer())
            loss = hf.reduce_sum(hf.gather(table, [1, 1]))
            step = hf.train.GradientDescentOptimizer(0.25).minimize(loss)
            doubled = table.assign_add(table)
        with hf.Session(server.target) as session:
            if task.index == 0:
                session.run(table.initializer)
                session.run(step)
                assert session.run(doubled).tolist() == [[2, 2], [1, 1], [2, 2], [2, 2]]
            else:
                wait_initialized(session, table)
                assert session.run(table.is_initialized())
