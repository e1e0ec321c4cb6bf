"""Buffers as bytes: lengths, byte views, the chunk rule.

Arrays of every element type are accepted (those outside the buffer protocol, as bfloat16, too),
and device arrays that know `reshape`, `view` and `nbytes`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hpcflow import config, errors

if TYPE_CHECKING:
    from hpcflow.graph.likes import TensorLike

#: MPI counts are C ints.
MAX_CHUNK_BYTES = 2**31 - 1


def chunk_bytes() -> int:
    """The largest message in bytes: the flag, within what MPI can count; 0 asks for the most."""
    return min(config.flags.chunk_bytes or MAX_CHUNK_BYTES, MAX_CHUNK_BYTES)


def byte_length(buffer: Any) -> int:
    """The size of a buffer in bytes. Raises InvalidArgumentError unless it is C-contiguous."""
    if isinstance(buffer, (bytes, bytearray)):
        return len(buffer)
    layout = buffer if isinstance(buffer, memoryview) else buffer.flags
    if not layout.c_contiguous:
        raise errors.InvalidArgumentError(
            None,
            None,
            f"buffer of shape {list(buffer.shape)} is not C-contiguous: expected "
            "contiguous memory; copy it first",
        )
    return buffer.nbytes


def writable_length(buffer: TensorLike) -> int:
    """As `byte_length`, for a buffer to receive into. Raises also if it is read-only."""
    if isinstance(buffer, bytes) or (
        buffer.readonly
        if isinstance(buffer, memoryview)
        else isinstance(buffer, (np.ndarray, np.generic)) and not buffer.flags.writeable
    ):
        raise errors.InvalidArgumentError(
            None, None, f"cannot receive into a read-only {type(buffer).__name__}"
        )
    return byte_length(buffer)


def byte_view(buffer: Any) -> Any:
    """The same memory as a flat array of uint8."""
    if isinstance(buffer, (bytes, bytearray, memoryview)):
        # frombuffer refuses empty buffers.
        nothing = memoryview(buffer).nbytes == 0
        return np.empty(0, np.uint8) if nothing else np.frombuffer(buffer, np.uint8)
    return buffer.reshape(-1).view(np.uint8)


def check_received(sent: int, room: int, chunk: int, where: str) -> None:
    """Raise InternalError if a receive of `room` bytes may not accept a message of `sent` bytes."""
    if sent == room or (sent < room and sent < chunk):
        return
    if sent > room:
        expected = f"at most {room}"
    else:
        expected = f"{room}, or fewer than a chunk of {chunk}"
    raise errors.InternalError(
        None, None, f"{where}: message of {sent} bytes: expected {expected} bytes"
    )
