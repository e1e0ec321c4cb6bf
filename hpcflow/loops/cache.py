"""Files of machine code, which later processes of the same user load instead of compiling.

They are in the directory of `host.user_cache`. A file is written under another name first, so that
a reader finds all of it or nothing, and carries a checksum.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import importlib.metadata
import os
import sys
import tempfile
from collections.abc import Iterator

import numpy as np

from hpcflow.host.tuning import loops as tuning
from hpcflow.host.user_cache import directory
from hpcflow.loops import entries, import_closure, objects
from hpcflow.loops.programs import Loop

_FIRST_LINE = b"hpcflow loop 1\n"


def name_of(loop: Loop) -> str:
    """The name of a loop's code: another one for whatever may change the code. These are the loop's
    class, key and arguments, the text of all modules that take part in writing it, and where the
    code is written and runs."""
    kind = type(loop)
    parts = [*_surroundings(), *_texts(kind.__module__), kind.__module__, kind.__qualname__,
             *loop.key, repr(loop.arguments)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:40]


@functools.lru_cache(maxsize=1)
def _surroundings() -> tuple[str, ...]:
    versions = [importlib.metadata.version(name) for name in ("numba", "llvmlite")]
    return *versions, np.__version__, sys.version, objects.processor()


@functools.lru_cache(maxsize=64)
def _texts(module: str) -> list[str]:
    """The names and checksums of a module and of all that it imports."""
    found = import_closure.closure(module)
    return [f"{name} {hashlib.sha256(path.read_bytes()).hexdigest()}"
            for name, path in sorted(found.items())]


def read(name: str) -> entries.Code | None:
    """The code of this name; None if there is none, or it is damaged."""
    folder = directory()
    if folder is None:
        return None
    try:
        data = (folder / name).read_bytes()
    except OSError:
        return None
    size = len(_FIRST_LINE)
    checksum, kind, text = data[size : size + 32], data[size + 32 : size + 33], data[size + 33 :]
    if data[:size] != _FIRST_LINE or checksum != hashlib.sha256(kind + text).digest():
        return None
    return entries.Code(name, kind == b"1", text)


def write(code: entries.Code) -> None:
    """Keep code, if that is possible."""
    folder = directory()
    if folder is None:
        return
    body = (b"1" if code.is_spread else b"0") + code.text
    other = ""
    try:
        # Processes of other machines may write to the same directory.
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
            other = file.name
            file.write(_FIRST_LINE + hashlib.sha256(body).digest() + body)
        os.replace(other, folder / code.name)
    except OSError:  # a full disk, say
        with contextlib.suppress(OSError):
            os.unlink(other)


def remove_old() -> None:
    """Remove the files that were written first, where there are too many."""
    folder = directory()
    if folder is None:
        return
    with contextlib.suppress(OSError):
        names = os.listdir(folder)
        if len(names) > tuning.CACHE_MOST_FILES:
            paths = sorted([folder / n for n in names], key=lambda path: path.stat().st_mtime)
            for path in paths[: len(names) - tuning.CACHE_MOST_FILES // 2]:
                path.unlink()


@contextlib.contextmanager
def one_process(name: str) -> Iterator[None]:
    """Wait until no other process compiles the code of this name, where the system can tell."""
    folder = directory()
    try:
        import fcntl

        if folder is None:
            raise OSError
        descriptor = os.open(folder / "lock", os.O_CREAT | os.O_RDWR, 0o600)
    except (ImportError, OSError):
        yield
        return
    try:
        with contextlib.suppress(OSError):
            # A byte of the file for each name, which the system frees if the process dies.
            fcntl.lockf(descriptor, fcntl.LOCK_EX, 1, int(name[:12], 16))
        yield
    finally:
        os.close(descriptor)
