"""Whole training programs as 1.x users write them, against the losses of the reference runtime.

Everything that is drawn is drawn by NumPy, so that the numbers are those of any correct runtime.
"""

from collections.abc import Iterator

import numpy as np
import pytest

import hpcflow as tf


@pytest.fixture(autouse=True)
def default_graph() -> Iterator[None]:
    with tf.Graph().as_default():
        yield


def close(actual: object, expected: object) -> None:
    np.testing.assert_allclose(actual, expected, rtol=2e-3, atol=1e-4)


def started() -> tf.Session:
    session = tf.Session()
    session.run(tf.global_variables_initializer())
    return session


def test_logistic_regression() -> None:
    rng = np.random.RandomState(0)
    X = rng.randn(60, 5).astype(np.float32)
    Y = np.eye(3, dtype=np.float32)[(X[:, 0] > 0).astype(int) + (X[:, 1] > 0)]
    x = tf.placeholder(tf.float32, [None, 5])
    y = tf.placeholder(tf.float32, [None, 3])
    W, b = tf.Variable(tf.zeros([5, 3])), tf.Variable(tf.zeros([3]))
    pred = tf.nn.softmax(tf.matmul(x, W) + b)
    cost = tf.reduce_mean(-tf.reduce_sum(y * tf.log(pred), reduction_indices=1))
    train = tf.train.GradientDescentOptimizer(0.5).minimize(cost)
    correct = tf.equal(tf.argmax(pred, 1), tf.argmax(y, 1))
    accuracy = tf.reduce_mean(tf.cast(correct, tf.float32))
    with started() as session:
        for _ in range(5):
            for i in range(0, 60, 20):
                _, c = session.run([train, cost], {x: X[i:i + 20], y: Y[i:i + 20]})
        close(c, 0.7538)
        close(accuracy.eval({x: X, y: Y}), 0.8)
        close(W.eval()[0], [-0.81, -0.1157, 0.9257])


def test_convolutional_network() -> None:
    def drawn(*shape: int) -> tf.Variable:
        rng = np.random.RandomState(sum(shape))
        return tf.Variable(rng.randn(*shape).astype(np.float32) * 0.1)

    x = tf.placeholder(tf.float32, [None, 64])
    y = tf.placeholder(tf.int64, [None])
    keep = tf.placeholder(tf.float32)
    image = tf.reshape(x, [-1, 8, 8, 1])
    h = tf.nn.relu(tf.nn.conv2d(image, drawn(3, 3, 1, 4), [1, 1, 1, 1], "SAME") + drawn(4))
    h = tf.nn.max_pool(h, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    h = tf.nn.conv2d(h, drawn(3, 3, 4, 8), strides=[1, 2, 2, 1], padding="VALID")
    h = tf.nn.relu(tf.nn.bias_add(h, drawn(8)))
    flat = tf.reshape(h, [-1, int(np.prod(h.get_shape().as_list()[1:]))])
    logits = tf.matmul(tf.nn.dropout(flat, keep), drawn(8, 10))
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=y))
    train = tf.train.AdamOptimizer(0.01).minimize(loss)
    rng = np.random.RandomState(1)
    X, Y = rng.rand(32, 64), rng.randint(0, 10, 32)
    with started() as session:
        for _ in range(5):
            _, value = session.run([train, loss], {x: X, y: Y, keep: 1.0})
    close(value, 2.2983)


def test_word_vectors_with_nce() -> None:
    embeddings = tf.Variable(np.random.RandomState(3).rand(20, 4).astype(np.float32))
    weights = tf.Variable(np.random.RandomState(4).rand(20, 4).astype(np.float32))
    biases = tf.Variable(tf.zeros([20]))
    centers, contexts = tf.placeholder(tf.int32, [4]), tf.placeholder(tf.int32, [4, 1])
    looked_up = tf.nn.embedding_lookup(embeddings, centers)
    sampled = (tf.constant([1, 2, 3], tf.int64), tf.constant([[0.1], [0.2], [0.3], [0.4]]),
               tf.constant([0.1, 0.2, 0.3]))
    arguments = (weights, biases, tf.cast(contexts, tf.int64), looked_up, 3, 20)
    loss = tf.reduce_mean(tf.nn.nce_loss(*arguments, sampled_values=sampled))
    softmax = tf.nn.sampled_softmax_loss(*arguments, sampled_values=sampled)
    train = tf.train.GradientDescentOptimizer(1.0).minimize(loss)
    unit = embeddings / tf.sqrt(tf.reduce_sum(tf.square(embeddings), 1, keep_dims=True))
    feed = {centers: [1, 5, 5, 7], contexts: [[2], [6], [7], [8]]}
    with started() as session:
        for _ in range(3):
            _, value = session.run([train, loss], feed)
        close(value, 2.1885)
        close(session.run(tf.reduce_sum(tf.matmul(unit, unit, transpose_b=True))), 286.237)
        close(session.run(softmax, feed), [0.7485, 0.2242, 0.3117, 0.2556])


