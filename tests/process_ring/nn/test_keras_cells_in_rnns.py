"""Cells of Keras in dynamic_rnn and static_rnn."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.nn import rnn_cell
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
    assert found.shape == (2, 4, 2) and isinstance(last, tuple)
    assert [s.shape for s in last[0]] == [(2, 3), (2, 3)] and last[1].shape == (2, 2)
    np.testing.assert_array_equal(found[:, -1], last[-1])


def test_layers_of_stacked_cells_tell_the_states_of_each():
    with hf.Graph().as_default(), hf.Session() as session:
        layer = layers.RNN([layers.LSTMCell(3), layers.GRUCell(2)], return_state=True)
        last, first_states, second_state = layer(hf.ones([2, 4, 3]))
        again = layer(hf.ones([2, 4, 3]), initial_state=[first_states, second_state])
        assert layer.cell.state_size == ([3, 3], 2) and len(again) == 3
        session.run(hf.global_variables_initializer())
        values = session.run([last, first_states, second_state])
    assert [v.shape for v in values[1]] == [(2, 3)] * 2
    np.testing.assert_array_equal(values[0], values[2])


@pytest.mark.parametrize("make", [
    lambda: rnn_cell.LSTMCell(5, use_peepholes=True), lambda: rnn_cell.BasicLSTMCell(5),
    lambda: rnn_cell.BasicRNNCell(5, activation="relu"), lambda: rnn_cell.GRUCell(5)])
def test_other_cells_in_layers_of_keras(make):
    x = np.random.default_rng(1).normal(size=(2, 4, 3)).astype(np.float32)
    with hf.Graph().as_default():
        inputs = layers.Input((None, 3))
        layer = layers.RNN(make())
        model = Model(inputs, layer(inputs))
        found, weights = model.predict(x), model.get_weights()
        again = layers.RNN.from_config(layer.get_config(), custom_objects={
            type(layer.cell).__name__: type(layer.cell)})
        other = Model(inputs, again(inputs))
        other.set_weights(weights)
        assert len(weights) == len(layer.cell.variables)
        np.testing.assert_allclose(other.predict(x), found, atol=1e-6)


def test_activations_of_cells_by_name():
    with pytest.raises(ValueError, match="Unknown activation function"):
        rnn_cell.GRUCell(2, activation="none")
