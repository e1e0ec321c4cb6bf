"""CuPy's pool of the GPU's memory, for the stand-in: which blocks are taken from the GPU, which of
them are cut, and what goes back. What is taken is the smallest free piece that is large enough, of
those that were taken for the same stream; a piece that becomes free joins its free neighbours."""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from gpu_ring.fake_cuda import Hardware, Stream

UNIT = 512
_MOST_REAL = 1 << 28  # bytes that stand for a piece that is larger


class Piece:
    """A part of a block, or all of it; its neighbours in the block."""

    def __init__(self, size: int, stream: Hashable) -> None:
        self.size, self.stream = size, stream
        self.block: object = None  # what keeps the memory
        self.before: Piece | None = None
        self.behind: Piece | None = None
        self.is_free = False

    def cut(self, size: int) -> Piece | None:
        """Leave so many bytes of it, and give the rest, if there is one."""
        if self.size == size:
            return None
        rest = Piece(self.size - size, self.stream)
        rest.before, rest.behind, self.behind, self.size = self, self.behind, rest, size
        rest.block = self.block
        if rest.behind is not None:
            rest.behind.before = rest
        return rest

    def join(self, behind: Piece) -> None:
        """Take the neighbour behind in."""
        self.size += behind.size
        self.behind = behind.behind
        if self.behind is not None:
            self.behind.before = self


class Taken:
    """A piece that is in use as long as this lives."""

    def __init__(self, pool: Pool, piece: Piece | None) -> None:
        self._pool, self._piece = pool, piece
        self._data: np.ndarray | None = None

    @property
    def mem(self) -> np.ndarray:
        """Memory of the host that stands for it."""
        if self._data is None:
            size = 0 if self._piece is None else self._piece.size
            self._data = np.zeros(min(size, _MOST_REAL), np.uint8)
        return self._data

    @property
    def ptr(self) -> int:
        """Its address."""
        return int(self.mem.__array_interface__["data"][0])

    def __del__(self) -> None:
        if self._piece is not None:
            self._pool.left.append(self._piece)


class Pool:
    """The pool, up to a limit; its blocks come from the GPU or by an allocator."""

    def __init__(self, gpu: Hardware, allocator: Callable[[int], object] | None = None) -> None:
        self._gpu = gpu
        self._allocator = allocator or self._of_the_gpu
        self._lock = threading.RLock()
        self._limit = self._used = self._total = 0
        self._free: list[tuple[int, int, Piece]] = []  # by size
        #: Pieces that are not in use any more, and not free yet.
        self.left: deque[Piece] = deque()

    def malloc(self, size: int) -> Taken:
        """Memory of so many bytes, in multiples of 512."""
        assert size >= 0, size
        size = -(-size // UNIT) * UNIT
        with self._lock:
            self._settle()
            return Taken(self, self._piece(size) if size else None)

    def _piece(self, size: int) -> Piece:
        stream = self._gpu.xp.cuda.get_current_stream()
        first = bisect_left(self._free, (size,))
        found = next((p for _, _, p in self._free[first:] if p.stream is stream), None)
        if found is None:
            if self._limit and self._total + size > self._limit:
                raise self._gpu.too_little(size)
            found = Piece(size, stream)
            found.block = self._allocator(size)
            self._total += size
        else:
            self._take_out(found)
            rest = found.cut(size)
            if rest is not None:
                self._put_in(rest)
        self._used += size
        return found

    def _of_the_gpu(self, size: int) -> object:
        if self._used + size > self._gpu.memory:  # the rest is given back for it
            raise self._gpu.too_little(size)
        return None

    def _settle(self) -> None:
        """Join what is left to its free neighbours."""
        while self.left:
            piece = self.left.popleft()
            self._used -= piece.size
            if piece.behind is not None and piece.behind.is_free:
                self._take_out(piece.behind)
                piece.join(piece.behind)
            if piece.before is not None and piece.before.is_free:
                self._take_out(piece.before)
                piece.before.join(piece)
                piece = piece.before
            self._put_in(piece)

    def _put_in(self, piece: Piece) -> None:
        piece.is_free = True
        insort(self._free, (piece.size, id(piece), piece))

    def _take_out(self, piece: Piece) -> None:
        piece.is_free = False
        del self._free[bisect_left(self._free, (piece.size, id(piece)))]

    def set_limit(self, size: int | None = None, fraction: float | None = None) -> None:
        """The most that it may take from the GPU; 0 for all."""
        self._limit = int(size if size is not None else (fraction or 0) * self._gpu.memory)

    def get_limit(self) -> int:
        """That limit."""
        return self._limit

    def used_bytes(self) -> int:
        """Bytes in use."""
        with self._lock:
            self._settle()
            return self._used

    def free_bytes(self) -> int:
        """Bytes taken from the GPU that are not in use."""
        return self._total - self.used_bytes()

    def total_bytes(self) -> int:
        """Bytes taken from the GPU."""
        return self._total

    def free_all_blocks(self, stream: Stream | None = None) -> None:
        """Give the blocks back of which nothing is in use."""
        with self._lock:
            self._settle()
            self._gpu.frees += 1
            whole = [p for _, _, p in self._free if p.before is None and p.behind is None]
            for piece in whole:
                self._take_out(piece)
                self._total -= piece.size
