"""Training programs on sequences and words; see `training`."""

from __future__ import annotations

from types import ModuleType

import numpy as np


def _classifier(tf: ModuleType, cell, steps: int, batch: int, lengths):
    x = tf.placeholder(tf.float32, [None, steps, 28])
    y, counts = tf.placeholder(tf.int64, [None]), tf.placeholder(tf.int32, [None])
    outputs, _ = tf.nn.dynamic_rnn(cell, x, counts if lengths else None, dtype=tf.float32)
    if lengths:
        places = tf.stack([tf.range(tf.shape(x)[0]), counts - 1], 1)
        last = tf.gather_nd(outputs, places)
    else:
        last = outputs[:, -1]
    loss = tf.losses.sparse_softmax_cross_entropy(y, tf.layers.dense(last, 10))
    train = tf.train.AdamOptimizer(1e-3).minimize(loss)
    random = np.random.RandomState(0)
    return [train, loss], [{x: random.rand(batch, steps, 28), y: random.randint(0, 10, batch),
                            counts: random.randint(1, steps + 1, batch)} for _ in range(4)]


def lstm_with_lengths(tf: ModuleType):
    """A dynamic LSTM of 128 units over up to 28 steps, Adam."""
    return _classifier(tf, tf.nn.rnn_cell.BasicLSTMCell(128), 28, 64, True)


def gru(tf: ModuleType):
    """A dynamic GRU of 128 units over 50 steps, Adam."""
    return _classifier(tf, tf.nn.rnn_cell.GRUCell(128), 50, 32, False)


def words_unrolled(tf: ModuleType):
    """Two LSTMs of 200 units, 20 steps in the graph, 10,000 words, clipped gradients."""
    batch, steps, units, words = 20, 20, 200, 10000
    x, y = (tf.placeholder(tf.int32, [batch, steps]) for _ in range(2))
    cell = tf.nn.rnn_cell.MultiRNNCell([tf.nn.rnn_cell.BasicLSTMCell(units) for _ in range(2)])
    table = tf.get_variable("embedding", [words, units])
    inputs = tf.nn.embedding_lookup(table, x)
    state, outputs = cell.zero_state(batch, tf.float32), []
    with tf.variable_scope("steps"):
        for k in range(steps):
            if k:
                tf.get_variable_scope().reuse_variables()
            output, state = cell(inputs[:, k], state)
            outputs.append(output)
    scores = tf.layers.dense(tf.reshape(tf.stack(outputs, 1), [-1, units]), words)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=tf.reshape(y, [-1]), logits=scores)
    loss = tf.reduce_sum(losses) / batch
    variables = tf.trainable_variables()
    slopes, _ = tf.clip_by_global_norm(tf.gradients(loss, variables), 5.0)
    train = tf.train.GradientDescentOptimizer(1.0).apply_gradients(zip(slopes, variables))
    random = np.random.RandomState(0)
    return [train, loss], [{x: random.randint(0, words, (batch, steps)),
                            y: random.randint(0, words, (batch, steps))} for _ in range(4)]


def skip_gram(tf: ModuleType):
    """Vectors of 50,000 words, 64 sampled others, gradient descent."""
    words, size, batch = 50000, 128, 128
    x, y = tf.placeholder(tf.int32, [batch]), tf.placeholder(tf.int32, [batch, 1])
    table = tf.Variable(tf.random_uniform([words, size], -1.0, 1.0))
    weights = tf.Variable(tf.truncated_normal([words, size], stddev=size**-0.5))
    biases = tf.Variable(tf.zeros([words]))
    losses = tf.nn.nce_loss(weights, biases, labels=y, inputs=tf.nn.embedding_lookup(table, x),
                            num_sampled=64, num_classes=words)
    loss = tf.reduce_mean(losses)
    train = tf.train.GradientDescentOptimizer(1.0).minimize(loss)
    random = np.random.RandomState(0)
    return [train, loss], [{x: random.randint(0, words, batch),
                            y: random.randint(0, words, (batch, 1))} for _ in range(8)]


def _normalized(tf: ModuleType, x, name: str):
    mean, variance = tf.nn.moments(x, [-1], keep_dims=True)
    size = int(x.shape[-1])
    scale = tf.get_variable(name + "_scale", [size], initializer=tf.ones_initializer())
    shift = tf.get_variable(name + "_shift", [size], initializer=tf.zeros_initializer())
    return (x - mean) * tf.rsqrt(variance + 1e-6) * scale + shift


