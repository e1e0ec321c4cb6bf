"""Small forms of the networks that a GPU is for: each gives a session, its step, and feeds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import hpcflow as hf

BATCH, STEPS, WORDS, WIDTH = 4, 6, 50, 16


class Training(NamedTuple):
    """What a session runs in every step: the loss is the last of `fetches`."""

    fetches: list
    feeds: dict


def _drawn(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def _weights(*shape: int) -> Any:
    return hf.Variable(0.1 * _drawn(sum(shape)).standard_normal(shape).astype(np.float32))


def figure1() -> Training:
    """The perceptron of the 1.x white paper's first figure, by Adagrad."""
    x, y = hf.placeholder(hf.float32, [64, 784]), hf.placeholder(hf.float32, [64, 10])
    hidden = hf.nn.relu(hf.matmul(x, _weights(784, 100)) + hf.Variable(hf.zeros([100])))
    logits = hf.matmul(hidden, _weights(100, 10)) + hf.Variable(hf.zeros([10]))
    loss = hf.reduce_mean(hf.nn.softmax_cross_entropy_with_logits(labels=y, logits=logits))
    train = hf.train.AdagradOptimizer(0.01).minimize(loss)
    random = _drawn()
    return Training([train, loss], {x: random.random((64, 784), np.float32),
                                    y: np.eye(10, dtype=np.float32)[random.integers(10, size=64)]})


def _convolution(x: Any, outputs: int, size: int = 3, stride: int = 1, norm: bool = False) -> Any:
    kernel = _weights(size, size, int(x.shape[3]), outputs)
    x = hf.nn.conv2d(x, kernel, [1, stride, stride, 1], "SAME")
    if norm:
        x = hf.layers.batch_normalization(x, training=True, fused=True)
    else:
        x = hf.nn.bias_add(x, hf.Variable(hf.zeros([outputs])))
    return hf.nn.relu(x)


def _pool(x: Any, size: int, stride: int, padding: str = "VALID") -> Any:
    return hf.nn.max_pool(x, [1, size, size, 1], [1, stride, stride, 1], padding)


def _alexnet(x: Any) -> Any:
    x = _pool(hf.nn.lrn(_convolution(x, 16, 5, 2)), 3, 2)
    return _pool(_convolution(x, 32), 3, 2)


def _vgg(x: Any) -> Any:
    x = _pool(_convolution(_convolution(x, 8), 8), 2, 2)
    return _pool(_convolution(x, 16), 2, 2)


def _googlenet(x: Any) -> Any:
    x = _convolution(x, 8)
    towers = [_convolution(x, 8, 1), _convolution(_convolution(x, 4, 1), 8),
              _convolution(_convolution(x, 4, 1), 8, 5),
              _convolution(_pool(x, 3, 1, "SAME"), 8, 1)]
    return hf.nn.avg_pool(hf.concat(towers, 3), [1, 8, 8, 1], [1, 8, 8, 1], "VALID")


def _resnet(x: Any) -> Any:
    x = _convolution(x, 8, norm=True)
    x = x + _convolution(x, 8, norm=True)
    return hf.reduce_mean(_convolution(x, 16, 3, 2, norm=True), [1, 2], keepdims=True)


def _images(network: Callable, optimizer: Callable) -> Callable[[], Training]:
    def build() -> Training:
        x, labels = hf.placeholder(hf.float32, [4, 32, 32, 3]), hf.placeholder(hf.int32, [4])
        features = hf.layers.flatten(network(x))
        logits = hf.matmul(hf.nn.dropout(features, keep_prob=0.5), _weights(
            int(features.shape[1]), 10))
        loss = hf.reduce_mean(hf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=labels, logits=logits))
        with hf.control_dependencies(hf.get_collection(hf.GraphKeys.UPDATE_OPS)):
            train = optimizer().minimize(loss)
        return Training([train, loss], {x: _drawn().random((4, 32, 32, 3), np.float32),
                                        labels: [1, 2, 3, 4]})

    return build


