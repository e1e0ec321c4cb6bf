"""Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011) by counter.

Blocks of four 32-bit words are computed from a key of two words and a counter of four; many blocks
at once, each from its place alone, so that any thread and any device may compute any of them. What
is drawn from them is laid out as TensorFlow lays it out: equal seeds give its numbers.
"""

from __future__ import annotations

import functools
import os
import threading
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from hpcflow import config
from hpcflow.host.tuning import kernels as tuning
from hpcflow.loops import compiling

_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_STEPS = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_LOW, _WORD = np.uint64(0xFFFFFFFF), np.uint64(32)
_MASK32, MASK64, _MASK128 = ((1 << bits) - 1 for bits in (32, 64, 128))
# The key that makes a key and a counter of two seeds.
_SCRAMBLING_KEY = 0x3EC8F720 | 0x02461E29 << 32
# Blocks at once without the compiled loop: what they are made of stays in the second-level cache.
_AT_ONCE = 4096
_FEW = 8


_ROUND = f"""
        x, y = a * {_MULTIPLIERS[0]}, c * {_MULTIPLIERS[1]}
        a, b, c, d = (y >> 32) ^ b ^ k, y & 4294967295, (x >> 32) ^ d ^ l, x & 4294967295
        k, l = k + {_STEPS[0]} & 4294967295, l + {_STEPS[1]} & 4294967295"""
#: Lines of a loop's text: a, b, c, d become the words of the block at `place`, given the key and
#: the halves of the counter. Words are numbers of 64 bits of which the upper half is zero, so that
#: a product is one instruction of the vector units.
BLOCK_TEXT = f"""
        at = np.uint64(low) + place
        up = np.uint64(high) + np.uint64(1 if at < place else 0)
        a, b, c, d = at & 4294967295, at >> 32, up & 4294967295, up >> 32
        k, l = np.uint64(key) & 4294967295, np.uint64(key) >> 32{_ROUND * _ROUNDS}"""
# The blocks at `places`.
_LOOP = compiling.TextLoop(f"""
def loop(places, words, key, low, high):
    for i in apart(places.size):
        place = places[i]{BLOCK_TEXT}
        words[i, 0], words[i, 1], words[i, 2], words[i, 3] = a, b, c, d
""", (("uint64", 1, False), ("uint32", 2, True)), 3)


