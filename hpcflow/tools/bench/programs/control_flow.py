"""Loops and larger steps, as a 1.x program writes them; the same file runs in a peer too."""

from __future__ import annotations

import threading
from types import ModuleType

import numpy as np

COUNT = 1000
PRODUCTS, SIZE = 100, 128
TIME, BATCH, UNITS = 50, 64, 128
BRANCH = 768
PARAMETERS = 10_000_000
OPS = 2000
DEPTH, WIDTH, ROWS = 40, 256, 1024
HEAVY, HEAVY_OPS, HEAVY_STEPS = 200_000, 12, 8

COUNTER = f"while loop, {COUNT:,} iterations of a counter"
MATMUL_LOOP = f"while loop, {PRODUCTS} products of {SIZE}x{SIZE}"
RNN = f"gradient of an RNN, {TIME} steps of {BATCH}x{UNITS}"
LSTM = f"gradient of an LSTM, {TIME} steps of {BATCH}x{UNITS}"
BRANCHES = f"two branches of {BRANCH}x{BRANCH} products"
ADAM = f"Adam update of {PARAMETERS:,} floats"
QUEUE = "queue, enqueue and dequeue"
START = f"session start and first step, {OPS:,} ops"
STACK = f"training step of {DEPTH} dense layers"
ONE_THREAD, TWO_THREADS = "steps of one thread", "steps of two threads"


def open_case(tf: ModuleType, case, options):
    """Build a case in a graph and session of its own: (function that runs one step, close)."""
    graph = tf.Graph()
    config = None
    if case in (ONE_THREAD, TWO_THREADS):  # one core for each step
        config = tf.ConfigProto(intra_op_parallelism_threads=1)
    with graph.as_default():
        session = tf.Session(graph=graph, config=config)
        return CASES[case](tf, session), session.close


def factor(size: int, seed: int):
    """A matrix whose products neither grow nor vanish."""
    random = np.random.RandomState(seed)
    return np.linalg.qr(random.standard_normal((size, size)))[0].astype(np.float32)


def counter(tf: ModuleType, session):
    """A scalar counts."""
    end = tf.while_loop(lambda i: i < COUNT, lambda i: i + 1, [tf.constant(0)])
    return lambda: session.run(end)


def matmul_loop(tf: ModuleType, session):
    """Products of which each needs the one before."""
    w = tf.placeholder(tf.float32, [SIZE, SIZE])
    _, y = tf.while_loop(lambda i, y: i < PRODUCTS, lambda i, y: [i + 1, tf.matmul(y, w)], [0, w])
    value = factor(SIZE, 0)
    return lambda: session.run(y, {w: value})


def rnn_gradient(tf: ModuleType, session):
    """A recurrent network over time, and the gradients of its parameters."""
    inputs = tf.placeholder(tf.float32, [TIME, BATCH, UNITS])
    across = tf.Variable(tf.constant(factor(UNITS, 1)))
    within = tf.Variable(tf.constant(factor(UNITS, 2)))
    bias = tf.Variable(tf.zeros([UNITS]))
    steps = tf.TensorArray(tf.float32, TIME).unstack(inputs)

    def body(t, h: int):
        return t + 1, tf.tanh(tf.matmul(h, across) + tf.matmul(steps.read(t), within) + bias)

    _, h = tf.while_loop(lambda t, h: t < TIME, body, [0, tf.zeros([BATCH, UNITS])])
    gradients = tf.gradients(tf.reduce_sum(h * h), [across, within, bias])
    session.run(tf.global_variables_initializer())
    value = np.random.RandomState(3).standard_normal((TIME, BATCH, UNITS)).astype(np.float32)
    return lambda: session.run(gradients, {inputs: value})


def lstm_gradient(tf: ModuleType, session):
    """Long short-term memory over time, with the four gates as one product, and the gradients of
    its parameters."""
    inputs = tf.placeholder(tf.float32, [TIME, BATCH, UNITS])
    columns = [np.vstack([factor(UNITS, 9 + k), factor(UNITS, 13 + k)]) for k in range(4)]
    kernel = tf.Variable(tf.constant(np.hstack(columns) / 2))
    bias = tf.Variable(tf.zeros([4 * UNITS]))
    steps = tf.TensorArray(tf.float32, TIME).unstack(inputs)

    def body(t, c, h: int):
        gates = tf.nn.bias_add(tf.matmul(tf.concat([steps.read(t), h], 1), kernel), bias)
        i, j, f, o = tf.split(gates, 4, 1)
        c = c * tf.sigmoid(f + 1.0) + tf.sigmoid(i) * tf.tanh(j)
        return t + 1, c, tf.tanh(c) * tf.sigmoid(o)

    state = tf.zeros([BATCH, UNITS])
    _, _, h = tf.while_loop(lambda t, c, h: t < TIME, body, [0, state, state])
    gradients = tf.gradients(tf.reduce_sum(h * h), [kernel, bias])
    session.run(tf.global_variables_initializer())
    value = np.random.RandomState(17).standard_normal((TIME, BATCH, UNITS)).astype(np.float32)
    return lambda: session.run(gradients, {inputs: value})


