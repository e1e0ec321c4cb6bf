"""Small saves in which every call that changes a file fails in turn; run with failing_calls.c.

Usage: ``LD_PRELOAD=failing_calls.so python failing_saves.py DIRECTORY``. After each failure the
error must be of the library's, name the directory and the system's reason, the last checkpoint must
be as it was, and nothing temporary may be left. So it is with all else that writes files, but for
events, which are lost with a line in the log. Prints how many calls failed.
"""

from __future__ import annotations

import ctypes
import errno
import itertools
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

import hpcflow as hf
from hpcflow import storage

_CLASSES = {errno.ENOSPC: hf.errors.ResourceExhaustedError, errno.EIO: hf.errors.DataLossError}
_OTHERS = {errno.EDQUOT: hf.errors.ResourceExhaustedError,
           errno.EROFS: hf.errors.PermissionDeniedError}


def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(None)
    library.failing_calls_name.restype = ctypes.c_char_p
    return library


class Program:
    """A graph of all kinds of values, saved once as what must survive."""

    def __init__(self, directory: str, **options: Any) -> None:
        self.directory = directory
        self.value = hf.Variable(np.arange(12, dtype=np.float32).reshape(3, 4), name="w")
        hf.Variable(np.array([b"a", b"text"], object), name="text")
        hf.Variable(np.ones(40_000), name="large")
        self.change = hf.assign_add(self.value, np.ones((3, 4), np.float32))
        self.saver = hf.train.Saver(**options)
        self.session = hf.Session()
        self.session.run(hf.global_variables_initializer())
        self.before = self.session.run(self.value)
        self.path = self.saver.save(self.session, f"{directory}/model", 1)
        self.saver.join()
        self.names = sorted(os.listdir(directory))

    def save(self) -> None:
        """Save other values, as the next step."""
        self.session.run(self.change)
        self.saver.save(self.session, f"{self.directory}/model", 2)
        self.saver.join()

    def check(self) -> None:
        """What must hold after a save that failed."""
        names = [n for n in os.listdir(self.directory) if "tmp" in n]
        assert not names, names
        latest = hf.train.latest_checkpoint(self.directory)
        if latest == self.path:
            with storage.open_checkpoint(self.path) as reader:
                assert np.array_equal(reader.read("w"), self.before)
        with storage.open_checkpoint(latest) as reader:
            for name in reader.names():
                reader.read(name)


class OnNodes:
    """Saves to the storage of a node: what fails leaves the checkpoint before, and no part."""

    def __init__(self, directory: str) -> None:
        self.directory = hf.config.flags.local_checkpoints = f"{directory}/nodes"
        self._shared, self._tried = f"{directory}/shared", 0
        hf.Variable(np.arange(12, dtype=np.float32), name="w")
        self._local = hf.train.Saver().local
        self._session = hf.Session()
        self._session.run(hf.global_variables_initializer())
        self.save()

    def save(self) -> None:
        """Save as the next step."""
        self._tried += 1
        self._local.save(self._session, self._shared, f"model-{self._tried}")
        self._complete = self._tried

    def check(self) -> None:
        """What must hold after a failure: of one checkpoint all is there, of others nothing."""
        names = [n for _, _, names in os.walk(self.directory) for n in names]
        kept = [n for n in names if n.startswith(f"model-{self._complete}.")]
        assert len(kept) == 2, (self._complete, names)
        assert names == kept or self._complete == self._tried, (self._complete, names)


class Written:
    """Something that writes below a directory, which must fail as a whole."""

    def __init__(self, directory: str, save: Callable[[str], Any]) -> None:
        self.directory, self._save, self._number = directory, save, 0

    def save(self) -> None:
        """Write into a folder that is not there yet."""
        self._number += 1
        folder = f"{self.directory}/{self._number}"
        os.mkdir(folder)
        self._save(folder)

    def check(self) -> None:
        """What must hold after a failure."""
        for _, _, names in os.walk(self.directory):
            assert not [n for n in names if "tmp" in n], names


def _records(folder: str, compression: str) -> None:
    options = hf.python_io.TFRecordOptions(compression)
    with hf.python_io.TFRecordWriter(f"{folder}/records", options) as writer:
        for _ in range(2):
            writer.write(b"record")
            writer.flush()


