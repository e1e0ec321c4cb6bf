"""Files that were made to mislead: nothing is read that is not whole, plain and in the file."""

from __future__ import annotations

import json
import os
import resource
import zlib
from pathlib import Path

import h5py
import numpy as np
import pytest

import hpcflow as hf
from hpcflow import storage
from hpcflow.errors import DataLossError, FailedPreconditionError, OpError
from hpcflow.storage import layer_files

VALUES = np.arange(20, dtype=np.float32).reshape(4, 5)


@pytest.fixture
def path(tmp_path):
    (tmp_path / "secret").write_bytes(b"what nobody else should see" * 10)
    layout = storage.create(str(tmp_path / "m.h5"), [("w", "float32", (4, 5)), ("s", str, (2,))])
    record = storage.write(
        layout, [("w", None, VALUES), ("s", None, np.array([b"a", b"bc"], object))])
    return storage.commit(layout, [record])


def read_all(path):
    with storage.Reader(path) as reader:
        return {name: reader.read(name) for name in reader.names()}


def external_values(file, folder):
    del file["variables/w"]
    file["variables"].create_dataset("w", (4, 5), "<f4", external=[(f"{folder}/secret", 0, 80)])


def external_link(file, folder):
    with h5py.File(folder / "other.h5", "w") as other:
        other["w"] = VALUES
    del file["variables/w"]
    file["variables/w"] = h5py.ExternalLink(str(folder / "other.h5"), "/w")


def external_group(file, folder):
    with h5py.File(folder / "other.h5", "w") as other:
        file.copy("variables", other)
    del file["variables"]
    file["variables"] = h5py.ExternalLink(str(folder / "other.h5"), "/variables")


def external_index(file, folder):
    with h5py.File(folder / "other.h5", "w") as other:
        file.copy("index", other)
    del file["index"]
    file["index"] = h5py.ExternalLink(str(folder / "other.h5"), "/index")


def soft_link(file, folder):
    file.move("variables/w", "elsewhere")
    file["variables/w"] = h5py.SoftLink("/elsewhere")


def virtual_values(file, folder):
    with h5py.File(folder / "other.h5", "w") as other:
        other["w"] = VALUES
    layout = h5py.VirtualLayout((4, 5), "<f4")
    layout[...] = h5py.VirtualSource(str(folder / "other.h5"), "w", (4, 5))
    del file["variables/w"]
    file["variables"].create_virtual_dataset("w", layout)


def compressed_values(file, folder):
    del file["variables/w"]
    file["variables"].create_dataset("w", data=VALUES, compression="gzip")


def values_without_space(file, folder):
    del file["variables/w"]
    file["variables"].create_dataset("w", (4, 5), "<f4")


@pytest.mark.parametrize("change", [
    external_values, external_link, external_group, external_index, soft_link, virtual_values,
    compressed_values, values_without_space], ids=lambda f: f.__name__)
def test_values_from_elsewhere_are_refused(change, path, tmp_path):
    with h5py.File(path, "r+") as file:
        change(file, tmp_path)
    with pytest.raises(DataLossError, match=path):
        read_all(path)


def change_index(path, change):
    with h5py.File(path, "r+") as file:
        index = json.loads(file["index"][()].tobytes())
        variable = next(v for v in index["variables"] if v["name"] == "w")
        index = change(index, variable) or index
        data = json.dumps(index).encode()
        del file["index"]
        dataset = file.create_dataset("index", data=np.frombuffer(data, np.uint8))
        dataset.attrs["crc32"] = np.uint32(zlib.crc32(data))


def _set(key, value):
    return lambda index, variable: variable.update({key: value})


def _set_piece(key, value):
    return lambda index, variable: variable["pieces"][0].update({key: value})


