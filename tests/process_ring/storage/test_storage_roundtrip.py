"""Saving and reading back in one process: types, shapes, slices, file names."""

from __future__ import annotations

import json
import subprocess
import sys
import zlib
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from speed import patience

from hpcflow import dtypes, storage
from hpcflow.errors import InvalidArgumentError, NotFoundError, UnimplementedError

FILES = Path(__file__).parents[2] / "data" / "checkpoints"
STORABLE = sorted([d.name for d in dtypes.VALUE_DTYPES if d.is_numpy_compatible])
SHAPES = [(), (0,), (1,), (5,), (0, 3), (3, 0), (4, 5), (2, 3, 4), (1, 1, 1, 2)]


def save(path, variables, pieces=None):
    """Save whole `variables` (name -> (dtype, values)), or the given pieces of them."""
    entries = [(name, dtype, np.shape(value)) for name, (dtype, value) in variables.items()]
    layout = storage.create(path, entries)
    if pieces is None:
        pieces = [(name, None, value) for name, (_, value) in variables.items()]
    return storage.commit(layout, [storage.write(layout, pieces)])


def values_of(dtype, shape):
    """Values that use all bits of the type."""
    dtype = dtypes.as_dtype(dtype)
    rng = np.random.RandomState(len(dtype.name) + sum(shape))
    count = int(np.prod(shape))
    if dtype is dtypes.string:
        values = np.empty(count, object)
        values[:] = [rng.bytes(rng.randint(0, 9)) for _ in range(count)]
        return values.reshape(shape)
    if dtype is dtypes.bool:
        return rng.rand(count).reshape(shape) < 0.5
    return np.frombuffer(rng.bytes(count * dtype.size), dtype.np).reshape(shape)


def assert_same_bits(actual, expected):
    assert actual.dtype == expected.dtype and actual.shape == expected.shape
    if expected.dtype == object:
        assert actual.tolist() == expected.tolist()
    else:
        assert actual.tobytes() == expected.tobytes()


@pytest.mark.parametrize("name", STORABLE)
def test_every_type_and_shape(name, tmp_path):
    variables = {f"v{shape}": (name, values_of(name, shape)) for shape in SHAPES}
    path = save(str(tmp_path / "model.h5"), variables)
    with storage.Reader(path) as reader:
        assert reader.names() == sorted(variables)
        for key, (_, expected) in variables.items():
            assert reader.dtype(key) is dtypes.as_dtype(name)
            assert reader.shape(key) == expected.shape
            assert_same_bits(reader.read(key, dtype=name, shape=expected.shape), expected)


def test_types_that_cannot_be_stored(tmp_path):
    with pytest.raises(InvalidArgumentError, match="'r' is of type resource"):
        storage.create(str(tmp_path / "m.h5"), [("r", dtypes.resource, ())])
    assert list(tmp_path.iterdir()) == []


def test_runtime_values_of_rank_zero(tmp_path):
    variables = {"x": ("float32", np.float32(1.5)), "s": ("string", b"text")}
    with storage.Reader(save(str(tmp_path / "m.h5"), variables)) as reader:
        assert reader.read("x")[()] == 1.5 and reader.read("s")[()] == b"text"


@pytest.mark.parametrize(
    "names",
    [
        ["w", "w/Adam", "w/Adam_1", "layer/w"],
        ["a|b", "a/b", "a%7Cb", "a%2Fb", "%", "%25"],
        [".", "..", "...", "", "/", "/a/", "%2E", "a.b"],
        ["Ünïcode/β", "with space", "new\nline", "index", "variables"],
    ],
)
def test_any_names_live_side_by_side(names, tmp_path):
    variables = {name: ("int32", np.int32(i)) for i, name in enumerate(names)}
    variables["strings" + names[0]] = ("string", b"s")
    with storage.Reader(save(str(tmp_path / "m.h5"), variables)) as reader:
        for i, name in enumerate(names):
            assert reader.has(name) and reader.read(name)[()] == i


