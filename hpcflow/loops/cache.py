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
from pathlib import Path

import numpy as np

from hpcflow.host.tuning import loops as tuning
from hpcflow.host.user_cache import directory
from hpcflow.loops import entries
from hpcflow.loops.programs import Loop

_FIRST_LINE = b"hpcflow loop 2\n"
#: Whose modules write code.
ROOM = Path(__file__).parent


def name_of(loop: Loop) -> str:
    """The name of a loop's code: another one for whatever may change the code. These are the loop's
    key, the text of the modules that write it, and where the code is written and runs."""
    text = "\n".join([*_surroundings(ROOM), *loop.key])
    return hashlib.sha256(text.encode()).hexdigest()[:40]


@functools.lru_cache(maxsize=1)
def _surroundings(room: Path) -> list[str]:
    """Versions, the processor, and the names and checksums of the modules of this room and of the
    numbers that they use."""
    name = "CS_GNU_LIBC_VERSION"  # code calls its functions
    library = os.confstr(name) if name in os.confstr_names else ""
    paths = (*sorted(room.glob("*.py")), Path(tuning.__file__))
    return [importlib.metadata.version("llvmlite"), np.__version__, sys.version, str(library),
            entries.processor(), *(f"{p.name} {hashlib.sha256(p.read_bytes()).hexdigest()}"
                                   for p in paths)]


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
    checksum, text = data[size : size + 32], data[size + 32 :]
    if data[:size] != _FIRST_LINE or checksum != hashlib.sha256(text).digest():
        return None
    return entries.Code(name, text)


def write(code: entries.Code) -> None:
    """Keep code, if that is possible."""
    folder = directory()
    if folder is None:
        return
    other = ""
    try:
        # Processes of other machines may write to the same directory.
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
            other = file.name
            file.write(_FIRST_LINE + hashlib.sha256(code.text).digest() + code.text)
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


def code_of(loop: Loop) -> entries.Code:
    """The code of a loop, which is kept for other processes. Raises what writing it raises."""
    name = name_of(loop)
    with one_process(name):
        code = read(name)  # which another process may have written meanwhile
        if code is None:
            code = loop.code(name)
            write(code)
    return code
