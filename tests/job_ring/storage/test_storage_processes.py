"""Several processes write one checkpoint, and die in all stages of it."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from speed import patience

from hpcflow import storage

SHAPE = (6, 4)
OWNER = """
import os, signal, sys
import numpy as np
from hpcflow import storage

folder, row, die = sys.argv[1], int(sys.argv[2]), sys.argv[3]
layout = open(os.path.join(folder, "layout"), "rb").read()
start = np.arange(24, dtype=np.float32).reshape(6, 4)
spec = storage.format_slice_spec((6, 4), (row, 0), (2, 4))
names = np.array([b"row %d" % row], object)
pieces = [("w", spec, start[row:row + 2]), ("s", "3 %d,1" % (row // 2), names)]
real_pwrite = os.pwrite

def torn_pwrite(descriptor, data, position):
    real_pwrite(descriptor, data[: len(data) // 2], position)
    os.kill(os.getpid(), signal.SIGKILL)

if die == "inside":
    os.pwrite = torn_pwrite
record = storage.write(layout, pieces)
assert "h5py" not in sys.modules, "owners that use pwrite need no HDF5"
with open(os.path.join(folder, "record%d" % row), "wb") as file:
    file.write(record)
"""
COORDINATOR = """
import os, signal, sys
import numpy as np
from hpcflow import storage
from hpcflow.storage import hdf5, paths

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

path, stage = sys.argv[1:]
if stage == "create":
    os.ftruncate = die
layout = storage.create(path, [("w", "float32", (2,)), ("s", str, ())])
record = storage.write(layout, [("w", None, np.ones(2, np.float32)), ("s", None, b"new")])
if stage == "finish":
    hdf5.checksum = die
elif stage == "sync":
    os.fsync = die
elif stage == "rename":
    os.replace = die
elif stage == "after":
    paths.sync_directory = die
storage.commit(layout, [record])
"""


def start(code, *arguments):
    return subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)])


def lay_out(folder):
    layout = storage.create(str(folder / "m.h5"), [("w", "float32", SHAPE), ("s", str, (3,))])
    (folder / "layout").write_bytes(layout.to_bytes())
    return layout


def test_owners_write_in_any_order(tmp_path):
    layout = lay_out(tmp_path)
    owners = [start(OWNER, tmp_path, row, "") for row in (4, 0, 2)]
    assert [owner.wait(patience()) for owner in owners] == [0, 0, 0]
    records = [(tmp_path / f"record{row}").read_bytes() for row in (0, 2, 4)]
    expected = np.arange(24, dtype=np.float32).reshape(SHAPE)
    content = Path(layout.temporary).read_bytes()
    for order in itertools.permutations(records):
        Path(layout.temporary).write_bytes(content)
        with storage.Reader(storage.commit(layout, order)) as reader:
            np.testing.assert_array_equal(reader.read("w"), expected)
            columns = reader.read("w", "6 4 -:1,2")
            np.testing.assert_array_equal(columns, expected[:, 1:3])
            assert reader.read("s").tolist() == [b"row 0", b"row 2", b"row 4"]


def save_old(path):
    layout = storage.create(path, [("w", "float32", (2,))])
    storage.commit(layout, [storage.write(layout, [("w", None, np.zeros(2, np.float32))])])


def test_an_owner_that_dies_leaves_the_old_file(tmp_path):
    save_old(str(tmp_path / "m.h5"))
    layout = lay_out(tmp_path)
    assert start(OWNER, tmp_path, 2, "inside").wait(patience()) == -signal.SIGKILL
    storage.abandon(layout)
    with storage.Reader(layout.path) as reader:
        assert reader.read("w").tolist() == [0, 0]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["layout", "m.h5"]


@pytest.mark.parametrize("stage", ["create", "finish", "sync", "rename", "after"])
def test_a_coordinator_that_dies_leaves_a_complete_file(stage, tmp_path):
    path = tmp_path / "m.ckpt-1.h5"
    save_old(str(path))
    assert start(COORDINATOR, path, stage).wait(patience()) == -signal.SIGKILL
    with storage.Reader(str(path)) as reader:
        assert reader.read("w").tolist() == ([1, 1] if stage == "after" else [0, 0])
    leftovers = storage.remove_leftovers(str(tmp_path / "m.ckpt"))
    assert len(leftovers) == (0 if stage == "after" else 1)
    assert list(tmp_path.iterdir()) == [path]
