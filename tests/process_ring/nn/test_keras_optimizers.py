"""Optimizers of models: constraints, and optimizers of a program's own."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow import keras
from hpcflow.python.keras.optimizer_v2.optimizer_v2 import OptimizerV2

X = np.random.default_rng(0).normal(size=(16, 3)).astype("float32")
Y = X @ np.array([[2.0], [-3.0], [1.0]], "float32")


@pytest.fixture(autouse=True)
def graph():
    keras.backend.clear_session()
    yield
    keras.backend.clear_session()


def model(optimizer, constraint=None):
    net = keras.Sequential([keras.layers.Dense(1, use_bias=False, input_shape=(3,),
                                               kernel_initializer="ones",
                                               kernel_constraint=constraint)])
    net.compile(optimizer, "mse")
    net.fit(X, Y, epochs=5, batch_size=16, shuffle=False, verbose=0)
    return net.get_weights()[0].ravel()


class Own(OptimizerV2):
    """Momentum by the methods and hyperparameters of 1.x."""

    def __init__(self, learning_rate=0.1, momentum=0.9, name="Own", **keywords):
        super().__init__(name, **keywords)
        self._set_hyper("learning_rate", keywords.get("lr", learning_rate))
        self._set_hyper("decay", self._initial_decay)
        self._set_hyper("momentum", momentum)

    def _create_slots(self, var_list):
        for var in var_list:
            self.add_slot(var, "momentum")

    def _resource_apply_dense(self, grad, var, apply_state=None):
        shared = apply_state[var.device, var.dtype.base_dtype]
        moved = self._get_hyper("momentum", var.dtype.base_dtype) * self.get_slot(var, "momentum")
        velocity = hf.assign(self.get_slot(var, "momentum"), moved - shared["lr_t"] * grad)
        return hf.assign_add(var, velocity).op

    def get_config(self):
        return {**super().get_config(), **{name: self._serialize_hyperparameter(name) for name in (
            "learning_rate", "decay", "momentum")}}


@pytest.mark.parametrize("options", [{}, {"decay": 0.1}, {"clipvalue": 0.5}, {"lr": 0.05}])
def test_an_optimizer_of_its_own(options):
    own = Own(**options)
    np.testing.assert_allclose(model(own), model(keras.optimizers.SGD(
        **{"learning_rate": 0.1, "momentum": 0.9, **options})), rtol=1e-5)
    assert len(own.weights) == 2 == len(own.get_weights()) and own.variables() == own.weights
    own.lr = 0.5
    assert own.get_config()["learning_rate"] == 0.5 and own.get_slot_names() == ["momentum"]
    again = Own.from_config(own.get_config())
    assert again.get_config()["momentum"] == pytest.approx(0.9)
    with pytest.raises(TypeError, match="Unexpected keyword"):
        Own(rate=1)


@pytest.mark.parametrize("optimizer", [
    keras.optimizers.SGD, keras.optimizers.Adam, keras.optimizers.RMSprop, Own],
    ids=lambda c: c.__name__)
def test_weights_keep_to_their_constraint(optimizer):
    weights = model(optimizer(learning_rate=0.3), keras.constraints.NonNeg())
    assert weights[1] == 0.0 and (weights >= 0).all() and weights[0] != 1.0
    clipped = model(optimizer(learning_rate=0.3), lambda w: hf.clip_by_value(w, -0.5, 0.5))
    assert np.abs(clipped).max() <= 0.5
    rows = hf.Variable(np.ones((4, 2), "float32"), constraint=lambda v: v / 2)
    with pytest.raises(RuntimeError, match="Cannot use a constraint function on a sparse variable"):
        optimizer(0.1).minimize(hf.reduce_sum(hf.gather(rows, [1])), [rows])


class Rows(Own):
    """Updates the rows that a gradient has, and these alone."""

    def _resource_apply_sparse(self, grad, var, indices):
        return hf.scatter_sub(var, indices, self._decayed_lr(hf.float32) * grad).op


def test_rows_of_a_variable():
    table = hf.Variable(np.ones((4, 2), "float32"))
    loss = hf.reduce_sum(hf.gather(table, [1, 1, 3]) * 2.0)
    step = Rows(0.5).minimize(loss, [table])
    session = keras.backend.get_session()
    session.run(hf.global_variables_initializer())
    session.run(step)
    np.testing.assert_array_equal(session.run(table), [[1, 1], [-1, -1], [1, 1], [0, 0]])


@pytest.mark.parametrize("make, moves", [
    (lambda: keras.optimizers.SGD(0.1, momentum=0.9), False),
    (lambda: keras.optimizers.Adamax(0.1), False),
    (lambda: keras.optimizers.Nadam(0.1), False),
    (lambda: keras.optimizers.RMSprop(0.1), False),
    (lambda: keras.optimizers.RMSprop(0.1, momentum=0.9, centered=True), False),
    (lambda: keras.optimizers.Adam(0.1), True)], ids=[
    "SGD", "Adamax", "Nadam", "RMSprop", "RMSprop with momentum", "Adam"])
def test_rows_without_a_gradient_stay_but_for_adam(make, moves):
    table = hf.Variable(np.ones((3, 2), "float32"))
    row = hf.placeholder(hf.int32, [2])
    step = make().minimize(hf.reduce_sum(hf.gather(table, row) * 2.0), [table])
    session = keras.backend.get_session()
    session.run(hf.global_variables_initializer())
    session.run(step, {row: [0, 0]})
    first = session.run(table)
    session.run(step, {row: [1, 1]})
    second = session.run(table)
    assert (first[0] < 1).all() and (second[1] < 1).all() and (second[2] == 1).all()
    assert (second[0] != first[0]).all() == moves


def test_rmsprop_with_momentum():
    def expected(w, grads, centered, rate=0.1, rho=0.9, momentum=0.5, eps=1e-3):
        square = mean = moved = 0.0
        for g in grads:
            square, mean = rho * square + (1 - rho) * g * g, rho * mean + (1 - rho) * g
            moved = momentum * moved + rate * g / np.sqrt(square - centered * mean**2 + eps)
            w = w - moved
        return w

    for centered in (False, True):
        w = hf.Variable(2.0)
        grad = hf.placeholder(hf.float32, [])
        step = keras.optimizers.RMSprop(0.1, momentum=0.5, epsilon=1e-3, centered=centered
                                        ).apply_gradients([(grad, w)])
        session = keras.backend.get_session()
        session.run(hf.global_variables_initializer())
        for g in (1.0, -0.5, 2.0):
            session.run(step, {grad: g})
        np.testing.assert_allclose(session.run(w), expected(2.0, [1.0, -0.5, 2.0], centered),
                                   rtol=1e-5)


def test_what_is_trained_is_what_could_be_when_compiled():
    judge = keras.Sequential([keras.layers.Dense(1, use_bias=False, input_shape=(3,))])
    judge.compile("sgd", "mse")
    judge.trainable = False
    maker = keras.Sequential([keras.layers.Dense(3, use_bias=False, input_shape=(2,))])
    both = keras.Sequential([maker, judge])
    both.compile("sgd", "mse")
    before = judge.get_weights()[0]
    judge.train_on_batch(X, Y)
    judged, made = judge.get_weights()[0], maker.get_weights()[0]
    assert (judged != before).any()
    both.train_on_batch(X[:, :2], Y)
    np.testing.assert_array_equal(judge.get_weights()[0], judged)
    assert (maker.get_weights()[0] != made).any()


def test_a_finalized_graph():
    net = keras.Sequential([keras.layers.Dense(1, input_shape=(3,))])
    net.compile("adam", "mse", metrics=["mae"])
    net._make_predict_function()
    net._make_train_function()
    keras.backend.get_session()
    hf.get_default_graph().finalize()
    first = net.predict(X)
    net.train_on_batch(X, Y)
    assert (net.predict(X) != first).any() and len(net.evaluate(X, Y, verbose=0)) == 2


def test_a_model_in_two_places_steps_with_its_own_input():
    shared = keras.Sequential([
        keras.layers.Dense(2, input_shape=(3,), activity_regularizer="l2"),
        keras.layers.BatchNormalization(), keras.layers.Dense(1)])
    shared.compile("sgd", "mse")
    maker = keras.Sequential([keras.layers.Dense(3, input_shape=(2,)),
                              keras.layers.BatchNormalization()])
    z = keras.layers.Input((2,))
    both = keras.Model(z, shared(maker(z)))
    both.compile("sgd", "mse")
    moving = shared.layers[1].get_weights()[2]
    assert np.isfinite(shared.train_on_batch(X, Y))
    assert (shared.layers[1].get_weights()[2] != moving).any()
    moving = maker.layers[1].get_weights()[2]
    assert np.isfinite(both.train_on_batch(X[:, :2], Y))
    assert (maker.layers[1].get_weights()[2] != moving).any()
    assert len(shared.updates) == 4 == 2 * len(shared.get_updates_for(shared.inputs))
    assert shared.get_updates_for(None) == [] and len(both.get_updates_for(z)) == 4


def test_states_go_on_in_predictions_and_evaluation():
    net = keras.Sequential([keras.layers.LSTM(2, stateful=True, batch_input_shape=(2, 3, 1)),
                            keras.layers.BatchNormalization()])
    net.compile("sgd", "mse")
    x, y = np.ones([2, 3, 1], "float32"), np.zeros([2, 2], "float32")
    moving = net.layers[1].get_weights()[2]
    first, second = net.predict(x), net.predict(x)
    assert not np.allclose(first, second) and len(net.state_updates) == 2
    assert net._states() is net._states()  # not looked for in each step
    net.reset_states()
    np.testing.assert_allclose(net.predict(x), first, rtol=1e-6)
    np.testing.assert_allclose(net.evaluate(x, y, verbose=0), (second ** 2).mean(), rtol=1e-5)
    np.testing.assert_array_equal(net.layers[1].get_weights()[2], moving)


def test_states_go_on_with_the_inputs_of_the_model():
    memory = keras.layers.SimpleRNN(1, stateful=True)
    x, other = (keras.Input(batch_shape=(2, 3, 1)) for _ in range(2))
    net = keras.Model(x, memory(x))
    memory(other)
    assert np.isfinite(net.predict(np.ones([2, 3, 1]))).all() and len(net.state_updates) == 1


def test_sums_of_adagrad_by_its_name():
    by_name, made = keras.optimizers.get("Adagrad"), keras.optimizers.Adagrad()
    assert by_name.get_config()["initial_accumulator_value"] == 0
    assert made.get_config()["initial_accumulator_value"] == 0.1
    again = keras.optimizers.Adagrad.from_config(made.get_config())
    assert again.get_config() == made.get_config()
    # The first step is the rate, whatever the gradient.
    rate = by_name.get_config()["learning_rate"]
    net = keras.Sequential([keras.layers.Dense(1, use_bias=False, input_shape=(3,))])
    net.compile("adagrad", "mse")
    before = net.get_weights()[0]
    net.train_on_batch(X, Y)
    np.testing.assert_allclose(abs(net.get_weights()[0] - before), rate, rtol=1e-2)


class Added(keras.layers.Layer):
    def call(self, x):
        self.count = self.add_weight("count", (), initializer="zeros", trainable=False)
        self.add_loss([hf.reduce_mean(x), self.count + 3.0])
        self.add_update((self.count, self.count + 1.0))
        return x


@pytest.mark.parametrize("elsewhere", [lambda: hf.placeholder(hf.float32, [None, 3]),
                                       lambda: hf.ones([2, 3]), lambda: keras.Input((3,))],
                         ids=["placeholder", "constant", "input"])
def test_losses_and_updates_of_other_inputs_stay_out(elsewhere):
    x = keras.Input((3,))
    shared = [keras.layers.Dense(3, kernel_initializer="ones", activity_regularizer=hf.reduce_sum,
                                 kernel_regularizer=hf.reduce_sum),
              keras.layers.BatchNormalization(), Added()]
    first, second = x, elsewhere()
    for layer in shared:
        first, second = layer(first), layer(second)
    net = keras.Model(x, first)
    net.add_loss(hf.reduce_max(x))
    net.compile("sgd", "mse")
    assert (len(net.losses), len(net.get_losses_for(None)), len(net.updates)) == (6, 3, 4)
    x, y = np.ones((2, 3)), np.zeros((2, 3))
    found = net.test_on_batch(x, y)
    # errors, activities, kernel, mean, twice a count for the calls, the largest input
    assert found == pytest.approx(9 + 9 + 9 + 3 + 3 + 3 + 1, rel=1e-2)
    assert np.isfinite(net.train_on_batch(x, y))


@pytest.mark.parametrize("make", [
    lambda: keras.Input(tensor=hf.ones([2, 3])), lambda: keras.Input((3,), sparse=True)],
    ids=["tensor", "sparse"])
def test_losses_of_activities_count_once(make):
    class Sums(keras.layers.Layer):
        def call(self, x):
            return (hf.sparse_reduce_sum(x, 1, True) if isinstance(x, hf.SparseTensor)
                    else hf.reduce_sum(x, 1, True))

    x = make()
    sums = Sums(activity_regularizer=hf.reduce_sum)
    net = keras.Model(x, sums(x))
    assert net.losses == net.get_losses_for(net.inputs) and len(net.losses) == 1
    assert net.get_losses_for(None) == []


def test_an_optimizer_in_two_graphs():
    adam = keras.optimizers.Nadam(0.1)
    for rate in (0.1, 0.5):
        with hf.Graph().as_default(), hf.Session() as session:
            w = hf.Variable([1.0, 2.0])
            step = adam.minimize(hf.reduce_sum(w), [w])
            session.run(hf.global_variables_initializer())
            assert adam.get_config()["learning_rate"] == pytest.approx(0.1)
            session.run([adam.learning_rate.assign(rate), step])
            assert [v.graph for v in adam.weights] == [w.graph] * 4
            keras.backend.set_session(session)
            assert adam.get_config()["learning_rate"] == pytest.approx(rate)


def test_configurations_have_numbers_in_the_place_of_functions():
    config = keras.optimizers.Nadam(lambda: 0.1, schedule_decay=0.01).get_config()
    assert (config["learning_rate"], config["decay"]) == (0.1, 0.01)
    assert keras.optimizers.Nadam().get_config()["decay"] == 0.004
    given = keras.optimizers.Adam(lambda: hf.constant(0.5)).get_config()
    assert keras.optimizers.Adam.from_config(given).get_config()["learning_rate"] == 0.5


def test_ftrl_steps_as_1x():
    model = keras.Sequential([keras.layers.Dense(
        1, input_shape=(4,), kernel_initializer="ones")])
    model.compile(keras.optimizers.Ftrl(0.1, l1_regularization_strength=0.05,
                                        l2_regularization_strength=0.1), "mse")
    x = np.arange(8, dtype=np.float32).reshape(2, 4) / 4
    model.fit(x, np.full((2, 1), 2, np.float32), epochs=3, verbose=0)
    assert [v.op.name.split("/", 3)[-1] for v in model.optimizer.weights[1:]] == [
        "kernel/accumulator", "kernel/linear", "bias/accumulator", "bias/linear"]
    assert model.optimizer.get_config()["initial_accumulator_value"] == 0.1
    kernel, bias = model.get_weights()
    np.testing.assert_allclose(np.append(kernel, bias), [
        0.70349157, 0.72348809, 0.73768097, 0.74827409, -0.17528865], rtol=1e-5)
    with pytest.raises(ValueError, match="needs to be negative or zero"):
        keras.optimizers.Ftrl(learning_rate_power=1.0)


@pytest.mark.parametrize("rows", [False, True])
def test_optimizers_around_others_and_derived_from_them(rows):
    """An update that a derived class says is made, and that of the class above can be asked for."""
    class Around(hf.keras.optimizers.Optimizer):
        inner = hf.keras.optimizers.Adam(0.1)

        def _create_slots(self, var_list):
            self.inner._create_slots(var_list)

        def _resource_apply_dense(self, grad, var):
            return self.inner._resource_apply_dense(grad, var)

        def _resource_apply_sparse(self, grad, var, indices):
            return self.inner._resource_apply_sparse(grad, var, indices)

    class Twice(hf.keras.optimizers.Adam):
        def _resource_apply_dense(self, grad, var, apply_state=None):
            return super()._resource_apply_dense(2.0 * grad, var, apply_state)

        def _resource_apply_sparse(self, grad, var, indices, apply_state=None):
            return super()._resource_apply_sparse(2.0 * grad, var, indices, apply_state)

    grad = hf.constant([[0.5], [0.25]])
    given = hf.IndexedSlices(grad, hf.constant([0, 1]), hf.constant([2, 1])) if rows else grad
    twice = hf.IndexedSlices(2 * grad, given.indices, given.dense_shape) if rows else 2 * grad
    makers = [(Around("around"), given), (hf.keras.optimizers.Adam(0.1), given),
              (Twice(0.1, epsilon=1.0), given), (hf.keras.optimizers.Adam(0.1, epsilon=1.0), twice)]
    with hf.Session() as session:
        variables = [hf.Variable([[1.0], [2.0]], use_resource=True) for _ in makers]
        steps = [made.apply_gradients([(g, v)]) for (made, g), v in zip(makers, variables)]
        session.run(hf.global_variables_initializer())
        session.run(steps)
        first, second, third, fourth = session.run(variables)
    np.testing.assert_allclose(first, second)
    np.testing.assert_allclose(third, fourth)
    assert first[0] < 1 and third[0] < 1 and abs(first[0] - third[0]) > 0.01
