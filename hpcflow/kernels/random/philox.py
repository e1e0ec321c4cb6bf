"""Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011) by counter.

Blocks of four 32-bit words are computed from a key of two words and a counter of four; many blocks
at once. What is drawn from them is laid out as newer graphs expect it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_STEPS = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_LOW, _WORD = np.uint64(0xFFFFFFFF), np.uint64(32)
_MASK64 = (1 << 64) - 1
# The key that makes a key and a counter of two seeds.
_SCRAMBLING_KEY = 0x3EC8F720 | 0x02461E29 << 32


class Start(NamedTuple):
    """Where a sequence begins: a key of 64 bits and a counter of 128."""

    key: int
    counter: int

    @classmethod
    def of_seeds(cls, seeds: np.ndarray) -> Start:
        """The start for two seeds, mixed so that no two bits of them matter more than others."""
        low, high = (int(s) & _MASK64 for s in seeds)
        mixed = Start(_SCRAMBLING_KEY, low | high << 64).blocks(np.zeros(1, np.uint64))[0]
        first, second, third, fourth = (int(word) for word in mixed)
        return cls(first | second << 32, third << 64 | fourth << 96)

    @classmethod
    def of_arrays(cls, key: np.ndarray, counter: np.ndarray) -> Start:
        """The start that a graph gives as one and two 64-bit numbers."""
        return cls(int(key[0]), int(counter[0]) | int(counter[1]) << 64)

    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """The key and the counter as 64-bit numbers."""
        return np.array([self.key], np.uint64), np.array(
            [self.counter & _MASK64, self.counter >> 64], np.uint64)

    def blocks(self, places: np.ndarray) -> np.ndarray:
        """The blocks at `places` (uint64, counted from the start): ``[n, 4]`` of uint32."""
        low = np.uint64(self.counter & _MASK64) + places
        high = np.uint64(self.counter >> 64) + (low < places).astype(np.uint64)
        words = [low & _LOW, low >> _WORD, high & _LOW, high >> _WORD]
        key = [self.key & 0xFFFFFFFF, self.key >> 32]
        for _ in range(_ROUNDS):
            left, right = words[0] * _MULTIPLIERS[0], words[2] * _MULTIPLIERS[1]
            words = [right >> _WORD ^ words[1] ^ np.uint64(key[0]), right & _LOW,
                     left >> _WORD ^ words[3] ^ np.uint64(key[1]), left & _LOW]
            key = [(k + step) & 0xFFFFFFFF for k, step in zip(key, _STEPS, strict=True)]
        return np.stack(words, -1).astype(np.uint32)

    def words(self, count: int) -> np.ndarray:
        """The first blocks, as many as hold `count` words."""
        return self.blocks(np.arange(-(-count // 4), dtype=np.uint64))
