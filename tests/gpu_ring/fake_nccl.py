"""``libnccl.so.2`` for the stand-in: the C functions, between the processes of one machine.

Ranks meet in a folder of shared memory. It is stricter than NCCL: a call on a stream of another
GPU, on a communicator that is not ready or has been aborted, or ranks that call different things
are errors here, where GPUs would hang or write elsewhere. What is launched is in its stream only
once the communicator has been asked twice, so an event that is recorded earlier does not cover it;
results are there only when all ranks have launched, and are rubbish until then.
"""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import shutil
import uuid
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from gpu_ring.fake_cuda import Hardware
from gpu_ring.fake_ipc import SHARED

from hpcflow.comm import nccl

_POISON = 0xA5
_SUCCESS, _INTERNAL, _INVALID_ARGUMENT, _INVALID_USAGE, _IN_PROGRESS = 0, 3, 4, 5, 7
_TYPES = {code: np.dtype(name if name != "bfloat16" else ml_dtypes.bfloat16)
          for name, code in nccl._CODES.items() if name != "bool"}
_JOIN = {nccl.SUM: np.add, nccl.AVERAGE: np.add, nccl.MIN: np.fmin, nccl.MAX: np.fmax}


class MisuseError(RuntimeError):
    """What a real GPU would hang from, or worse."""


class FakeNccl:
    """The library for one GPU; a function is an attribute that is called with C arguments."""

    def __init__(self, gpu: Hardware) -> None:
        self._gpu = gpu
        self._comms: dict[int, Comm] = {}
        self._grouped: list[tuple[Comm, Call]] | None = None
        self.launches = 0
        #: What ``CommInitRankConfig`` answers, for tests of failures.
        self.refuses = 0

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nccl"):
            raise AttributeError(name)
        function = _Function(getattr(self, f"_{name[4:]}"))
        setattr(self, name, function)
        return function

    def _GetErrorString(self, status: int) -> bytes:
        return f"error {status} of the stand-in".encode()

    def _GetVersion(self, version: Any) -> int:
        version._obj.value = 22809
        return _SUCCESS

    def _GetUniqueId(self, made: Any) -> int:
        text = uuid.uuid4().hex.encode()
        ctypes.memmove(ctypes.addressof(made._obj), text, len(text))
        return _SUCCESS

    def _CommInitRankConfig(self, handle: Any, ranks: int, name: Any, rank: int,
                            settings: Any) -> int:
        given = settings._obj
        if (given.size, given.magic, given.blocking, 0 <= rank < ranks) != (
                24, 0xCAFEBEEF, 0, True):
            return _INVALID_ARGUMENT
        if self.refuses:
            return self.refuses
        made = Comm(self._gpu, bytes(name)[:32].decode(), ranks, rank)
        handle._obj.value = id(made)
        self._comms[id(made)] = made
        return _IN_PROGRESS

    def _CommGetAsyncError(self, handle: Any, status: Any) -> int:
        status._obj.value = self._comm(handle).ask()
        return _SUCCESS

    def _CommAbort(self, handle: Any) -> int:
        self._comm(handle).aborted = True
        del self._comms[handle.value]
        return _SUCCESS

    def _comm(self, handle: Any) -> Comm:
        try:
            return self._comms[handle.value]
        except KeyError:
            raise MisuseError("a communicator is used after its end") from None

    # ------------------------------------------------------------ operations

    def _AllReduce(self, source: int, target: int, count: int, code: int, operation: int,
                   handle: Any, stream: int) -> int:
        return self._add(handle, stream, Call("AllReduce", source, target, count, count, code,
                                              operation))

    def _Broadcast(self, source: int, target: int, count: int, code: int, root: int, handle: Any,
                   stream: int) -> int:
        return self._add(handle, stream, Call("Broadcast", source, target, count, count, code,
                                              root))

    def _ReduceScatter(self, source: int, target: int, count: int, code: int, operation: int,
                       handle: Any, stream: int) -> int:
        ranks = self._comm(handle).ranks
        return self._add(handle, stream, Call("ReduceScatter", source, target, count * ranks,
                                              count, code, operation))

    def _Send(self, source: int, count: int, code: int, peer: int, handle: Any,
              stream: int) -> int:
        return self._add(handle, stream, Call("Send", source, 0, count, 0, code, peer))

    def _Recv(self, target: int, count: int, code: int, peer: int, handle: Any,
              stream: int) -> int:
        return self._add(handle, stream, Call("Recv", 0, target, 0, count, code, peer))

    def _GroupStart(self) -> int:
        if self._grouped is not None:
            raise MisuseError("a group in a group")
        self._grouped = []
        return _SUCCESS

    def _GroupEnd(self) -> int:
        if self._grouped is None:
            raise MisuseError("a group ends that has not begun")
        grouped, self._grouped = self._grouped, None
        if not grouped:
            return _SUCCESS
        [comm] = {comm for comm, _ in grouped}
        return self._launch(comm, [call for _, call in grouped])

    def _add(self, handle: Any, pointer: int, call: Call) -> int:
        comm = self._comm(handle)
        call.stream = self._gpu.xp.cuda.by_pointer.get(pointer)
        if call.stream is None:
            raise MisuseError("a launch on a stream that is not of the communicator's GPU")
        if self._grouped is not None:
            self._grouped.append((comm, call))
            return _SUCCESS
        if call.name in ("Send", "Recv"):
            raise MisuseError("a message outside of a group waits for the other side")
        return self._launch(comm, [call])

    def _launch(self, comm: Comm, calls: list[Call]) -> int:
        self.launches += 1
        comm.launch(calls)
        return _IN_PROGRESS