def _language(cell: Callable, dynamic: bool) -> Callable[[], Training]:
    def build() -> Training:
        ids, wanted = (hf.placeholder(hf.int32, [BATCH, STEPS]) for _ in range(2))
        inputs = hf.nn.embedding_lookup(_weights(WORDS, WIDTH), ids)
        if dynamic:
            outputs, _ = hf.nn.dynamic_rnn(cell(WIDTH), inputs, dtype=hf.float32)
        else:
            found, _ = hf.nn.static_rnn(cell(WIDTH), hf.unstack(inputs, axis=1), dtype=hf.float32)
            outputs = hf.stack(found, 1)
        logits = hf.matmul(hf.reshape(outputs, [-1, WIDTH]), _weights(WIDTH, WORDS))
        loss = hf.reduce_mean(hf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=hf.reshape(wanted, [-1]), logits=logits))
        variables = hf.trainable_variables()
        gradients, _ = hf.clip_by_global_norm(hf.gradients(loss, variables), 5.0)
        step = hf.train.get_or_create_global_step()
        rate = hf.train.exponential_decay(1.0, step, 10, 0.9)
        train = hf.train.GradientDescentOptimizer(rate).apply_gradients(
            zip(gradients, variables), global_step=step)
        words = _drawn().integers(WORDS, size=(BATCH, STEPS))
        return Training([train, loss], {ids: words, wanted: words})

    return build


def word2vec() -> Training:
    """Skip-grams by noise contrastive estimation."""
    ids, labels = hf.placeholder(hf.int32, [8]), hf.placeholder(hf.int32, [8, 1])
    embedded = hf.nn.embedding_lookup(_weights(1000, WIDTH), ids)
    loss = hf.reduce_mean(hf.nn.nce_loss(
        _weights(1000, WIDTH), hf.Variable(hf.zeros([1000])), labels, embedded, 5, 1000))
    train = hf.train.GradientDescentOptimizer(1.0).minimize(loss)
    words = _drawn().integers(1000, size=8)
    return Training([train, loss], {ids: words, labels: words[:, None]})


def seq2seq() -> Training:
    """An encoder and a decoder of GRUs, over sequences of different lengths."""
    source, target = (hf.placeholder(hf.int32, [4, None]) for _ in range(2))
    lengths, table = hf.placeholder(hf.int32, [4]), _weights(30, 8)
    lookup, cell = hf.nn.embedding_lookup, hf.nn.rnn_cell.GRUCell
    _, state = hf.nn.dynamic_rnn(cell(8), lookup(table, source), sequence_length=lengths,
                                 dtype=hf.float32, scope="encoder")
    outputs, _ = hf.nn.dynamic_rnn(cell(8), lookup(table, target), initial_state=state,
                                   scope="decoder")
    loss = hf.contrib.seq2seq.sequence_loss(hf.layers.dense(outputs, 30), target,
                                            hf.ones_like(target, hf.float32))
    train = hf.train.AdamOptimizer(0.01).minimize(loss)
    words = _drawn().integers(30, size=(4, 5))
    return Training([train, loss], {source: words, target: words, lengths: [5, 4, 3, 2]})


WORKLOADS: dict[str, Callable[[], Training]] = {
    "figure1": figure1,
    "alexnet": _images(_alexnet, lambda: hf.train.MomentumOptimizer(0.1, 0.9)),
    "vgg": _images(_vgg, lambda: hf.train.AdamOptimizer()),
    "googlenet": _images(_googlenet, lambda: hf.train.GradientDescentOptimizer(0.1)),
    "resnet": _images(_resnet, lambda: hf.train.RMSPropOptimizer(0.1)),
    "lstm": _language(hf.nn.rnn_cell.BasicLSTMCell, False),
    "lstm block": _language(lambda n: hf.contrib.rnn.LSTMBlockCell(n), False),
    "dynamic lstm": _language(hf.nn.rnn_cell.BasicLSTMCell, True),
    "word2vec": word2vec,
    "seq2seq": seq2seq,
}