def transformer(tf: ModuleType):
    """One block: 4 heads over 64 places of 128 numbers, two layers at each place, Adam."""
    batch, places, size, heads = 16, 64, 128, 4
    x = tf.placeholder(tf.float32, [batch, places, size])
    y = tf.placeholder(tf.int64, [batch, places])

    def split(h: int):
        return tf.transpose(tf.reshape(h, [batch, places, heads, size // heads]), [0, 2, 1, 3])

    query, key, value = (split(tf.layers.dense(x, size, use_bias=False)) for _ in range(3))
    weights = tf.nn.softmax(tf.matmul(query, key, transpose_b=True) * (size // heads) ** -0.5)
    joined = tf.transpose(tf.matmul(weights, value), [0, 2, 1, 3])
    h = _normalized(tf, x + tf.layers.dense(tf.reshape(joined, [batch, places, size]), size), "a")
    h = _normalized(tf, h + tf.layers.dense(tf.layers.dense(h, 4 * size, tf.nn.relu), size), "b")
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=y, logits=tf.layers.dense(h, 100)))
    train = tf.train.AdamOptimizer(1e-3).minimize(loss)
    random = np.random.RandomState(0)
    return [train, loss], [{x: random.randn(batch, places, size),
                            y: random.randint(0, 100, (batch, places))} for _ in range(4)]


def text_network(tf: ModuleType):
    """Convolutions over 3, 4 and 5 words of 56, the largest of each, dropout, Adam."""
    words, size, batch, length = 20000, 128, 64, 56
    x, y = tf.placeholder(tf.int32, [None, length]), tf.placeholder(tf.int64, [None])
    keep = tf.placeholder(tf.float32)
    table = tf.Variable(tf.random_uniform([words, size], -1.0, 1.0))
    h = tf.expand_dims(tf.nn.embedding_lookup(table, x), -1)
    parts = [tf.reduce_max(tf.layers.conv2d(h, 128, (window, size), activation=tf.nn.relu), [1, 2])
             for window in (3, 4, 5)]
    scores = tf.layers.dense(tf.nn.dropout(tf.concat(parts, 1), keep), 2)
    loss = tf.losses.sparse_softmax_cross_entropy(y, scores)
    train = tf.train.AdamOptimizer(1e-3).minimize(loss)
    random = np.random.RandomState(0)
    return [train, loss], [{x: random.randint(0, words, (batch, length)),
                            y: random.randint(0, 2, batch), keep: 0.5} for _ in range(4)]


def beam_search(tf: ModuleType):
    """The 5 likeliest sequences of 20 out of 1,000 words by a recurrent network, no training."""
    beam, words, units, steps = 5, 1000, 128, 20
    start = tf.placeholder(tf.float32, [1, units])
    table = tf.Variable(tf.random_uniform([words, units], -1.0, 1.0))
    inner = tf.Variable(tf.random_uniform([2 * units, units], -0.1, 0.1))
    outer = tf.Variable(tf.random_uniform([units, words], -0.1, 0.1))

    def advance(k: int, last, state, scores, found):
        state = tf.tanh(tf.matmul(tf.concat([tf.gather(table, last), state], 1), inner))
        logs = tf.nn.log_softmax(tf.matmul(state, outer)) + tf.expand_dims(scores, 1)
        scores, places = tf.nn.top_k(tf.reshape(logs, [-1]), beam)
        parents, last = places // words, places % words
        found = tf.concat([tf.gather(found, parents), tf.expand_dims(last, 1)], 1)
        return k + 1, last, tf.gather(state, parents), scores, found

    first = [tf.constant(0), tf.zeros([beam], tf.int32), tf.tile(start, [beam, 1]),
             tf.constant([0.0] + [-1e9] * (beam - 1)), tf.zeros([beam, 0], tf.int32)]
    shapes = [tf.TensorShape(s) for s in ([], [beam], [beam, units], [beam], [beam, None])]
    *_, scores, found = tf.while_loop(lambda k, *_: k < steps, advance, first, shapes)
    random = np.random.RandomState(0)
    return [scores, found], [{start: random.randn(1, units)} for _ in range(4)]
