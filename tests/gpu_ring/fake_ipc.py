"""CUDA IPC for the stand-in: memory that processes of this machine map.

Stricter than CUDA: what is opened twice, closed twice, or freed while another process has it open
is an error here, where memory of something else may be written to.
"""

from __future__ import annotations

import atexit
import mmap
import os
import sys
import tempfile
import uuid
import weakref
from pathlib import Path

import numpy as np

#: Where the stand-ins for GPUs of several ranks keep what these share: below a folder of the test,
#: as ranks that are ended leave it behind.
SHARED = Path(os.environ.get("STAND_IN_SHARED") or (
    "/dev/shm" if Path("/dev/shm").is_dir() else tempfile.gettempdir()))


class Memory:
    """``cupy.cuda.Memory``: an allocation of its own."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._path = SHARED / f"stand-in-ipc-{uuid.uuid4().hex}"
        with self._path.open("wb") as file:
            file.truncate(size)
        self._memory = _mapped(self._path, size)
        self.ptr = int(self._memory.__array_interface__["data"][0])
        self._exported = False
        _made[self.ptr] = self
        atexit.register(self._path.unlink, missing_ok=True)

    @property
    def handle(self) -> bytes:
        """What another process opens it by: 64 bytes."""
        self._exported = True
        return f"{self.size} {self._path.name}".encode().ljust(64, b" ")

    def __del__(self) -> None:
        if sys.is_finalizing():
            return
        if any(map(_is_alive, SHARED.glob(f"{self._path.name}.open-*"))):
            print("stand-in: memory is freed that another process has open", flush=True)
        self._path.unlink(missing_ok=True)


class Ipc:
    """The calls of ``cupy.cuda.runtime`` for one GPU."""

    def __init__(self, error: type[Exception]) -> None:
        self._error = error
        self._opened: dict[int, tuple[Path, np.ndarray]] = {}

    def get(self, ptr: int) -> bytes:
        if ptr not in _made:
            raise self._error("cudaErrorInvalidValue: not the beginning of an allocation")
        return _made[ptr].handle

    def open(self, handle: bytes) -> int:
        size, name = handle.decode().split()
        path, mark = SHARED / name, SHARED / f"{name}.open-{os.getpid()}"
        if os.environ.get("STAND_IN_NO_IPC") or any(m._path == path for m in _made.values()):
            raise self._error("cudaErrorInvalidDeviceContext: cannot be opened here")
        if mark.exists():
            raise self._error("cudaErrorAlreadyMapped: opened twice")
        memory = _mapped(path, int(size))
        mark.touch()
        ptr = int(memory.__array_interface__["data"][0])
        self._opened[ptr] = mark, memory
        return ptr

    def foreign(self, address: int) -> np.ndarray | None:
        """The memory of another process that an address is in."""
        return next((memory for ptr, (_, memory) in list(self._opened.items())
                     if ptr <= address < ptr + len(memory)), None)

    def close(self, ptr: int) -> None:
        if ptr not in self._opened:
            raise self._error("cudaErrorInvalidValue: closed, or never opened")
        mark, _ = self._opened.pop(ptr)
        mark.unlink()


def _is_alive(mark: Path) -> bool:
    """True unless the process has ended that has opened memory."""
    try:
        status = Path(f"/proc/{mark.name.rpartition('-')[2]}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] not in "ZX"


def _mapped(path: Path, size: int) -> np.ndarray:
    with path.open("r+b") as file:
        return np.frombuffer(mmap.mmap(file.fileno(), size), np.uint8)


_made: weakref.WeakValueDictionary[int, Memory] = weakref.WeakValueDictionary()
