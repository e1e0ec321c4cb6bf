"""Recurrent layers of Keras with the weights of cuDNN, and cells of one's own."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf

layers = hf.keras.layers


@pytest.mark.parametrize(("kind", "plain", "options"), [
    ("CuDNNLSTM", "LSTM", {}), ("CuDNNGRU", "GRU", {"reset_after": True})])
def test_layers_of_cudnn_are_those_with_sigmoid_gates(session, kind, plain, options):
    rng = np.random.default_rng(0)
    layer = getattr(layers, kind)(4, return_sequences=True)
    same = getattr(layers, plain)(4, return_sequences=True, recurrent_activation="sigmoid",
                                  **options)
    x = hf.constant(rng.normal(size=(2, 5, 3)).astype(np.float32))
    outputs = layer(x), same(x)
    kernel, recurrent, bias = (
        rng.normal(size=v.shape.as_list()).astype(np.float32) for v in layer.weights)
    biases = bias.reshape(2, -1)
    session.run(hf.global_variables_initializer())
    for own, values in ((layer, (kernel, recurrent, bias)),
                        (same, (kernel, recurrent, biases if options else biases.sum(0)))):
        for variable, value in zip(own.weights, values, strict=True):
            variable.load(value, session)
    np.testing.assert_allclose(*session.run(outputs), rtol=1e-5, atol=1e-6)
    assert type(layer).from_config(layer.get_config()).units == 4


def test_the_forget_gates_of_cudnn_begin_with_one(session):
    layer = layers.CuDNNLSTM(2)
    layer(hf.zeros([1, 3, 2]))
    session.run(hf.global_variables_initializer())
    assert session.run(layer.weights[2]).tolist() == [0.0] * 10 + [1.0] * 2 + [0.0] * 4


class _Summing(layers.AbstractRNNCell):
    @property
    def state_size(self):
        return 3

    @property
    def output_size(self):
        return 3

    def call(self, inputs, states):
        return inputs + states[0], [inputs + states[0]]


def test_a_cell_of_ones_own_begins_with_zeros(session):
    cell = _Summing()
    assert session.run(cell.get_initial_state(hf.ones([2, 3]))).tolist() == [[0.0] * 3] * 2
    output = layers.RNN(cell)(hf.ones([2, 4, 3]))
    assert session.run(output).tolist() == [[4.0] * 3] * 2
