"""Layers of the graph API inside of models of Keras, and tensors that models lie between."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hpcflow as tf
from hpcflow.keras import tf_utils as keras_tf_utils


class _Net(tf.keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = tf.layers.Dense(2), tf.keras.layers.Dense(2)
        self.c = tf.keras.layers.Dense(2, name="dense_1_1")

    def call(self, x: Any) -> Any:
        return self.c(self.b(self.a(x)))


@pytest.mark.parametrize("by_name", [False, True])
def test_layers_of_one_name_in_files(by_name: bool, tmp_path: Path) -> None:
    """Numbers are counted together and begin at 1 here, at none there: as in 1.x, names meet."""
    pytest.importorskip("h5py")
    tf.keras.backend.clear_session()
    net, path = _Net(), str(tmp_path / "weights.h5")
    assert [layer.name for layer in net.layers] == ["dense_1", "dense_1", "dense_1_1"]
    net(tf.ones([1, 2]))
    values = [np.full(v.shape.as_list(), n, np.float32) for n, v in enumerate(net.weights)]
    net.set_weights(values)
    net.save_weights(path)
    net.set_weights([0 * v for v in values])
    net.load_weights(path, by_name=by_name)
    for found, value in zip(net.get_weights(), values, strict=True):
        np.testing.assert_array_equal(found, value)


class _Scoped(tf.keras.layers.Layer):
    def __init__(self, name: str, inner: Any = None) -> None:
        super().__init__(name=name)
        self.inner = inner or tf.layers.Dense(2)
        self.dense, self.keras = tf.layers.Dense(2), tf.keras.layers.Dense(2, name="own")

    def call(self, x: Any) -> Any:
        with tf.variable_scope(f"in_{self.name}"):
            x = self.keras(self.inner(x))
        with tf.variable_scope("shared", reuse=tf.AUTO_REUSE):
            x = tf.layers.Dense(2)(x)
        return self.dense(x)


def test_variable_scopes_inside_of_a_layer() -> None:
    """Names of 1.x: layers of graphs do not see the scopes of Keras, but all others, and they are
    counted with those outside of the layer."""
    layer = _Scoped("k", _Scoped("i"))
    with tf.Graph().as_default(), tf.variable_scope("outer"):
        layer(layer(tf.ones([1, 2])))
        tf.layers.dense(tf.ones([1, 2]), 2)
        names = [v.op.name.removesuffix("/kernel") for v in tf.global_variables()]
    assert [name for name in names if not name.endswith("bias")] == [
        f"outer/{name}" for name in (
            "in_k/in_i/dense", "k/in_k/i/in_i/own", "in_k/shared/dense", "in_k/dense", "k/in_k/own",
            "shared/dense", "dense", "dense_1")]


def test_tensors_that_a_model_lies_between() -> None:
    """Also where it is called afterwards, and where a model of features is made of its layers."""
    x = tf.keras.Input((2,))
    hidden = tf.keras.layers.Dense(3)(x)
    model = tf.keras.Model(x, tf.keras.layers.Dense(1)(hidden))
    result, called = model.output, model(tf.keras.Input((2,)))
    assert (model.input, model.output) == (x, result) and model.get_output_at(1) is called
    assert (model.input_shape, model.output_shape) == ((None, 2), (None, 1))
    features = tf.keras.Model(model.input, model.layers[1].output)
    assert features.output is hidden
    chain = tf.keras.Sequential([tf.keras.layers.Dense(4, input_shape=(2,))])
    assert (chain.input_shape, chain.output_shape) == ((None, 2), (None, 4))
    with pytest.raises(AttributeError):
        _ = tf.keras.Sequential([tf.keras.layers.Dense(1)]).output


def test_classes_that_stand_for_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    from hpcflow.python.keras.utils import tf_utils

    monkeypatch.setattr(keras_tf_utils, "_TENSOR_LIKE", [])

    class Drawn:
        pass

    assert not tf_utils.is_symbolic_tensor(Drawn())
    tf_utils.register_symbolic_tensor_type(Drawn)
    assert tf_utils.is_symbolic_tensor(Drawn()) and tf_utils.is_symbolic_tensor(tf.constant(1))


def test_arguments_by_their_places() -> None:
    """Those that only have names stay these; one that is given twice is an error."""

    class Sum(tf.keras.layers.Layer):
        def call(self, inputs: Any, *others: Any, training: Any = None) -> Any:
            return inputs + sum(others)

    class Plus(tf.keras.layers.Layer):
        def call(self, inputs: Any, other: Any = 0.0) -> Any:
            return inputs + other

    one = tf.constant([1.0])
    assert tf.keras.backend.get_value(Sum()(one, one, one)).tolist() == [3.0]
    assert tf.keras.backend.get_value(Plus()(one, one)).tolist() == [2.0]
    with pytest.raises(TypeError, match="other"):
        Plus()(one, one, other=one)


def test_scalars_among_keywords_are_written() -> None:
    tf.keras.backend.clear_session()

    class Times(tf.keras.layers.Layer):
        def call(self, inputs: Any, by: Any = None, flag: Any = None) -> Any:
            return inputs * by

    x = tf.keras.Input((2,))
    model = tf.keras.Model(x, Times()(x, by=tf.constant(2.0), flag=tf.constant(True)))
    assert model.get_config()["layers"][1]["inbound_nodes"][0][0][3] == {"by": 2.0, "flag": True}


def test_models_of_very_many_operations() -> None:
    tf.keras.backend.clear_session()
    x = y = tf.keras.Input((2,))
    for _ in range(1500):
        y = y + 1.0
    assert tf.keras.Model(x, y).predict(np.zeros((1, 2))).tolist() == [[1500.0, 1500.0]]
