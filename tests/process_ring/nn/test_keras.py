"""Keras in graph mode: what the comparison with the reference does not cover."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hpcflow as tf

K = tf.keras.backend
layers = tf.keras.layers


@pytest.fixture(autouse=True)
def _fresh() -> Any:
    K.clear_session()
    yield
    K.clear_session()


def _digits(rows: int = 120) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(0).normal(size=(rows, 6)).astype(np.float32)
    return x, (x[:, :3].sum(1) > 0).astype(np.int64)


def _classifier(**options: Any) -> Any:
    model = tf.keras.Sequential([layers.Dense(8, "relu", input_shape=(6,)), layers.Dropout(0.1),
                                 layers.Dense(2, "softmax")])
    model.compile(options.pop("optimizer", "adam"), "sparse_categorical_crossentropy", ["accuracy"],
                  **options)
    return model


# ---------------------------------------------------------------- training


def test_training_learns_and_has_a_history() -> None:
    x, y = _digits()
    model = _classifier(optimizer=tf.keras.optimizers.Adam(0.05))
    history = model.fit(x, y, epochs=12, verbose=0, validation_data=(x[:20], y[:20]))
    assert history.epoch == list(range(12))
    assert set(history.history) == {"loss", "acc", "val_loss", "val_acc"}
    loss, accuracy = model.evaluate(x, y, verbose=0)
    assert accuracy > 0.9 and loss < history.history["loss"][0]
    assert model.predict(x[:7]).shape == (7, 2)
    assert (model.predict_classes(x) == y).mean() == pytest.approx(accuracy)


def test_optimizers_of_train_and_their_step() -> None:
    x, y = _digits(32)
    model = _classifier(optimizer=tf.train.GradientDescentOptimizer(0.1))
    model.fit(x, y, batch_size=8, epochs=2, verbose=0)
    assert K.get_value(tf.train.get_global_step()) == 8


def test_sources_of_batches() -> None:
    x, y = _digits(24)
    model = _classifier()
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(8)
    model.fit(data, epochs=2, verbose=0)
    model.fit(data.repeat(), epochs=2, steps_per_epoch=3, verbose=0)
    batches = ((x[i:i + 8], y[i:i + 8]) for _ in range(9) for i in (0, 8, 16))
    history = model.fit_generator(batches, steps_per_epoch=3, epochs=2, verbose=0,
                                  validation_data=(x, y))
    assert len(history.history["val_loss"]) == 2
    whole = model.evaluate(x, y, verbose=0)
    np.testing.assert_allclose(model.evaluate(data, verbose=0), whole, rtol=1e-5)

    class Parts(tf.keras.utils.Sequence):
        def __len__(self) -> int:
            return 3

        def __getitem__(self, n: int) -> Any:
            return x[8 * n:8 * n + 8], y[8 * n:8 * n + 8]

    np.testing.assert_allclose(model.evaluate_generator(Parts()), whole, rtol=1e-5)
    np.testing.assert_allclose(model.predict_generator(tf.data.Dataset.from_tensor_slices(
        x).batch(5)), model.predict(x), rtol=1e-5)


def test_a_class_of_models() -> None:
    class Model(tf.keras.Model):
        def __init__(self) -> None:
            super().__init__(name="own")
            self.first = layers.Dense(4, activation=tf.nn.relu)
            self.rest = [layers.Dropout(0.5), layers.Dense(2)]

        def call(self, inputs: Any, training: Any = None) -> Any:
            x = self.first(inputs)
            for layer in self.rest:
                x = layer(x)
            return x

    x, y = _digits(40)
    model = Model()
    model.compile("sgd", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(x, y, verbose=0)
    assert [v.name for v in model.trainable_weights] == [
        "own/dense/kernel:0", "own/dense/bias:0", "own/dense_1/kernel:0", "own/dense_1/bias:0"]
    assert len(model.layers) == 3
    np.testing.assert_array_equal(model.predict(x), model.predict(x))  # nothing is dropped
    assert model(tf.constant(x)).shape.as_list() == [40, 2]


def test_a_layer_of_ones_own() -> None:
    class Scale(layers.Layer):
        def __init__(self, start: float, **options: Any) -> None:
            super().__init__(**options)
            self.start = start

        def build(self, input_shape: Any) -> None:
            self.factor = self.add_weight(name="factor", shape=(int(input_shape[-1]),),
                                          initializer=tf.keras.initializers.Constant(self.start),
                                          regularizer="l2", trainable=True)
            super().build(input_shape)

        def call(self, inputs: Any) -> Any:
            return inputs * self.factor

        def get_config(self) -> dict:
            return {**super().get_config(), "start": self.start}

    x = tf.keras.Input((3,))
    model = tf.keras.Model(x, Scale(2.0, name="scale")(x))
    assert model.predict(np.ones((1, 3))).tolist() == [[2.0, 2.0, 2.0]]
    assert K.get_value(model.losses[0]) == pytest.approx(0.12)
    again = tf.keras.Model.from_config(json.loads(model.to_json())["config"], {"Scale": Scale})
    assert again.predict(np.ones((1, 3))).tolist() == [[2.0, 2.0, 2.0]]


def test_updates_and_losses_stay_out_of_collections() -> None:
    x = tf.placeholder(tf.float32, [4, 3])
    layer = layers.BatchNormalization(gamma_regularizer="l2")
    layer(x, training=True)
    assert len(layer.updates) == 2 and len(layer.losses) == 1
    assert not tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    assert not tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
    layer.trainable = False
    assert not layer.updates and not layer.trainable_weights and len(layer.weights) == 4


def test_names_follow_name_scopes_and_layers_share_variables() -> None:
    with tf.name_scope("tower"), tf.variable_scope("net", reuse=tf.AUTO_REUSE):
        dense = layers.Dense(2)
        first = dense(tf.ones([1, 3]))
        dense(tf.zeros([2, 3]))
        other = layers.Dense(2)
        other(tf.ones([1, 3]))
    assert [v.name for v in tf.global_variables()] == [
        "tower/net/dense/kernel:0", "tower/net/dense/bias:0",
        "tower/net/dense_1/kernel:0", "tower/net/dense_1/bias:0"]
    assert len(dense.inbound_nodes) == 2 and dense.output is first
    with pytest.raises(AttributeError, match="multiple inbound"):
        _ = dense.output_shape
    assert dense.get_output_shape_at(1) == (2, 2)


# ---------------------------------------------------------------- recurrent layers


@pytest.mark.parametrize("make", [
    lambda **o: layers.LSTM(3, return_sequences=True, **o), lambda **o: layers.GRU(2, **o),
    lambda **o: layers.SimpleRNN(3, return_state=True, **o),
    lambda **o: layers.RNN([layers.LSTMCell(3), layers.GRUCell(2, reset_after=True)], **o)])
@pytest.mark.parametrize("masked", [False, True])
def test_loops_compute_what_unrolled_layers_do(make: Any, masked: bool) -> None:
    ids = np.array([[1, 2, 0, 3, 0], [0, 0, 4, 4, 1]])
    vectors = layers.Embedding(5, 4, mask_zero=masked)(tf.constant(ids))
    found = []
    for unroll in (False, True):
        layer = make(unroll=unroll)
        outputs = tf.nest.flatten(layer(vectors))
        loss = tf.add_n([tf.reduce_sum(y * y) for y in outputs])
        found.append((layer, outputs, tf.gradients(loss, layer.trainable_weights)))
    session = K.get_session()
    found[1][0].set_weights(found[0][0].get_weights())
    results = [session.run([outputs, grads]) for _, outputs, grads in found]
    for a, b in zip(*map(tf.nest.flatten, results), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)


def test_states_go_on_from_batch_to_batch() -> None:
    x = np.random.default_rng(1).normal(size=(2, 6, 3)).astype(np.float32)
    whole = layers.LSTM(4)
    expected = whole(tf.constant(x))
    model = tf.keras.Sequential([layers.LSTM(4, stateful=True, batch_input_shape=(2, 3, 3))])
    model.layers[0].set_weights(whole.get_weights())
    step = tf.group(*model.updates)
    session = K.get_session()
    for part in (x[:, :3], x[:, 3:]):
        found = session.run([model.outputs[0], step], {model.inputs[0]: part})[0]
    np.testing.assert_allclose(found, session.run(expected), rtol=1e-5)
    model.reset_states()
    assert not np.any(session.run(model.layers[0].states))


# ---------------------------------------------------------------- files


@pytest.fixture
def same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Predictions keep their bits when loops have been compiled meanwhile."""
    monkeypatch.setattr(tf.config.flags, "deterministic", True)


