"""Checkpoints of objects: names by paths, what is restored, what is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.base import tracking

Checkpoint, Manager = hf.train.Checkpoint, hf.train.CheckpointManager


@pytest.fixture(autouse=True)
def _fresh() -> Any:
    hf.keras.backend.clear_session()
    yield
    hf.keras.backend.clear_session()


def _named(path: str) -> list[str]:
    names = hf.train.NewCheckpointReader(path).get_variable_to_shape_map()
    return sorted(n.replace("/.ATTRIBUTES/VARIABLE_VALUE", "") for n in names)


def test_variables_lists_and_dicts(tmp_path: Path) -> None:
    a, b, c = (hf.Variable(float(n), name="same") for n in range(3))
    checkpoint = Checkpoint(a=a, parts=[b], more={"x/y": {"z": c}})
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        path = checkpoint.save(str(tmp_path / "new" / "ckpt"))
        assert path.endswith("ckpt-1")
        assert _named(path) == ["a", "more/x.Sy/z", "parts/0", "save_counter"]
        assert hf.train.latest_checkpoint(str(tmp_path / "new")) == path
        session.run([a.assign(7.0), c.assign(8.0)])
        checkpoint.restore(path).assert_consumed().run_restore_ops()
        assert session.run([a, b, c]) == [0.0, 1.0, 2.0]
        assert checkpoint.save(str(tmp_path / "new" / "ckpt")).endswith("ckpt-2")
        assert session.run(checkpoint.save_counter) == 2


def test_optimizers_and_their_slots(tmp_path: Path) -> None:
    def build() -> tuple:
        hf.reset_default_graph()
        v = hf.Variable([1.0, 2.0], name=f"v{np.random.randint(1000)}")
        optimizer = hf.train.AdamOptimizer(0.1)
        return v, optimizer, optimizer.minimize(hf.reduce_sum(v * v))

    v, optimizer, step = build()
    path = str(tmp_path / "adam")
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        session.run(step)
        assert Checkpoint(v=v, optimizer=optimizer).write(path) == path
        session.run(step)
        expected = session.run(v)
    assert _named(path) == ["optimizer/beta1_power", "optimizer/beta2_power", "v",
                            "v/.OPTIMIZER_SLOT/optimizer/m", "v/.OPTIMIZER_SLOT/optimizer/v"]
    v, optimizer, step = build()
    with hf.Session() as session:
        Checkpoint(v=v, optimizer=optimizer).restore(path).initialize_or_restore(session)
        session.run(step)
        np.testing.assert_array_equal(session.run(v), expected)


def test_models(tmp_path: Path) -> None:
    layers = hf.keras.layers

    def build() -> Any:
        model = hf.keras.Sequential([layers.Dense(3, input_shape=(2,)), layers.Activation("relu"),
                                     layers.BatchNormalization()])
        model.compile(hf.keras.optimizers.Adam(), "mse")
        return model

    model = build()
    model.fit(np.ones((4, 2)), np.ones((4, 3)), verbose=0)
    path = Checkpoint(net=model, optimizer=model.optimizer).save(str(tmp_path / "m"))
    names = _named(path)
    assert "net/layer_with_weights-0/kernel" in names
    assert "net/layer_with_weights-1/moving_mean" in names
    assert "net/layer_with_weights-0/kernel/.OPTIMIZER_SLOT/optimizer/m" in names
    assert "optimizer/iter" in names
    other = build()
    status = Checkpoint(net=other).restore(path)
    status.assert_existing_objects_matched().run_restore_ops()
    for a, b in zip(other.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)
    with pytest.raises(AssertionError, match="Unresolved object in checkpoint"):
        status.assert_consumed()


def test_layers_and_objects_with_attributes(tmp_path: Path) -> None:
    class Net:
        def __init__(self) -> None:
            self.dense = hf.layers.Dense(2)
            self.step = hf.Variable(0)

    net = Net()
    net.dense(hf.ones([1, 3]))
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        path = Checkpoint(net=net).write(str(tmp_path / "net"), session)
    assert _named(path) == ["net/dense/bias", "net/dense/kernel", "net/step"]


@pytest.mark.parametrize("kind", [hf.Module, hf.keras.Model, hf.keras.layers.Layer])
def test_attributes_that_are_no_part_of_an_object(kind: type, tmp_path: Path) -> None:
    class Net(kind):  # type: ignore[misc]
        @tracking.no_automatic_dependency_tracking
        def look_around(self) -> int:
            self.seen = hf.Variable(1.0)
            return 5

    net = Net()
    net.a, net.several = hf.Variable(1.0), [hf.Variable(2.0)]
    net.b = hf.contrib.checkpoint.NoDependency(net_b := hf.Variable(3.0))
    assert net.look_around() == 5 and net.b is net_b
    with pytest.raises(KeyError), tracking.no_automatic_dependency_tracking_scope(net):
        net.c = net.a
        raise KeyError
    net.z, net.d = hf.Variable(4.0), hf.contrib.checkpoint.NoDependency(hf.Variable(5.0))
    net.d = hf.Variable(6.0)  # another one, which is a part
    net.e = net._no_dependency(hf.Variable(8.0))
    checkpoint = Checkpoint(net=net)
    checkpoint.more = [hf.contrib.checkpoint.NoDependency(net_b), hf.Variable(7.0)]
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        names = _named(checkpoint.write(str(tmp_path / "net"), session))
    assert names == ["more/1", "net/a", "net/d", "net/several/0", "net/z"]
    counted = {id(v) for v in net.variables}
    assert id(net.b) in counted and (id(net.seen) in counted) == (kind is hf.Module)
    with pytest.raises(ValueError, match="expecting a to be a trackable"):
        Checkpoint(a=hf.contrib.checkpoint.NoDependency(net_b))


@pytest.mark.parametrize("kind", [hf.Module, hf.keras.Model, hf.keras.layers.Layer])
def test_private_attributes_by_the_names_of_1x(kind: type, tmp_path: Path) -> None:
    class Part(kind):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self._w = hf.Variable(1.0, name="other")

    class Net(Part):
        def __init__(self) -> None:
            super().__init__()
            self._many, self._part, self._parts = [hf.Variable(2.0)], Part(), {"a": Part()}
            self._dense, self._old = hf.keras.layers.Dense(1), hf.layers.Dense(1)
            self._states = hf.keras.layers.LSTM(1, stateful=True)
            self._states(self._dense(self._old(hf.ones([1, 1])))[:, None])

    net = Net()
    checkpoint = Checkpoint(net=net)
    checkpoint._own = hf.Variable(3.0)
    assert checkpoint.save_counter is checkpoint._counter
    with hf.Session() as session:
        session.run([hf.global_variables_initializer(), hf.local_variables_initializer()])
        path = checkpoint.write(str(tmp_path / "net"), session)
        session.run([v.assign(9.0) for v in (net._w, net._many[0], net._parts["a"]._w)])
        checkpoint.restore(path).assert_consumed().run_restore_ops(session)
        assert session.run([net._w, net._many[0], net._parts["a"]._w]) == [1.0, 2.0, 1.0]
    assert _named(path) == ["_own", *(f"net/{name}" for name in (
        "_dense/bias", "_dense/kernel", "_many/0", "_old/bias", "_old/kernel", "_part/_w",
        "_parts/a/_w", "_states/cell/bias", "_states/cell/kernel", "_states/cell/recurrent_kernel",
        "_w")), "save_counter"]


@pytest.mark.parametrize("kind", [hf.keras.Model, hf.keras.layers.Layer])
def test_attributes_of_layers_that_are_made_parts_again(kind: type) -> None:
    net, variable = kind(), hf.Variable(1.0)
    net.a = hf.contrib.checkpoint.NoDependency(variable)
    net.a = variable
    with tracking.no_automatic_dependency_tracking_scope(net):
        net.b, net.c = hf.Variable(1.0), hf.Variable(1.0)
    net.b = net.b
    assert [name for name, _ in net._checkpoint_dependencies if name in "abc"] == ["a", "b"]
    assert net.weights == [net.a, net.b]


def test_a_manager_keeps_the_last_few(tmp_path: Path) -> None:
    checkpoint = Checkpoint(v=hf.Variable(1.0))
    manager = Manager(checkpoint, str(tmp_path), max_to_keep=2)
    with hf.Session() as session:
        assert manager.restore_or_initialize(session) is None
        paths = [manager.save() for _ in range(3)]
        assert manager.checkpoints == paths[1:] and manager.latest_checkpoint == paths[-1]
        assert not hf.train.checkpoint_exists(paths[0])
        assert manager.save(checkpoint_number=17).endswith("ckpt-17")
        again = Manager(checkpoint, str(tmp_path), max_to_keep=2)
        assert again.checkpoints == manager.checkpoints
        session.run(checkpoint.v.assign(5.0))
        assert again.restore_or_initialize() == manager.latest_checkpoint
        assert session.run(checkpoint.v) == 1.0


def test_what_does_not_fit(tmp_path: Path) -> None:
    a, b = hf.Variable(1.0), hf.Variable(2.0)
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        path = Checkpoint(a=a).write(str(tmp_path / "a"))
        with pytest.raises(AssertionError, match="not assigned a value from checkpoint: b"):
            Checkpoint(a=a, b=b).restore(path).assert_existing_objects_matched()
        with pytest.raises(AssertionError, match="Nothing except the root"):
            Checkpoint(b=b).restore(path).assert_nontrivial_match()
        with pytest.raises(hf.errors.NotFoundError):
            Checkpoint(a=a).restore(str(tmp_path / "other"))
        with pytest.raises(ValueError, match="expecting x to be a trackable"):
            Checkpoint(x=3)
        with pytest.raises(ValueError, match="positive integer"):
            Manager(Checkpoint(a=a), str(tmp_path), 0)
        Checkpoint(a=a).restore(None).run_restore_ops()


def test_a_manager_goes_on_where_another_one_ended(tmp_path: Path, monkeypatch: Any) -> None:
    now = [10000.0]
    monkeypatch.setattr("hpcflow.train.object_checkpoint.time.time", lambda: now[0])
    checkpoint = Checkpoint(v=hf.Variable(1.0))
    unmanaged = str(tmp_path / "other")
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        other = checkpoint.save(unmanaged)
        first = Manager(checkpoint, str(tmp_path), 2)
        assert first.checkpoints == [] and first.latest_checkpoint == other
        paths = [first.save()]
        now[0] += 3000
        paths.append(first.save())
        state = hf.train.get_checkpoint_state(str(tmp_path))
        assert list(state.all_model_checkpoint_timestamps) == [10000.0, 13000.0]
        hourly = Manager(checkpoint, str(tmp_path), 1, keep_checkpoint_every_n_hours=1)
        assert hourly.checkpoints == paths
        now[0] += 60
        paths.append(hourly.save(checkpoint_number=70))
        assert paths[-1].endswith("ckpt-70") and session.run(checkpoint.save_counter) == 4
        assert hourly.checkpoints == paths[2:]
    exist = [hf.train.checkpoint_exists(path) for path in (other, *paths)]
    assert exist == [True, True, False, True]
    assert hf.train.get_checkpoint_state(str(tmp_path)).last_preserved_timestamp == 10000.0


def test_cells_inside_of_cells(tmp_path: Path) -> None:
    """Every variable is saved once, by its name in its cell."""
    cells = hf.nn.rnn_cell
    gru = ["bias", "kernel"]
    for wrapped, names in (
            (cells.DropoutWrapper(cells.GRUCell(1)),
             [f"cell/{part}.S{n}" for part in ("candidate", "gates") for n in gru]),
            (cells.MultiRNNCell([cells.BasicRNNCell(1), cells.BasicRNNCell(1)]),
             [f"cell-{i}/{n}" for i in range(2) for n in gru])):
        wrapped(hf.ones([1, 1]), wrapped.zero_state(1, hf.float32))
        checkpoint = Checkpoint(net=wrapped)
        with hf.Session() as session:
            session.run(hf.global_variables_initializer())
            before = session.run(hf.trainable_variables())
            path = checkpoint.save(str(tmp_path / "cells"))
            assert _named(path) == [f"net/{n}" for n in names] + ["save_counter"]
            session.run([v.assign(v + 1.0) for v in hf.trainable_variables()])
            checkpoint.restore(path).assert_consumed().run_restore_ops()
            for a, b in zip(before, session.run(hf.trainable_variables())):
                np.testing.assert_array_equal(a, b)
        hf.keras.backend.clear_session()


def test_tables(tmp_path: Path) -> None:
    table = hf.contrib.lookup.MutableHashTable(hf.string, hf.int64, -1)
    dense = hf.contrib.lookup.MutableDenseHashTable(hf.int64, hf.int64, -1, empty_key=0,
                                                    deleted_key=-1)
    checkpoint = Checkpoint(words=table, net={"dense": dense}, v=hf.Variable(1.0))
    with hf.Session() as session:
        checkpoint.restore(None).initialize_or_restore(session)
        session.run([table.insert(["a", "b"], [1, 2]), dense.insert([7], [8])])
        path = checkpoint.save(str(tmp_path / "tables"))
        assert "words/.ATTRIBUTES/table-keys" in _named(path)
        session.run([table.insert(["c"], [3]), dense.insert([9], [10])])
        checkpoint.restore(path).assert_consumed().run_restore_ops()
        assert session.run(table.lookup(hf.constant(["a", "b", "c"]))).tolist() == [1, 2, -1]
        assert session.run(dense.lookup(hf.constant([7, 9], hf.int64))).tolist() == [8, -1]
