"""contrib.quantize: folded batch normalizations, and what is rounded where."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.contrib.quantize.folding import fold_batch_norms

slim = hf.contrib.slim
_IMAGES = np.random.RandomState(0).randn(4, 8, 8, 3).astype(np.float32)


@pytest.fixture(autouse=True)
def graph():
    with hf.Graph().as_default() as graph:
        yield graph


def _model(training):
    norm = {"normalizer_fn": slim.batch_norm,
            "normalizer_params": {"is_training": training, "scale": True, "decay": 0.5}}
    x = slim.conv2d(_IMAGES, 4, 3, scope="c", activation_fn=hf.nn.relu6, **norm)
    y = slim.separable_conv2d(x, None, 3, depth_multiplier=1, scope="d", **norm)
    y = slim.conv2d(y, 4, 3, scope="r", activation_fn=None, **norm)
    z = slim.conv2d(hf.nn.relu(y + x), 4, 3, rate=2, scope="a", **norm)
    z = slim.fully_connected(slim.flatten(slim.max_pool2d(z, 2)), 5, scope="f", **norm)
    return slim.fully_connected(z, 3, activation_fn=None, scope="out")


def _initialize(session):
    session.run(hf.global_variables_initializer())
    numbers = np.random.RandomState(1)
    for variable in sorted(hf.global_variables(), key=lambda v: v.name):
        shape = variable.shape.as_list()
        session.run(variable.assign(numbers.uniform(0.1, 1.0, shape) - 0.5 * (len(shape) > 1)))


@pytest.mark.parametrize("training", [False, True])
def test_folding_changes_no_values(graph, training):
    def evaluated(fold):
        with hf.Graph().as_default() as own, hf.Session() as session:
            out = _model(training)
            if fold:
                fold_batch_norms(own)
            loss = hf.reduce_mean(hf.square(out))
            gradients = hf.gradients(loss, hf.trainable_variables())
            _initialize(session)
            values = session.run([out, *gradients])
            session.run(hf.get_collection(hf.GraphKeys.UPDATE_OPS))
            return values, session.run(hf.moving_average_variables() or hf.model_variables()), \
                any(op.name == "c/mul_fold" for op in own.get_operations())

    plain, kept, _ = evaluated(False)
    folded, moved, is_folded = evaluated(True)
    assert is_folded
    for a, b in zip([*plain, *kept], [*folded, *moved], strict=True):
        np.testing.assert_allclose(b, a, rtol=2e-3, atol=2e-4)


def test_what_is_rounded():
    with hf.Session() as session:
        out = _model(True)
        hf.contrib.quantize.create_training_graph(quant_delay=2)
        rounded = {v.name.removesuffix("/min:0") for v in hf.global_variables()
                   if v.name.endswith("/min:0")}
        assert rounded == {
            *(f"{scope}/weights_quant" for scope in ("c", "d", "r", "f", "out")),
            *(f"{scope}/act_quant" for scope in ("c", "d", "f", "out")), "r/conv_quant",
            "act_quant", "a/Conv2D/weights_quant", "a/Conv2D/act_quant"}
        train = hf.train.GradientDescentOptimizer(0.1).minimize(hf.reduce_mean(hf.square(out)))
        with pytest.raises(ValueError, match="Training op found"):
            hf.contrib.quantize.create_training_graph()
        _initialize(session)
        session.run(train)
        weights, low = session.run(["c/mul_fold:0", "c/weights_quant/min:0"])
        assert low < 0 and weights.min() < 0


def test_rounded_values_for_inference():
    with hf.variable_scope("layer"):
        weights = hf.get_variable("w", initializer=np.float32([[-1.0, 0.26], [0.5, 1.0]]))
        out = hf.nn.relu(hf.nn.bias_add(hf.matmul(np.float32([[1, 2]]), weights), [0.0, 0.1]))
    result = hf.identity(out)
    hf.contrib.quantize.experimental_create_eval_graph(weight_bits=3, activation_bits=4)
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        for name, low, high in (("weights_quant", -1.5, 1.5), ("act_quant", 0, 7.5)):
            for end, value in (("min", low), ("max", high)):
                variable = next(v for v in hf.global_variables()
                                if v.name == f"layer/{name}/{end}:0")
                session.run(variable.assign(value))
        # Weights in steps of 0.5, activations in steps of 0.5.
        assert session.run(result).tolist() == [[0.0, 2.5]]
