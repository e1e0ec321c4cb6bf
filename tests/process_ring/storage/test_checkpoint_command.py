"""``python -m hpcflow checkpoint``: what it prints, changes and returns."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

import hpcflow as hf
from hpcflow import storage
from hpcflow.tools.cli import main

VALUES = {
    "net/w": np.arange(12, dtype=np.float32).reshape(3, 4),
    "names": np.array([b"a", b"", b"\0b\0" * 300], object),
    "label": np.array(b"text", object),
    "z": np.array([1 + 2j, 0], np.complex64),
    "half": np.array([0.5, 1.5], hf.bfloat16.as_numpy_dtype),
    "mask": np.array([True, False]),
    "empty": np.zeros((0, 3), np.int64),
    "step": np.array(7),
    **{f"many/{i}": np.array(float(i)) for i in range(300)},
}


def save(path, values):
    entries = [(n, str if v.dtype == object else v.dtype, v.shape) for n, v in values.items()]
    layout = storage.create(storage.checkpoint_path(str(path)), entries)
    storage.commit(layout, [storage.write(layout, [(n, None, v) for n, v in values.items()])])
    return str(path)


@pytest.fixture
def command(capsys):
    def run(*arguments):
        status = main(["checkpoint", *map(str, arguments)])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return run


@pytest.fixture
def path(tmp_path):
    return save(tmp_path / "m-1", VALUES)


def test_ls(command, path, tmp_path):
    status, out, _ = command("ls", path)
    assert status == 0 and "net/w  float32 [3, 4]  48 bytes\n" in out
    _, listed, _ = command("ls", "--json", path + ".h5")
    assert {row["name"] for row in json.loads(listed)} == VALUES.keys()
    hf.train.update_checkpoint_state(str(tmp_path), path)
    (tmp_path / "other.h5").write_bytes(b"no checkpoint")
    status, out, _ = command("ls", tmp_path)
    assert (status, out) == (0, f"{path}  hdf5  latest\n")


def test_verify(command, path, tmp_path):
    assert command("verify", path)[:2] == (0, f"{path}: whole, {len(VALUES)} variables\n")
    file = Path(path + ".h5")
    content = bytearray(file.read_bytes())
    content[content.index(VALUES["net/w"].tobytes()) + 5] ^= 1
    file.write_bytes(content)
    status, out, _ = command("verify", "--json", path)
    (row,) = json.loads(out)
    assert status == 1 and not row["whole"] and "'net/w'" in row["error"]
    status, out, error = command("verify", tmp_path / "missing")
    assert (status, out, error.count("\n")) == (2, "", 1) and "missing" in error


def test_diff(command, path, tmp_path):
    assert command("diff", path, path) == (0, "", "")
    other = {**VALUES, "step": np.array(9), "net/w": VALUES["net/w"] + np.float32(0.5),
             "mask": np.array([1, 0]), "names": VALUES["names"][::-1]}
    del other["z"]
    second = save(tmp_path / "m-2", other)
    status, out, _ = command("diff", path, second)
    assert status == 1 and out.splitlines() == [
        "mask: bool [2], then int64 [2]", "names: 2 of 3 elements",
        "net/w: 12 of 12 elements, by up to 0.5", "step: 1 of 1 elements, by up to 2",
        f"z: only in {path}.h5"]
    _, out, _ = command("diff", "--json", "--tolerance", "1", path, second)
    assert [row["name"] for row in json.loads(out)] == ["mask", "names", "step", "z"]


def test_convert_there_and_back(command, path, tmp_path):
    bundle, back = tmp_path / "bundle", tmp_path / "back"
    assert command("convert", path, bundle)[0] == 0
    assert sorted(os.listdir(tmp_path)) == [
        "bundle.data-00000-of-00001", "bundle.index", "m-1.h5"]
    assert command("diff", path, bundle)[0] == 0
    assert command("convert", bundle, back)[0] == 0
    assert command("diff", path, str(back) + ".h5")[0] == 0
    status, _, error = command("convert", path, bundle)
    assert status == 2 and "--force" in error
    assert command("convert", "--force", path, bundle)[0] == 0
    with hf.Graph().as_default(), hf.Session() as session:
        step = hf.get_variable("step", initializer=np.int64(0))
        hf.train.Saver().restore(session, str(bundle))
        assert session.run(step) == 7


def test_convert_makes_folders_and_replaces_other_forms(command, path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bundle, other = Path("new/folder/m"), "other"
    assert command("convert", path, bundle)[0] == 0
    save(tmp_path / other, {"step": np.array(9)})
    assert command("convert", "--force", "--to", "hdf5", bundle, other)[0] == 0
    assert command("diff", path, other)[0] == 0 and os.path.exists(other + ".h5")
    assert command("convert", "--force", bundle, "--to", "bundle", other)[0] == 0
    assert command("diff", path, other)[0] == 0
    assert not os.path.exists(other + ".h5")
    assert command("convert", other, other)[0] == 0 and os.path.exists(other + ".index")


def test_prune(command, tmp_path):
    with hf.Graph().as_default(), hf.Session() as session:
        hf.Variable(1.0)
        saver = hf.train.Saver(max_to_keep=0)
        session.run(hf.global_variables_initializer())
        paths = [saver.save(session, str(tmp_path / "m"), step) for step in range(4)]
    for age, path in enumerate(reversed(paths)):
        os.utime(path + ".h5", (1000 - age, 1000 - age))
    hf.train.update_checkpoint_state(str(tmp_path), paths[-1], paths)
    (tmp_path / "weights.h5").write_bytes(b"something else")
    status, out, _ = command("prune", "--keep", "2", "--dry-run", tmp_path)
    assert status == 0 and out == "".join(f"{p}: would be removed\n" for p in paths[:2])
    assert all(map(storage.checkpoint_exists, paths))
    assert command("prune", "--keep", "2", tmp_path)[0] == 0
    assert sorted(os.listdir(tmp_path)) == [
        "checkpoint", "m-2.h5", "m-2.meta", "m-3.h5", "m-3.meta", "weights.h5"]
    state = hf.train.get_checkpoint_state(str(tmp_path))
    assert list(state.all_model_checkpoint_paths) == paths[2:]


def test_errors_take_one_line(command, path, tmp_path):
    for arguments in (("ls", tmp_path / "none"), ("diff", path, tmp_path / "none"),
                      ("convert", tmp_path / "none", tmp_path / "missing/x"),
                      ("convert", path, f"{path}.h5/x"), ("prune", tmp_path / "missing"),
                      ("verify", tmp_path / "m-1.meta")):
        status, out, error = command(*arguments)
        assert (status, out, error.count("\n")) == (2, "", 1), arguments
    assert os.listdir(tmp_path) == ["m-1.h5"]
