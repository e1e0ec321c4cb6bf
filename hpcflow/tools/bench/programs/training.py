"""Typical training programs, as users of the 1.x API write them; the same file runs in a peer.

Each function builds one of them in the default graph and returns ``(fetches, batches)``: what a
step fetches, and the feeds that steps take in turns.
"""

from __future__ import annotations

from types import ModuleType

import numpy as np
import training_images  # type: ignore[import-not-found]  # a child finds it beside this file
import training_sequences  # type: ignore[import-not-found]

BATCHES = 8  # as many different ones are fed


def logistic_regression(tf: ModuleType):
    """Softmax regression of digits, gradient descent."""
    x = tf.placeholder(tf.float32, [None, 784])
    y = tf.placeholder(tf.float32, [None, 10])
    w, b = tf.Variable(tf.zeros([784, 10])), tf.Variable(tf.zeros([10]))
    scores = tf.matmul(x, w) + b
    loss = tf.reduce_mean(
        tf.nn.softmax_cross_entropy_with_logits_v2(labels=tf.stop_gradient(y), logits=scores))
    train = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
    return [train, loss], [{x: pixels, y: np.eye(10)[labels]}
                           for pixels, labels in training_images.digits(BATCHES, 100)]


def variational_autoencoder(tf: ModuleType):
    """Two hidden layers each way, 20 latent variables, Adam."""
    x = tf.placeholder(tf.float32, [None, 784])
    h = tf.layers.dense(tf.layers.dense(x, 500, tf.nn.softplus), 500, tf.nn.softplus)
    mean, log_variance = tf.layers.dense(h, 20), tf.layers.dense(h, 20)
    z = mean + tf.exp(0.5 * log_variance) * tf.random_normal(tf.shape(mean))
    h = tf.layers.dense(tf.layers.dense(z, 500, tf.nn.softplus), 500, tf.nn.softplus)
    scores = tf.layers.dense(h, 784)
    rebuilt = tf.reduce_sum(
        tf.nn.sigmoid_cross_entropy_with_logits(labels=x, logits=scores), 1)
    divergence = -0.5 * tf.reduce_sum(
        1 + log_variance - tf.square(mean) - tf.exp(log_variance), 1)
    loss = tf.reduce_mean(rebuilt + divergence)
    train = tf.train.AdamOptimizer(1e-3).minimize(loss)
    return [train, loss], [{x: pixels} for pixels, _ in training_images.digits(BATCHES, 100)]


def policy_gradient(tf: ModuleType):
    """An update from 64 moves of a policy, which a step also asks for one more move."""
    states = tf.placeholder(tf.float32, [None, 4])
    moves, returns = tf.placeholder(tf.int32, [None]), tf.placeholder(tf.float32, [None])
    scores = tf.layers.dense(tf.layers.dense(states, 128, tf.nn.relu), 2)
    drawn = tf.multinomial(scores, 1)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=moves, logits=scores)
    train = tf.train.AdamOptimizer(1e-2).minimize(tf.reduce_mean(losses * returns))
    random = np.random.RandomState(0)
    batches = [{states: random.randn(64, 4), moves: random.randint(0, 2, 64),
                returns: random.randn(64)} for _ in range(BATCHES)]
    return [drawn, train], batches


CASES = {
    "logistic regression": logistic_regression,
    "digits, convolutions and dropout": training_images.digits_network,
    "small ResNet, batch normalization": training_images.residual_network,
    "DCGAN": training_images.adversarial_networks,
    "variational autoencoder": variational_autoencoder,
    "LSTM, lengths": training_sequences.lstm_with_lengths,
    "GRU": training_sequences.gru,
    "PTB LSTM, unrolled": training_sequences.words_unrolled,
    "skip-gram, NCE": training_sequences.skip_gram,
    "transformer block": training_sequences.transformer,
    "text CNN": training_sequences.text_network,
    "policy gradient": policy_gradient,
    "beam search": training_sequences.beam_search,
}


def open_case(tf: ModuleType, case, options):
    """Build a program in a graph and session of its own: (function that runs one step, close)."""
    threads = options["threads"]
    config = tf.ConfigProto(intra_op_parallelism_threads=threads,
                            inter_op_parallelism_threads=threads)
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(1)
        fetches, batches = CASES[case](tf)
        session = tf.Session(graph=graph, config=config)
        session.run(tf.global_variables_initializer())
    turns = [0]

    def step():
        turns[0] += 1
        return session.run(fetches, batches[turns[0] % len(batches)])

    return step, session.close
