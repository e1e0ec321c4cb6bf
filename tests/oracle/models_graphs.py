"""More models that travel as GraphDefs: layers, recurrent networks, variables by handle and in
parts, tables, queues, data sets, sparse tensors, fake quantization."""

from __future__ import annotations

from typing import Any

import numpy as np
from models import _weights, model


def _input(tf: Any) -> Any:
    return tf.placeholder(tf.float32, [None, 4], name="x")


def _labels(tf: Any) -> Any:
    return tf.placeholder(tf.int64, [None], name="labels")


def _constant(tf: Any, *shape: int) -> Any:
    return tf.constant_initializer(_weights(*shape))


@model
def convolutions(tf: Any) -> tuple:
    """Convolutions, pools, a batch normalization by its parts."""
    x = _input(tf)
    image = tf.reshape(x, [-1, 2, 2, 1])
    image = tf.pad(image, [[0, 0], [2, 1], [1, 2], [0, 0]])
    kernel = tf.get_variable("kernel", [3, 3, 1, 4], initializer=_constant(tf, 3, 3, 1, 4))
    y = tf.nn.bias_add(tf.nn.conv2d(image, kernel, [1, 1, 1, 1], "SAME"), [0.1, 0.2, 0.3, 0.4])
    y = tf.nn.max_pool(tf.nn.elu(y), [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    depth = tf.get_variable("depth", [2, 2, 4, 2], initializer=_constant(tf, 2, 2, 4, 2))
    y = tf.nn.depthwise_conv2d(y, depth, [1, 1, 1, 1], "VALID")
    y = tf.nn.avg_pool(y, [1, 2, 2, 1], [1, 1, 1, 1], "SAME")
    loss = tf.reduce_mean(tf.square(y - 0.5))
    train = tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
    return [x], [loss, y, kernel, depth], train


@model
def recurrent(tf: Any) -> tuple:
    """An LSTM unrolled by a loop, over sequences of different lengths, and its gradient."""
    x, labels = _input(tf), _labels(tf)
    steps = tf.reshape(x, [-1, 2, 2])
    with tf.variable_scope("rnn", initializer=tf.constant_initializer(0.1)):
        cell = tf.nn.rnn_cell.BasicLSTMCell(3)
        outputs, state = tf.nn.dynamic_rnn(cell, steps, tf.cast(labels, tf.int32),
                                           dtype=tf.float32)
    loss = tf.reduce_sum(tf.square(outputs)) + tf.reduce_sum(state[0])
    train = tf.train.AdamOptimizer(0.01).minimize(loss)
    return [x, labels], [loss, outputs, state[1]], train


@model
def by_handle(tf: Any) -> tuple:
    """Resource variables, updated densely and by rows."""
    x, labels = _input(tf), _labels(tf)
    with tf.variable_scope("handles", use_resource=True):
        w = tf.get_variable("w", [4, 3], initializer=_constant(tf, 4, 3))
        table = tf.get_variable("table", [4, 3], initializer=_constant(tf, 4, 3))
    y = tf.matmul(x, w) + tf.nn.embedding_lookup(table, labels)
    loss = tf.reduce_sum(tf.square(y))
    train = tf.train.AdagradOptimizer(0.1).minimize(loss)
    return [x, labels], [loss, w.read_value(), table.read_value()], train


@model
def in_parts(tf: Any) -> tuple:
    """A table in three parts, read by numbers, with slots of its optimizer."""
    labels = _labels(tf)
    table = tf.get_variable("table", [5, 4], initializer=tf.constant_initializer(0.3),
                            partitioner=tf.fixed_size_partitioner(3))
    rows = tf.nn.embedding_lookup(table, labels, partition_strategy="div")
    loss = tf.reduce_sum(tf.square(rows - 1.0))
    train = tf.train.FtrlOptimizer(0.2, l1_regularization_strength=0.01).minimize(loss)
    return [labels], [loss, tf.convert_to_tensor(table), rows], train


@model
def other_optimizers(tf: Any) -> tuple:
    """Several optimizers, each with variables of its own."""
    x = _input(tf)
    losses, trains, made = [], [], []
    for number, optimizer in enumerate((
            tf.train.AdadeltaOptimizer(1.0), tf.train.ProximalAdagradOptimizer(0.1),
            tf.train.ProximalGradientDescentOptimizer(0.1, l1_regularization_strength=0.01),
            tf.train.RMSPropOptimizer(0.1, centered=True))):
        w = tf.Variable(_weights(4, 2), name=f"w{number}")
        losses.append(tf.reduce_mean(tf.square(tf.matmul(x, w) - 1.0)))
        trains.append(optimizer.minimize(losses[-1], var_list=[w]))
        made.append(w)
    return [x], [*losses, *made], tf.group(*trains)


@model
def averages(tf: Any) -> tuple:
    """A decayed rate, clipped gradients, moving averages."""
    x = _input(tf)
    w = tf.Variable(_weights(4, 2), name="w")
    step = tf.train.get_or_create_global_step()
    rate = tf.train.exponential_decay(0.5, step, 2, 0.9, staircase=True)
    loss = tf.reduce_sum(tf.square(tf.matmul(x, w)))
    optimizer = tf.train.GradientDescentOptimizer(rate)
    pairs = optimizer.compute_gradients(loss)
    clipped, norm = tf.clip_by_global_norm([g for g, _ in pairs], 1.0)
    applied = optimizer.apply_gradients(zip(clipped, [v for _, v in pairs]), step)
    average = tf.train.ExponentialMovingAverage(0.9, step)
    with tf.control_dependencies([applied]):
        train = average.apply([w])
    return [x], [loss, norm, rate, w, average.average(w)], train


@model
def nested_loops(tf: Any) -> tuple:
    """A loop in a loop, arrays of tensors, a conditional, and gradients through all of them."""
    x = _input(tf)
    w = tf.Variable(_weights(4, 4), name="w")

    def body(i: Any, value: Any, rows: Any) -> tuple:
        inner = tf.while_loop(lambda j, v: j < i, lambda j, v: (j + 1, tf.tanh(tf.matmul(v, w))),
                              [0, value])[1]
        inner = tf.cond(i > 1, lambda: inner * 2.0, lambda: tf.matmul(inner, w))
        return i + 1, inner, rows.write(i, tf.reduce_sum(inner, 0))

    rows = tf.TensorArray(tf.float32, 3)
    _, last, rows = tf.while_loop(lambda i, *_: i < 3, body, [0, x, rows])
    sums = rows.stack()
    loss = tf.reduce_sum(tf.square(last)) + tf.reduce_sum(sums)
    train = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
    return [x], [loss, sums, w], train


@model
def scans(tf: Any) -> tuple:
    """map_fn, scan and foldl."""
    x = _input(tf)
    mapped = tf.map_fn(lambda row: tf.reduce_sum(row) * row, x)
    running = tf.scan(lambda a, row: a * 0.5 + row, x)
    folded = tf.foldl(lambda a, row: a + tf.square(row), x, initializer=tf.zeros([4]))
    grad = tf.gradients(tf.reduce_sum(running * mapped), x)[0]
    return [x], [mapped, running, folded, grad], None


@model
def sparse(tf: Any) -> tuple:
    """Sparse tensors: products, sums, weighted lookups."""
    x = _input(tf)
    places = tf.where(tf.greater(x, 0.0))
    values = tf.gather_nd(x, places)
    matrix = tf.SparseTensor(places, values, tf.shape(x, out_type=tf.int64))
    w = tf.Variable(_weights(4, 3), name="w")
    product = tf.sparse_tensor_dense_matmul(matrix, w)
    ids = tf.SparseTensor(places, places[:, 1], matrix.dense_shape)
    means = tf.nn.embedding_lookup_sparse(w, ids, matrix, combiner="sqrtn")
    total = tf.sparse_reduce_sum(matrix, 1)
    loss = tf.reduce_sum(tf.square(product)) + tf.reduce_sum(means)
    train = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
    return [x], [loss, product, means, total, tf.sparse_tensor_to_dense(matrix)], train


@model
def strings(tf: Any) -> tuple:
    """Strings made of numbers, joined, hashed and read again."""
    labels = _labels(tf)
    text = tf.string_join([tf.as_string(labels), tf.as_string(labels * 2)], ",")
    columns = tf.decode_csv(text, [[0], [1.5]])
    hashed = tf.string_to_hash_bucket_fast(text, 100)
    return [labels], [*columns, hashed, tf.string_to_number(tf.substr(text, 0, 1))], None


@model
def counted(tf: Any) -> tuple:
    """A queue that keeps what was written, and variables changed by hand."""
    x = _input(tf)
    total = tf.Variable(np.zeros(4, np.float32), name="total")
    calls = tf.Variable(0, name="calls")
    queue = tf.FIFOQueue(10, [tf.float32], shapes=[[4]], name="queue")
    with tf.control_dependencies([queue.enqueue([tf.reduce_sum(x, 0)])]):
        taken = queue.dequeue()
    added = tf.assign_add(total, taken)
    with tf.control_dependencies([added, tf.assign_add(calls, 1)]):
        done = tf.no_op(name="done")
    return [x], [total, calls, queue.size()], done


@model
def quantized(tf: Any) -> tuple:
    """Fake quantization in training, and real one of its result."""
    x = _input(tf)
    w = tf.Variable(_weights(4, 2), name="w")
    low, high = tf.Variable(-1.0, name="low"), tf.Variable(1.0, name="high")
    y = tf.matmul(tf.fake_quant_with_min_max_args(x, -1.0, 1.0),
                  tf.fake_quant_with_min_max_vars(w, low, high))
    loss = tf.reduce_sum(tf.square(y))
    train = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
    q = tf.quantize_v2(x, -1.0, 1.0, tf.quint8)
    return [x], [loss, w, low, high, tf.dequantize(q[0], q[1], q[2])], train


@model
def called(tf: Any) -> tuple:
    """Functions in the library of a graph, with a gradient."""
    x = _input(tf)
    if tf.__name__ == "hpcflow":
        from hpcflow.framework import function
    else:
        from tensorflow.python.framework import function

    @function.Defun(tf.float32, tf.float32)
    def affine(a: Any, b: Any) -> Any:
        return tf.tanh(a) * b + tf.square(b)

    w = tf.Variable(_weights(4), name="w")
    y = affine(x, tf.ones_like(x) * w)
    loss = tf.reduce_sum(y)
    train = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
    return [x], [loss, y, w], train


@model
def data_set(tf: Any) -> tuple:
    """An iterator over mapped batches, made by its initializer."""
    data = tf.data
    numbers = np.arange(60, dtype=np.float32).reshape(20, 3) / 30
    rows = data.Dataset.from_tensor_slices(numbers).map(lambda r: r * 2.0)
    rows = rows.filter(lambda r: r[0] > 0.5).repeat().batch(4)
    iterator = data.make_one_shot_iterator(rows)
    row = iterator.get_next()
    w = tf.Variable(_weights(3, 2), name="w")
    loss = tf.reduce_sum(tf.square(tf.matmul(row, w)))
    train = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
    return [], [w], train


@model
def tables(tf: Any) -> tuple:
    """A table of words; its initializer runs with the step, which the table then needs no more."""
    labels = _labels(tf)
    words = tf.constant(["zero", "one", "two"])
    chosen = tf.gather(words, labels)
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(
        words, tf.constant([5, 6, 7], tf.int64)), -1)
    with tf.control_dependencies([tf.tables_initializer()]):
        chosen = tf.identity(chosen)
    found = table.lookup(chosen)
    return [labels], [found, tf.strings.length(chosen)], None


@model
def linear_algebra(tf: Any) -> tuple:
    x = _input(tf)
    square = tf.matmul(x, x, transpose_a=True) + tf.eye(4)
    lower = tf.cholesky(square)
    solved = tf.matrix_triangular_solve(lower, tf.transpose(x))
    values = tf.self_adjoint_eigvals(square)
    grad = tf.gradients(tf.reduce_sum(tf.log(tf.matrix_determinant(square))), x)[0]
    spectrum = tf.abs(tf.fft(tf.complex(x, tf.zeros_like(x))))
    return [x], [lower, solved, values, grad, spectrum, tf.matrix_inverse(square)], None


@model
def handles_in_control_flow(tf: Any) -> tuple:
    """Variables by handle that branches in a loop read, and their gradients."""
    x = _input(tf)
    w = tf.get_variable("w", [4, 4], initializer=_constant(tf, 4, 4), use_resource=True)
    b = tf.get_variable("b", [4], initializer=_constant(tf, 4), use_resource=True)
    y = tf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, tf.cond(
        i > 0, lambda: tf.tanh(tf.matmul(v, w)), lambda: v + b)), [0, x])[1]
    loss = tf.reduce_sum(tf.square(y))
    train = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
    return [x], [loss, w.read_value(), b.read_value()], train


@model
def accumulated(tf: Any) -> tuple:
    """A gradient through an accumulator, and a data set of sums of groups."""
    x = _input(tf)
    accumulator = tf.ConditionalAccumulator(tf.float32, [4])
    with tf.control_dependencies([accumulator.set_global_step(7)]):
        late = accumulator.apply_grad(tf.reduce_sum(x, 1)[:4], np.int64(6))  # is dropped
    with tf.control_dependencies([late]):
        added = accumulator.apply_grad(tf.reduce_sum(x, 0), np.int64(99))
    with tf.control_dependencies([added]):
        count = tf.identity(accumulator.num_accumulated())
    with tf.control_dependencies([count]):
        average = accumulator.take_grad(1)
    experimental = tf.data.experimental
    sums = experimental.Reducer(lambda key: (key, tf.constant(0, tf.int64)),
                                lambda state, n: (state[0] + 1, state[1] + n), tf.multiply)
    rows = tf.data.Dataset.range(8).apply(experimental.group_by_reducer(lambda n: n % 3, sums))
    following = tf.data.make_one_shot_iterator(rows.repeat()).get_next()
    return [x], [average, count, following], None