def test_two_optimizers_of_a_gan() -> None:
    with tf.variable_scope("g"):
        gw = tf.get_variable("w", [2, 1], initializer=tf.constant_initializer(0.1))

    def discriminate(x: tf.Tensor, reuse: bool | None = None) -> tf.Tensor:
        with tf.variable_scope("d", reuse=reuse):
            w = tf.get_variable("w", [1, 1], initializer=tf.constant_initializer(0.3))
            return tf.matmul(x, w)

    def cross_entropy(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        return tf.reduce_mean(
            tf.nn.sigmoid_cross_entropy_with_logits(logits=logits, labels=labels))

    z, x = tf.placeholder(tf.float32, [None, 2]), tf.placeholder(tf.float32, [None, 1])
    real, fake = discriminate(x), discriminate(tf.matmul(z, gw), True)
    d_loss = cross_entropy(real, tf.ones_like(real)) + cross_entropy(fake, tf.zeros_like(fake))
    g_loss = cross_entropy(fake, tf.ones_like(fake))

    def step(loss: tf.Tensor, scope: str) -> tf.Operation:
        variables = [v for v in tf.trainable_variables() if v.name.startswith(scope)]
        return tf.train.AdamOptimizer(0.1, beta1=0.5).minimize(loss, var_list=variables)

    d_step, g_step = step(d_loss, "d/"), step(g_loss, "g/")
    rng = np.random.RandomState(2)
    with started() as session:
        for _ in range(5):
            Z, X = rng.randn(8, 2), rng.randn(8, 1) + 3
            _, d_value = session.run([d_step, d_loss], {z: Z, x: X})
            _, g_value = session.run([g_step, g_loss], {z: Z})
    close([d_value, g_value], [0.86679, 0.72057])
    assert [v.name for v in tf.global_variables()] == [
        "g/w:0", "d/w:0", "beta1_power:0", "beta2_power:0", "d/w/Adam:0", "d/w/Adam_1:0",
        "beta1_power_1:0", "beta2_power_1:0", "g/w/Adam:0", "g/w/Adam_1:0"]


def test_target_network_of_a_dqn() -> None:
    def network(x: tf.Tensor) -> tf.Tensor:
        with tf.variable_scope("l1"):
            w = tf.get_variable("w", [3, 4], initializer=tf.constant_initializer(0.2))
            b = tf.get_variable("b", [4], initializer=tf.zeros_initializer())
            h = tf.nn.relu(tf.matmul(x, w) + b)
        return tf.matmul(h, tf.get_variable("o", [4, 2],
                                            initializer=tf.constant_initializer(0.1)))

    state = tf.placeholder(tf.float32, [None, 3])
    action, reward = tf.placeholder(tf.int32, [None]), tf.placeholder(tf.float32, [None])
    with tf.variable_scope("q"):
        q = network(state)
    with tf.variable_scope("target"):
        target_q = network(state)
    own = tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, "q/")
    target = tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, "target")
    follow = tf.group(*[t.assign(0.9 * t + 0.1 * u) for t, u in zip(target, own, strict=True)])
    chosen = tf.reduce_sum(q * tf.one_hot(action, 2), 1)
    error = tf.stop_gradient(reward + 0.9 * tf.reduce_max(target_q, 1)) - chosen
    huber = tf.where(tf.abs(error) < 1.0, 0.5 * tf.square(error), tf.abs(error) - 0.5)
    loss = tf.reduce_mean(huber)
    optimizer = tf.train.RMSPropOptimizer(0.01)
    clipped = [(tf.clip_by_value(g, -1, 1), v) for g, v in optimizer.compute_gradients(loss, own)]
    train = optimizer.apply_gradients(clipped)
    rng = np.random.RandomState(5)
    with started() as session:
        for _ in range(4):
            feed = {state: rng.rand(6, 3), action: rng.randint(0, 2, 6), reward: rng.rand(6)}
            _, value = session.run([train, loss], feed)
            session.run(follow)
        close(value, 0.0765)
        close(session.run(target[2])[0], [0.1007, 0.1005])