def test_arrays_need_not_be_contiguous(tmp_path):
    array = np.arange(24, dtype=np.float32).reshape(4, 6)
    variables = {
        "transposed": ("float32", array.T),
        "strided": ("float32", array[::2, ::-3]),
        "fortran": ("float32", np.asfortranarray(array)),
        "repeated": ("float32", np.broadcast_to(np.float32(3), (3, 2))),
    }
    with storage.Reader(save(str(tmp_path / "m.h5"), variables)) as reader:
        for name, (_, expected) in variables.items():
            assert_same_bits(reader.read(name), np.ascontiguousarray(expected))


def test_variables_of_several_checksum_blocks(tmp_path):
    array = np.arange(3_000_000, dtype=np.float64).reshape(1500, 2000)
    spec = storage.format_slice_spec
    pieces = [
        ("w", spec(array.shape, (0, 0), (1500, 1999)), array[:, :1999]),
        ("w", spec(array.shape, (0, 1999), (1500, 1)), array[:, 1999:]),
    ]
    path = save(str(tmp_path / "m.h5"), {"w": ("float64", array)}, pieces)
    with storage.Reader(path) as reader:
        assert_same_bits(reader.read("w"), array)
        part = reader.read("w", spec(array.shape, (400, 1990), (700, 10)))
        assert_same_bits(part, array[400:1100, 1990:].copy())


@pytest.mark.parametrize("name", ["float32", "complex64", "string", "bfloat16"])
@given(data=st.data())
def test_any_partitioning_reads_as_any_other(name, tmp_path_factory, data):
    shape = (5, 6)
    array = values_of(name, shape)
    row, column = data.draw(st.integers(0, 5)), data.draw(st.integers(0, 6))
    boxes = [
        ((0, 0), (row, column)),
        ((0, column), (row, 6 - column)),
        ((row, 0), (5 - row, 6)),
    ]
    pieces = []
    for start, extent in data.draw(st.permutations(boxes)):
        region = storage.Region(shape, start, extent)
        pieces.append(("w", storage.format_slice_spec(*region), array[region.selector()]))
    path = save(str(tmp_path_factory.mktemp("m") / "m.h5"), {"w": (name, array)}, pieces)
    start = [data.draw(st.integers(0, dim)) for dim in shape]
    extent = [data.draw(st.integers(0, dim - first)) for dim, first in zip(shape, start)]
    wanted = storage.Region(shape, tuple(start), tuple(extent))
    with storage.Reader(path) as reader:
        assert_same_bits(reader.read("w"), array)
        assert_same_bits(reader.read("w", wanted), array[wanted.selector()].copy())


def test_expectations_are_checked(tmp_path):
    path = save(str(tmp_path / "m.h5"), {"layer/w": ("float32", np.zeros((2, 3), np.float32))})
    with storage.Reader(path) as reader:
        with pytest.raises(NotFoundError, match=r"Key layer/v not found.*similar names: layer/w"):
            reader.read("layer/v")
        with pytest.raises(InvalidArgumentError, match=r"float32\[2,3\], expected float64\[2,3\]"):
            reader.read("layer/w", dtype="float64")
        with pytest.raises(InvalidArgumentError, match=r"float32\[2,3\], expected float32\[3,2\]"):
            reader.read("layer/w", shape=(3, 2))
        with pytest.raises(InvalidArgumentError, match=r"float32\[1,3\], expected float32\[2,3\]"):
            reader.read("layer/w", "2 3 0,1:-", shape=(2, 3))
        with pytest.raises(InvalidArgumentError, match=r"shape \[4,3\].*\[2,3\]"):
            reader.read("layer/w", "4 3 0,1:-")
        assert reader.read("layer/w", dtype="float32_ref", shape=[2, 3]).shape == (2, 3)


def test_layout_travels_as_bytes(tmp_path):
    layout = storage.create(str(tmp_path / "m.h5"), [("w", "bfloat16_ref", (2,)), ("s", str, ())])
    again = storage.Layout.from_bytes(layout.to_bytes())
    assert again == layout and again.by_name["w"].dtype is dtypes.bfloat16
    storage.abandon(again)
    storage.abandon(again)
    assert list(tmp_path.iterdir()) == []


