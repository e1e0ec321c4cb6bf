"""DistributedOptimizer: its buckets, gradients of all kinds, slices, and when reductions start."""

from __future__ import annotations

import numpy as np
import pytest
from replicas import run_replicas, values

import hpcflow as hf
from hpcflow.mpi.optimizer import buckets


@pytest.fixture(autouse=True)
def graph():
    with hf.Graph().as_default():
        yield


def gradient(elements, dtype=hf.float32):
    return hf.zeros([elements], dtype) if elements is not None else hf.placeholder(dtype)


def test_buckets():
    large = (1 << 20) // 4
    grads = [gradient(n) for n in (10, large, 20, None, 30, 40)]
    half = gradient(5, hf.float64)
    sparse = hf.IndexedSlices(gradient(3), hf.constant([0, 1, 2]))
    every = [*reversed(grads), None, sparse, half]
    # Positions in `every`, the gradient made first first: 5 is the one of 10 elements.
    assert buckets(every, 8 << 20) == [[4], [2], [5, 3, 1, 0], [8]]
    assert buckets(every, 100) == [[4], [5, 3], [2], [1], [0], [8]]
    assert buckets(every, 0) == [[5], [4], [3], [2], [1], [0], [8]]


def test_refusals():
    inner = hf.train.GradientDescentOptimizer(0.1)
    with pytest.raises(TypeError, match="expected an optimizer"):
        hf.mpi.DistributedOptimizer(0.1)
    with pytest.raises(ValueError, match="'mean' or 'sum'"):
        hf.mpi.DistributedOptimizer(inner, "max")
    with pytest.raises(ValueError, match="no negative"):
        hf.mpi.DistributedOptimizer(inner, bucket_bytes=-1)
    sliced = hf.mpi.DistributedOptimizer(inner, slices=4, place=(0, 3))
    with pytest.raises(ValueError, match="must be a function"):
        sliced.minimize(hf.constant(1.0))
    with pytest.raises(ValueError, match="divides the slices"):
        sliced.minimize(lambda x: x, inputs=[hf.zeros([4])])
    with pytest.raises(ValueError, match="inputs are for"):
        hf.mpi.DistributedOptimizer(inner).minimize(hf.constant(1.0), inputs=[hf.zeros([4])])
    with pytest.raises(ValueError, match="No gradients provided"):
        hf.mpi.DistributedOptimizer(inner).minimize(hf.constant(1.0), var_list=[hf.Variable(1.0)])


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("bucket_bytes", [0, 40, 8 << 20])
def test_dense_and_sparse_gradients(reduction, bucket_bytes):
    def program(index, target):
        table = hf.Variable(hf.ones([4, 2]), name="table")
        w, b = hf.Variable(hf.ones([2]), name="w"), hf.Variable(0.0, name="b")
        rows = hf.constant([0, index + 1])
        y = hf.reduce_sum(hf.gather(table, rows) * w) + b * (index + 1.0)
        optimizer = hf.mpi.DistributedOptimizer(
            hf.train.GradientDescentOptimizer(1.0), reduction, bucket_bytes)
        pairs = optimizer.compute_gradients(y)
        assert isinstance(pairs[0][0], hf.IndexedSlices)
        train = optimizer.apply_gradients(pairs)
        with hf.Session(target) as session:
            session.run(hf.global_variables_initializer())
            session.run(train)
            return session.run([table, w, b])

    share = 1 if reduction == "sum" else 0.5
    want = np.ones((4, 2))
    want[0] -= 2 * share
    want[[1, 2]] -= share
    for table, w, b in values(run_replicas(2, program)):
        np.testing.assert_allclose(table, want)
        np.testing.assert_allclose(w, 1 - 4 * share * np.ones(2))
        np.testing.assert_allclose(b, -3 * share)


def test_slots_are_those_of_the_wrapped_optimizer():
    w = hf.Variable([1.0])
    optimizer = hf.mpi.DistributedOptimizer(hf.train.MomentumOptimizer(0.1, 0.9))
    optimizer.minimize(hf.reduce_sum(w))
    assert optimizer.get_slot_names() == ["momentum"]
    assert optimizer.get_slot(w, "momentum") is not None


def test_one_process():
    w = hf.Variable([1.0, 2.0])
    train = hf.mpi.DistributedOptimizer(hf.train.GradientDescentOptimizer(0.5)).minimize(
        hf.reduce_sum(hf.square(w)))
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        session.run(hf.mpi.broadcast_variables())
        session.run(train)
        np.testing.assert_array_equal(session.run(w), [0.0, 0.0])


@pytest.mark.parametrize("slices", [6, 8])
def test_slices_give_equal_bits(slices):
    random = np.random.default_rng(3)
    x, y = (random.standard_normal((24, n)).astype(np.float32) for n in (5, 1))

    def trained(ranks):
        def program(index, target):
            rows = len(x) // ranks
            images = hf.placeholder(hf.float32, [rows, 5])
            labels = hf.placeholder(hf.float32, [rows, 1])

            def loss(some, wanted):
                w = hf.get_variable("w", [5, 1], initializer=hf.ones_initializer())
                return hf.reduce_mean(hf.square(hf.tanh(hf.matmul(some, w)) - wanted))

            optimizer = hf.mpi.DistributedOptimizer(
                hf.train.MomentumOptimizer(0.3, 0.9), slices=slices, place=(index, ranks))
            train = optimizer.minimize(loss, inputs=[images, labels])
            mine = slice(index * rows, (index + 1) * rows)
            with hf.Session(target) as session:
                session.run(hf.global_variables_initializer())
                for _ in range(5):
                    session.run(train, {images: x[mine], labels: y[mine]})
                return session.run(hf.global_variables())

        return values(run_replicas(ranks, program))

    alone = trained(1)[0]
    for ranks in (2, 3, 4):
        if slices % ranks == 0:
            for found in trained(ranks):
                for a, b in zip(found, alone, strict=True):
                    np.testing.assert_array_equal(a, b)


