"""Cells of Keras in dynamic_rnn and static_rnn."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.python.keras import Model, Sequential, layers


@pytest.mark.parametrize("kind, of_layer", [("SimpleRNNCell", "SimpleRNN"), ("GRUCell", "GRU"),
                                            ("LSTMCell", "LSTM")])
def test_cells_of_keras(kind, of_layer):
    assert Model is hf.keras.Model and issubclass(Sequential, Model)
    x = np.random.default_rng(1).normal(size=(2, 4, 3)).astype(np.float32)
    with hf.Graph().as_default(), hf.Session() as session:
        cell = getattr(layers, kind)(5)
        outputs, state = hf.nn.dynamic_rnn(cell, hf.constant(x), dtype=hf.float32)
        short, _ = hf.nn.dynamic_rnn(cell, hf.constant(x), [2, 4], dtype=hf.float32)
        unrolled, last = hf.nn.static_rnn(cell, hf.unstack(hf.constant(x), axis=1),
                                          dtype=hf.float32)
        layer = getattr(layers, of_layer)(5, return_sequences=True)
        wanted = layer(hf.constant(x))
        session.run(hf.global_variables_initializer())
        session.run([a.assign(b) for a, b in zip(layer.weights, cell.weights, strict=True)])
        found = session.run([outputs, short, hf.stack(unrolled, axis=1), wanted, state, last])
    np.testing.assert_allclose(found[0], found[3], atol=1e-6)
    np.testing.assert_allclose(found[2], found[3], atol=1e-6)
    np.testing.assert_allclose(found[1], found[3] * (np.arange(4)[None, :, None] < [[[2]], [[4]]]),
                               atol=1e-6)
    np.testing.assert_allclose(found[4], found[5], atol=1e-6)


def test_stacked_cells_of_keras():
    with hf.Graph().as_default(), hf.Session() as session:
        cell = layers.StackedRNNCells([layers.LSTMCell(3), layers.GRUCell(2)])
        outputs, state = hf.nn.dynamic_rnn(cell, hf.ones([2, 4, 3]), dtype=hf.float32)
        session.run(hf.global_variables_initializer())
        found, last = session.run([outputs, state])
    assert found.shape == (2, 4, 2) and [s.shape for s in last] == [(2, 3), (2, 3), (2, 2)]
    np.testing.assert_array_equal(found[:, -1], last[-1])
