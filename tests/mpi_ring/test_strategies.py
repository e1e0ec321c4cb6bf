"""Strategies whose replicas are the ranks."""

from __future__ import annotations

import json

import numpy as np
import pytest
from mpi4py import MPI

import hpcflow as hf

WORLD = MPI.COMM_WORLD
SIZE, RANK = WORLD.Get_size(), WORLD.Get_rank()
X = np.random.RandomState(0).randn(24 * SIZE, 4).astype(np.float32)
Y = X[:, :3].argmax(1)


def equal_on_all_ranks(value):
    return all(np.array_equal(value, other) for other in WORLD.allgather(value))


def softmax_regression(x, y, w):
    return hf.reduce_mean(hf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=y, logits=hf.matmul(x, w)))


def descended(steps, batch):
    """The weights after some steps of gradient descent over batches in turn, in NumPy."""
    w = np.zeros([4, 3])
    for i in range(steps):
        rows = slice(i * batch, (i + 1) * batch)
        p = np.exp(X[rows] @ w)
        p /= p.sum(1, keepdims=True)
        w -= 0.5 * X[rows].T @ (p - np.eye(3)[Y[rows]]) / batch
    return w


def test_a_loop_trains_on_the_rows_of_all_replicas():
    strategy = hf.distribute.MirroredStrategy()
    assert strategy.num_replicas_in_sync == SIZE
    with hf.Graph().as_default(), strategy.scope():
        data = hf.data.Dataset.from_tensor_slices((X, Y)).batch(6 * SIZE)
        rows = strategy.make_dataset_iterator(data)
        w = hf.get_variable("w", initializer=np.zeros([4, 3], np.float32))
        own = hf.get_variable("own", [3])  # drawn without a seed

        def replica(inputs):
            x, y = inputs
            number = hf.distribute.get_replica_context().replica_id_in_sync_group
            loss = softmax_regression(x, y, w)
            optimizer = hf.train.GradientDescentOptimizer(0.5)  # which adds the gradients
            return optimizer.minimize(loss / SIZE), loss, number

        train, loss, number = strategy.experimental_run_v2(replica, args=(rows.get_next(),))
        mean = strategy.reduce(hf.distribute.ReduceOp.MEAN, loss)
        uneven = hf.range(RANK + 1)
        of_all = strategy.reduce("sum", uneven, axis=0), strategy.reduce("mean", uneven, axis=0)
        with hf.Session() as session:
            session.run([rows.initialize(), hf.global_variables_initializer()])
            found = [session.run([train, mean, number]) for _ in range(4)]
            np.testing.assert_allclose(session.run(w), descended(4, 6 * SIZE), atol=1e-5)
            assert equal_on_all_ranks(session.run(own))
            reduced = session.run(of_all)
    assert equal_on_all_ranks([m for _, m, _ in found])
    assert [n for *_, n in found] == [RANK] * 4
    values = [v for r in range(SIZE) for v in range(r + 1)]
    np.testing.assert_allclose(reduced, [sum(values), np.mean(values)])


def cluster_of_workers(chief):
    """What TF_CONFIG says of a cluster with a worker on each rank, the first of which may be a
    chief."""
    hosts = [f"host{i}:2222" for i in range(SIZE)]
    cluster = {"chief": hosts[:1], "worker": hosts[1:]} if chief else {"worker": hosts}
    task = {"type": "worker", "index": RANK} if not chief else {
        "type": "worker" if RANK else "chief", "index": max(RANK - 1, 0)}
    return json.dumps({"cluster": cluster, "task": task})


@pytest.mark.parametrize("kind, chief", [
    (hf.train.GradientDescentOptimizer, True), (hf.keras.optimizers.SGD, False)])