class _Function:
    """A C function: its types are set, and it is called."""

    argtypes: Any = None
    restype: Any = None

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, *args: Any) -> Any:
        if self.argtypes is not None and len(args) != len(self.argtypes):
            raise TypeError(f"{len(args)} arguments, expected {len(self.argtypes)}")
        return self._function(*args)


class Call:
    """One call of a launch; `which` is the operation, the root or the other rank."""

    def __init__(self, name: str, source: int, target: int, given: int, made: int, code: int,
                 which: int) -> None:
        self.name, self.source, self.target, self.which = name, source, target, which
        self.dtype = _TYPES[code]
        self.given, self.made = given, made
        self.stream: Any = None

    @property
    def head(self) -> list[Any]:
        """What the other ranks see of it."""
        return [self.name, self.given, self.dtype.name, self.which]


class Comm:
    """This rank's end of a communicator."""

    def __init__(self, gpu: Hardware, name: str, ranks: int, rank: int) -> None:
        self._gpu, self.ranks, self._rank = gpu, ranks, rank
        self._folder = SHARED / f"stand-in-nccl-{name}"
        self._folder.mkdir(exist_ok=True)
        atexit.register(self._leave)
        self._put(f"rank.{rank}", str(gpu.index).encode())
        self._open = self.aborted = False
        self._asked = 0
        self._launched: list[Call] | None = None
        self._count = 0
        self._kept: list[int] = []

    def _put(self, name: str, data: bytes) -> None:
        path = self._folder / f"{name}.part-{self._rank}"
        path.write_bytes(data)
        os.replace(path, self._folder / name)

    def _leave(self) -> None:
        """Remove the folder with the last rank: others may still have to read."""
        self._put(f"end.{self._rank}", b"")
        if all((self._folder / f"end.{k}").exists() for k in range(self.ranks)):
            shutil.rmtree(self._folder, ignore_errors=True)

    def ask(self) -> int:
        """The state: as of ``ncclCommGetAsyncError``."""
        if not self._open:
            files = [self._folder / f"rank.{k}" for k in range(self.ranks)]
            if not all(f.exists() for f in files):
                return _IN_PROGRESS
            if len({f.read_bytes() for f in files}) < self.ranks:
                return _INVALID_USAGE
            self._open = True
        if self._launched is not None:
            self._asked += 1
            if self._asked < 2:
                return _IN_PROGRESS
            calls, self._launched = self._launched, None
            self._take(calls)
        return _SUCCESS

    def launch(self, calls: list[Call]) -> None:
        """Begin a launch."""
        if not self._open or self._launched is not None:
            raise MisuseError("a launch while the communicator is not ready")
        self._launched, self._asked = calls, 0

    def _take(self, calls: list[Call]) -> None:
        """The launch is in its stream: sources are read, targets are rubbish."""
        gpu, [stream] = self._gpu, {c.stream for c in calls}
        data = []
        for call in calls:
            if call.given and self._gives(call):
                gpu.check_read(call.source, stream)
                data.append(ctypes.string_at(call.source, call.given * call.dtype.itemsize))
            else:
                data.append(b"")
        number, self._count = self._count, self._count + 1
        head = json.dumps([[*c.head, len(d)] for c, d in zip(calls, data)]).encode()
        self._put(f"{number}.{self._rank}", len(head).to_bytes(4, "little") + head + b"".join(data))
        self._kept.append(number)
        ticket = stream.tick()
        for call in calls:
            if self._writes(call):
                gpu.check_read(call.target, stream)
                gpu.check_written(call.target, stream)
                size = call.made * call.dtype.itemsize
                ctypes.memset(call.target, _POISON, size)
                gpu.copied[call.target] = (call.target + size, ticket)
        stream.blockers.append((ticket[1], lambda: self._is_over(number, calls)))

    def _gives(self, call: Call) -> bool:
        return call.name != "Broadcast" or call.which == self._rank

    def _writes(self, call: Call) -> bool:
        """True unless what is broadcast is where it should be."""
        return bool(call.made) and not (
            call.name == "Broadcast" and self._gives(call) and call.target == call.source)

    # ------------------------------------------------------------ the others

    def _is_over(self, number: int, calls: list[Call]) -> bool:
        """True once all ranks have launched; then the results are there."""
        if self.aborted:
            return True
        files = [self._folder / f"{number}.{k}" for k in range(self.ranks)]
        if not all(f.exists() for f in files):
            return False
        seen = [_parsed(f.read_bytes()) for f in files]
        for i, call in enumerate(calls):
            if call.name in ("AllReduce", "Broadcast", "ReduceScatter"):
                heads = [heads[i] if i < len(heads) else None for heads, _ in seen]
                if any(head != call.head for head in heads):
                    raise MisuseError(f"ranks launch different things: {heads}")
            if self._writes(call):
                result = self._result(call, i, calls, seen)
                ctypes.memmove(call.target, result.tobytes(), result.nbytes)
        self._put(f"read.{number}.{self._rank}", b"")
        self._clear()
        return True

    def _result(self, call: Call, i: int, calls: list[Call], seen: list[Any]) -> np.ndarray:
        if call.name == "Recv":
            return self._received(call, calls[:i], seen[call.which])
        given = [np.frombuffer(data[i], call.dtype) for _, data in seen]
        if call.name == "Broadcast":
            return given[call.which]
        with np.errstate(all="ignore"):
            found = given[0]
            for other in given[1:]:
                found = _JOIN[call.which](found, other)
            if call.which == nccl.AVERAGE:
                found = (found / np.asarray(self.ranks, call.dtype)).astype(call.dtype)
        start = self._rank * call.made if call.name == "ReduceScatter" else 0
        return np.ascontiguousarray(found[start : start + call.made])

    def _received(self, call: Call, before: list[Call], theirs: Any) -> np.ndarray:
        place = sum(c.name == "Recv" and c.which == call.which for c in before)
        sent = [(h, d) for h, d in zip(*theirs, strict=True)
                if h[0] == "Send" and h[3] == self._rank]
        if place >= len(sent) or sent[place][0][1] != call.made:
            raise MisuseError(f"rank {self._rank} receives {call.made}, but rank {call.which} "
                              f"sends {[h[1] for h, _ in sent]}")
        return np.frombuffer(sent[place][1], call.dtype)

    def _clear(self) -> None:
        """Remove what all have read."""
        for number in list(self._kept):
            if all((self._folder / f"read.{number}.{k}").exists() for k in range(self.ranks)):
                (self._folder / f"{number}.{self._rank}").unlink(missing_ok=True)
                self._kept.remove(number)


def _parsed(content: bytes) -> tuple[list[Any], list[bytes]]:
    """The calls of a rank, and the data of each."""
    length = int.from_bytes(content[:4], "little")
    heads, data, start = json.loads(content[4 : 4 + length]), [], 4 + length
    for head in heads:
        size = head.pop()
        data.append(content[start : start + size])
        start += size
    return heads, data


