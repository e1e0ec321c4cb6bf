"""Layers of Keras: what they show before they are called, and operations between them."""

from __future__ import annotations

import inspect
import json

import numpy as np
import pytest

import hpcflow as tf

keras, layers = tf.keras, tf.keras.layers


@pytest.fixture(autouse=True)
def _own_session():
    keras.backend.clear_session()
    yield
    keras.backend.clear_session()


def test_build_alone_makes_the_variables():
    dense, norm = layers.Dense(3), layers.BatchNormalization()
    dense.build((None, 4))
    norm.build((None, 4))
    assert [v.name for v in dense.weights] == ["dense/kernel:0", "dense/bias:0"]
    assert len(norm.weights) == 4 and not tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    outputs = dense(keras.Input((4,)))
    assert outputs.name == "dense/BiasAdd:0" and len(dense.weights) == 2


def test_constructors_show_their_arguments():
    own = inspect.getfullargspec(layers.Dense.__init__).args
    assert own[:4] == ["self", "units", "activation", "use_bias"] and own[8] == (
        "activity_regularizer")
    assert inspect.getfullargspec(tf.layers.Dense.__init__).args[:3] == own[:3]
    assert inspect.getfullargspec(layers.Conv2DTranspose.__init__).args[5] == "output_padding"


def test_signatures_of_results_have_the_type_of_the_layer():
    spec = layers.Dense(3).compute_output_signature(tf.TensorSpec((2, 4), tf.float64))
    assert (spec.shape.as_list(), spec.dtype) == ([2, 3], tf.float64)


def test_what_is_inside_is_frozen_with_a_model():
    base = keras.Sequential([layers.Dense(2, input_shape=(3,)), layers.Dense(2)])
    base.trainable = False
    whole = keras.Model(base.inputs, layers.Dense(1)(base.output))
    assert len(whole.trainable_weights) == 2 and len(whole.non_trainable_weights) == 4


@pytest.mark.parametrize(("layer", "drawn"), [
    (layers.SimpleRNN, 2), (layers.GRU, 6), (layers.LSTM, 8)])
def test_each_gate_drops_inputs_of_its_own(layer, drawn):
    layer(2, dropout=0.5, recurrent_dropout=0.5)(tf.ones([1, 3, 2]), training=True)
    ops = [op for op in tf.get_default_graph().get_operations() if op.type == "RandomUniform"]
    assert sum("dropout" in op.name for op in ops) == drawn


def test_operations_between_layers_belong_to_models():
    x = keras.Input((4,))
    hidden = layers.Dense(3)(x)
    y = tf.concat([tf.nn.relu(hidden) * 2.0, tf.reduce_mean(x, 1, keepdims=True)], 1)
    model = keras.Model(x, layers.Dense(2)(y) + 1.0)
    assert [v.name for v in model.layers if "op_layer" in v.name] == [
        f"tf_op_layer_{n}" for n in ("Relu", "mul", "Mean", "concat", "add")]
    data = np.random.RandomState(0).randn(3, 4).astype(np.float32)
    expected = model.predict(data)
    other = keras.models.model_from_json(model.to_json())
    other.set_weights(model.get_weights())
    np.testing.assert_array_equal(other.predict(data), expected)
    np.testing.assert_array_equal(keras.backend.get_value(model(tf.constant(data))), expected)


def test_functions_as_layers_in_configurations():
    factor = 3.0
    layer = layers.Lambda(lambda x, more: x * factor + more, arguments={"more": 1.0})
    other = layers.Lambda.from_config(layer.get_config())
    assert other.function(2.0, **other.arguments) == 7.0
    owner = layers.Lambda(lambda x: x * tf.Variable(2.0, name="factor"))
    for _ in range(2):
        owner(tf.ones([1, 2]))
    assert [v.name for v in owner.trainable_weights] == ["lambda_1/factor:0"]


def test_other_tensors_that_a_layer_is_called_with():
    class Sum(layers.Layer):
        def call(self, inputs, more):
            return inputs + more

    x = keras.Input((2,))
    model = keras.Model(x, Sum()(x, layers.Dense(2, kernel_initializer="ones")(x)))
    assert model.predict(np.ones((1, 2))).tolist() == [[3.0, 3.0]]
    assert len(model.trainable_weights) == 2


def test_a_class_with_more_arguments_says_its_configuration():
    class Own(layers.Layer):
        def __init__(self, size, **keywords):
            super().__init__(**keywords)

    with pytest.raises(NotImplementedError, match="must override `get_config`"):
        Own(3).get_config()


def test_weights_without_a_suffix_are_a_checkpoint_by_layers(tmp_path):
    path = str(tmp_path / "weights")
    model = keras.Sequential([layers.Dense(2, name="first", input_shape=(3,))])
    model.compile("adam", "mse")
    model.train_on_batch(np.ones((1, 3)), np.ones((1, 2)))
    model.save_weights(path)
    assert tf.train.latest_checkpoint(str(tmp_path)) == path
    other = keras.Sequential([layers.Dense(2, name="other", input_shape=(3,))])
    other.load_weights(path).assert_existing_objects_matched()
    np.testing.assert_array_equal(other.get_weights()[0], model.get_weights()[0])
    with pytest.raises(ValueError, match="have not yet been created"):
        keras.Sequential([layers.Dense(2)]).save_weights(path)