def test_an_estimator_trains_a_replica_on_each_rank(tmp_path, monkeypatch, kind, chief):
    directory = WORLD.bcast(str(tmp_path))
    if SIZE > 1:
        monkeypatch.setenv("TF_CONFIG", cluster_of_workers(chief))
    strategy = hf.distribute.experimental.MultiWorkerMirroredStrategy()

    def model(features, labels, mode):
        w = hf.get_variable("w", [4, 3], initializer=hf.zeros_initializer())
        hf.get_variable("own", [3])
        loss = softmax_regression(features, labels, w)
        if kind is hf.keras.optimizers.SGD:
            optimizer = kind(0.5)
            optimizer.iterations = hf.train.get_global_step()
            train = optimizer.minimize(loss, [w])
        else:
            train = kind(0.5).minimize(loss, hf.train.get_global_step())
        return hf.estimator.EstimatorSpec(mode, loss=loss, train_op=train)

    def batches():  # one batch is left over, which no replica has
        return hf.data.Dataset.from_tensor_slices((X[:18 * SIZE + 6], Y[:18 * SIZE + 6])).batch(6)

    config = hf.estimator.RunConfig(directory, train_distribute=strategy,
                                    eval_distribute=strategy)
    estimator = hf.estimator.Estimator(model, config=config)
    estimator.train(batches)
    assert estimator.get_variable_value("global_step") == 3
    np.testing.assert_allclose(estimator.get_variable_value("w"), descended(3, 6 * SIZE),
                               atol=1e-5)
    seen = estimator.evaluate(batches)["loss"]  # of all data, on every rank
    logits = X[:18 * SIZE + 6] @ descended(3, 6 * SIZE)
    of_labels = logits[np.arange(len(logits)), Y[:len(logits)]]
    np.testing.assert_allclose(seen, np.mean(np.log(np.exp(logits).sum(1)) - of_labels), rtol=1e-5)
    estimator.train(batches, steps=1)  # all go on from the checkpoint
    assert estimator.get_variable_value("global_step") == 4
    WORLD.Barrier()


class _Seen(hf.train.SessionRunHook):
    """Ends after a step, and keeps a variable's value."""

    def __init__(self, variable):
        self.variable, self.value = variable, None

    def after_run(self, run_context, run_values):
        self.value = run_context.session.run(self.variable)
        run_context.request_stop()


@pytest.mark.parametrize("make", [hf.train.MonitoredSession, hf.train.SingularMonitoredSession])
def test_monitored_sessions_begin_with_the_values_of_rank_0(make):
    strategy = hf.distribute.MirroredStrategy()
    with hf.Graph().as_default(), strategy.scope():
        v = hf.get_variable("v", initializer=np.float32(RANK + 5))
        seen = _Seen(v)
        with make(hooks=[seen]) as session:
            session.run(v.op)
    assert seen.value == 5


def test_a_scaffold_with_its_own_initializer_goes_on_from_a_checkpoint(tmp_path):
    directory = WORLD.bcast(str(tmp_path))
    strategy = hf.distribute.MirroredStrategy()

    def model(features, mode):
        rows = hf.get_variable("rows", [SIZE + 1, 2], initializer=hf.zeros_initializer())
        own = hf.nn.embedding_lookup(rows, [RANK, SIZE])  # whose gradients are of these rows
        loss = hf.reduce_sum(own) + 0 * hf.reduce_sum(features)
        train = hf.train.GradientDescentOptimizer(1.0).minimize(
            loss, hf.train.get_global_step())
        first = hf.group(hf.global_variables_initializer(), hf.local_variables_initializer())
        return hf.estimator.EstimatorSpec(mode, loss=loss, train_op=train,
                                          scaffold=hf.train.Scaffold(init_op=first))

    config = hf.estimator.RunConfig(directory, train_distribute=strategy)
    estimator = hf.estimator.Estimator(model, config=config)
    for steps in (1, 2):
        estimator.train(lambda: hf.data.Dataset.from_tensors([1.0]).repeat(), steps=steps)
    found = estimator.get_variable_value("rows")
    np.testing.assert_allclose(found[:, 0], [-3 / SIZE] * SIZE + [-3], rtol=1e-6)
    WORLD.Barrier()


def test_rows_of_sparse_elements():
    strategy = hf.distribute.MirroredStrategy()
    dense = np.arange(2 * SIZE * 3).reshape(2 * SIZE, 3) % 4
    with hf.Graph().as_default(), hf.Session() as session:
        data = hf.data.Dataset.from_tensors(hf.contrib.layers.dense_to_sparse(dense))
        found = strategy.make_dataset_iterator(data)
        rows = hf.sparse_tensor_to_dense(found.get_next())
        session.run(found.initialize())
        np.testing.assert_array_equal(session.run(rows), dense[2 * RANK : 2 * RANK + 2])
        with pytest.raises(TypeError, match="batches"):
            strategy.experimental_distribute_dataset(hf.data.Dataset.range(3))
