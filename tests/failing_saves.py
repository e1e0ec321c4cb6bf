"""A small save in which every call that changes a file fails in turn; run with failing_calls.c.

Usage: ``LD_PRELOAD=failing_calls.so python failing_saves.py DIRECTORY``. After each failure the
error must be of the library's, name the directory and the system's reason, the last checkpoint must
be as it was, and nothing temporary may be left. Prints how many calls failed.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys

import numpy as np

import hpcflow as hf
from hpcflow import storage

_CLASSES = {errno.ENOSPC: hf.errors.ResourceExhaustedError, errno.EIO: hf.errors.DataLossError}


def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(None)
    library.failing_calls_name.restype = ctypes.c_char_p
    return library


class Program:
    """A graph of all kinds of values, saved once as what must survive."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.value = hf.Variable(np.arange(12, dtype=np.float32).reshape(3, 4), name="w")
        hf.Variable(np.array([b"a", b"text"], object), name="text")
        hf.Variable(np.ones(40_000), name="large")
        self.change = hf.assign_add(self.value, np.ones((3, 4), np.float32))
        self.saver = hf.train.Saver()
        self.session = hf.Session()
        self.session.run(hf.global_variables_initializer())
        self.before = self.session.run(self.value)
        self.path = self.saver.save(self.session, f"{directory}/model", 1)
        self.names = sorted(os.listdir(directory))

    def save(self) -> None:
        """Save other values, as the next step."""
        self.session.run(self.change)
        self.saver.save(self.session, f"{self.directory}/model", 2)

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


def _fail(library: ctypes.CDLL, program: Program, call: int, code: int) -> bool:
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
        assert type(error) is _CLASSES[code], where + repr(error)
        assert program.directory in error.message, where + error.message
        assert os.strerror(code) in error.message, where + error.message
    program.check()
    return reached


def main(directory: str) -> None:
    """Let every call fail, by each error."""
    library, program = _library(), Program(directory)
    total = 0
    for code in _CLASSES:
        call = 1
        while _fail(library, program, call, code):
            call += 1
        total += call - 1
    print(f"{total} failing calls")


if __name__ == "__main__":
    main(sys.argv[1])