def test_other_tools_understand_files(tmp_path):
    ragged = np.array([b"a" * 100_000, *[b"b"] * 10, b"zero\0"], object)
    variables = {
        "layer/w": ("float32", np.ones((2, 3), np.float32)),
        "c": ("complex64", np.array([1 + 2j], np.complex64)),
        "h": ("bfloat16", np.array([1.5, -2], dtypes.bfloat16.np)),
        "s": ("string", np.array([b"ab", b"c"], object)),
        "ragged": ("string", ragged),
        "global_step": ("int64", np.array(7)),
    }
    with h5py.File(save(str(tmp_path / "m.h5"), variables)) as file:
        group = file["variables"]
        assert group["layer|w"][()].tolist() == [[1, 1, 1], [1, 1, 1]]
        assert group["c"][()].tolist() == [1 + 2j] and group["h"][()].tolist() == [1.5, -2]
        assert group["s"][()].tolist() == [b"ab", b"c"]
        assert group["ragged/bytes"].size == 100_015 and group["ragged/offsets"][1] == 100_000
        for name, (dtype, _) in variables.items():
            attributes = group[name.replace("/", "|")].attrs
            assert attributes["name"] == name.encode() and attributes["dtype"] == dtype.encode()
        assert {"format", "format_version", "hpcflow_version", "created", "global_step"} == set(
            file.attrs)
        assert file.attrs["global_step"] == 7
        assert file["pieces"][()].tolist()[0] == (
            b"layer/w", b"2 3 -:-", zlib.crc32(np.ones((2, 3), np.float32)))
        assert json.loads(file["index"][()])["variables"][0]["name"] == "layer/w"


def test_slices_are_named(tmp_path):
    layout = storage.create(str(tmp_path / "m.h5"), [("w", "float32", (4, 2))])
    specs = ["4 2 0,1:-", "4 2 1,3:-"]
    ones = np.ones((4, 2), np.float32)
    record = storage.write(layout, [("w", specs[0], ones[:1]), ("w", specs[1], ones[1:])])
    with h5py.File(storage.commit(layout, [record])) as file:
        assert file["variables/w"].attrs["slices"].astype(str).tolist() == specs


def test_the_first_version_of_the_format_is_read():
    with storage.Reader(str(FILES / "version1.h5")) as reader:
        found = {name: reader.read(name) for name in reader.names()}
    assert found["z"].tolist() == [[1 + 2j, 0]] and found["z"].dtype == np.complex128
    assert found["half"].dtype == dtypes.bfloat16.np and found["half"].tolist() == [1.5, 2]
    assert found["words"].tolist() == [b"x", b"", b"hello" * 3]
    assert found["text"].tolist() == b"\0q\0" and found["mask"].tolist() == [True, False]
    assert found["net/w"].tolist() == np.arange(12.0).reshape(3, 4).tolist()
    assert found["empty"].shape == (0, 3) and found["global_step"] == -3


def test_a_later_format_is_refused(tmp_path):
    path = save(str(tmp_path / "m.h5"), {})
    with h5py.File(path, "r+") as file:
        file.attrs["format_version"] = 99
    with pytest.raises(UnimplementedError, match="format version 99"):
        storage.Reader(path)


def test_names_of_files(tmp_path):
    prefix = str(tmp_path / "model.ckpt-100")
    path = storage.checkpoint_path(prefix)
    assert path == prefix + ".h5" == storage.checkpoint_path(path)
    assert not storage.checkpoint_exists(prefix)
    assert save(path, {"x": ("int32", np.int32(1))}) == path
    assert storage.checkpoint_exists(prefix) and storage.modification_time(prefix) > 0
    storage.delete(prefix)
    assert list(tmp_path.iterdir()) == []
    for use in (storage.delete, storage.modification_time, storage.Reader):
        with pytest.raises(NotFoundError, match=r"model\.ckpt-100"):
            use(prefix)


def test_import_loads_no_h5py():
    code = "import sys, hpcflow.storage; assert not {'h5py', 'mpi4py'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=patience())
