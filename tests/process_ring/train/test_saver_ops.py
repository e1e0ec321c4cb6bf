"""Ops on checkpoint files and on files as strings, as graphs of others contain them."""

from __future__ import annotations

import os

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.graph.raw import raw_ops


@pytest.fixture(autouse=True)
def session():
    with hf.Graph().as_default(), hf.Session() as session:
        yield session


def test_save_v2_and_restore_v2(tmp_path, session):
    prefix = str(tmp_path / "m")
    values = [np.float32(1.5), np.array([[1, 2]]), np.array([b"a", b"b"], dtype=object)]
    session.run(raw_ops.SaveV2(prefix=prefix, tensor_names=["x", "y", "z"],
                               shape_and_slices=["", "", ""], tensors=values))
    assert os.listdir(tmp_path) == ["m.h5"]
    restored = raw_ops.RestoreV2(
        prefix=prefix, tensor_names=["z", "y", "x", "y"],
        shape_and_slices=["", "", "", "1 2 0,1:1,1"],
        dtypes=[hf.string, hf.int64, hf.float32, hf.int64])
    assert restored[3].shape.as_list() == [1, 1]
    z, y, x, part = session.run(restored)
    assert (z.tolist(), y.tolist(), x, part.tolist()) == ([b"a", b"b"], [[1, 2]], 1.5, [[2]])
    assert type(x) is np.float32


def test_quantized_types_keep_their_name(tmp_path, session):
    prefix = str(tmp_path / "m")
    session.run(raw_ops.SaveV2(prefix=prefix, tensor_names=["q"], shape_and_slices=[""],
                               tensors=[hf.constant([1, 2], hf.qint8)]))
    (q,) = raw_ops.RestoreV2(prefix=prefix, tensor_names=["q"], shape_and_slices=[""],
                             dtypes=[hf.qint8])
    assert session.run(q).tolist() == [1, 2]


def test_the_first_version(tmp_path, session):
    name = str(tmp_path / "m")
    session.run(raw_ops.Save(filename=name, tensor_names=["a", "b"], data=[[1.0], 2]))
    a = raw_ops.Restore(file_pattern=name, tensor_name="a", dt=hf.float32)
    b = raw_ops.Restore(file_pattern=str(tmp_path / "m*"), tensor_name="b", dt=hf.int32)
    assert [v.tolist() for v in session.run([a, b])] == [[1], 2]
    for pattern, what in ((name, "not found in any checkpoint"), ("absent*", "no checkpoint")):
        missing = raw_ops.Restore(file_pattern=pattern, tensor_name="c", dt=hf.int32)
        with pytest.raises(hf.errors.NotFoundError, match=what):
            session.run(missing)


def test_slices_make_up_a_variable(tmp_path, session):
    name = str(tmp_path / "m")
    whole = np.arange(12, dtype=np.float32).reshape(4, 3)
    session.run(raw_ops.SaveSlices(
        filename=name, tensor_names=["w", "w"], shapes_and_slices=["4 3 0,1:-", "4 3 1,3:-"],
        data=[whole[:1], whole[1:]]))
    restored = raw_ops.Restore(file_pattern=name, tensor_name="w", dt=hf.float32)
    part = raw_ops.RestoreSlice(file_pattern=name, tensor_name="w", dt=hf.float32,
                                shape_and_slice="4 3 2,2:0,2")
    assert part.shape.as_list() == [2, 2]
    found, found_part = session.run([restored, part])
    np.testing.assert_array_equal(found, whole)
    np.testing.assert_array_equal(found_part, whole[2:, :2])


def test_shards_are_merged(tmp_path, session):
    """The operations of a sharded save: each shard has some variables and a slice of another."""
    whole = np.arange(6, dtype=np.float32).reshape(3, 2)
    base = hf.constant(str(tmp_path / "m_temp/part"))
    names = [raw_ops.ShardedFilename(basename=base, shard=i, num_shards=2) for i in range(2)]
    slices = ["3 2 0,2:-", "3 2 2,1:-"]
    saves = [raw_ops.SaveV2(prefix=names[i], tensor_names=["w", f"only{i}"],
                            shape_and_slices=[slices[i], ""], tensors=[part, [i]])
             for i, part in enumerate((whole[:2], whole[2:]))]
    with hf.control_dependencies(saves):
        merge = raw_ops.MergeV2Checkpoints(checkpoint_prefixes=hf.stack(names),
                                           destination_prefix=str(tmp_path / "m"))
    session.run(saves[0])
    # A shard alone holds its slice.
    (shard,) = raw_ops.RestoreV2(prefix=names[0], tensor_names=["w"], shape_and_slices=slices[:1],
                                 dtypes=[hf.float32])
    np.testing.assert_array_equal(session.run(shard), whole[:2])
    session.run(merge)
    assert os.listdir(tmp_path) == ["m.h5"]
    reader = hf.train.NewCheckpointReader(str(tmp_path / "m"))
    assert reader.get_variable_to_shape_map() == {"only0": [1], "only1": [1], "w": [3, 2]}
    np.testing.assert_array_equal(reader.get_tensor("w"), whole)