def test_actor_and_critic() -> None:
    x = tf.placeholder(tf.float32, [None, 3])
    action = tf.placeholder(tf.int32, [None])
    advantage, returns = tf.placeholder(tf.float32, [None]), tf.placeholder(tf.float32, [None])
    W, V = tf.Variable(tf.ones([3, 2]) * 0.1), tf.Variable(tf.ones([3, 1]) * 0.1)
    policy = tf.nn.softmax(tf.matmul(x, W))
    value = tf.squeeze(tf.matmul(x, V), [1])
    places = tf.stack([tf.range(tf.shape(action)[0]), action], 1)
    log_policy = tf.log(tf.gather_nd(policy, places))
    entropy = -tf.reduce_sum(policy * tf.log(policy + 1e-8))
    loss = (-tf.reduce_sum(log_policy * advantage) + 0.5 * tf.nn.l2_loss(value - returns)
            - 0.01 * entropy)
    gradients, norm = tf.clip_by_global_norm(tf.gradients(loss, [W, V]), 1.0)
    train = tf.train.AdamOptimizer(0.1).apply_gradients(zip(gradients, [W, V], strict=True))
    rng = np.random.RandomState(6)
    with started() as session:
        for _ in range(3):
            feed = {x: rng.rand(5, 3), action: rng.randint(0, 2, 5), advantage: rng.randn(5),
                    returns: rng.rand(5)}
            _, *values = session.run([train, loss, norm], feed)
    close(values, [-0.44673, 1.5147])


def test_average_of_the_gradients_of_towers() -> None:
    x, y = tf.placeholder(tf.float32, [8, 3]), tf.placeholder(tf.float32, [8, 1])
    optimizer = tf.train.MomentumOptimizer(0.1, 0.9)
    step = tf.get_variable("gs", [], initializer=tf.constant_initializer(0), trainable=False)
    towers = []
    with tf.variable_scope(tf.get_variable_scope()):
        for i in range(2):
            with tf.device("/cpu:0"), tf.name_scope(f"tower_{i}"):
                w = tf.get_variable("w", [3, 1], initializer=tf.constant_initializer(0.5))
                loss = tf.reduce_mean(
                    tf.square(tf.matmul(tf.split(x, 2)[i], w) - tf.split(y, 2)[i]))
                tf.add_to_collection("losses", loss)
                tf.get_variable_scope().reuse_variables()
                towers.append(optimizer.compute_gradients(loss))
    average = []
    for pairs in zip(*towers, strict=True):
        stacked = tf.concat(axis=0, values=[tf.expand_dims(g, 0) for g, _ in pairs])
        average.append((tf.reduce_mean(stacked, 0), pairs[0][1]))
    with tf.variable_scope(tf.get_variable_scope(), reuse=False):
        train = optimizer.apply_gradients(average, global_step=step)
    rng = np.random.RandomState(7)
    X, Y = rng.rand(8, 3), rng.rand(8, 1)
    with started() as session:
        for _ in range(3):
            session.run(train, {x: X, y: Y})
        close(session.run(w), [[0.2773], [0.3714], [0.3593]])
        assert session.run(step) == 3
    assert [v.name for v in tf.global_variables()] == ["gs:0", "w:0", "w/Momentum:0"]
    assert [t.name for t in tf.get_collection("losses", "tower_1")] == ["tower_1/Mean:0"]


def test_autoencoder() -> None:
    x = tf.placeholder("float", [None, 6])
    weights = {"encode": tf.Variable(tf.ones([6, 3]) * 0.1),
               "decode": tf.Variable(tf.ones([3, 6]) * 0.2)}
    code = tf.nn.sigmoid(tf.matmul(x, weights["encode"]))
    decoded = tf.nn.sigmoid(tf.matmul(code, weights["decode"]))
    cost = tf.reduce_mean(tf.pow(x - decoded, 2))
    train = tf.train.RMSPropOptimizer(0.01).minimize(cost)
    X = np.random.RandomState(8).rand(10, 6)
    with started() as session:
        for _ in range(5):
            _, value = session.run([train, cost], {x: X})
    close(value, 0.09623)


