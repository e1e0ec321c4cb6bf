"""Failures of each stage of saving: the right error, and the old file stays."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hpcflow import errors, storage
from hpcflow.storage import paths

ONES = np.ones((2, 3), np.float32)
ENTRIES = [("w", "float32", (2, 3)), ("s", "string", (2,))]
PIECES = [("w", None, ONES), ("s", None, np.array([b"a", b"b"], object))]


@pytest.fixture
def old(tmp_path):
    """A complete checkpoint of zeros; afterwards it must still be that, and alone."""
    path = str(tmp_path / "m.h5")
    layout = storage.create(path, ENTRIES[:1])
    storage.commit(layout, [storage.write(layout, [("w", None, 0 * ONES)])])
    yield path
    with storage.Reader(path) as reader:
        assert reader.names() == ["w"] and not reader.read("w").any()
    assert os.listdir(tmp_path) == ["m.h5"]


def failing(code):
    def fail(*_, **__):
        raise OSError(code, os.strerror(code))

    return fail


@pytest.mark.parametrize(
    ("stage", "holder", "function"),
    [
        ("create", os, "open"),
        ("create", os, "pwrite"),
        ("create", os, "ftruncate"),
        ("write", os, "open"),
        ("write", os, "pwrite"),
        ("write", os, "fsync"),
        ("commit", os, "open"),
        ("commit", os, "pwrite"),
        ("commit", os, "ftruncate"),
        ("commit", os, "fsync"),
        ("commit", os, "replace"),
    ],
)
@pytest.mark.parametrize(
    ("code", "error"),
    [
        (errno.ENOSPC, errors.ResourceExhaustedError),
        (errno.EACCES, errors.PermissionDeniedError),
        (errno.EIO, errors.DataLossError),
        (errno.ESTALE, errors.UnknownError),
    ],
)
def test_injected_failures(stage, holder, function, code, error, old, monkeypatch):
    def break_if(now):
        if now == stage:
            monkeypatch.setattr(holder, function, failing(code))

    def save():
        break_if("create")
        layouts.append(storage.create(old, ENTRIES))
        break_if("write")
        record = storage.write(layouts[0], PIECES)
        break_if("commit")
        storage.commit(layouts[0], [record])

    layouts = []
    with pytest.raises(error, match=f"'{old}'.*{os.strerror(code)}"):
        save()
    monkeypatch.undo()
    for layout in layouts:
        storage.abandon(layout)


def test_short_writes_are_continued(old, monkeypatch):
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: real(fd, data[:3], at))
    layout = storage.create(old + "2.h5", ENTRIES)
    path = storage.commit(layout, [storage.write(layout, PIECES)])
    with storage.Reader(path) as reader:
        np.testing.assert_array_equal(reader.read("w"), ONES)
    storage.delete(path)


def test_wrong_pieces_are_refused_before_anything_is_written(old, monkeypatch):
    layout = storage.create(old, ENTRIES)
    monkeypatch.setattr(os, "pwrite", failing(errno.EIO))
    wrong = [
        (("v", None, ONES), errors.NotFoundError, "'v' is not among the variables"),
        (
            ("w", None, ONES[:1]),
            errors.InvalidArgumentError,
            r"got float32\[1,3\], expected float32\[2,3\]",
        ),
        (
            ("w", None, ONES.astype("f8")),
            errors.InvalidArgumentError,
            r"got float64\[2,3\], expected",
        ),
        (("w", "2 3 0,1:-", ONES), errors.InvalidArgumentError, r"expected float32\[1,3\]"),
        (("w", "9 3 0,1:-", ONES[:1]), errors.InvalidArgumentError, r"\[9,3\].*\[2,3\]"),
        (("s", None, np.array([1, 2], object)), errors.InvalidArgumentError, "'s'.*bytes, got int"),
    ]
    for piece, error, message in wrong[:-1]:
        with pytest.raises(error, match=message):
            storage.write(layout, [PIECES[0], piece])
    piece, error, message = wrong[-1]
    with pytest.raises(error, match=message):
        storage.write(layout, [piece])
    storage.abandon(layout)


def test_records_must_cover_every_element_once(old):
    layout = storage.create(old, ENTRIES)
    first = storage.write(layout, [("w", "2 3 0,1:-", ONES[:1])])
    second = storage.write(layout, [("w", "2 3 1,1:-", ONES[1:]), PIECES[1]])
    column = storage.write(layout, [("w", "2 3 -:0,1", ONES[:, :1])])
    for records in ([], [first], [second], [first, first, second], [first, column, second]):
        with pytest.raises(errors.InternalError, match=r"'w' of shape \[2,3\]"):
            storage.commit(layout, records)
    with pytest.raises(errors.InternalError, match="'s' of shape"):
        storage.commit(layout, [storage.write(layout, PIECES[:1])])
    overlapping = [("w", "2 3 -:0,2", ONES[:, :2]), ("w", "2 3 0,1:1,2", ONES[:1, 1:])]
    with pytest.raises(errors.InternalError, match="6 of 6 elements"):
        storage.commit(layout, [storage.write(layout, [*overlapping, PIECES[1]])])
    storage.abandon(layout)


def test_a_record_of_another_checkpoint_is_refused(old, tmp_path):
    other = storage.create(str(tmp_path / "other.h5"), [("v", "int32", ())])
    record = storage.write(other, [("v", None, np.int32(1))])
    storage.abandon(other)
    layout = storage.create(old, ENTRIES)
    with pytest.raises(errors.InternalError, match="a record of 'v' does not belong"):
        storage.commit(layout, [record])
    for use in (storage.Layout.from_bytes, lambda data: storage.commit(layout, [data])):
        with pytest.raises(errors.InternalError, match="this is no checkpoint"):
            use(b"\x09\0\0\0\0\0\0\0nonsense")
    storage.abandon(layout)


def test_bad_entries_are_refused(old):
    with pytest.raises(errors.InvalidArgumentError, match="'w' is given twice"):
        storage.create(old, [ENTRIES[0], ENTRIES[0]])
    with pytest.raises(errors.NotFoundError, match=r"missing/m\.h5.*No such file"):
        storage.create(os.path.join(os.path.dirname(old), "missing", "m.h5"), ENTRIES)


def test_a_temporary_that_vanished_is_reported(old):
    layout = storage.create(old, ENTRIES)
    record = storage.write(layout, PIECES)
    storage.abandon(layout)
    for use in (lambda: storage.write(layout, PIECES), lambda: storage.commit(layout, [record])):
        with pytest.raises(errors.NotFoundError, match="No such file"):
            use()


def test_leftovers_are_those_of_the_prefix(tmp_path):
    mine, other = str(tmp_path / "model[1]"), str(tmp_path / "mode")
    layouts = [
        storage.create(storage.checkpoint_path(prefix), ENTRIES)
        for prefix in (mine, mine + "-10", other)
    ]
    assert sorted(storage.remove_leftovers(mine)) == sorted(x.temporary for x in layouts[:2])
    assert paths.remove_leftovers(str(tmp_path / "mode")) == [layouts[2].temporary]


TESTS = Path(__file__).parents[2]


def test_every_call_that_writes_fails_in_turn(tmp_path):
    library, checkpoints = tmp_path / "failing_calls.so", tmp_path / "checkpoints"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, TESTS / "failing_calls.c",
                    "-ldl"], check=True)
    checkpoints.mkdir()
    done = subprocess.run(
        [sys.executable, TESTS / "failing_saves.py", checkpoints], capture_output=True, text=True,
        env={**os.environ, "LD_PRELOAD": str(library)}, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[0]) >= 200


def save_large(path):
    layout = storage.create(path, [("large", "float32", (1 << 20,))])
    try:
        record = storage.write(layout, [("large", None, np.ones(1 << 20, np.float32))])
        storage.commit(layout, [record])
    finally:
        storage.abandon(layout)


def test_a_file_system_without_space(old):
    small = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, small[1]))
    try:
        with pytest.raises(errors.ResourceExhaustedError, match=f"'{old}' of [0-9]+ bytes: File"):
            save_large(old)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, small)


@pytest.mark.skipif(os.getuid() != 0, reason="only root mounts file systems")
def test_a_full_file_system(tmp_path):
    full = tmp_path / "full"
    full.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", full],
                             check=False, capture_output=True)
    if mounted.returncode:
        pytest.skip(f"mount: {mounted.stderr.decode().strip()}")
    try:
        path = str(full / "m.h5")
        with pytest.raises(errors.ResourceExhaustedError,
                           match=f"writing 4194304 bytes of checkpoint '{path}': No space left"):
            save_large(path)
        assert os.listdir(full) == []
    finally:
        subprocess.run(["umount", full], check=True)