def test_what_is_random_follows_from_the_slice():
    """Dropout has other masks in each slice and step, and the same whatever rank has the slice."""
    rows = 8

    def trained(ranks):
        def program(index, target):
            hf.set_random_seed(5)
            ones = hf.ones([rows // ranks, 6])

            def loss(some):
                before = hf.random_uniform([6])  # not of a variable: other places, equal seeds
                w = hf.get_variable("w", [6], initializer=hf.random_normal_initializer())
                dropped = hf.nn.dropout(some, keep_prob=0.5)
                return hf.reduce_sum(dropped * w * before)

            optimizer = hf.mpi.DistributedOptimizer(
                hf.train.GradientDescentOptimizer(1.0), slices=4, place=(index, ranks))
            train = optimizer.minimize(loss, inputs=[ones])
            with hf.Session(target) as session:
                session.run(hf.global_variables_initializer())
                found = [session.run(hf.global_variables())[0]]
                for _ in range(3):
                    session.run(train)
                    found.append(session.run(hf.global_variables())[0])
                return np.stack(found)

        return values(run_replicas(ranks, program))

    alone = trained(1)[0]
    updates = np.diff(alone, axis=0)
    assert len(np.unique(updates)) == updates.size  # random, and new in every step
    for ranks in (2, 4):
        for found in trained(ranks):
            np.testing.assert_array_equal(found, alone)


def test_reductions_start_while_the_backward_pass_runs():
    """The backward pass is cut where a gradient may leave, and a reduction goes first."""
    def program(index, target):
        w = [hf.Variable(hf.ones([3, 3]), name=f"w{i}") for i in range(3)]
        x = hf.ones([2, 3])
        for one in w:
            x = hf.tanh(hf.matmul(x, one))
        optimizer = hf.mpi.DistributedOptimizer(
            hf.train.GradientDescentOptimizer(1.0), bucket_bytes=1)
        reduced = [g for g, _ in optimizer.compute_gradients(hf.reduce_sum(x))]
        with hf.Session(target) as session:
            session.run(hf.global_variables_initializer())
            session.run(reduced)
            runner = list(session._steps.values())[-1]
            return runner.step.__self__.executable.items

    for items in values(run_replicas(2, program)):
        reductions = [i for i in items if i.nodes[0].type == "MpiAllreduce"]
        assert [i.index for i in reductions] == [0, 1, 2]  # before whatever else is ready
        cells = {i.cell: n for n, i in enumerate(reductions)}
        feeders = [{cells[cell] for _, _, cell, _ in i.targets if cell in cells}
                   for i in items if i.region is not None]
        # Each reads from a region of its own: none waits for the gradients of the others.
        assert sorted(map(tuple, filter(None, feeders))) == [(0,), (1,), (2,)]


def test_not_inside_a_loop():
    total = hf.while_loop(lambda i: i < 3.0, lambda i: hf.mpi.allreduce(i) + 1.0, [0.0])
    with hf.Session() as session, pytest.raises(hf.errors.InvalidArgumentError,
                                                match="inside the loop"):
        session.run(total)


def test_variables_on_an_accelerator():
    """Its gradients go through host memory, also where the device is asked for by name."""
    from fake_accelerator import fake_accelerators

    def program(index, target):
        with hf.device("/device:FAKE:0"):
            w = hf.Variable(hf.ones([3]))
            loss = hf.reduce_sum(hf.square(w)) * (index + 1.0) + hf.mpi.allreduce(w)[0]
            train = hf.mpi.DistributedOptimizer(
                hf.train.GradientDescentOptimizer(0.25)).minimize(loss)
        with hf.Session(target) as session:
            session.run(hf.global_variables_initializer())
            session.run(train)
            return session.run(w)

    with fake_accelerators(1):
        for w in values(run_replicas(2, program)):
            np.testing.assert_allclose(w, [1 - 0.25 * 5, 0.25, 0.25])


def test_a_reduction_does_not_wait_for_the_other_gradients_of_an_operation():
    x, w = hf.Variable(hf.ones([2, 3]), name="x"), hf.Variable(hf.ones([3, 2]), name="w")
    optimizer = hf.mpi.DistributedOptimizer(hf.train.GradientDescentOptimizer(1.0), bucket_bytes=0)
    pairs = optimizer.compute_gradients(hf.reduce_sum(hf.square(hf.matmul(x, w))))
    products = []
    for value, _ in pairs:
        reduction = value.op.inputs[0].op  # the value itself waits: updates come afterwards
        assert reduction.type == "MpiAllreduce"
        products.append(reduction.inputs[0].op)
        assert products[-1].type == "MatMul"
    assert [value.op.control_inputs for value, _ in pairs] == [[products[1]], [products[0]]]


def test_slices_ask_for_bits_that_do_not_depend_on_what_is_compiled():
    """Loops whose last bits differ are there from some run on, which is not the same on all ranks.
    """
    graph, plain = hf.get_default_graph(), hf.train.GradientDescentOptimizer(0.1)

    def loss(x):
        return hf.reduce_mean(x * hf.get_variable("w", []))

    def minimize(**options):
        hf.mpi.DistributedOptimizer(plain, **options).minimize(loss, inputs=[hf.ones([4])])

    minimize(slices=4)
    assert graph._equal_bits and not hf.Graph()._equal_bits