@pytest.mark.parametrize("change", [
    _set("pieces", []), lambda index, variable: variable.pop("pieces") and None,
    _set("pieces", None), _set("pieces", {}),
    lambda index, variable: variable["pieces"].append(variable["pieces"][0]),
    _set_piece("rows", -1), _set_piece("rows", 0), _set_piece("rows", True),
    _set_piece("rows", "1"), _set_piece("rows", 1), _set_piece("checksums", []),
    _set_piece("checksums", [0]),
    _set_piece("checksums", [None]), _set_piece("start", [0]), _set_piece("start", [-1, 0]),
    _set_piece("start", [1, 0]), _set_piece("extent", [4, 4]), _set_piece("extent", [1 << 60, 5]),
    _set_piece("extent", "45"), _set("shape", [1 << 40, 1 << 40]), _set("shape", [-4, -5]),
    _set("shape", [1 << 80]), _set("shape", [4.0, 5]), _set("shape", None), _set("shape", [2, 10]),
    _set("dtype", "int32"), _set("dtype", "resource"), _set("dtype", "float32_ref"),
    _set("dtype", "string"), _set("dtype", 1), _set("dtype", "nonsense"), _set("link", "s"),
    _set("link", "../index"), _set("link", 3), _set("name", 3), _set("name", "s"),
    lambda index, variable: [variable], lambda index, variable: {"variables": 3},
    lambda index, variable: {"variables": [3]}, lambda index, variable: "text",
])
def test_an_index_that_is_made_up_is_refused(change, path):
    change_index(path, change)
    with pytest.raises(DataLossError, match=path):
        read_all(path)


def test_claims_are_refused_before_memory_is_taken(path):
    huge = 1 << 36
    with h5py.File(path, "r+") as file:
        del file["variables/w"]
        file["variables"].create_dataset("w", (huge,), "<f4", chunks=(1 << 20,))

    def claim(index, variable):
        variable["shape"] = [huge]
        variable["pieces"] = [{"start": [0], "extent": [huge], "rows": huge, "checksums": [0]}]

    change_index(path, claim)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(DataLossError, match="more values than it holds"):
        read_all(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # KiB


def test_weights_of_layers_from_elsewhere_are_refused(path, tmp_path):
    weights = str(tmp_path / "weights.h5")
    layer_files.write(weights, [("dense", [("dense/kernel:0", VALUES)])])
    assert np.array_equal(layer_files.read(weights)[0][1][0][1], VALUES)
    with h5py.File(weights, "r+") as file:
        del file["dense/dense/kernel:0"]
        file["dense/dense"].create_dataset(
            "kernel:0", (20,), "<f4", external=[(f"{tmp_path}/secret", 0, 80)])
    with pytest.raises(ValueError, match="another file"):
        layer_files.read(weights)


def test_files_of_layers_that_are_damaged(tmp_path):
    path = str(tmp_path / "weights.h5")
    layer_files.write(path, [("a", [("a/kernel:0", np.ones((2, 2)))])])
    content = bytearray(Path(path).read_bytes())
    for damaged in (content[: len(content) // 2], content.replace(b"kernel:0", b"kernel:1", 1),
                    b"no HDF5"):
        Path(path).write_bytes(damaged)
        for error in (DataLossError, OSError):  # what the library says, and what Keras does
            with pytest.raises(error, match=r"weights.h5' is damaged"):
                layer_files.read(path)
    with pytest.raises(FileNotFoundError):
        layer_files.read(path + "?")


@pytest.mark.parametrize("name", ["model.h5", "model", "model.index", "model.data-00000-of-00001"])
def test_what_is_no_file_is_refused_at_once(name, tmp_path):
    os.mkfifo(tmp_path / name)
    prefix = str(tmp_path / "model")
    assert not storage.checkpoint_exists(prefix)
    with pytest.raises(OpError, match="model"):
        hf.train.NewCheckpointReader(prefix)
    with hf.Graph().as_default(), hf.Session() as session:
        hf.Variable(1.0)
        saver = hf.train.Saver()
        # Where there seems to be no checkpoint at all 1.x raises ValueError.
        error = OpError if name == "model.h5" else ValueError
        with pytest.raises(error, match="model"):
            saver.restore(session, prefix)
    assert Path(tmp_path / name).is_fifo()


def test_a_state_file_that_is_none_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "checkpoint")
    with pytest.raises(FailedPreconditionError, match="regular file"):
        hf.train.latest_checkpoint(str(tmp_path))


def test_names_as_long_as_they_may_be(tmp_path):
    with hf.Graph().as_default(), hf.Session() as session:
        hf.Variable(1.0)
        saver = hf.train.Saver()
        session.run(hf.global_variables_initializer())
        longest = str(tmp_path / ("n" * 250))
        saver.restore(session, saver.save(session, longest))
        for name in ("n" * 253, "n" * 300, "n" * 5000):
            with pytest.raises(hf.errors.InvalidArgumentError, match="name too long"):
                saver.save(session, str(tmp_path / name))
            with pytest.raises(OpError):
                saver.restore(session, str(tmp_path / name))
    assert not [n for n in os.listdir(tmp_path) if ".tmp" in n]
