"""Checkpoints that other 1.x runtimes wrote.

The files in ``tests/data/checkpoints`` were saved by the reference runtime: ``bundle`` in the form
of tensor bundles, ``first`` in the form of ``SaverDef.V1``.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import hpcflow as hf
from hpcflow import storage
from hpcflow.errors import DataLossError, InvalidArgumentError, NotFoundError, OpError
from hpcflow.graph.raw import raw_ops
from hpcflow.storage import snappy

FOLDER = Path(__file__).parents[2] / "data" / "checkpoints"
FIRST = {
    "net/a": np.arange(12, dtype=np.float32).reshape(3, 4) / 8,
    "step": np.array(-7),
    "flat": np.full([500], 2.0),
    "p/rows": np.arange(200, dtype=np.float32).reshape(100, 2),
    "q/columns": np.arange(600, dtype=np.float32).reshape(2, 300),
}
BUNDLE = {
    **FIRST,
    "words": np.array([b"x", b"", b"hello" * 30], object),
    "z": np.array([0, 1 + 1j], np.complex64),
    "empty": np.zeros((0, 3), np.float32),
    "mask": np.array([True, False]),
    "half": np.array([0.5, 1.5], hf.bfloat16.as_numpy_dtype),
}


@pytest.fixture(params=["bundle", "first"])
def name(request):
    return request.param


@pytest.fixture(autouse=True)
def graph():
    with hf.Graph().as_default() as g:
        yield g


def expected(name):
    return BUNDLE if name == "bundle" else FIRST


def files(name):
    return sorted(FOLDER.glob(f"{name}*"))


def copied(name, folder):
    for path in files(name):
        shutil.copy(path, folder)
    return str(folder / name)


def test_every_variable_is_read(name):
    reader = hf.train.NewCheckpointReader(str(FOLDER / name))
    shapes = reader.get_variable_to_shape_map()
    assert shapes == {key: list(value.shape) for key, value in expected(name).items()}
    for key, value in expected(name).items():
        got = reader.get_tensor(key)
        assert np.asarray(got).dtype == value.dtype
        np.testing.assert_array_equal(got, value, err_msg=key)


@pytest.mark.parametrize("spec", ["100 2 10,50:-", "100 2 0,1:1,1", "100 2 34,66:0,2"])
def test_slices_across_stored_slices(name, spec):
    region = storage.parse_slice_spec(spec)
    with storage.open_checkpoint(str(FOLDER / name)) as reader:
        np.testing.assert_array_equal(
            reader.read("p/rows", spec), FIRST["p/rows"][region.selector()])


def test_a_saver_restores_into_other_partitions(name):
    with hf.variable_scope("p", partitioner=hf.fixed_size_partitioner(4)):
        rows = hf.get_variable("rows", [100, 2])
    a, step = hf.get_variable("net/a", [3, 4]), hf.Variable(0, dtype=hf.int64, name="step")
    with hf.Session() as session:
        hf.train.Saver().restore(session, str(FOLDER / name))
        np.testing.assert_array_equal(
            session.run(hf.convert_to_tensor(rows)), FIRST["p/rows"])
        np.testing.assert_array_equal(session.run(a), FIRST["net/a"])
        assert session.run(step) == -7


def test_the_ops_restore_them_too(name):
    prefix = str(FOLDER / name)
    both = raw_ops.RestoreV2(prefix, ["net/a", "step"], ["", ""], dtypes=[hf.float32, hf.int64])
    one = raw_ops.Restore(prefix, "flat", dt=hf.float64)
    with hf.Session() as session:
        (a, step), flat = session.run([list(both), one])
    np.testing.assert_array_equal(a, FIRST["net/a"])
    assert step == -7
    np.testing.assert_array_equal(flat, FIRST["flat"])


def test_what_does_not_fit_is_refused(name):
    prefix = str(FOLDER / name)
    reader = hf.train.NewCheckpointReader(prefix)
    with pytest.raises(NotFoundError, match=r"net/b.*similar names: net/a"):
        reader.get_tensor("net/b")
    hf.get_variable("net/a", [4, 3])
    with hf.Session() as session, pytest.raises(InvalidArgumentError, match=r"\[3,4\]"):
        hf.train.Saver().restore(session, prefix)


def test_existence_age_and_removal(name, tmp_path):
    prefix = copied(name, tmp_path)
    assert hf.train.checkpoint_exists(prefix)
    assert hf.train.get_checkpoint_mtimes([prefix])
    hf.train.update_checkpoint_state(str(tmp_path), prefix)
    assert hf.train.latest_checkpoint(str(tmp_path)) == prefix
    storage.delete(prefix)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint"]
    assert not hf.train.checkpoint_exists(prefix)


def test_an_own_file_comes_first(tmp_path):
    prefix = copied("bundle", tmp_path)
    mine = hf.Variable(5.0, name="mine")
    with hf.Session() as session:
        session.run(mine.initializer)
        hf.train.Saver().save(session, prefix)
    assert list(hf.train.NewCheckpointReader(prefix).get_variable_to_shape_map()) == ["mine"]


def test_shards_of_the_first_form(tmp_path):
    """Each shard lists what it holds; a pattern names them all."""
    for shard in range(2):
        shutil.copy(FOLDER / "first", tmp_path / f"m-{shard:05d}-of-00002")
    pattern = str(tmp_path / "m-?????-of-00002")
    # Every slice is there twice, so that they cover more than the whole.
    with pytest.raises(DataLossError, match="slices do not make up the whole"):
        hf.train.NewCheckpointReader(pattern).get_tensor("net/a")
    (tmp_path / "m-00001-of-00002").unlink()
    np.testing.assert_array_equal(
        hf.train.NewCheckpointReader(pattern).get_tensor("net/a"), FIRST["net/a"])


def test_flipped_bytes_and_truncation_are_noticed(name, tmp_path):
    prefix = copied(name, tmp_path)
    for path in sorted(tmp_path.iterdir()):
        content = path.read_bytes()
        for at in range(0, len(content), 29):
            damaged = bytearray(content)
            damaged[at] ^= 0x10
            path.write_bytes(bytes(damaged))
            check_damage(name, prefix)
            path.write_bytes(content[:at])
            check_damage(name, prefix)
        path.write_bytes(content)
    assert read_all(prefix).keys() == expected(name).keys()


def check_damage(name, prefix):
    """Values are as saved, or there is an error that says that they are not."""
    try:
        found = read_all(prefix)
    except (DataLossError, NotFoundError):
        return
    for key, value in found.items():
        np.testing.assert_array_equal(value, expected(name)[key])


def read_all(prefix):
    try:
        with storage.open_checkpoint(prefix) as reader:
            return {key: reader.read(key) for key in reader.names()}
    except OpError as error:
        assert prefix in error.message
        raise


@pytest.mark.parametrize("packed, plain", [
    (b"\x00", b""),
    (b"\x05\x10hello", b"hello"),
    (b"\x0a\x04ab\x11\x02", b"ababababab"[:2] + b"abababab"),
    (b"\x07\x08abc\x0e\x03\x00", b"abcabca"),
    (b"\x08\x0cabcd\x0f\x04\x00\x00\x00", b"abcdabcd"),
    (b"\x46\xf0\x3d" + b"x" * 62 + b"\x11\x01", b"x" * 70),
])
def test_compressed_blocks(packed, plain):
    assert snappy.decompress(packed) == plain


@pytest.mark.parametrize("packed", [b"\x05\x10hell", b"\x04\x0e\x03\x00", b"\x09\x10hello"])
def test_damaged_compressed_blocks(packed):
    with pytest.raises((ValueError, IndexError)):
        snappy.decompress(packed)
