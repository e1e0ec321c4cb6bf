"""Bars of progress, batches made ahead, and files of programs with models."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

import hpcflow as tf

utils = tf.keras.utils


def test_a_bar_shows_averages_over_its_steps(capsys):
    bar = utils.Progbar(4, width=8, interval=0, stateful_metrics=["rate"])
    bar.update(1, [("loss", 1.0), ("rate", 5.0)])
    bar.add(3, [("loss", 2.0), ("rate", 7.0)])
    first, last = capsys.readouterr().out.strip().split("\r")
    assert first.startswith("1/4 [=>......] - ETA: ") and "loss: 1.0000 - rate: 5.0000" in first
    assert last.startswith("4/4 [========] - ") and "/step" in last
    assert last.endswith(" - loss: 1.7500 - rate: 7.0000")
    bar = utils.Progbar(2, verbose=2)
    bar.update(1, [("loss", 1e-5)])
    assert capsys.readouterr().out == ""
    bar.update(2, [("loss", 1e-5)])
    assert capsys.readouterr().out == "2/2 - 0s - loss: 1.0000e-05\n"
    utils.Progbar(None).update(3)
    assert "3/Unknown" in capsys.readouterr().out


class Squares(utils.Sequence):
    epochs = 0

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return np.full(2, index * index)

    def on_epoch_end(self):
        self.epochs += 1


def test_sequences_and_generators_are_read_ahead_in_order():
    batches = Squares()
    ahead = utils.OrderedEnqueuer(batches)
    ahead.start(workers=3, max_queue_size=2)
    found = ahead.get()
    assert [int(next(found)[0]) for _ in range(6)] == [0, 1, 4, 9, 0, 1]
    ahead.stop()
    assert not ahead.is_running() and batches.epochs >= 1

    ahead = utils.GeneratorEnqueuer(iter(range(5)))
    ahead.start()
    assert list(ahead.get()) == [0, 1, 2, 3, 4]
    ahead.stop()

    ahead = utils.GeneratorEnqueuer(1 // n for n in (1, 0))
    ahead.start()
    found = ahead.get()
    assert next(found) == 1
    with pytest.raises(ZeroDivisionError):
        next(found)
    ahead.stop()


def test_files_and_objects(tmp_path):
    (tmp_path / "datasets").mkdir()
    path = tmp_path / "datasets" / "a.bin"
    path.write_bytes(b"numbers")
    md5 = hashlib.md5(b"numbers").hexdigest()
    assert utils.get_file("a.bin", "http://x/a.bin", cache_dir=str(tmp_path), md5_hash=md5) == str(
        path)
    with pytest.raises(ValueError, match="md5"):
        utils.get_file("a.bin", cache_dir=str(tmp_path), md5_hash="0" * 32)
    with pytest.raises(FileNotFoundError, match="nothing is downloaded"):
        utils.get_file("b.bin", "http://x/b.bin", cache_dir=str(tmp_path))
    named = utils.serialize_keras_object(tf.keras.layers.Dense(3))
    assert named["class_name"] == "Dense"
    layer = utils.deserialize_keras_object(named, {"Dense": tf.keras.layers.Dense})
    assert layer.units == 3
    with pytest.raises(ValueError, match="Unknown thing: Other"):
        utils.deserialize_keras_object("Other", {}, printable_module_name="thing")
    with pytest.raises(NotImplementedError, match="TensorBoard"):
        utils.plot_model(None)


def test_paths_of_programs():
    from hpcflow.python.keras.utils import generic_utils
    assert generic_utils.Progbar is utils.Progbar


@pytest.mark.parametrize("axis", [-1, [1, 2], (1,)])
def test_layer_normalization(axis):
    rows = np.random.RandomState(0).randn(3, 4, 5).astype(np.float32)
    layer = tf.keras.layers.LayerNormalization(axis=axis, epsilon=1e-3, gamma_initializer="ones")
    outputs = layer(tf.constant(rows))
    axes = tuple(np.atleast_1d(axis) % 3)
    assert layer.gamma.shape.as_list() == [rows.shape[a] for a in axes]
    assert outputs.shape.as_list() == [3, 4, 5]
    centered = rows - rows.mean(axes, keepdims=True)
    expected = centered / np.sqrt(rows.var(axes, keepdims=True) + 1e-3)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        np.testing.assert_allclose(session.run(outputs), expected, rtol=1e-4, atol=1e-5)
    config = layer.get_config()
    assert tf.keras.layers.LayerNormalization.from_config(config).get_config() == config


def test_layer_normalization_of_dimensions_that_are_not_there():
    with pytest.raises(ValueError, match="Invalid axis: 3"):
        tf.keras.layers.LayerNormalization(axis=3)(tf.zeros([2, 3]))
    with pytest.raises(ValueError, match="Duplicate axis"):
        tf.keras.layers.LayerNormalization(axis=[1, -1])(tf.zeros([2, 3]))


def test_eval_of_a_variable():
    assert tf.keras.backend.eval(tf.keras.backend.variable([1.0, 2.0])).tolist() == [1, 2]


def test_losses_are_reduced_by_name(session):
    from hpcflow.python.keras.utils import losses_utils

    losses = tf.constant([1.0, 3.0])
    for name, value in (("NONE", [2.0, 0.0]), ("SUM", 2.0), ("SUM_OVER_BATCH_SIZE", 1.0)):
        reduction = getattr(losses_utils.ReductionV2, name)
        reduced = losses_utils.compute_weighted_loss(losses, [2.0, 0.0], reduction)
        assert np.asarray(session.run(reduced)).tolist() == value
    with pytest.raises(ValueError, match="Invalid Reduction Key"):
        losses_utils.compute_weighted_loss(losses, reduction="mean")


def test_the_metric_of_cosines_is_not_the_loss(session):
    a, b = tf.constant([[1.0, 2.0, 3.0]]), tf.constant([[0.5, 2.0, 1.0]])
    for name in ("cosine_proximity", "cosine"):
        found = session.run(getattr(tf.keras.metrics, name)(a, b))
        np.testing.assert_allclose(found, [0.8748177], rtol=1e-6)
    assert tf.keras.metrics.get("cosine_proximity") is tf.keras.metrics.cosine_proximity
    assert session.run(tf.keras.losses.cosine_proximity(a, b))[0] < 0


def test_variables_of_random_numbers_are_those_of_tensorflow(session):
    made = [tf.keras.backend.random_uniform_variable((2, 3), 0, 1, seed=5),
            tf.keras.backend.random_normal_variable((2, 3), 1, 2, seed=5)]
    session.run([v.initializer for v in made])
    first = [v[0, 0] for v in session.run(made)]
    np.testing.assert_allclose(first, [0.38831127, -1.35616565], rtol=1e-6)


def test_a_stack_begins_with_an_input(graph):
    k = tf.keras
    model = k.Sequential([
        k.Input((2,), name="feature"),
        k.layers.Dense(1, kernel_initializer="ones", autocast=False)])
    model.compile("sgd", k.losses.MeanSquaredError(reduction=k.losses.Reduction.SUM))
    assert [v.name for v in model.inputs] == ["feature:0"]
    assert len(model.layers) == 1
    assert model.predict(np.ones((3, 2))).tolist() == [[2.0]] * 3
    assert model.evaluate(np.ones((3, 2)), np.zeros((3, 1)), verbose=0) == 12
    with pytest.raises(TypeError, match="instance of class Layer"):
        model.add(tf.constant(1.0))
    with pytest.raises(ValueError, match="Invalid Reduction Key"):
        k.losses.MeanSquaredError(reduction="mean")


class _Box:
    """A thing around a tensor, which tensors are made of."""

    def __init__(self, value):
        self.value, self.shape, self.dtype = value, value.shape, value.dtype
        self.get_shape = value.get_shape


class _Boxing(tf.keras.layers.Lambda):
    """A layer that shows one of the two things that it makes."""

    def __init__(self):
        super().__init__(lambda x: (_Box(x * 2.0), x))

    def __call__(self, inputs, **keywords):
        return super().__call__(inputs, **keywords)[0]


def test_layers_may_give_what_tensors_are_made_of():
    tf.register_tensor_conversion_function(
        _Box, lambda box, dtype=None, name=None, as_ref=False: tf.identity(box.value, name=name))
    from hpcflow.python.keras.utils import tf_utils

    tf_utils.register_symbolic_tensor_type(_Box)
    model = tf.keras.Sequential([
        tf.keras.layers.Dense(1, input_shape=(2,), kernel_initializer="ones"), _Boxing()])
    assert isinstance(model(tf.ones([1, 2])), _Box)
    model.compile(tf.train.GradientDescentOptimizer(0.01), loss=lambda y, box: (y - box.value) ** 2)
    losses = model.fit(np.ones((4, 2), "f"), np.zeros((4, 1), "f"), epochs=2, verbose=0).history
    assert losses["loss"][0] == 16 and losses["loss"][1] < 16


def test_batch_normalization_counts_its_axis_from_the_first():
    layer = tf.keras.layers.BatchNormalization()
    assert layer.axis == -1 and layer.get_config()["axis"] == -1
    layer(tf.zeros([2, 3, 4]))
    assert layer.axis == [2] and layer.get_config()["axis"] == [2]
