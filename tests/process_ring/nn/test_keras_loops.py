"""What callbacks see of training, evaluation and prediction, and what these print, as in 1.15."""

from __future__ import annotations

import collections
import re

import numpy as np
import pytest

import hpcflow as tf

layers, callbacks = tf.keras.layers, tf.keras.callbacks
X, Y = np.ones((10, 3), np.float32), np.ones((10, 1), np.float32)


@pytest.fixture
def model():
    tf.keras.backend.clear_session()
    own = tf.keras.Sequential([layers.Dense(1, kernel_initializer="zeros", input_shape=(3,))])
    own.compile(tf.keras.optimizers.SGD(0.01), "mse", metrics=["mae"])
    yield own
    tf.keras.backend.clear_session()


class Counter(callbacks.Callback):
    def __init__(self):
        self.calls = collections.Counter()
        for name in (n for n in dir(self) if n.startswith("on_")):
            setattr(self, name, lambda *args, name=name: self.calls.update([name]))


def test_callbacks_of_all_loops(model):
    counter = Counter()
    model.fit(X, Y, 4, 2, 0, [counter], validation_data=(X, Y))
    model.evaluate(X, Y, 5, 0, callbacks=[counter])
    model.predict(X, 5, callbacks=[counter])
    assert counter.calls == {
        "on_train_begin": 1, "on_train_end": 1, "on_epoch_begin": 2, "on_epoch_end": 2,
        "on_train_batch_begin": 6, "on_train_batch_end": 6, "on_test_begin": 3, "on_test_end": 3,
        "on_test_batch_begin": 8, "on_test_batch_end": 8, "on_predict_begin": 1,
        "on_predict_end": 1, "on_predict_batch_begin": 2, "on_predict_batch_end": 2}


def test_the_progress_of_arrays_is_that_of_samples(model, capsys):
    model.fit(X, Y, 4, 2, validation_data=(X, Y))
    text = capsys.readouterr().out
    assert text.startswith("Train on 10 samples, validate on 10 samples\nEpoch 1/2\n\r10/10")
    numbers = " - ".join(f"{n}: [0-9.]+" for n in model.metrics_names + [
        f"val_{n}" for n in model.metrics_names])
    assert len(re.findall(rf"10/10 \[=+\] - \d+s \d+\ws/sample - {numbers}\n", text)) == 2
    batches = tf.data.Dataset.from_tensor_slices((X, Y)).batch(5)
    model.fit(batches, verbose=2, steps_per_epoch=2)
    assert re.fullmatch(r"Train on 2 steps\n2/2 - \d+s - loss: \S+ - mean_absolute_error: \S+\n",
                        capsys.readouterr().out)


def test_losses_of_data_sets_are_means_over_batches(model):
    labels = np.array([0.0, 0.0, 0.0, 4.0], np.float32)[:, None]
    batches = tf.data.Dataset.from_tensor_slices((X[:4], labels)).batch(3)
    assert model.evaluate(batches, verbose=0)[0] == 8.0
    assert model.evaluate(X[:4], labels, 3, 0)[0] == 4.0


class Batches(tf.keras.utils.Sequence):
    def __len__(self):
        return 2

    def __getitem__(self, index):
        return X, Y

    def __next__(self):
        raise AssertionError("a sequence is read by numbers")


def test_sequences_begin_again(model):
    assert model.fit(Batches(), epochs=3, steps_per_epoch=3, verbose=0).epoch == [0, 1, 2]
    assert model.predict(Batches()).shape == (20, 1)


def test_a_data_set_that_runs_out_ends_training(model):
    batches = tf.data.Dataset.from_tensor_slices((X, Y)).batch(5)
    assert model.fit(batches, epochs=5, steps_per_epoch=2, verbose=0).epoch == [0]


@pytest.mark.parametrize(("options", "message"), [
    ({"y": Y}, "not specify a target"), ({"batch_size": 2}, "`batch_size` argument must not"),
    ({"validation_split": 0.5}, "`validation_split` argument is not"),
    ({"sample_weight": Y[:, 0]}, "`sample_weight` argument is not")])
def test_what_a_data_set_says_itself(options, message, model):
    with pytest.raises(ValueError, match=message):
        model.fit(tf.data.Dataset.from_tensor_slices((X, Y)).batch(5), **options)


def test_a_rate_that_was_lowered_stays_for_as_many_epochs(model):
    callback = callbacks.ReduceLROnPlateau("loss", 0.1, 2, min_delta=10.0)
    rates = model.fit(X, Y, epochs=6, verbose=0, callbacks=[callback]).history["lr"]
    np.testing.assert_allclose(rates, [0.01, 0.01, 0.01, 0.001, 0.001, 0.0001], rtol=1e-5)


def test_columns_that_come_later_are_left_out(model, tmp_path):
    path = tmp_path / "log.csv"
    model.fit(X, Y, epochs=2, verbose=0, validation_data=(X, Y), validation_freq=2,
              callbacks=[callbacks.CSVLogger(str(path))])
    lines = path.read_text().split()
    assert lines[0] == "epoch,loss,mean_absolute_error" and len(lines) == 3


def test_a_file_after_so_many_samples(model, tmp_path):
    pytest.importorskip("h5py")
    path = str(tmp_path / "{epoch:02d}.h5")
    model.fit(X, Y, 5, 2, 0, [callbacks.ModelCheckpoint(path, save_freq=15)])
    assert [p.name for p in tmp_path.iterdir()] == ["02.h5"]
    with pytest.raises(ValueError, match="Unrecognized save_freq"):
        callbacks.ModelCheckpoint(path, save_freq="batch")


def test_losses_of_outputs_are_means_over_batches():
    """The numbers are those of TensorFlow 1.15.5, also of the smaller last batch."""
    tf.keras.backend.clear_session()
    x = tf.keras.Input((2,))
    ends = [tf.keras.layers.Dense(1, name=n, kernel_initializer="ones")(x) for n in "pq"]
    model = tf.keras.Model(x, ends)
    model.compile("sgd", ["mse", "mae"], loss_weights=[1.0, 0.5])
    arrays, labels = np.ones((4, 2)), [np.zeros((4, 1))] * 2
    found = model.fit(arrays, labels, verbose=0, batch_size=3, shuffle=False,
                      sample_weight={"p": np.arange(4.0)}).history
    assert found["p_loss"] == [pytest.approx(7.3016, 1e-5)]
    assert found["q_loss"] == [pytest.approx(1.9925)]
    assert found["loss"] == [pytest.approx(6.648925)]
