"""Models that travel as GraphDefs: built and trained by one library, imported and run by the other.

A model is a dictionary of tensors by role: ``init``, ``train``, and what else to fetch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

MODELS: dict[str, Callable] = {}
STEPS = 3


def model(build: Callable) -> Callable:
    """Decorator: `build(tf)` returns (placeholders, fetches, train op or None)."""
    MODELS[build.__name__] = build
    return build


def _weights(*shape: int) -> np.ndarray:
    return np.sin(np.arange(int(np.prod(shape)), dtype=np.float32)).reshape(shape) / 2


def _perceptron(tf: Any, optimizer: Any) -> tuple:
    x = tf.placeholder(tf.float32, [None, 4], name="x")
    labels = tf.placeholder(tf.int64, [None], name="labels")
    w1, b1 = tf.Variable(_weights(4, 8), name="w1"), tf.Variable(np.zeros(8, np.float32), name="b1")
    w2, b2 = tf.Variable(_weights(8, 3), name="w2"), tf.Variable(np.zeros(3, np.float32), name="b2")
    hidden = tf.nn.relu(tf.matmul(x, w1) + b1)
    logits = tf.nn.xw_plus_b(hidden, w2, b2)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    loss = tf.reduce_mean(losses, name="loss")
    step = tf.Variable(0, trainable=False, name="step")
    train = optimizer.minimize(loss, global_step=step)
    right = tf.equal(tf.argmax(logits, 1), labels)
    accuracy = tf.reduce_mean(tf.cast(right, tf.float32))
    return [x, labels], [loss, accuracy, logits, w1, b2, step], train


@model
def mlp_sgd(tf: Any) -> tuple:
    return _perceptron(tf, tf.train.GradientDescentOptimizer(0.5))


@model
def mlp_momentum(tf: Any) -> tuple:
    return _perceptron(tf, tf.train.MomentumOptimizer(0.2, 0.9, use_nesterov=True))


@model
def mlp_adagrad(tf: Any) -> tuple:
    return _perceptron(tf, tf.train.AdagradOptimizer(0.3))


@model
def mlp_adam(tf: Any) -> tuple:
    return _perceptron(tf, tf.train.AdamOptimizer(0.05))


@model
def mlp_rmsprop(tf: Any) -> tuple:
    return _perceptron(tf, tf.train.RMSPropOptimizer(0.05, momentum=0.5))


@model
def embedding(tf: Any) -> tuple:
    """Sparse updates of a table."""
    labels = tf.placeholder(tf.int64, [None], name="labels")
    table = tf.Variable(_weights(5, 4), name="table")
    rows = tf.nn.embedding_lookup(table, labels)
    loss = tf.reduce_sum(tf.square(rows - 1.0))
    train = tf.train.AdagradOptimizer(0.2).minimize(loss)
    return [labels], [loss, table], train


@model
def normalized(tf: Any) -> tuple:
    """Moments, broadcasting, reductions, slices, concatenation."""
    x = tf.placeholder(tf.float32, [None, 4], name="x")
    scale = tf.Variable(np.ones(4, np.float32), name="scale")
    mean, variance = tf.nn.moments(x, [0])
    y = tf.nn.batch_normalization(x, mean, variance, None, scale, 1e-3)
    parts = tf.concat([y[:, :2] * 2.0, tf.tanh(y[:, 2:])], 1)
    loss = tf.reduce_sum(tf.square(parts)) + 0.1 * tf.nn.l2_loss(scale)
    train = tf.train.MomentumOptimizer(0.01, 0.9).minimize(loss)
    return [x], [loss, parts, scale], train


@model
def branches(tf: Any) -> tuple:
    """A conditional and a loop."""
    x = tf.placeholder(tf.float32, [None, 4], name="x")
    total = tf.reduce_sum(x)
    chosen = tf.cond(total > 0, lambda: total * 2.0, lambda: total - 1.0)
    count, power = tf.while_loop(lambda i, p: i < 5, lambda i, p: (i + 1, p * 1.5),
                                 [tf.constant(0), tf.constant(1.0)])
    return [x], [chosen, count, power], None


@model
def functional(tf: Any) -> tuple:
    """The reference writes functions and nodes that call them, as later writers do."""
    x = tf.placeholder(tf.float32, [None, 4], name="x")
    if tf.__name__ == "hpcflow":
        return [x], _functional(tf, x, lambda f: f), None
    from tensorflow.python.ops import control_flow_util

    control_flow_util.ENABLE_CONTROL_FLOW_V2 = True
    try:
        return [x], _functional(tf, x, tf.function), None
    finally:
        control_flow_util.ENABLE_CONTROL_FLOW_V2 = False


def _functional(tf: Any, x: Any, function: Callable) -> list:
    total = tf.reduce_sum(x)
    chosen = tf.cond(total > 0, lambda: total * 2.0, lambda: total - 1.0)
    power = tf.while_loop(lambda i, p: i < 5, lambda i, p: (i + 1, p * 1.5 + total),
                          [tf.constant(0), tf.constant(1.0)])[1]
    called = function(lambda a: tf.tanh(a) * 2.0)(x)
    branches = [lambda n=n: total * n for n in (1.0, 2.0, 3.0)]
    index = tf.cast(total, tf.int32) * 0 + 1
    case = tf.case([(tf.equal(index, i), branches[i]) for i in range(2)], branches[2])
    return [chosen, power, called, case]


def feeds() -> dict[str, np.ndarray]:
    """The values of the placeholders by name."""
    x = np.cos(np.arange(24, dtype=np.float32)).reshape(6, 4)
    return {"x": x, "labels": np.array([0, 2, 1, 1, 4 % 3, 2], np.int64)}


def build(tf: Any, name: str, config: Any) -> tuple[dict, list]:
    """Build, train and export a model: its GraphDef and names; what its steps fetched."""
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(1)
        inputs, fetches, train = MODELS[name](tf)
        init = tf.global_variables_initializer()
        names = {"inputs": [t.op.name for t in inputs], "init": init.name,
                 "fetches": [_tensor_name(t) for t in fetches],
                 "train": None if train is None else train.name}
        values = _run(tf, graph, names, config)
        return {**names, "graph": str(graph.as_graph_def())}, values


def rebuild(tf: Any, exported: dict, config: Any) -> list:
    """Import a model from text and run the same steps."""
    definition = tf.GraphDef()
    _parse(exported["graph"], definition)
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(definition, name="")
        return _run(tf, graph, exported, config)


def types_of(tf: Any, exported: dict) -> list[str]:
    """The op types in an exported model."""
    definition = tf.GraphDef()
    _parse(exported["graph"], definition)
    return sorted({node.op for node in definition.node})


def _parse(text: str, message: Any) -> None:
    from google.protobuf import text_format

    text_format.Parse(text, message)


def _tensor_name(tensor: Any) -> str:
    return tensor._ref().name if hasattr(tensor, "_ref") else tensor.name


def _run(tf: Any, graph: Any, names: dict, config: Any) -> list:
    inputs = {graph.get_tensor_by_name(n + ":0"): feeds()[n] for n in names["inputs"]}
    fetches = [graph.get_tensor_by_name(n) for n in names["fetches"]]
    values = []
    with tf.Session(graph=graph, config=config) as session:
        session.run(graph.get_operation_by_name(names["init"]))
        for _ in range(STEPS):
            if names["train"]:
                session.run(graph.get_operation_by_name(names["train"]), inputs)
            values += [np.asarray(v) for v in session.run(fetches, inputs)]
    return values