def _text(folder: str) -> None:
    with hf.gfile.GFile(f"{folder}/text", "w") as file:
        file.write("text")


def _bundle(checkpoint: str, folder: str) -> None:
    with storage.open_checkpoint(checkpoint) as source:
        storage.write_bundle(f"{folder}/bundle", source)


def _cache(folder: str) -> None:
    with hf.Graph().as_default(), hf.Session() as session:
        following = hf.data.Dataset.range(3).cache(
            f"{folder}/cache").make_one_shot_iterator().get_next()
        with suppress(hf.errors.OutOfRangeError):
            while True:
                session.run(following)


def _writers(program: Program) -> Iterator[Callable[[str], Any]]:
    """Functions that write into a folder."""
    session, w = program.session, program.value
    with hf.Graph().as_default():
        model = hf.keras.Sequential([hf.keras.layers.Dense(2, input_shape=(3,))])
        model.compile("sgd", "mse")
        yield lambda folder: model.save(f"{folder}/model.h5")
    yield lambda folder: hf.saved_model.simple_save(session, f"{folder}/export", {"w": w}, {"w": w})
    yield lambda folder: hf.train.write_graph(session.graph, folder, "graph.pbtxt")
    yield lambda folder: session.run(hf.write_file(f"{folder}/file", "text"))
    yield from (partial(_records, compression=kind) for kind in ("", "GZIP"))
    yield from (partial(_bundle, program.path), _text, _cache)


def _events(directory: str) -> int:
    """Events of which some cannot be written; the file still holds whole ones."""
    library, lost = _library(), 0
    for call in itertools.count(1):
        folder = f"{directory}/{call}"
        library.failing_calls_arm(directory.encode(), call, errno.ENOSPC)
        with hf.summary.FileWriter(folder) as writer:
            for step in range(3):
                writer.add_session_log(hf.summary.SessionLog(), step)
                writer.flush()
        reached = library.failing_calls_count() >= call
        library.failing_calls_arm(b"", 0, 0)
        steps = [event.step for name in os.listdir(folder)
                 for event in hf.train.summary_iterator(f"{folder}/{name}")]
        if not reached:
            assert steps == [0, 0, 1, 2] and lost, (steps, lost)
            return call - 1
        assert len(steps) >= 3, (call, steps)
        lost += len(steps) < 4


def _fail(library: ctypes.CDLL, program: Program | OnNodes | Written, call: int, code: int) -> bool:
    """Let one call fail; returns whether there was one."""
    library.failing_calls_arm(program.directory.encode(), call, code)
    error: hf.errors.OpError | None = None
    try:
        program.save()
    except hf.errors.OpError as raised:
        error = raised
    reached = library.failing_calls_count() >= call
    library.failing_calls_arm(b"", 0, 0)
    if reached:
        where = f"call {call}, {library.failing_calls_name().decode()}, {os.strerror(code)}: "
        assert type(error) is {**_CLASSES, **_OTHERS}[code], where + repr(error)
        assert program.directory in error.message, where + error.message
        assert os.strerror(code) in error.message, where + error.message
    program.check()
    return reached


def _fail_all(program: Program | OnNodes | Written, codes: Iterable[int]) -> int:
    """Let every call fail, by each error; the number of calls."""
    library, total = _library(), 0
    for code in codes:
        call = 1
        while _fail(library, program, call, code):
            call += 1
        total += call - 1
    return total


def _folder(directory: str, name: object) -> str:
    path = f"{directory}/{name}"
    os.mkdir(path)
    return path


def main(directory: str) -> None:
    """Let every call fail."""
    program = Program(_folder(directory, "plain"))
    total = _fail_all(program, _CLASSES)
    for number, write in enumerate(_writers(program)):
        total += _fail_all(Written(_folder(directory, number), write), _OTHERS)
    total += _events(_folder(directory, "events"))
    with hf.Graph().as_default():
        total += _fail_all(Program(_folder(directory, "background"), async_save=True), _CLASSES)
    with hf.Graph().as_default():
        total += _fail_all(OnNodes(_folder(directory, "local")), _CLASSES)
    print(f"{total} failing calls")


if __name__ == "__main__":
    main(sys.argv[1])
