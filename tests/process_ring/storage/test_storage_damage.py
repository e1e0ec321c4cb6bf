"""Damaged files are recognized: truncation, flipped bits, files that are something else."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

from hpcflow import storage
from hpcflow.errors import DataLossError, FailedPreconditionError, OpError

VALUES = {
    "w": np.arange(20, dtype=np.float32).reshape(4, 5),
    "w/Adam": np.array(2.5),
    "mask": np.arange(7) % 2 == 0,
    "names": np.array([b"one", b"", b"three"], object),
}


@pytest.fixture
def path(tmp_path):
    entries = [
        (name, str if value.dtype == object else value.dtype, value.shape)
        for name, value in VALUES.items()
    ]
    layout = storage.create(str(tmp_path / "m.h5"), entries)
    record = storage.write(layout, [(name, None, value) for name, value in VALUES.items()])
    return storage.commit(layout, [record])


def read_all(path):
    with storage.Reader(path) as reader:
        return {name: reader.read(name) for name in reader.names()}


def test_truncation_is_detected_at_any_length(path):
    content = Path(path).read_bytes()
    for length in [*range(0, len(content), 61), len(content) - 1]:
        Path(path).write_bytes(content[:length])
        with pytest.raises(DataLossError, match=path):
            storage.Reader(path)


def test_a_flipped_bit_is_detected_or_harmless(path):
    content = Path(path).read_bytes()
    detected = 0
    for position in range(0, len(content), 7):
        damaged = bytearray(content)
        damaged[position] ^= 1 << (position % 8)
        Path(path).write_bytes(damaged)
        try:
            values = read_all(path)
        except DataLossError:
            detected += 1
        else:
            assert values.keys() == VALUES.keys()
            assert all(np.array_equal(values[name], VALUES[name]) for name in VALUES)
    assert detected > len(content) // 7 / 2


@pytest.mark.parametrize("name", ["w", "w/Adam", "mask", "names"])
def test_damaged_data_name_the_variable(name, path):
    with h5py.File(path) as file:
        item = file["variables"][name.replace("/", "|")]
        offset = (item["bytes"] if isinstance(item, h5py.Group) else item).id.get_offset()
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)
        file.seek(offset)
        file.write(bytes([byte[0] ^ 1]))
    with storage.Reader(path) as reader:
        with pytest.raises(DataLossError, match=f"variable '{name}' is damaged"):
            reader.read(name)
        for other in VALUES.keys() - {name}:
            assert np.array_equal(reader.read(other), VALUES[other])


def test_slices_verify_the_blocks_they_touch(tmp_path):
    array = np.zeros((4, 1 << 20), np.float64)  # a row is one block
    layout = storage.create(str(tmp_path / "m.h5"), [("w", "float64", array.shape)])
    path = storage.commit(layout, [storage.write(layout, [("w", None, array)])])
    with open(path, "r+b") as file:
        file.seek(layout.by_name["w"].offset + 2 * array[0].nbytes)
        file.write(b"\1")
    spec = storage.format_slice_spec
    with storage.Reader(path) as reader:
        assert not reader.read("w", spec(array.shape, (0, 0), (2, 1 << 20))).any()
        assert not reader.read("w", spec(array.shape, (3, 5), (1, 9))).any()
        for region in (((1, 0), (2, 1 << 20)), ((2, 99), (1, 9))):
            with pytest.raises(DataLossError, match="checksum"):
                reader.read("w", spec(array.shape, *region))


def test_other_files_are_refused(tmp_path):
    text = tmp_path / "text.h5"
    text.write_text("no HDF5 at all")
    with pytest.raises(DataLossError, match="signature"):
        storage.Reader(str(text))
    plain = tmp_path / "plain.h5"
    with h5py.File(plain, "w") as file:
        file["x"] = 1
    with pytest.raises(DataLossError, match="no complete hpcflow checkpoint"):
        storage.Reader(str(plain))
    with pytest.raises(FailedPreconditionError, match="directory"):
        storage.Reader(str(tmp_path))


def test_an_unfinished_file_is_refused(tmp_path):
    layout = storage.create(str(tmp_path / "m.h5"), [("w", "float32", (2,))])
    storage.write(layout, [("w", None, np.ones(2, np.float32))])
    with pytest.raises(DataLossError, match="no complete hpcflow checkpoint"):
        storage.Reader(layout.temporary)


def test_a_dataset_that_is_not_what_the_index_says(path):
    with h5py.File(path, "r+") as file:
        del file["variables/w"]
        file["variables/w"] = np.zeros((4, 5))
        del file["variables/mask"]
    with storage.Reader(path) as reader:
        with pytest.raises(DataLossError, match="another type or shape"):
            reader.read("w")
        with pytest.raises(OpError, match="variable 'mask' is damaged"):
            reader.read("mask")