@pytest.mark.usefixtures("same_bits")
def test_weights_in_files(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    x, y = _digits(16)
    model = _classifier()
    model.fit(x, y, verbose=0)
    expected = model.predict(x)
    for name in ("weights.h5", "weights.ckpt"):
        path = str(tmp_path / name)
        model.save_weights(path)
        other = _classifier() if name.endswith("h5") else model
        other.load_weights(path)
        np.testing.assert_array_equal(other.predict(x), expected)
    with h5py.File(tmp_path / "weights.h5") as file:  # the layout of 1.x
        assert [n.decode() for n in file.attrs["layer_names"]] == ["dense", "dropout", "dense_1"]
        names = file["dense"].attrs["weight_names"]
        assert [n.decode() for n in names] == ["dense/kernel:0", "dense/bias:0"]
        np.testing.assert_array_equal(file["dense"]["dense/kernel:0"], model.get_weights()[0])
    narrow = tf.keras.Sequential([layers.Dense(3, input_shape=(6,))])
    with pytest.raises(ValueError, match="containing 2 layers into a model with 1"):
        narrow.load_weights(str(tmp_path / "weights.h5"))


@pytest.mark.usefixtures("same_bits")
def test_whole_models_in_files(tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    x, y = _digits(16)
    model = _classifier()
    model.fit(x, y, epochs=2, verbose=0)
    path = str(tmp_path / "model.h5")
    model.save(path)
    again = tf.keras.models.load_model(path)
    np.testing.assert_array_equal(again.predict(x), model.predict(x))
    for a, b in zip(again.optimizer.get_weights(), model.optimizer.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)
    assert again.evaluate(x, y, verbose=0) == model.evaluate(x, y, verbose=0)
    with pytest.raises(OSError, match="not to be overwritten"):
        model.save(path, overwrite=False)
    a = tf.keras.Input((4,))
    b = layers.Dense(4, name="shared")
    graph = tf.keras.Model(a, layers.add([b(b(a)), layers.BatchNormalization()(a)]))
    copied = tf.keras.models.model_from_json(graph.to_json())
    copied.set_weights(graph.get_weights())
    rows = np.ones((2, 4), np.float32)
    np.testing.assert_array_equal(copied.predict(rows), graph.predict(rows))


# ---------------------------------------------------------------- callbacks


def test_callbacks_see_training(tmp_path: Path) -> None:
    x, y = _digits(32)
    model, seen = _classifier(), []

    class Note(tf.keras.callbacks.Callback):
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            seen.append(("epoch", epoch))

        def on_batch_end(self, batch: int, logs: Any = None) -> None:
            seen.append((batch, logs["size"]))

    callbacks = tf.keras.callbacks
    model.fit(x, y, 20, 2, 0, [
        Note(), callbacks.LearningRateScheduler(lambda epoch: 0.1 / (epoch + 1)),
        callbacks.CSVLogger(str(tmp_path / "log.csv")),
        callbacks.LambdaCallback(on_train_end=lambda logs: seen.append("end")),
        callbacks.TensorBoard(str(tmp_path / "events"), histogram_freq=1)])
    assert seen == [("epoch", 0), (0, 20), (1, 12), ("epoch", 1), (0, 20), (1, 12), "end"]
    with open(tmp_path / "log.csv") as file:
        rows = list(csv.DictReader(file))
    assert [r["epoch"] for r in rows] == ["0", "1"] and float(rows[1]["lr"]) == pytest.approx(0.05)
    assert K.get_value(model.optimizer.lr) == pytest.approx(0.05)
    assert list((tmp_path / "events").iterdir())


def test_early_stopping_plateaus_and_checkpoints(tmp_path: Path) -> None:
    x, y = _digits(32)
    model = _classifier(optimizer=tf.keras.optimizers.SGD(0.0))
    callbacks = tf.keras.callbacks
    saved = callbacks.ModelCheckpoint(str(tmp_path / "w{epoch}.h5"), "loss", save_best_only=True,
                                      save_weights_only=True)
    history = model.fit(x, y, 32, 9, 0, [
        callbacks.EarlyStopping("val_loss", patience=3, restore_best_weights=True), saved],
        validation_data=(x, y), shuffle=False)
    assert len(history.epoch) == 4
    assert (tmp_path / "w1.h5").exists()
    K.set_value(model.optimizer.lr, 1e-9)
    model.fit(x, y, 32, 4, 0, [callbacks.ReduceLROnPlateau("val_loss", 0.5, 1, min_lr=4e-10)],
              validation_data=(x, y))
    assert K.get_value(model.optimizer.lr) == pytest.approx(4e-10)


# ---------------------------------------------------------------- sessions, helpers, errors


def test_layers_in_a_session_of_the_program() -> None:
    x = tf.placeholder(tf.float32, [None, 3])
    y = layers.Dropout(0.5)(layers.Dense(4)(x))
    train = tf.train.AdamOptimizer().minimize(tf.reduce_mean(y))
    with tf.Session() as session:
        K.set_session(session)
        session.run(tf.global_variables_initializer())
        rows = np.ones((2, 3), np.float32)
        session.run(train, {x: rows, K.learning_phase(): 1})
        assert np.all(session.run(y, {x: rows}) == session.run(y, {x: rows}))
        dropped = [session.run(y, {x: rows, K.learning_phase(): True}) for _ in range(8)]
        assert any(np.any(d == 0) for d in dropped)


def test_functions_of_the_backend() -> None:
    a, b = K.placeholder((2,)), K.variable([1.0, 2.0])
    f = K.function([a], [a * b], [K.update_add(b, [1.0, 1.0])])
    assert f([[3.0, 4.0]])[0].tolist() == [3.0, 8.0]
    assert K.get_value(b).tolist() == [2.0, 3.0]
    scores = np.full((1, 5, 3), 1 / 3, np.float32)
    cost = K.ctc_batch_cost(tf.constant([[0, 1]]), tf.constant(scores), tf.constant([[5]]),
                            tf.constant([[2]]))
    assert K.get_value(cost).shape == (1, 1)


def test_preprocessing_and_utils() -> None:
    pad = tf.keras.preprocessing.sequence.pad_sequences
    assert pad([[1, 2, 3], [4]]).tolist() == [[1, 2, 3], [0, 0, 4]]
    assert pad([[1, 2, 3], [4]], 2, padding="post", truncating="post").tolist() == [[1, 2], [4, 0]]
    tokens = tf.keras.preprocessing.text.Tokenizer(num_words=3, oov_token="?")
    tokens.fit_on_texts(["The cat, the dog", "the end."])
    assert tokens.word_index["the"] == 2 and tokens.index_word[1] == "?"
    assert tokens.texts_to_sequences(["the cat runs"]) == [[2, 1, 1]]
    assert tokens.texts_to_matrix(["the the"], "count").tolist() == [[0, 0, 2]]
    utils = tf.keras.utils
    assert utils.to_categorical([0, 2]).tolist() == [[1, 0, 0], [0, 0, 1]]
    lines: list[str] = []
    _classifier().summary(print_fn=lines.append)
    assert "Total params: 74" in lines


def test_module_paths() -> None:
    from hpcflow.keras.layers import Dense
    from hpcflow.python.keras import backend
    from hpcflow.python.keras.layers.core import Dense as Same
    from hpcflow.python.keras.models import Sequential

    assert Dense is Same is layers.Dense and Sequential is tf.keras.Sequential
    assert backend.get_session is K.get_session


@pytest.mark.parametrize(("error", "text", "act"), [
    (ValueError, "Unknown optimizer", lambda: _classifier(optimizer="best")),
    (ValueError, "Unknown activation", lambda: layers.Dense(3, "best")),
    (TypeError, "Keyword argument not understood", lambda: layers.Flatten(colour="red")),
    (RuntimeError, "must compile", lambda: tf.keras.Sequential(
        [layers.Dense(1, input_shape=(2,))]).fit(np.ones((1, 2)), np.ones((1, 1)))),
    (ValueError, "same number of samples", lambda: _classifier().fit(
        np.ones((4, 6)), np.ones(3), verbose=0)),
    (ValueError, "at least 2 inputs", lambda: layers.Add()(tf.ones([2, 2]))),
    (ValueError, "must be unchanged", lambda: layers.Reshape((4,))(tf.ones([2, 3]))),
    (TypeError, "must be an instance of class Layer", lambda: tf.keras.Sequential([3])),
    (ValueError, "No such layer", lambda: _classifier().get_layer("other")),
    (ValueError, "does not take|takes 1 inputs", lambda: _classifier()([tf.ones([1, 6])] * 2)),
    (ValueError, "`shape` or a `tensor`", lambda: tf.keras.Input()),
    (NotImplementedError, "by a method", lambda: tf.keras.Model().to_json()),
    (ValueError, "Graph disconnected", lambda: tf.keras.Model(
        tf.keras.Input([2]), layers.Dense(1)(tf.keras.Input([2])))),
    (ValueError, "2 layers of the name", lambda: tf.keras.Sequential(
        [layers.Dense(1, input_shape=(2,), name="a"), layers.Dense(1, name="a")])),
    (ValueError, "no data", lambda: _classifier().fit(verbose=0)),
    (ValueError, "no weights of the classes", lambda: _classifier().fit(
        np.ones((4, 6)), np.ones(4), class_weight={0: 2.0}, verbose=0)),
])
def test_mistakes_are_errors(error: type, text: str, act: Any) -> None:
    with pytest.raises(error, match=text):
        act()


def test_names_of_variables_made_before_the_call():
    class Scaled(layers.Layer):
        def __init__(self):
            super().__init__(name="scaled")
            self.first = self.add_weight("first", [2])

        def build(self, input_shape):
            self.second = self.add_weight("second", [2])

        def call(self, inputs):
            return inputs * self.first + self.second

    with tf.name_scope("around"):
        layer = Scaled()
        layer(tf.zeros([2]))
    assert [v.name for v in layer.weights] == ["around/first:0", "around/scaled/second:0"]


class _Scaled(layers.Layer):
    """Makes its variable by ``get_variable`` of a tensor, as a library does that asks for reuse."""

    def build(self, input_shape: Any) -> None:
        self.reuse = bool(tf.get_variable_scope().reuse)
        with tf.variable_scope("inner"):
            self.scale = tf.get_variable("scale", initializer=tf.constant([2.0, 3.0]))

    def call(self, x: Any) -> Any:
        return x * self.scale


def test_variables_from_tensors_in_the_scope_of_a_layer() -> None:
    layer = _Scaled()
    x = tf.constant([[1.0, 1.0]])
    outputs = [layer(x), layer(x)]
    assert not layer.reuse
    assert [w.shape.as_list() for w in layer.weights] == [[2]]
    np.testing.assert_array_equal(K.get_session().run(outputs), [[[2, 3]], [[2, 3]]])


def test_models_with_layers_of_the_graph_api() -> None:
    """``layers`` inside of a model: variables, updates and losses as without the model."""
    class Net(tf.keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.first = tf.layers.Dense(3, kernel_regularizer=tf.reduce_sum)
            self.norm = tf.layers.BatchNormalization()
            self.last = [tf.keras.layers.Dense(2, name="last")]

        def call(self, x: Any) -> Any:
            return self.last[0](self.norm(self.first(x), training=True))

    net = Net()
    with tf.variable_scope("outer"):
        net(tf.ones([4, 2]))
    names = [v.op.name for v in net.weights]
    assert names == [f"outer/{n}" for n in (
        "dense/kernel", "dense/bias", "batch_normalization/gamma", "batch_normalization/beta",
        "batch_normalization/moving_mean", "batch_normalization/moving_variance",
        "net/last/kernel", "net/last/bias")]
    assert net.layers == [net.first, net.norm, *net.last] and len(net.trainable_weights) == 6
    assert net.updates == tf.get_collection(tf.GraphKeys.UPDATE_OPS) and len(net.updates) == 2
    assert net.losses == tf.losses.get_regularization_losses() and len(net.losses) == 1
    net.compile("sgd", "mse")
    net.fit(np.ones((8, 2)), np.ones((8, 2)), verbose=0)
    assert np.all(net.get_weights()[4] != 0)
    lines: list[str] = []
    net.summary(print_fn=lines.append)
    assert any("Total params: 29" in line for line in lines)