def test_lstm_written_as_a_scan() -> None:
    steps, batch, depth, cells = 4, 2, 3, 5
    x = tf.placeholder(tf.float32, [steps, batch, depth])
    rng = np.random.RandomState(9)
    W = tf.Variable(rng.randn(depth + cells, 4 * cells).astype(np.float32) * 0.3)

    def step(state: tuple, inputs: tf.Tensor) -> tuple:
        c, h = state
        i, j, f, o = tf.split(tf.matmul(tf.concat([inputs, h], 1), W), 4, 1)
        c = c * tf.sigmoid(f + 1.0) + tf.sigmoid(i) * tf.tanh(j)
        return c, tf.tanh(c) * tf.sigmoid(o)

    zeros = tf.zeros([batch, cells])
    _, outputs = tf.scan(step, x, initializer=(zeros, zeros))
    loss = tf.reduce_sum(outputs[-1] ** 2)
    train = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
    X = rng.randn(steps, batch, depth)
    with started() as session:
        for _ in range(3):
            _, value = session.run([train, loss], {x: X})
    close(value, 0.03604)
    assert outputs.get_shape().as_list() == [4, 2, 5]


# Optimizer -> (w, rows 0 and 2 of e) after three steps of the program below.
UPDATED = {
    "GradientDescent": ([0.12, 0.512], [[0.216, 0.432], [2.56, 3.072]]),
    "Momentum": ([-0.24, -0.892], [[-0.54, -1.08], [0.31, 0.372]]),
    "Nesterov": ([0.2352, 0.4252], [[-0.4333, -0.8666], [-0.5418, -0.6501]]),
    "Adam": ([0.8456, 1.7009], [[0.7016, 1.7006], [4.7002, 5.7002]]),
    "Adagrad": ([0.8072, 1.7774], [[0.7809, 1.7759], [4.7733, 5.773]]),
    "Adadelta": ([0.9999, 1.9999], [[0.9999, 1.9999], [4.9999, 5.9999]]),
    "RMSProp": ([0.4751, 1.3404], [[0.4523, 1.3382], [4.2996, 5.2907]]),
    "CenteredRMSProp": ([0.3105, 0.9591], [[0.1647, 0.9537], [3.8803, 4.8632]]),
    "Ftrl": ([0.1718, 1.7269], [[0.7074, 1.6993], [4.617, 5.6164]]),
    "ProximalGradientDescent": ([0.1251, 0.5055], [[0.2096, 0.4193], [2.4847, 2.9817]]),
    "ProximalAdagrad": ([0.8072, 1.7774], [[0.7809, 1.7759], [4.7733, 5.773]]),
}


@pytest.mark.parametrize("kind", UPDATED)
def test_optimizers_on_dense_and_sparse_gradients(kind: str) -> None:
    train = tf.train
    optimizer = {
        "GradientDescent": lambda: train.GradientDescentOptimizer(0.1),
        "Momentum": lambda: train.MomentumOptimizer(0.1, 0.9),
        "Nesterov": lambda: train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
        "Adam": lambda: train.AdamOptimizer(0.1),
        "Adagrad": lambda: train.AdagradOptimizer(0.1),
        "Adadelta": lambda: train.AdadeltaOptimizer(0.1),
        "RMSProp": lambda: train.RMSPropOptimizer(0.1),
        "CenteredRMSProp": lambda: train.RMSPropOptimizer(0.1, momentum=0.5, centered=True),
        "Ftrl": lambda: train.FtrlOptimizer(0.1, l1_regularization_strength=0.01),
        "ProximalGradientDescent": lambda: train.ProximalGradientDescentOptimizer(
            0.1, l2_regularization_strength=0.1),
        "ProximalAdagrad": lambda: train.ProximalAdagradOptimizer(0.1),
    }[kind]()
    w = tf.Variable([1.0, 2.0], name="w")
    e = tf.Variable([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], name="e")
    x = tf.placeholder(tf.float32, [2])
    loss = (tf.reduce_sum(tf.square(w * x - 1.0))
            + tf.reduce_sum(tf.square(tf.nn.embedding_lookup(e, [0, 2, 0]))))
    step = tf.Variable(0, trainable=False)
    update = optimizer.minimize(loss, global_step=step)
    with started() as session:
        for i in range(3):
            session.run(update, {x: [1.0 + i, 2.0]})
        close(session.run(w), UPDATED[kind][0])
        close(session.run(e), [UPDATED[kind][1][0], [3.0, 4.0], UPDATED[kind][1][1]])
        assert session.run(step) == 3
