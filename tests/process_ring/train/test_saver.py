"""Saver: saving, restoring, what is kept, and what must not happen."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest

import hpcflow as hf
from hpcflow import storage
from hpcflow.graph.raw import raw_ops


@pytest.fixture(autouse=True)
def graph():
    with hf.Graph().as_default() as g:
        yield g


def initialized():
    session = hf.Session()
    session.run(hf.global_variables_initializer())
    return session


def values(session):
    return {v.op.name: session.run(v) for v in hf.get_collection("variables")}


def every_type():
    """A variable of each element type, and of unusual shapes."""
    rng = np.random.default_rng(0)
    made = {}
    for name in ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8",
                 "uint16", "complex64", "complex128", "bfloat16", "bool"):  # fmt: skip
        dtype = hf.as_dtype(name)
        made[name] = rng.uniform(0, 2, (3, 2)).astype(dtype.np)
    made["string"] = np.array([[b"a", b"\xff\0"], [b"", b"long" * 50]], dtype=object)
    made["empty"] = np.zeros((0, 4), np.float32)
    made["scalar"] = np.float32(2.5)
    made["text"] = b"one"
    return {name: hf.Variable(value, name=name) for name, value in made.items()}, made


def test_what_a_variable_takes_over_is_its_own(tmp_path):
    """A large array that was read becomes the variable's without a copy; who sees it beside the
    variable, another one or the program, does not see later updates."""
    expected = np.arange(1 << 16, dtype=np.float32)
    one, other = hf.Variable(expected, name="one"), hf.Variable(expected, name="other")
    path = str(tmp_path / "model")
    with initialized() as session:
        hf.train.Saver({"one": one}).save(session, path)
    with hf.Session() as session:
        read = raw_ops._CheckpointRead(prefix=hf.constant(path), names=["one"], slices=[""],
                                       shapes=[one.shape], dtypes=[hf.float32], reshape=False)[0]
        _, _, fetched = session.run([one.assign(read).op, other.assign(read).op, read])
        held = session.run(one)
        for _ in range(2):
            session.run(hf.assign_add(one, hf.ones_like(one)).op)
        for found in (fetched, held, session.run(other)):
            np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(session.run(one), expected + 2)


def test_values_of_every_type_come_back(tmp_path):
    variables, expected = every_type()
    saver = hf.train.Saver()
    with initialized() as session:
        path = saver.save(session, str(tmp_path / "model"))
    assert path == str(tmp_path / "model")
    with hf.Session() as session:
        saver.restore(session, path)
        for name, variable in variables.items():
            found = session.run(variable)
            assert np.shape(found) == np.shape(expected[name])
            np.testing.assert_array_equal(found, expected[name], err_msg=name)
            assert getattr(found, "dtype", variable.dtype.base_dtype.np) == (
                variable.dtype.base_dtype.np)


def test_files_of_a_save(tmp_path):
    hf.Variable(1.0, name="v")
    saver = hf.train.Saver()
    with initialized() as session:
        path = saver.save(session, str(tmp_path / "model"), global_step=7)
        saver.save(session, str(tmp_path / "plain"), write_meta_graph=False, write_state=False)
    assert path == str(tmp_path / "model-7")
    assert sorted(os.listdir(tmp_path)) == ["checkpoint", "model-7.h5", "model-7.meta", "plain.h5"]
    assert hf.train.latest_checkpoint(str(tmp_path)) == path
    assert hf.train.checkpoint_exists(path)
    assert not hf.train.checkpoint_exists(str(tmp_path / "absent"))


def test_the_step_number(tmp_path):
    step = hf.Variable(12, name="step")
    saver = hf.train.Saver()
    padded = hf.train.Saver(pad_step_number=True)
    with initialized() as session:
        for given in (12, np.int64(12), step, "step:0"):
            assert saver.save(session, str(tmp_path / "m"), given).endswith("m-12")
        assert padded.save(session, str(tmp_path / "m"), step).endswith("m-00000012")


def test_names_in_the_checkpoint(tmp_path):
    v = hf.Variable([1.0, 2.0], name="v")
    w = hf.Variable([3.0], name="scope/w")
    unsaved = hf.Variable([5.0], name="unsaved")
    path = str(tmp_path / "m")
    with initialized() as session:
        hf.train.Saver({"renamed": v, "w": w}).save(session, path)
        reader = hf.train.NewCheckpointReader(path)
        assert reader.get_variable_to_shape_map() == {"renamed": [2], "w": [1]}
        session.run([v.assign([0.0, 0.0]), w.assign([0.0]), unsaved.assign([9.0])])
        hf.train.Saver({"renamed": v}).restore(session, path)
        assert session.run(v).tolist() == [1, 2]
        assert session.run(w).tolist() == [0]
        hf.train.Saver({"w": w}).restore(session, path)
        assert session.run(w).tolist() == [3]
        assert session.run(unsaved).tolist() == [9]


def test_the_reader(tmp_path):
    hf.Variable([[1, 2]], name="v")
    hf.Variable("text", name="s")
    path = str(tmp_path / "m")
    with initialized() as session:
        hf.train.Saver().save(session, path)
    reader = hf.train.NewCheckpointReader(path)
    assert reader.has_tensor("v")
    assert not reader.has_tensor("x")
    assert reader.get_tensor("v").tolist() == [[1, 2]]
    assert reader.get_tensor("s") == b"text"
    assert reader.get_variable_to_dtype_map() == {"v": hf.int32, "s": hf.string}
    assert reader.debug_string() == b"s (DT_STRING) []\nv (DT_INT32) [1,2]"
    with pytest.raises(hf.errors.NotFoundError, match=r"Key vv not found .* similar names: v"):
        reader.get_tensor("vv")
    with pytest.raises(hf.errors.NotFoundError):
        hf.train.NewCheckpointReader(str(tmp_path / "absent"))


# ---------------------------------------------------------------- partitioned variables


def partitioned(parts, shape=(7, 3), name="table"):
    initial = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)

    def rows(part_shape, dtype=None, partition_info=None):
        start = partition_info.var_offset[0] if partition_info is not None else 0
        return initial[start : start + part_shape[0]]

    return hf.get_variable(name, shape, initializer=rows,
                           partitioner=hf.fixed_size_partitioner(parts)), initial


@pytest.mark.parametrize(("saved", "restored"), [(3, 1), (1, 3), (2, 5), (3, 3)])
def test_partitioning_may_differ(tmp_path, saved, restored):
    path = str(tmp_path / "m")
    _, initial = partitioned(saved)
    with initialized() as session:
        hf.train.Saver().save(session, path)
    reader = hf.train.NewCheckpointReader(path)
    assert reader.get_variable_to_shape_map() == {"table": [7, 3]}
    np.testing.assert_array_equal(reader.get_tensor("table"), initial)
    with hf.Graph().as_default():
        table, _ = partitioned(restored)
        with hf.Session() as session:
            hf.train.Saver().restore(session, path)
            np.testing.assert_array_equal(session.run(hf.convert_to_tensor(table)), initial)


def test_slices_by_name(tmp_path):
    table, initial = partitioned(3)
    path = str(tmp_path / "m")
    with initialized() as session:
        hf.train.Saver({"other": table}).save(session, path)
        np.testing.assert_array_equal(hf.train.NewCheckpointReader(path).get_tensor("other"),
                                      initial)
        hf.train.Saver({"other": list(table)}).restore(session, path)
    whole = hf.Variable(0.0, name="whole")
    with pytest.raises(ValueError, match=r"'whole:0'.*is a whole variable"):
        hf.train.Saver({"x": [whole]})
    second, _ = partitioned(2, name="second")
    with pytest.raises(ValueError, match="from the same tensor: table, second"):
        hf.train.Saver({"x": [*table, *second]})


def test_variables_by_handle(tmp_path):
    handle = raw_ops.VarHandleOp(dtype=hf.float32, shape=[2], name="h")
    saver = hf.train.Saver({"value": handle})
    path = str(tmp_path / "m")
    with hf.Session() as session:
        session.run(raw_ops.AssignVariableOp(resource=handle, value=[1.0, 2.0]))
        saver.save(session, path)
        session.run(raw_ops.AssignVariableOp(resource=handle, value=[0.0, 0.0]))
        saver.restore(session, path)
        value = raw_ops.ReadVariableOp(resource=handle, dtype=hf.float32)
        assert session.run(value).tolist() == [1, 2]


# ---------------------------------------------------------------- shapes and types


def test_shapes_known_only_at_run_time(tmp_path):
    v = hf.Variable([1.0], name="v", validate_shape=False)
    assert not v.get_shape().is_fully_defined()
    saver = hf.train.Saver()
    path = str(tmp_path / "m")
    with initialized() as session:
        session.run(hf.assign(v, [[1.0, 2.0], [3.0, 4.0]], validate_shape=False))
        saver.save(session, path)
        session.run(hf.assign(v, [0.0], validate_shape=False))
        saver.restore(session, path)
        assert session.run(v).tolist() == [[1, 2], [3, 4]]


def checkpoint_of(path, **initial):
    with hf.Graph().as_default():
        for name, value in initial.items():
            hf.Variable(value, name=name)
        with initialized() as session:
            return hf.train.Saver().save(session, path)


@pytest.mark.parametrize("name", ["absent", "", "absent-?????-of-00002"])
def test_restoring_what_is_no_checkpoint(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    hf.Variable(1.0)
    saver = hf.train.Saver()
    with hf.Session() as session:
        with pytest.raises(ValueError, match="The passed save_path is not a valid checkpoint: "):
            saver.restore(session, name)
        with pytest.raises(ValueError, match="when it is None"):
            saver.restore(session, None)


@pytest.mark.parametrize(
    ("initial", "error", "message"),
    [
        ({"a": [0.0], "b": [0.0, 0.0]}, "InvalidArgumentError",
         r"'b' .* it is float32\[3\], expected float32\[2\]"),
        ({"a": [0.0], "b": [0, 0, 0]}, "InvalidArgumentError",
         r"'b' .* it is float32\[3\], expected int32\[3\]"),
        ({"a": [0.0], "c": [0.0]}, "NotFoundError", "Key c not found in checkpoint"),
    ],
)  # fmt: skip
def test_a_checkpoint_that_does_not_fit_changes_nothing(tmp_path, initial, error, message):
    path = checkpoint_of(str(tmp_path / "m"), a=[1.0], b=[1.0, 2.0, 3.0])
    for name, value in initial.items():
        hf.Variable(value, name=name)
    saver = hf.train.Saver()
    with initialized() as session:
        before = values(session)
        with pytest.raises(getattr(hf.errors, error), match=message) as caught:
            saver.restore(session, path)
        assert "_CheckpointRead" in str(caught.value)
        after = values(session)
    for name in before:
        np.testing.assert_array_equal(before[name], after[name])


def test_reshape(tmp_path):
    path = checkpoint_of(str(tmp_path / "m"), v=[1.0, 2.0, 3.0, 4.0])
    v = hf.Variable(np.zeros((2, 2), np.float32), name="v")
    with hf.Session() as session:
        hf.train.Saver(reshape=True).restore(session, path)
        assert session.run(v).tolist() == [[1, 2], [3, 4]]
    with hf.Graph().as_default(), hf.Session() as session:
        hf.Variable([0.0, 0.0, 0.0], name="v")
        with pytest.raises(hf.errors.InvalidArgumentError,
                           match=r"\[4\], the variable \[3\]; expected as many elements"):
            hf.train.Saver(reshape=True).restore(session, path)


@pytest.mark.parametrize("damage", ["missing", "truncated", "flipped", "text"])
def test_a_damaged_checkpoint_changes_nothing(tmp_path, damage):
    path = checkpoint_of(str(tmp_path / "m"), a=np.ones(1000, np.float32), b=[1.0])
    file = tmp_path / "m.h5"
    data = bytearray(file.read_bytes())
    if damage == "missing":
        file.unlink()
    elif damage == "truncated":
        file.write_bytes(data[: len(data) // 2])
    elif damage == "text":
        file.write_bytes(b"not a checkpoint")
    else:
        ones = data.find(np.ones(1000, np.float32).tobytes())
        data[ones + 500] ^= 0xFF
        file.write_bytes(data)
    a = hf.Variable(np.zeros(1000, np.float32), name="a")
    b = hf.Variable([0.0], name="b")
    saver = hf.train.Saver()
    error = ValueError if damage == "missing" else hf.errors.DataLossError
    with initialized() as session:
        with pytest.raises(error, match=r"m\.h5"):
            saver.restore(session, path)
        assert not session.run(a).any()
        assert session.run(b).tolist() == [0]


# ---------------------------------------------------------------- failures of saving


def test_a_failed_save_leaves_the_earlier_checkpoint_and_nothing_else(tmp_path):
    v = hf.Variable([1.0], name="v")
    hf.Variable([1.0], name="w")
    saver = hf.train.Saver()
    path = str(tmp_path / "m")
    with initialized() as session:
        saver.save(session, path, write_meta_graph=False)
    with hf.Session() as session:
        session.run(v.initializer)
        with pytest.raises(hf.errors.FailedPreconditionError, match="uninitialized value w"):
            saver.save(session, path, write_meta_graph=False)
    assert sorted(os.listdir(tmp_path)) == ["checkpoint", "m.h5"]
    assert hf.train.NewCheckpointReader(path).get_tensor("v").tolist() == [1]


def test_a_write_that_fails_removes_the_unfinished_file(tmp_path, monkeypatch):
    hf.Variable([1.0], name="v")
    saver = hf.train.Saver()
    seen = []

    def failing(layout, pieces):
        seen.extend(os.listdir(tmp_path))
        raise hf.errors.ResourceExhaustedError(None, None, "the disk is full")

    monkeypatch.setattr(storage, "write", failing)
    with initialized() as session:
        with pytest.raises(hf.errors.ResourceExhaustedError, match=r"the disk is full \(op 'save/"):
            saver.save(session, str(tmp_path / "m"))
    assert any("tmp" in name for name in seen)
    assert os.listdir(tmp_path) == []
    assert saver.last_checkpoints == []


def test_leftovers_of_crashed_runs_are_removed(tmp_path):
    layout = storage.create(str(tmp_path / "m-1.h5"), [("v", hf.float32, (2,))])
    fresh = storage.create(str(tmp_path / "m-2.h5"), [("v", hf.float32, (2,))])
    os.utime(layout.temporary, (0, 0))
    hf.Variable([1.0], name="v")
    with initialized() as session:
        hf.train.Saver().save(session, str(tmp_path / "m"), 3, write_meta_graph=False)
    assert not os.path.exists(layout.temporary)
    assert os.path.exists(fresh.temporary)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"latest_filename": "a/b"}, ValueError, "must not contain path components"),
        ({"latest_filename": "m"}, ValueError, "collides with 'save_path'"),
        ({"save_path": "absent/deeper/m"}, ValueError, "Parent directory of .* doesn't exist"),
    ],
)
def test_arguments_of_save(tmp_path, arguments, error, message):
    hf.Variable(1.0)
    saver = hf.train.Saver()
    path = str(tmp_path / arguments.pop("save_path", "m"))
    with initialized() as session:
        with pytest.raises(error, match=message):
            saver.save(session, path, **arguments)
        with pytest.raises(TypeError, match="'sess' must be a Session"):
            saver.save("session", path)
        with pytest.raises(ValueError, match="when it is None"):
            saver.restore(session, None)


def test_what_can_be_saved(tmp_path):
    with pytest.raises(ValueError, match="No variables to save"):
        hf.train.Saver()
    assert hf.train.Saver(allow_empty=True).save(hf.Session(), str(tmp_path / "none")) is None
    v = hf.Variable(1.0, name="v")
    with pytest.raises(TypeError, match="is not a Variable"):
        hf.train.Saver([hf.constant(1.0)])
    with pytest.raises(TypeError, match="Not a variable"):
        hf.train.Saver({"x": hf.constant(1.0)})
    with pytest.raises(TypeError, match="passed in a dict or a list"):
        hf.train.Saver(v)
    with pytest.raises(TypeError, match="not a string"):
        hf.train.Saver({1: v})
    with pytest.raises(ValueError, match="two names: a and b"):
        hf.train.Saver({"a": v, "b": v})
    with pytest.raises(ValueError, match="same name: v"):
        hf.train.Saver([v, v])
    with pytest.raises(ValueError, match="cannot be deferred"):
        hf.train.Saver([v], defer_build=True)
    with pytest.raises(ValueError, match="not pluggable"):
        hf.train.Saver(builder=object())


def test_deferred_build(tmp_path):
    saver = hf.train.Saver(defer_build=True)
    v = hf.Variable([4.0], name="v")
    with initialized() as session:
        with pytest.raises(RuntimeError, match="should be called before save"):
            saver.save(session, str(tmp_path / "m"))
        saver.build()
        path = saver.save(session, str(tmp_path / "m"))
        session.run(v.assign([0.0]))
        saver.restore(session, path)
        assert session.run(v).tolist() == [4]


def test_own_state(tmp_path):
    from hpcflow.train.saveable import SaveableObject, SaveSpec

    class Pair(SaveableObject):
        """Two variables saved under names of its own, the second negated."""

        def __init__(self, first, second):
            self.variables = (first, second)
            specs = [SaveSpec(first.value(), "", "pair/0"),
                     SaveSpec(hf.negative(second), "", "pair/1")]
            super().__init__(first.op, specs, "pair")

        def restore(self, restored_tensors, restored_shapes):
            first, second = restored_tensors
            return hf.group(hf.assign(self.variables[0], first),
                            hf.assign(self.variables[1], hf.negative(second)))

    a, b = hf.Variable([1.0], name="a"), hf.Variable([2.0], name="b")
    saver = hf.train.Saver([Pair(a, b)])
    path = str(tmp_path / "m")
    with initialized() as session:
        saver.save(session, path)
        assert hf.train.NewCheckpointReader(path).get_tensor("pair/1").tolist() == [-2]
        session.run([a.assign([0.0]), b.assign([0.0])])
        saver.restore(session, path)
        assert [session.run(v).tolist() for v in (a, b)] == [[1], [2]]


def test_several_devices_write_their_own_parts(tmp_path):
    with hf.device("/cpu:0"):
        a = hf.Variable([1.0], name="a")
    with hf.device("/cpu:1"):
        b = hf.Variable([2.0], name="b")
    saver = hf.train.Saver(restore_sequentially=True)
    config = hf.ConfigProto(device_count={"CPU": 2})
    path = str(tmp_path / "m")
    with hf.Session(config=config) as session:
        session.run(hf.global_variables_initializer())
        saver.save(session, path)
    with hf.Session(config=config) as session:
        saver.restore(session, path)
        assert [session.run(v).tolist() for v in (a, b)] == [[1], [2]]


def saved_while_running(update, directory):
    """The paths of checkpoints that were written while `update` ran all the time."""
    saver = hf.train.Saver(max_to_keep=0)
    stop = threading.Event()
    with initialized() as session:

        def train():
            while not stop.is_set():
                session.run(update)

        thread = threading.Thread(target=train)
        thread.start()
        try:
            return [saver.save(session, str(directory / "m"), i, write_meta_graph=False)
                    for i in range(4)]
        finally:
            stop.set()
            thread.join()


def test_a_variable_is_saved_as_it_was_at_one_moment(tmp_path):
    v = hf.Variable(np.zeros(200_000, np.float32), name="v")
    update = hf.assign_add(v, np.ones(200_000, np.float32)).op
    for path in saved_while_running(update, tmp_path):
        found = hf.train.NewCheckpointReader(path).get_tensor("v")
        assert (found == found[0]).all()


def test_training_goes_on_while_a_checkpoint_is_written(tmp_path):
    v = hf.Variable(np.ones(200_000, np.float32), name="v")
    update = hf.train.AdamOptimizer(0.01).minimize(hf.reduce_sum(hf.square(v)))
    for path in saved_while_running(update, tmp_path):
        reader = hf.train.NewCheckpointReader(path)
        for name in reader.get_variable_to_shape_map():
            reader.get_tensor(name)  # the checksums are right


def test_own_state_without_a_device(tmp_path):
    """The op of a saveable may be any object; its tensors say where the state is."""
    from hpcflow.python.training.saver import BaseSaverBuilder

    class Table(BaseSaverBuilder.SaveableObject):
        def __init__(self, variable):
            self.variable = variable
            spec = BaseSaverBuilder.SaveSpec(variable.value(), "", "table-values")
            super().__init__(self, [spec], "table")

        def restore(self, restored_tensors, restored_shapes):
            return hf.assign(self.variable, restored_tensors[0])

    a = hf.Variable([1.0], name="a")
    table = Table(a)
    saver = hf.train.Saver({"table": table})
    path = str(tmp_path / "m")
    with initialized() as session:
        saver.save(session, path)
        session.run(a.assign([0.0]))
        saver.restore(session, path)
        assert session.run(a).tolist() == [1]
    with pytest.raises(ValueError, match="restored with two names: table and twice"):
        hf.train.Saver({"table": table, "twice": table})


def test_the_path_where_none_is_fed(tmp_path):
    v = hf.Variable(3.0)
    saver = hf.train.Saver(filename=str(tmp_path / "default"))
    with hf.Session() as session:
        session.run(v.initializer)
        session.run(saver.saver_def.save_tensor_name)
        assert saver.save(session, str(tmp_path / "other")) == str(tmp_path / "other")
        session.run(v.assign(1.0))
        session.run(saver.saver_def.restore_op_name)
        assert session.run(v) == 3.0
    assert (tmp_path / "default.h5").exists() and (tmp_path / "other.h5").exists()


@pytest.mark.parametrize("named", [False, True])
def test_variables_of_another_graph_than_the_default_one(tmp_path, named):
    with hf.Graph().as_default() as other:
        v = hf.Variable([1.0, 2.0], name="v")
        start = hf.global_variables_initializer()
    saver = hf.train.Saver({"v": v} if named else [v])
    with hf.Session(graph=other) as session:
        session.run(start)
        path = saver.save(session, str(tmp_path / "model"))
        session.run(v.assign([0.0, 0.0]))
        saver.restore(session, path)
        assert session.run(v).tolist() == [1, 2]