def test_rates_that_follow_from_the_step():
    schedules = keras.optimizers.schedules
    rate = schedules.PiecewiseConstantDecay([1, 2], [1.0, 0.5, 0.25])
    optimizer = keras.optimizers.SGD.from_config(keras.optimizers.SGD(rate).get_config())
    variable = tf.Variable(0.0)
    step = optimizer.minimize(lambda: 1.0 * variable, [variable])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        found = [session.run([step, variable])[0] or session.run(variable) for _ in range(4)]
    assert found == [-1.0, -2.0, -2.5, -2.75]


def test_steps_of_a_function_over_masked_sequences():
    x = tf.constant(np.arange(12.0, dtype=np.float32).reshape(2, 3, 2))
    mask = tf.constant([[True, False, True], [False, True, True]])
    found = [keras.backend.rnn(lambda v, s: (v + s[0], [v + s[0]]), x, [tf.zeros([2, 2])],
                               mask=mask, unroll=unroll)[1] for unroll in (False, True)]
    looped, unrolled = tf.Session().run(found)
    np.testing.assert_array_equal(looped, unrolled)
    assert looped[:, :, 0].tolist() == [[0.0, 0.0, 4.0], [0.0, 8.0, 18.0]]


def test_estimators_of_models():
    wrappers = keras.wrappers.scikit_learn

    def build(units=2):
        model = keras.Sequential([layers.Dense(units, "relu", input_shape=(2,)),
                                  layers.Dense(2, "softmax")])
        model.compile("adam", "categorical_crossentropy", metrics=["accuracy"])
        return model

    rows, names = np.eye(2, dtype=np.float32)[[0, 1] * 5], np.array(["a", "b"] * 5)
    model = wrappers.KerasClassifier(build, units=3, epochs=1, verbose=0)
    model.fit(rows, names)
    assert set(model.predict(rows)) <= {"a", "b"} and 0 <= model.score(rows, names) <= 1
    with pytest.raises(ValueError, match="depth is not a legal parameter"):
        model.set_params(depth=2)


class Shifted:
    """A cell that begins with ones, adds a constant and counts otherwise in training."""

    state_size = 1

    def get_initial_state(self, inputs=None, batch_size=None, dtype=None):
        return tf.ones(tf.stack([batch_size, 1]), dtype)

    def call(self, inputs, states, constants=(0.0,), training=None):
        output = inputs + states[0] + constants[0] + (10.0 if training else 0.0)
        return output, [output]


def test_cells_get_constants_their_first_state_and_the_phase():
    steps, constant = keras.Input((2, 1)), keras.Input((1,))
    layer = layers.RNN(Shifted())
    model = keras.Model([steps, constant], layer(steps, constants=constant))
    x = [np.ones((1, 2, 1)), np.full((1, 1), 5.0)]
    assert model.predict(x).tolist() == [[13.0]]
    assert keras.backend.get_value(model([tf.constant(v, tf.float32) for v in x])) == 13.0
    assert keras.backend.get_value(layers.RNN(Shifted())(tf.ones([1, 2, 1]), training=True)) == 23.0


class _Plus(layers.Layer):
    def call(self, inputs, others=None, mask=None):
        return inputs if others is None else sum(others, inputs)


def test_tensors_among_keywords_are_in_the_configuration():
    ends = [keras.Input((2,)), keras.Input((2,))]
    model = keras.Model(ends, _Plus()(ends[0], others=[ends[1], 4 * tf.ones((1, 2))]))
    config = json.loads(json.dumps(model.get_config()))
    again = keras.Model.from_config(config, {"_Plus": _Plus})
    given = [np.ones((3, 2)), np.full((3, 2), 2.0)]
    assert again.predict(given).tolist() == model.predict(given).tolist() == [[7, 7]] * 3


def test_steps_of_time_distributed_are_masked():
    wrapped = layers.TimeDistributed(layers.LSTM(2))
    inputs = keras.Input((3, None, 4))
    outputs = wrapped(layers.TimeDistributed(layers.Masking())(inputs))
    values = np.random.rand(2, 3, 5, 4).astype(np.float32)
    values[:, :, 3:] = 0
    model = keras.Model(inputs, outputs)
    np.testing.assert_allclose(model.predict(values), model.predict(values[:, :, :3]), rtol=1e-5)
    with pytest.raises(ValueError, match="at least 3 dimensions"):
        layers.TimeDistributed(layers.Dense(1)).build((None, 2))


def test_layers_of_both_directions_fit_each_other():
    ahead, back = layers.LSTM(2), layers.LSTM(2, go_backwards=True, name="mine")
    layer = layers.Bidirectional(ahead, backward_layer=back)
    again = layers.Bidirectional.from_config(layer.get_config())
    assert again.backward_layer.name == layer.backward_layer.name == "backward_mine"
    with pytest.raises(ValueError, match="different `go_backwards`"):
        layers.Bidirectional(ahead, backward_layer=layers.LSTM(2))
    with pytest.raises(ValueError, match="attribute return_state"):
        layers.Bidirectional(ahead, backward_layer=layers.LSTM(
            2, go_backwards=True, return_state=True))


def test_updates_are_those_of_when_the_model_was_compiled():
    norm = layers.BatchNormalization()
    frozen = keras.Sequential([layers.InputLayer(4), norm])
    norm.trainable = False
    frozen.compile("sgd", "mse")
    norm.trainable = True
    x = np.ones((3, 4), np.float32)
    before = frozen.predict(x)
    frozen.train_on_batch(tf.constant(x), tf.constant(x))
    assert before.tolist() == frozen.predict(x).tolist()
    while frozen.layers:
        frozen.pop()
    assert frozen.inputs is None and frozen.outputs is None
