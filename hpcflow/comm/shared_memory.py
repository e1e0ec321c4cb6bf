"""Memory that the ranks of one node share.

A *room* is a file in memory that one rank makes, and others map. It has no name: they open it among
the open files of the rank's process, so nothing is left behind, however the ranks end.
"""

from __future__ import annotations

import mmap
import os
import secrets
from typing import Any

import numpy as np

from hpcflow import config

#: Before the room itself: a number by which those who open it know that it is the right one.
_HEADER = mmap.PAGESIZE
_TOKEN_BYTES = 16
#: Where every array in a room begins: at a multiple of so many bytes.
ALIGNMENT = 64

# Bytes of all rooms that this process has made.
_made = 0


class Room:
    """`nbytes` of memory that other processes of the node can map; ``memory`` are its bytes.

    ``address`` tells them where it is, until it is shut.
    """

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self._file = os.memfd_create("hpcflow")
        try:
            # Now, because there is no error for memory that is missing when it is written.
            os.posix_fallocate(self._file, 0, _HEADER + nbytes)
            memory = _mapped(self._file, nbytes)
        except BaseException:
            os.close(self._file)
            raise
        token = secrets.token_bytes(_TOKEN_BYTES)
        memory[:_TOKEN_BYTES] = np.frombuffer(token, np.uint8)
        self.memory = memory[_HEADER:]
        self.address = [os.getpid(), self._file, token.hex(), nbytes]

    def shut(self, used: bool) -> None:
        """Let nobody map it any more; the room counts no longer if it is not `used`."""
        os.close(self._file)
        if not used:
            self.give_back()

    def give_back(self) -> None:
        """The room counts no longer: nobody uses it any more."""
        global _made
        _made -= self.nbytes


def make_room(nbytes: int) -> Room | None:
    """A room of `nbytes`, or of what HPCFLOW_SHARED_BYTES leaves; None if there is none."""
    global _made
    nbytes = min(nbytes, config.flags.shared_bytes - _made)
    if nbytes <= 0:
        return None
    try:
        room = Room(nbytes)
    except (OSError, AttributeError, ValueError):
        return None
    _made += nbytes
    return room


def enter_room(address: list[Any]) -> np.ndarray | None:
    """The memory of a room of another process; None if it is not to be had."""
    pid, number, token, nbytes = address
    try:
        file = os.open(f"/proc/{pid}/fd/{number}", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if os.fstat(file).st_size != _HEADER + nbytes:
            return None
        memory = _mapped(file, nbytes)
    except (OSError, ValueError):
        return None
    finally:
        os.close(file)
    return memory[_HEADER:] if memory[:_TOKEN_BYTES].tobytes().hex() == token else None


def _mapped(file: int, nbytes: int) -> np.ndarray:
    return np.frombuffer(mmap.mmap(file, _HEADER + nbytes), np.uint8)


def aligned(nbytes: int) -> int:
    """Return the bytes that `nbytes` take in a room, where each array begins at a multiple of
    ``ALIGNMENT``."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT
