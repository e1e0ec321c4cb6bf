"""Layers as objects: the base class, what they expect of inputs, and those of the package."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import hpcflow as hf


class Scale(hf.layers.Layer):
    """Multiplies by a variable."""

    def build(self, input_shape):
        self.factor = self.add_variable("factor", input_shape[-1:],
                                        initializer=hf.constant_initializer(3.0))
        self.built = True

    def call(self, inputs, power=1):
        return inputs * self.factor**power


def names(variables):
    return [v.op.name for v in variables]


# ---------------------------------------------------------------- the base class


def test_a_layer_makes_its_variables_once(session):
    layer, x = Scale(name="scale"), hf.constant([[1.0, 2.0]])
    assert not layer.built and layer.variables == []
    with pytest.raises(ValueError, match="has not been used"):
        layer.scope_name  # noqa: B018 - the property raises
    first, second = layer(x), layer.apply(x, power=2)
    assert layer.built and layer.scope_name == layer.name == "scale"
    assert names(layer.variables) == names(hf.global_variables()) == ["scale/factor"]
    assert first.op.name.startswith("scale/") and layer.count_params() == 2
    session.run(hf.global_variables_initializer())
    assert session.run([first, second])[0].tolist() == [[3, 6]]
    assert session.run(second).tolist() == [[9, 18]]


def test_scopes_are_made_unique_when_layers_are_used(graph):
    x = hf.ones([2])
    made = [Scale(), Scale(), Scale(name="own"), Scale(name="own")]
    with hf.variable_scope("outer"):
        made.append(Scale())
        for layer in reversed(made):
            layer(x)
    assert [layer.scope_name for layer in made] == [
        "outer/scale_2", "outer/scale_1", "outer/own_1", "outer/own", "outer/scale"]
    chosen = Scale()
    with hf.variable_scope("chosen") as scope:
        pass
    chosen(x, scope=scope)
    assert names(chosen.variables) == ["chosen/factor"]


def test_variables_that_a_layer_takes_over_are_its_own(graph):
    with hf.variable_scope("scale"):
        factor = hf.get_variable("factor", [2])
    layer = Scale(_reuse=True)
    layer(hf.ones([2]))
    assert layer.factor is factor and layer.variables == [factor]


def test_no_variables_after_the_first_call(graph):
    class Late(hf.layers.Layer):
        def call(self, inputs):
            if self.built and hf.global_variables():
                self.add_variable("late", [1])
            self.add_variable("early", [1])
            return inputs

    layer = Late()
    layer(hf.ones([1]))
    with pytest.raises(ValueError, match="late/late does not exist"):
        layer(hf.ones([1]))


def test_losses_updates_and_what_is_trained(graph):
    layer = hf.layers.Layer(name="own", activity_regularizer=hf.reduce_sum)
    kept = layer.add_variable("kept", [2], trainable=False)
    trained = layer.add_variable("trained", [2], regularizer=hf.reduce_sum)
    layer(hf.ones([3]))
    layer.add_update(hf.assign(kept, [1.0, 2.0]))
    assert (layer.trainable_variables, layer.non_trainable_weights) == ([trained], [kept])
    assert layer.losses == hf.losses.get_regularization_losses() and len(layer.losses) == 2
    assert layer.updates == hf.get_collection(hf.GraphKeys.UPDATE_OPS) and len(layer.updates) == 1
    assert hf.layers.Dense(2, trainable=False).trainable is False


def test_a_layer_stays_in_its_graph(graph):
    layer = Scale()
    layer(hf.ones([2]))
    with hf.Graph().as_default(), pytest.raises(ValueError, match="graph are not the same"):
        layer(hf.ones([2]))


def test_copies_share_the_graph(graph):
    layer = Scale()
    layer(hf.ones([2]))
    copied = copy.deepcopy(layer)
    assert copied.graph is layer.graph and copied.variables == layer.variables
    layer.add_loss(hf.constant(1.0))
    assert copied.losses == []


def test_dicts_and_nests_of_inputs(graph):
    class Sum(hf.layers.Layer):
        def build(self, input_shape):
            self.seen = input_shape

        def call(self, inputs):
            return inputs

    layer = Sum()
    assert set(layer({"a": 1.0, "b": [2.0]})) == {"a", "b"}
    assert layer.seen["b"].as_list() == [1]
    first, second = Sum()((1.0, hf.constant([2.0])))
    assert (first.shape, second.shape) == ((), (1,))


@pytest.mark.parametrize("spec, bad, good, text", [
    ({"ndim": 2}, [1], [[1]], "expected ndim=2"),
    ({"min_ndim": 2}, [1], [[[1]]], "expected min_ndim=2"),
    ({"max_ndim": 1}, [[1]], 1, "expected max_ndim=1"),
    ({"dtype": "float32"}, 1, 1.0, "expected dtype=float32"),
    ({"axes": {-1: 2}}, [1, 2, 3], [[1, 2]], "expected axis -1"),
    ({"shape": (None, 3)}, [[1, 2]], [[1, 2, 3]], "expected shape="),
], ids=lambda v: next(iter(v)) if isinstance(v, dict) else None)  # fmt: skip
def test_what_inputs_must_be(graph, spec, bad, good, text):
    layer = hf.layers.Layer()
    layer.input_spec = hf.layers.InputSpec(**spec)
    layer(hf.constant(good))
    with pytest.raises(ValueError, match=text):
        layer(hf.constant(bad))
    if "dtype" not in spec:
        with pytest.raises(ValueError, match="requires a defined rank"):
            layer(hf.placeholder(hf.int32))


# ---------------------------------------------------------------- those of the package


def test_dense(session):
    layer = hf.layers.Dense(2, activation=hf.nn.relu, kernel_regularizer=hf.nn.l2_loss)
    assert (layer.units, layer.use_bias, layer.kernel) == (2, True, None)
    x = hf.constant(np.arange(12, dtype=np.float32).reshape(4, 3))
    y, again = layer(x), layer(x)
    assert y.op.name == "dense/Relu" and layer.variables == [layer.kernel, layer.bias]
    assert len(hf.trainable_variables()) == 2 and len(layer.losses) == 1
    function = hf.layers.dense(x, 2, hf.nn.relu, name="dense", reuse=True)
    session.run(hf.global_variables_initializer())
    for values in session.run([again, function]):
        np.testing.assert_array_equal(values, session.run(y))
    assert layer.compute_output_shape([None, 7, 3]).as_list() == [None, 7, 2]
    with pytest.raises(ValueError, match="isn't built"):
        hf.layers.Dense(16).count_params()
    built = hf.layers.Dense(16)
    built.build((None, 4))
    assert built.count_params() == 80
    with pytest.raises(TypeError):
        hf.layers.Dense(2, no_such_argument=1)


@pytest.mark.parametrize("kind, arguments, inputs, outputs, made", [
    ("Conv1D", (8, 3), [5, 7, 2], [5, 5, 8], [[3, 2, 8], [8]]),
    ("Conv2D", (8, 3), [5, 7, 9, 2], [5, 5, 7, 8], [[3, 3, 2, 8], [8]]),
    ("Conv3D", (8, 2), [1, 3, 4, 5, 2], [1, 2, 3, 4, 8], [[2, 2, 2, 2, 8], [8]]),
    ("Conv2DTranspose", (8, 3, 2, "same"), [1, 3, 4, 2], [1, 6, 8, 8], [[3, 3, 8, 2], [8]]),
    ("Conv3DTranspose", (4, 3, 2), [1, 2, 3, 2, 2], [1, 5, 7, 5, 4], [[3, 3, 3, 4, 2], [4]]),
    ("SeparableConv1D", (8, 3, 2), [1, 5, 2], [1, 2, 8], [[3, 2, 1], [1, 2, 8], [8]]),
    ("SeparableConv2D", (8, 3), [1, 5, 5, 2], [1, 3, 3, 8], [[3, 3, 2, 1], [1, 1, 2, 8], [8]]),
    ("Flatten", (), [2, 3, 4], [2, 12], []),
    ("MaxPooling1D", (2, 2), [1, 4, 3], [1, 2, 3], []),
    ("AveragePooling2D", (2, 2), [1, 4, 4, 3], [1, 2, 2, 3], []),
    ("MaxPooling3D", (2, 2), [1, 4, 4, 4, 3], [1, 2, 2, 2, 3], []),
], ids=lambda v: v if isinstance(v, str) else "")  # fmt: skip
def test_shapes(graph, kind, arguments, inputs, outputs, made):
    layer = getattr(hf.layers, kind)(*arguments)
    assert layer(hf.ones(inputs)).shape.as_list() == outputs
    assert [v.shape.as_list() for v in layer.variables] == made
    assert layer.compute_output_shape(inputs).as_list() == outputs


def test_batch_normalization(session):
    layer, training = hf.layers.BatchNormalization(momentum=0.5), hf.placeholder(hf.bool)
    x = hf.constant([[1.0, 2.0], [3.0, 6.0]])
    layer(x, training=training)
    assert layer.trainable_variables == [layer.gamma, layer.beta]
    assert layer.non_trainable_variables == [layer.moving_mean, layer.moving_variance]
    assert layer.updates == hf.get_collection(hf.GraphKeys.UPDATE_OPS) and len(layer.updates) == 2
    session.run(hf.global_variables_initializer())
    session.run(layer.updates, {training: True})
    assert session.run(layer.moving_mean).tolist() == [1, 2]


def test_dropout(session):
    layer, x = hf.layers.Dropout(0.5), hf.ones([20])
    kept, dropped = layer(x), layer(x, training=True)
    assert session.run(kept).tolist() == [1] * 20
    assert set(session.run(dropped).tolist()) == {0, 2}


def test_names_are_not_used_up_by_wrong_arguments(graph):
    with pytest.raises(ValueError, match="kernel_size"):
        hf.layers.conv2d(hf.ones([1, 4, 4, 1]), 2, (1, 2, 3))
    assert hf.layers.conv2d(hf.ones([1, 4, 4, 1]), 2, 3).op.name == "conv2d/BiasAdd"


def test_layers_in_a_given_scope_and_with_the_variables_of_others(graph):
    with hf.variable_scope("given") as scope:
        pass
    first = hf.layers.Dense(3, _scope=scope)
    first(hf.ones([2, 4]))
    second = hf.layers.Dense(3, _scope="given", _reuse=True)
    second(hf.ones([2, 4]))
    assert [v.op.name for v in first.variables] == ["given/kernel", "given/bias"]
    assert second.trainable_weights == first.trainable_weights


def test_losses_and_updates_know_whether_they_depend_on_inputs():
    class Penal(hf.layers.Layer):
        def build(self, input_shape):
            self.scale = self.add_variable("scale", [], hf.float32)
            self.add_loss(self.scale)
            super().build(input_shape)

        def call(self, inputs):
            self.add_loss(hf.reduce_sum(inputs), inputs=inputs)
            return inputs * self.scale

    first, second = hf.placeholder(hf.float32, [2]), hf.placeholder(hf.float32, [2])
    layer = Penal()
    result = layer(first + 1)
    layer(second)
    assert len(layer.losses) == 3 and layer.get_losses_for(None) == [layer.scale]
    assert layer.get_losses_for(first) == [layer.losses[1]]
    assert layer.get_losses_for([second]) == [layer.losses[2]]
    assert layer.get_losses_for(result) == []
    images = hf.placeholder(hf.float32, [None, 3])
    norm = hf.layers.BatchNormalization(gamma_regularizer=hf.nn.l2_loss)
    norm(images, training=True)
    assert norm.get_updates_for(None) == [] and norm.get_updates_for(images) == norm.updates
    dense = hf.layers.Dense(2, kernel_regularizer=hf.nn.l2_loss, activity_regularizer=hf.nn.l2_loss)
    dense(images)
    assert len(dense.get_losses_for(images)) == len(dense.get_losses_for(None)) == 1


def test_variables_that_are_combined_when_read_are_not_trained():
    layer, kind = hf.layers.Layer(name="counted"), hf.VariableSynchronization.ON_READ
    layer.add_variable("count", [], hf.float32, synchronization=kind)
    (count,) = layer.non_trainable_variables
    assert count not in hf.trainable_variables()
    with pytest.raises(ValueError, match="only for non-trainable variables"):
        layer.add_variable("other", [], hf.float32, trainable=True, synchronization=kind)


def test_values_of_the_variables_of_a_layer(graph):
    layer = hf.layers.Dense(2)
    layer(hf.ones([1, 3]))
    with pytest.raises(ValueError, match="session"):
        layer.get_weights()
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        layer.set_weights([np.ones((3, 2)), [4.0, 5.0]])
        kernel, bias = layer.get_weights()
        assert kernel.tolist() == [[1, 1]] * 3 and bias.tolist() == [4, 5]
        with pytest.raises(ValueError, match="2 variables"):
            layer.set_weights([kernel])
        with pytest.raises(ValueError, match="has shape"):
            layer.set_weights([bias, bias])


@pytest.mark.usefixtures("graph")
def test_names_of_layers_without_one():
    first, second = hf.layers.Dense(2), hf.layers.Dense(2)
    named = [layer.name for layer in (first, second, hf.layers.Dense(2, name="mine"))]
    assert named == ["dense_1", "dense_2", "mine"] and hf.keras.layers.Dense(2).name == "dense_2"
    second(hf.ones([1, 3]))
    assert second.kernel.name == "dense/kernel:0" and second.name == "dense_2"
    with hf.Graph().as_default():
        assert hf.layers.Dense(2).name == "dense_1"
    with hf.variable_scope("taken") as scope:
        assert hf.layers.Dense(2, _scope=scope).scope_name == "taken"
