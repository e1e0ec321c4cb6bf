"""NCCL: the C functions of ``libnccl.so.2`` that are called, and communicators.

Communicators are opened so that no call waits for other ranks: what is under way is asked for by
`Communicator.is_ready`. Pointers to memory and streams of a GPU are numbers; that GPU must be the
current one. Source: the C API of NCCL 2.14 and later.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from ctypes import POINTER, byref, c_char, c_char_p, c_int, c_size_t, c_uint, c_void_p
from typing import Any

import numpy as np

from hpcflow import config, dtypes
from hpcflow.base.once import once
from hpcflow.base.wheel_files import paths_in

_NAME = "libnccl.so.2"
_WHEELS = ("nvidia-nccl-cu13", "nvidia-nccl-cu12")
_OFF = ("0", "off", "none")
_SUCCESS, _IN_PROGRESS = 0, 7
#: The first version whose communicators need not wait, and the form of their settings there.
OLDEST = 21400
_MAGIC = 0xCAFEBEEF
ID_LENGTH = 128
SUM, MAX, MIN, AVERAGE = 0, 2, 3, 4
RAW = 1  # the code of the type with which values are only moved
_CODES = {"int8": 0, "uint8": 1, "bool": 1, "int32": 2, "uint32": 3, "int64": 4, "uint64": 5,
          "float16": 6, "float32": 7, "float64": 8, "bfloat16": 9}  # fmt: skip


class NcclError(RuntimeError):
    """A function of NCCL did not succeed, or a communicator has failed."""


class UniqueId(ctypes.Structure):
    """What the ranks of a communicator know it by."""

    _fields_ = [("internal", c_char * ID_LENGTH)]


class Settings(ctypes.Structure):
    """The settings of a communicator, as of `OLDEST`."""

    _fields_ = [("size", c_size_t), ("magic", c_uint), ("version", c_uint), ("blocking", c_int)]


_P = c_void_p
SIGNATURES: dict[str, list[Any]] = {
    "GetVersion": [POINTER(c_int)],
    "GetUniqueId": [POINTER(UniqueId)],
    "CommInitRankConfig": [POINTER(_P), c_int, UniqueId, c_int, POINTER(Settings)],
    "CommGetAsyncError": [_P, POINTER(c_int)],
    "CommAbort": [_P],
    "AllReduce": [_P, _P, c_size_t, c_int, c_int, _P, _P],
    "Broadcast": [_P, _P, c_size_t, c_int, c_int, _P, _P],
    "ReduceScatter": [_P, _P, c_size_t, c_int, c_int, _P, _P],
    "Send": [_P, c_size_t, c_int, c_int, _P, _P],
    "Recv": [_P, c_size_t, c_int, c_int, _P, _P],
    "GroupStart": [],
    "GroupEnd": [],
}


@once
def codes() -> dict[np.dtype, int]:
    """The types that NCCL reduces, with their codes."""
    return {getattr(dtypes, name).np: code for name, code in _CODES.items()}


class Library:
    """The loaded library at `path`; raises `NcclError` if it is too old."""

    def __init__(self, handle: Any, path: str) -> None:
        self.path = path
        self._functions: dict[str, Any] = {}
        for name, types in SIGNATURES.items():
            function = getattr(handle, f"nccl{name}")
            function.argtypes, function.restype = types, c_int
            self._functions[name] = function
        self._text = handle.ncclGetErrorString
        self._text.argtypes, self._text.restype = [c_int], c_char_p
        number = c_int()
        self.call("GetVersion", byref(number))
        self.version = number.value
        if self.version < OLDEST:
            raise NcclError(f"{path} is NCCL {self.version}, expected {OLDEST} or later")

    def call(self, name: str, *args: Any) -> bool:
        """Call a function; True if it is done, False if it goes on without this thread."""
        status = self._functions[name](*args)
        if status not in (_SUCCESS, _IN_PROGRESS):
            raise NcclError(f"nccl{name} failed: {self.text(status)}")
        return status == _SUCCESS

    def text(self, status: int) -> str:
        """A status in words."""
        return (self._text(status) or b"").decode() or f"status {status}"

    def unique_id(self) -> bytes:
        """A name for a communicator that is to be opened."""
        made = UniqueId()
        self.call("GetUniqueId", byref(made))
        return bytes(made)

    def open(self, name: bytes, ranks: int, rank: int) -> Communicator:
        """Begin to open the communicator `name` of `ranks` ranks on the current GPU, as `rank`."""
        settings = Settings(ctypes.sizeof(Settings), _MAGIC, OLDEST, 0)
        handle = c_void_p()
        self.call("CommInitRankConfig", byref(handle), ranks, UniqueId.from_buffer_copy(name), rank,
                  byref(settings))
        return Communicator(self, handle)


class Communicator:
    """GPUs of different ranks that do the same operations in the same order.

    Counts are of elements, types are codes, `stream` is where an operation is launched.
    """

    def __init__(self, library: Library, handle: Any) -> None:
        self._library = library
        self._handle: Any = handle

    def is_ready(self) -> bool:
        """True if all that was called has been launched; raises `NcclError` once it has failed."""
        if self._handle is None:
            raise NcclError("the communicator has been aborted")
        status = c_int()
        self._library.call("CommGetAsyncError", self._handle, byref(status))
        if status.value not in (_SUCCESS, _IN_PROGRESS):
            raise NcclError(f"NCCL failed: {self._library.text(status.value)}")
        return status.value == _SUCCESS

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """What is called inside is one launch."""
        self._library.call("GroupStart")
        try:
            yield
        finally:
            self._library.call("GroupEnd")

    def all_reduce(self, source: int, target: int, count: int, code: int, operation: int,
                   stream: int) -> None:
        """Reduce `source` over all ranks into `target`."""
        self._call("AllReduce", source, target, count, code, operation, stream)

    def broadcast(self, source: int, target: int, count: int, code: int, root: int,
                  stream: int) -> None:
        """Bring `source` of the rank `root` into `target`."""
        self._call("Broadcast", source, target, count, code, root, stream)

    def reduce_scatter(self, source: int, target: int, count: int, code: int, operation: int,
                       stream: int) -> None:
        """Reduce this rank's `count` elements of `source`, which has as many for each rank."""
        self._call("ReduceScatter", source, target, count, code, operation, stream)

    def send(self, source: int, count: int, code: int, rank: int, stream: int) -> None:
        """Send to `rank`; inside `together`, with what it receives."""
        self._call("Send", source, count, code, rank, stream)

    def receive(self, target: int, count: int, code: int, rank: int, stream: int) -> None:
        """Receive what `rank` sends."""
        self._call("Recv", target, count, code, rank, stream)

    def _call(self, name: str, *args: Any) -> None:
        if self._handle is None:
            raise NcclError("the communicator has been aborted")
        self._library.call(name, *args[:-1], self._handle, args[-1])

    def abort(self) -> None:
        """End all that is under way, without the other ranks; the communicator is gone."""
        handle, self._handle = self._handle, None
        if handle is not None:
            self._library.call("CommAbort", handle)


def candidates() -> Iterator[str]:
    """The paths at which the library may be, the preferred first."""
    chosen = config.flags.nccl
    if chosen.lower() in _OFF:
        return
    if chosen:
        yield chosen
        return
    yield from paths_in(_WHEELS, [_NAME])
    yield _NAME


@once
def load() -> Library | str:
    """The library, loaded on first use; in words why there is none."""
    problem = ""
    for path in candidates():
        try:
            return Library(ctypes.CDLL(path), path)
        except (OSError, AttributeError, NcclError) as e:
            problem = f"{e}"
    return problem or "HPCFLOW_NCCL=0"