class Start(NamedTuple):
    """Where a sequence begins: a key of 64 bits and a counter of 128."""

    key: int
    counter: int

    @classmethod
    def of_seeds(cls, seeds: np.ndarray) -> Start:
        """The start for two seeds, mixed so that no two bits of them matter more than others."""
        low, high = (int(s) & MASK64 for s in seeds)
        mixed = Start(_SCRAMBLING_KEY, low | high << 64).blocks(np.zeros(1, np.uint64))[0]
        first, second, third, fourth = (int(word) for word in mixed)
        return cls(first | second << 32, third << 64 | fourth << 96)

    @classmethod
    def of_arrays(cls, key: np.ndarray, counter: np.ndarray) -> Start:
        """The start that a graph gives as one and two 64-bit numbers."""
        return cls(int(key[0]), int(counter[0]) | int(counter[1]) << 64)

    def skipped(self, blocks: int) -> Start:
        """The start so many blocks later."""
        return Start(self.key, (self.counter + blocks) & _MASK128)

    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """The key and the counter as 64-bit numbers."""
        return np.array([self.key], np.uint64), np.array(
            [self.counter & MASK64, self.counter >> 64], np.uint64)

    def words64(self) -> np.ndarray:
        """The key and the counter's lower and upper half, as a device takes them."""
        return np.concatenate(self.arrays())

    def numbers(self) -> tuple[int, int, int]:
        """The same, as a compiled loop takes them."""
        return (signed(self.key), signed(self.counter & MASK64), signed(self.counter >> 64))

    def blocks(self, places: np.ndarray) -> np.ndarray:
        """The blocks at `places` (uint64, counted from the start): ``[n, 4]`` of uint32."""
        words, loop = np.empty((places.size, 4), np.uint32), _loop()
        if loop.function is not None:
            loop.function(places, words, *self.numbers())
        else:
            compiling.timed(loop, lambda: self._fill(places, words))
        return words

    def _fill(self, places: np.ndarray, words: np.ndarray) -> None:
        if places.size <= _FEW:
            for number, place in enumerate(places.tolist()):
                words[number] = self._block(place)
            return
        for begin in range(0, places.size, _AT_ONCE):
            part = slice(begin, begin + _AT_ONCE)
            for column, word in zip(words[part].T, self._words(places[part])):
                column[...] = word

    def _block(self, place: int) -> tuple[int, int, int, int]:
        """One block: of a few, Python's numbers are faster than arrays."""
        counter = (self.counter + place) & _MASK128
        a, b, c, d = (counter >> shift & _MASK32 for shift in (0, 32, 64, 96))
        k, l = self.key & _MASK32, self.key >> 32  # noqa: E741
        for _ in range(_ROUNDS):
            x, y = a * 0xD2511F53, c * 0xCD9E8D57
            a, b, c, d = y >> 32 ^ b ^ k, y & _MASK32, x >> 32 ^ d ^ l, x & _MASK32
            k, l = k + _STEPS[0] & _MASK32, l + _STEPS[1] & _MASK32  # noqa: E741
        return a, b, c, d

    def _words(self, places: np.ndarray) -> list[np.ndarray]:
        """The four words of each block, as 64-bit numbers."""
        low = np.uint64(self.counter & MASK64) + places
        high = np.uint64(self.counter >> 64) + (low < places).astype(np.uint64)
        words = [low & _LOW, low >> _WORD, high & _LOW, high >> _WORD]
        key = [self.key & 0xFFFFFFFF, self.key >> 32]
        for _ in range(_ROUNDS):
            left, right = words[0] * _MULTIPLIERS[0], words[2] * _MULTIPLIERS[1]
            words = [right >> _WORD ^ words[1] ^ np.uint64(key[0]), right & _LOW,
                     left >> _WORD ^ words[3] ^ np.uint64(key[1]), left & _LOW]
            key = [(k + step) & 0xFFFFFFFF for k, step in zip(key, _STEPS, strict=True)]
        return words

    def words(self, first: int, count: int) -> np.ndarray:
        """`count` blocks from number `first` on, as a vector of words."""
        places = np.arange(first, first + count, dtype=np.uint64)
        return self.blocks(places).reshape(-1)


@functools.cache
def _loop() -> compiling.Compiled:
    """The loop that fills blocks, which may yet have to be compiled."""
    return compiling.compiled(_LOOP)


def signed(number: int) -> int:
    """The signed number of the same 64 bits."""
    return number - (1 << 64) if number >> 63 else number


class Sequence:
    """The generator of one op: each run has a part of the sequence to itself.

    Both seeds 0 mean a key from the system's entropy, in the deterministic mode one from the op's
    name.
    """

    def __init__(self, seed: int, seed2: int, name: str) -> None:
        if seed == 0 and seed2 == 0:
            if config.flags.deterministic:
                seed2 = zlib.crc32(name.encode()) + 1
            else:
                seed, seed2 = (int.from_bytes(os.urandom(8), "little") for _ in range(2))
        self._key = seed & MASK64
        self._counter = (seed2 & MASK64) << 64
        self._lock = threading.Lock()
        self._ready: list[Any] = []  # scalars that runs to come will take, the last one first
        self._apart = 0  # blocks that each of them has to itself
        self._many = 1  # how many are drawn next

    def take(self, blocks: int) -> Start:
        """The start of a part of so many blocks."""
        with self._lock:
            if self._ready:
                self._counter -= self._apart * len(self._ready)
                self._ready = []
            return self._part(blocks)

    def _part(self, blocks: int) -> Start:
        start = Start(self._key, self._counter & _MASK128)
        self._counter = (self._counter + blocks) & _MASK128
        return start

    def scalar(self, blocks: int, numbers: Callable[[np.ndarray], np.ndarray]) -> Any:
        """The number of a run that draws a single one from a part of so many blocks: the first of
        what ``numbers(words)`` makes of the part's first block. Runs to come are drawn for, too, so
        both must be the same in every call."""
        with self._lock:
            if not self._ready:
                count, self._apart = self._many, blocks
                self._many = min(2 * count, tuning.RANDOM_SCALARS_MOST)
                places = np.arange(count, dtype=np.uint64) * np.uint64(blocks)
                words = self._part(count * blocks).blocks(places).reshape(-1)
                self._ready = list(numbers(words).reshape(count, -1)[::-1, 0])
            return self._ready.pop()