def branches(tf: ModuleType, session):
    """Two chains of two products that need nothing of each other."""
    x = tf.placeholder(tf.float32, [BRANCH, BRANCH])
    w = tf.constant(factor(BRANCH, 4))
    one, other = tf.matmul(tf.matmul(x, w), w), tf.matmul(tf.matmul(w, x), w)
    fetches = [tf.reduce_max(one), tf.reduce_max(other)]
    value = factor(BRANCH, 5)
    return lambda: session.run(fetches, {x: value})


def adam(tf: ModuleType, session):
    """An update whose gradient is a constant: memory is what it waits for."""
    v = tf.Variable(tf.zeros([PARAMETERS]))
    gradient = tf.Variable(tf.fill([PARAMETERS], 0.5), trainable=False)
    train = tf.train.AdamOptimizer(0.001).apply_gradients([(gradient.read_value(), v)])
    session.run(tf.global_variables_initializer())
    return lambda: session.run(train)


def queue(tf: ModuleType, session):
    """A small tensor goes in, and comes out."""
    q = tf.FIFOQueue(100, [tf.float32], shapes=[[4]])
    x = tf.placeholder(tf.float32, [4])
    put, take = q.enqueue([x]), q.dequeue()
    value = np.ones(4, np.float32)

    def step():
        session.run(put, {x: value})
        session.run(take)

    return step


def start(tf: ModuleType, session):
    """A new session, and its first step."""
    graph = session.graph
    x = tf.placeholder(tf.float32, [8, 8])
    w = tf.constant(factor(8, 6))
    y = x
    while len(graph.get_operations()) < OPS * 0.45:
        y = tf.tanh(tf.matmul(y, w) + 0.1)
    loss = tf.reduce_sum(y)
    (gradient,) = tf.gradients(loss, [x])
    while len(graph.get_operations()) < OPS:
        gradient = gradient * 0.5 + y
    value = factor(8, 7)

    def step():
        with tf.Session(graph=graph) as fresh:
            fresh.run([loss, gradient], {x: value})

    return step


def stack(tf: ModuleType, session):
    """Training of a deep perceptron."""
    x = tf.placeholder(tf.float32, [ROWS, WIDTH])
    y = x
    for layer in range(DEPTH):
        w = tf.Variable(tf.constant(factor(WIDTH, layer)))
        y = tf.nn.relu(tf.matmul(y, w) + tf.Variable(tf.zeros([WIDTH])))
    train = tf.train.GradientDescentOptimizer(1e-6).minimize(tf.reduce_mean(y * y))
    session.run(tf.global_variables_initializer())
    value = np.random.RandomState(8).standard_normal((ROWS, WIDTH)).astype(np.float32)
    return lambda: session.run(train, {x: value})


def heavy(tf: ModuleType, session):
    """Arithmetic on values that stay in a core's cache."""
    x = tf.placeholder(tf.float32, [HEAVY])
    y = x
    for _ in range(HEAVY_OPS):
        y = tf.tanh(y * 1.1)
    value = np.linspace(-1, 1, HEAVY, dtype=np.float32)
    total = tf.reduce_sum(y)
    return lambda: session.run(total, {x: value})


def one_thread(tf: ModuleType, session):
    """As many steps as of two threads, one after the other."""
    return repeated(heavy(tf, session), 2 * HEAVY_STEPS)


def two_threads(tf: ModuleType, session):
    """Two threads run steps at the same time: several, since to start a thread takes a tenth of
    the time of one."""
    steps = repeated(heavy(tf, session), HEAVY_STEPS)

    def both():
        other = threading.Thread(target=steps)
        other.start()
        steps()
        other.join()

    return both


def repeated(step, count: int):
    """A function that runs `step` so many times."""

    def steps():
        for _ in range(count):
            step()

    return steps


CASES = {
    COUNTER: counter,
    MATMUL_LOOP: matmul_loop,
    RNN: rnn_gradient,
    LSTM: lstm_gradient,
    BRANCHES: branches,
    ADAM: adam,
    QUEUE: queue,
    START: start,
    ONE_THREAD: one_thread,
    TWO_THREADS: two_threads,
    STACK: stack,
}
