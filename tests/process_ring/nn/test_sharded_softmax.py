"""The softmax whose shards stay where they are: values, gradients, and the bytes that travel."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf

sharded = hf.contrib.sharded
CLASSES, SIZE, BATCH = 700, 16, 8


@pytest.fixture(autouse=True)
def graph():
    with hf.Graph().as_default() as graph:
        yield graph


def values():
    rng = np.random.RandomState(0)
    return (rng.randn(CLASSES, SIZE).astype(np.float32), rng.randn(CLASSES).astype(np.float32),
            rng.randn(BATCH, SIZE).astype(np.float32), rng.randint(0, CLASSES, BATCH))


def expected(w, b, x, y):
    scores = x @ w.T + b
    shifted = np.exp(scores - scores.max(1, keepdims=True))
    shares = shifted / shifted.sum(1, keepdims=True)
    grad = shares.copy()
    grad[np.arange(BATCH), y] -= 1
    return -np.log(shares[np.arange(BATCH), y]), grad.T @ x, grad.sum(0), grad @ w


def split(array, parts, strategy):
    if strategy == "mod":
        return [array[i::parts] for i in range(parts)]
    return np.array_split(array, parts)


@pytest.mark.parametrize("strategy", ["div", "mod"])
@pytest.mark.parametrize("parts", [1, 3])
def test_values_and_gradients(parts, strategy):
    w, b, x, y = values()
    weights = [hf.Variable(v) for v in split(w, parts, strategy)]
    biases = [hf.Variable(v) for v in split(b, parts, strategy)]
    inputs = hf.constant(x)
    loss = sharded.sharded_softmax_cross_entropy(weights, biases, y, inputs, strategy)
    assert loss.shape == [BATCH]
    refs = [v._ref() for v in (*weights, *biases)]
    grads = hf.gradients(loss, [*refs, inputs])
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        found, *back = session.run([loss, *grads])
    want, dw, db, dx = expected(w, b, x, y)
    np.testing.assert_allclose(found, want, rtol=1e-4)
    for one, two in zip(back[:parts], split(dw, parts, strategy), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-3, atol=1e-5)
    for one, two in zip(back[parts:-1], split(db, parts, strategy), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(back[-1], dx, rtol=1e-3, atol=1e-5)


def test_a_partitioned_variable_over_tasks_sends_no_scores():
    """Of a training step over two servers only inputs and a few numbers an example travel."""
    spec = hf.train.ClusterSpec({"ps": ["localhost:1", "localhost:2"],
                                 "worker": ["localhost:3"]})
    servers = [hf.train.Server(spec, job, i) for job, i in (("ps", 0), ("ps", 1), ("worker", 0))]
    with hf.device(hf.train.replica_device_setter(2, worker_device="/job:worker/task:0")):
        x = hf.placeholder(hf.float32, [BATCH, SIZE])
        y = hf.placeholder(hf.int64, [BATCH])
        cut = hf.fixed_size_partitioner(2)
        w = hf.get_variable("w", [CLASSES, SIZE], partitioner=cut)
        b = hf.get_variable("b", [CLASSES], partitioner=cut)
        loss = hf.reduce_mean(sharded.sharded_softmax_cross_entropy(w, b, y, x))
        train = hf.train.GradientDescentOptimizer(1.0).minimize(
            loss, colocate_gradients_with_ops=True)
    _, _, inputs, labels = values()
    metadata = hf.RunMetadata()
    trace = hf.RunOptions(trace_level=hf.RunOptions.FULL_TRACE)
    with hf.Session(servers[2].target) as session:
        session.run(hf.global_variables_initializer())
        before = session.run(loss, {x: inputs, y: labels})
        session.run(train, {x: inputs, y: labels}, trace, metadata)
        assert session.run(loss, {x: inputs, y: labels}) < before
    received = [o.tensor_description.allocation_description.allocated_bytes
                for d in metadata.step_stats.dev_stats for n in d.node_stats
                if "/_recv" in n.node_name for o in n.output]
    assert received and max(received) <= 4 * BATCH * SIZE  # a shard's scores are 4 * 8 * 350
    for server in servers:
        server._server.close()


def test_what_it_refuses():
    w, b, x, y = values()
    with pytest.raises(ValueError, match="1 shards, biases 2"):
        sharded.sharded_softmax_cross_entropy([w], np.array_split(b, 2), y, x)
    with pytest.raises(hf.errors.InvalidArgumentError):
        sharded.sharded_softmax_cross_entropy([w], [b], np.full(BATCH, CLASSES), x)
    labels = hf.placeholder(hf.int64, [BATCH])
    loss = sharded.sharded_softmax_cross_entropy([w], [b], labels, x)
    with hf.Session() as session, pytest.raises(hf.errors.InvalidArgumentError):
        session.run(loss, {labels: np.full(BATCH, CLASSES)})