def test_shards_that_disagree(tmp_path, session):
    prefixes = [str(tmp_path / f"p{i}") for i in range(2)]
    for i, prefix in enumerate(prefixes):
        value = np.zeros(2, (np.float32, np.int32)[i])
        session.run(raw_ops.SaveV2(prefix=prefix, tensor_names=["v"], shape_and_slices=[""],
                                   tensors=[value]))
    merge = raw_ops.MergeV2Checkpoints(checkpoint_prefixes=prefixes,
                                       destination_prefix=str(tmp_path / "m"))
    with pytest.raises(hf.errors.DataLossError, match="shards disagree about 'v'"):
        session.run(merge)
    assert sorted(os.listdir(tmp_path)) == ["p0.h5", "p1.h5"]


def test_names_of_shards(session):
    name = raw_ops.ShardedFilename(basename="m", shard=3, num_shards=12)
    spec = raw_ops.ShardedFilespec(basename="m", num_shards=12)
    assert session.run([name, spec]) == [b"m-00003-of-00012", b"m-?????-of-00012"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: raw_ops.SaveV2(prefix="m", tensor_names=["a", "b"], shape_and_slices=["", ""],
                                tensors=[1.0]), r"tensor_names must be a vector of 1 strings"),
        (lambda: raw_ops.SaveV2(prefix=["m"], tensor_names=["a"], shape_and_slices=[""],
                                tensors=[1.0]), "input 0 must be a scalar"),
        (lambda: raw_ops.RestoreV2(prefix="m", tensor_names=["a"], shape_and_slices=["2 3 0,1"],
                                   dtypes=[hf.float32]), "2 dimensions but 1 slices"),
        (lambda: raw_ops.RestoreSlice(file_pattern="m", tensor_name="a", shape_and_slice="2 a",
                                      dt=hf.float32), "bad shape_and_slice"),
        (lambda: raw_ops._CheckpointCreate(prefix="m", dynamic_shapes=[], names=["a"],
                                           dtypes=[hf.int32], shapes=[None]), "1 shapes are not"),
        (lambda: raw_ops._CheckpointRead(prefix="m", names=["a"], slices=[], shapes=[[2]],
                                         dtypes=[hf.int32]), "1 names, 0 slices"),
    ],
)  # fmt: skip
def test_wrong_arguments(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_name_given_twice(tmp_path, session):
    save = raw_ops.SaveV2(prefix=str(tmp_path / "m"), tensor_names=["a", "a"],
                          shape_and_slices=["", ""], tensors=[1.0, 2.0])
    with pytest.raises(hf.errors.InvalidArgumentError, match="'a' is given twice"):
        session.run(save)
    assert os.listdir(tmp_path) == []


def test_files_as_strings(tmp_path, session):
    path = str(tmp_path / "new" / "file")
    session.run(hf.write_file(path, b"\0content"))
    assert session.run(hf.read_file(path)) == b"\0content"
    for name in ("b1", "a1", "c2"):
        (tmp_path / name).write_bytes(b"")
    matching = hf.matching_files(str(tmp_path / "?1"))
    assert matching.shape.as_list() == [None]
    assert session.run(matching).tolist() == [str(tmp_path / n).encode() for n in ("a1", "b1")]
    several = hf.matching_files([str(tmp_path / "a*"), str(tmp_path / "*1"), "absent"])
    assert len(session.run(several)) == 2
    with pytest.raises(hf.errors.NotFoundError, match="No such file"):
        session.run(hf.read_file(str(tmp_path / "absent")))
    with pytest.raises(hf.errors.FailedPreconditionError):
        session.run(hf.write_file(str(tmp_path), "x"))


def test_a_saver_of_the_second_version_works(tmp_path, session):
    """The graph that a 1.x Saver makes, with the same names."""
    v = hf.Variable([1.0, 2.0], name="v")
    with hf.name_scope("save"):
        filename = hf.constant("model", name="Const")
        save = raw_ops.SaveV2(prefix=filename, tensor_names=["v"], shape_and_slices=[""],
                              tensors=[v])
        with hf.control_dependencies([save]):
            saved = hf.identity(filename, name="control_dependency")
        (read,) = raw_ops.RestoreV2(prefix=filename, tensor_names=["v"], shape_and_slices=[""],
                                    dtypes=[hf.float32])
        restored = hf.group(hf.assign(v, read), name="restore_all")
    definition = hf.train.SaverDef(
        filename_tensor_name=filename.name, save_tensor_name=saved.name,
        restore_op_name=restored.name, max_to_keep=2, version=hf.train.SaverDef.V2)
    saver = hf.train.Saver(saver_def=definition)
    session.run(v.initializer)
    path = saver.save(session, str(tmp_path / "m"), 1)
    session.run(v.assign([0.0, 0.0]))
    saver.restore(session, path)
    assert session.run(v).tolist() == [1, 2]
    assert hf.train.latest_checkpoint(str(tmp_path)) == path
