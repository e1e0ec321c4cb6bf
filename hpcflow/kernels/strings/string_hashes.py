"""Hashes of many byte strings at once: FarmHash's Fingerprint64, SipHash-2-4, MurmurHash64A.

The strings lie one after the other in a buffer; every step of a hash is done for all of them
together, in unsigned 64-bit arithmetic, which wraps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.common.text import as_bytes, flat
from hpcflow.kernels.registry import KernelNode, invalid, kernel

Words = np.ndarray  # uint64, one element per string

_PADDING = bytes(128)  # reads beyond a short string stay inside the buffer


def _constants(*values: int) -> list[np.uint64]:
    return [np.uint64(v) for v in values]


_K0, _K1, _K2 = _constants(0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F)
_SEED = 81
# What the seed contributes to two words of the state for strings of more than 64 bytes.
_SEED_X, _SEED_Y = _constants(_SEED * int(_K2) % 2**64, (_SEED * int(_K1) + 113) % 2**64)


class Strings:
    """Byte strings as one buffer; ``word(at)`` reads at an offset from the start of each."""

    def __init__(self, items: list[bytes]) -> None:
        self.lengths = np.fromiter(map(len, items), np.int64, len(items))
        data = np.frombuffer(b"".join([*items, _PADDING]), np.uint8)
        self._set(data, np.cumsum(self.lengths) - self.lengths)

    def _set(self, data: np.ndarray, starts: np.ndarray) -> None:
        self._data, self._starts = data, starts
        # Overlapping views: element i is the word that starts at byte i.
        self._words = np.ndarray((data.size - 7,), "<u8", data, strides=(1,))
        self._halves = np.ndarray((data.size - 3,), "<u4", data, strides=(1,))

    def select(self, chosen: np.ndarray) -> Strings:
        """The strings at the indices `chosen`."""
        part = Strings.__new__(Strings)
        part.lengths = self.lengths[chosen]
        part._set(self._data, self._starts[chosen])
        return part

    def word(self, at: Any) -> Words:
        """Eight bytes of each string."""
        return self._words[self._starts + at]

    def half(self, at: Any) -> Words:
        """Four bytes of each string, as 64-bit words."""
        return self._halves[self._starts + at].astype(np.uint64)

    def byte(self, at: Any) -> Words:
        """One byte of each string, as 64-bit words."""
        return self._data[self._starts + at].astype(np.uint64)

    def tail(self, at: np.ndarray) -> Words:
        """The last, fewer than eight bytes of each string, from `at` on; zero where none are."""
        bits = ((self.lengths - at) * 8).astype(np.uint64)
        return self.word(at) & ((np.uint64(1) << bits) - np.uint64(1))


def _rotate_right(x: Words, bits: int) -> Words:
    return (x >> np.uint64(bits)) | (x << np.uint64(64 - bits))


def _rotate_left(x: Words, bits: int) -> Words:
    return _rotate_right(x, 64 - bits)


# ---------------------------------------------------------------- FarmHash


def fingerprint64(items: list[bytes]) -> Words:
    """FarmHash's Fingerprint64 of every string (the published, stable function)."""
    strings = Strings(items)
    out = np.empty(len(items), np.uint64)
    length = strings.lengths
    for low, high, function in _BY_LENGTH:
        chosen = np.flatnonzero((length >= low) & (length <= high))
        if chosen.size:
            out[chosen] = function(strings.select(chosen))
    return out


def _shift_mix(x: Words) -> Words:
    return x ^ (x >> np.uint64(47))


def _mix(u: Words, v: Words, factor: Words) -> Words:
    a = _shift_mix((u ^ v) * factor)
    return _shift_mix((v ^ a) * factor) * factor


def _factor(s: Strings) -> Words:
    return _K2 + (s.lengths * 2).astype(np.uint64)


def _farm_0(s: Strings) -> Words:
    return np.full(s.lengths.size, _K2)


def _farm_1_to_3(s: Strings) -> Words:
    y = s.byte(0) + (s.byte(s.lengths >> 1) << np.uint64(8))
    z = s.lengths.astype(np.uint64) + (s.byte(s.lengths - 1) << np.uint64(2))
    return _shift_mix(y * _K2 ^ z * _K0) * _K2


def _farm_4_to_7(s: Strings) -> Words:
    u = s.lengths.astype(np.uint64) + (s.half(0) << np.uint64(3))
    return _mix(u, s.half(s.lengths - 4), _factor(s))


def _farm_8_to_16(s: Strings) -> Words:
    factor = _factor(s)
    a, b = s.word(0) + _K2, s.word(s.lengths - 8)
    c = _rotate_right(b, 37) * factor + a
    d = (_rotate_right(a, 25) + b) * factor
    return _mix(c, d, factor)


def _farm_17_to_32(s: Strings) -> Words:
    factor = _factor(s)
    a, b = s.word(0) * _K1, s.word(8)
    c, d = s.word(s.lengths - 8) * factor, s.word(s.lengths - 16) * _K2
    return _mix(_rotate_right(a + b, 43) + _rotate_right(c, 30) + d,
                a + _rotate_right(b + _K2, 18) + c, factor)


def _farm_33_to_64(s: Strings) -> Words:
    factor = _factor(s)
    a, b = s.word(0) * _K2, s.word(8)
    c, d = s.word(s.lengths - 8) * factor, s.word(s.lengths - 16) * _K2
    y = _rotate_right(a + b, 43) + _rotate_right(c, 30) + d
    z = _mix(y, a + _rotate_right(b + _K2, 18) + c, factor)
    e, f = s.word(16) * factor, s.word(24)
    g, h = (y + s.word(s.lengths - 32)) * factor, (z + s.word(s.lengths - 24)) * factor
    return _mix(_rotate_right(e + f, 43) + _rotate_right(g, 30) + h,
                e + _rotate_right(f + a, 18) + g, factor)


def _weak_hash(s: Strings, at: Any, a: Words, b: Words) -> tuple[Words, Words]:
    """Hash 32 bytes with two seeds."""
    w, x, y, z = (s.word(at + 8 * i) for i in range(4))
    a = a + w
    b = _rotate_right(b + a + z, 21)
    c = a
    a = a + x + y
    return a + z, b + _rotate_right(a, 44) + c


def _farm_over_64(s: Strings) -> Words:
    """Strings of about one length go through the loop together."""
    out = np.empty(s.lengths.size, np.uint64)
    rounds = (s.lengths - 1) // 64
    for count in np.unique(rounds).tolist():
        chosen = np.flatnonzero(rounds == count)
        out[chosen] = _farm_rounds(s.select(chosen), count)
    return out


def _farm_rounds(s: Strings, count: int) -> Words:
    zero = np.zeros(s.lengths.size, np.uint64)
    x = s.word(0) + _SEED_X
    y = zero + _SEED_Y
    z = _shift_mix(y * _K2 + np.uint64(113)) * _K2
    v = w = (zero, zero)
    for at in range(0, 64 * count, 64):
        x, y, z, v, w = _farm_round(s, at, (x, y, z, v, w), _K1, np.uint64(1))
    factor = _K1 + ((z & np.uint64(0xFF)) << np.uint64(1))
    w = (w[0] + ((s.lengths - 1) & 63).astype(np.uint64), w[1])
    v = (v[0] + w[0], v[1])
    w = (w[0] + v[0], w[1])
    x, y, z, v, w = _farm_round(s, s.lengths - 64, (x, y, z, v, w), factor, np.uint64(9))
    return _mix(_mix(v[0], w[0], factor) + _shift_mix(y) * _K0 + z,
                _mix(v[1], w[1], factor) + x, factor)


def _farm_round(s: Strings, at: Any, state: tuple, factor: Any, weight: np.uint64) -> tuple:
    """64 bytes; the last round has a factor of its own and weighs two words by nine."""
    x, y, z, v, w = state
    x = _rotate_right(x + y + v[0] + s.word(at + 8), 37) * factor
    y = _rotate_right(y + v[1] + s.word(at + 48), 42) * factor
    x = x ^ (w[1] * weight)
    y = y + v[0] * weight + s.word(at + 40)
    z = _rotate_right(z + w[0], 33) * factor
    v = _weak_hash(s, at, v[1] * factor, x + w[0])
    w = _weak_hash(s, at + 32, z + w[1], y + s.word(at + 16))
    return z, y, x, v, w


_BY_LENGTH: list[tuple[int, float, Callable[[Strings], Words]]] = [
    (0, 0, _farm_0), (1, 3, _farm_1_to_3), (4, 7, _farm_4_to_7), (8, 16, _farm_8_to_16),
    (17, 32, _farm_17_to_32), (33, 64, _farm_33_to_64), (65, np.inf, _farm_over_64)]

# ---------------------------------------------------------------- SipHash


def siphash(items: list[bytes], key: tuple[int, int]) -> Words:
    """SipHash-2-4 of every string under a key of two 64-bit words."""
    strings = Strings(items)
    k0, k1 = _constants(*[k & 0xFFFFFFFFFFFFFFFF for k in key])
    seeds = _constants(0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261,
                       0x7465646279746573)
    state = [np.full(len(items), k ^ seed) for k, seed in zip((k0, k1, k0, k1), seeds,
                                                              strict=True)]
    full = strings.lengths // 8
    for index in range(int(full.max(initial=0))):
        _absorb_where(state, full > index, strings, 8 * index)
    last = (strings.lengths.astype(np.uint64) << np.uint64(56)) | strings.tail(8 * full)
    _absorb(state, last)
    state[2] ^= np.uint64(0xFF)
    for _ in range(4):
        _sip_round(state)
    return state[0] ^ state[1] ^ state[2] ^ state[3]


def _absorb_where(state: list[Words], longer: np.ndarray, strings: Strings, at: int) -> None:
    """Take in the word at `at` of the strings that are so long."""
    if longer.all():
        _absorb(state, strings.word(at))
        return
    chosen = np.flatnonzero(longer)
    part = [v[chosen] for v in state]
    _absorb(part, strings.select(chosen).word(at))
    for whole, new in zip(state, part, strict=True):
        whole[chosen] = new


def _absorb(state: list[Words], word: Words) -> None:
    state[3] = state[3] ^ word
    _sip_round(state)
    _sip_round(state)
    state[0] = state[0] ^ word


def _sip_round(state: list[Words]) -> None:
    a, b, c, d = state
    a = a + b
    b = _rotate_left(b, 13) ^ a
    a = _rotate_left(a, 32)
    c = c + d
    d = _rotate_left(d, 16) ^ c
    a = a + d
    d = _rotate_left(d, 21) ^ a
    c = c + b
    b = _rotate_left(b, 17) ^ c
    c = _rotate_left(c, 32)
    state[:] = [a, b, c, d]


# ---------------------------------------------------------------- MurmurHash

_MURMUR_SEED = 0xDECAFCAFFE


def murmur64(items: list[bytes]) -> Words:
    """MurmurHash64A of every string, with the seed that string hash buckets have in 1.x."""
    strings = Strings(items)
    (factor,) = _constants(0xC6A4A7935BD1E995)
    h = np.uint64(_MURMUR_SEED) ^ (strings.lengths.astype(np.uint64) * factor)
    full = strings.lengths // 8
    for index in range(int(full.max(initial=0))):
        chosen = np.flatnonzero(full > index)
        k = strings.select(chosen).word(8 * index) * factor
        h[chosen] = (h[chosen] ^ ((k ^ (k >> np.uint64(47))) * factor)) * factor
    rest = strings.lengths % 8 > 0
    h = np.where(rest, (h ^ strings.tail(8 * full)) * factor, h)
    h = _shift_mix(h) * factor
    return _shift_mix(h)


@kernel("Fingerprint", device="CPU", fresh=True)
def _fingerprint(node: KernelNode) -> Callable:
    """64 bits of each row as eight bytes."""

    def run(data: Any, method: Any) -> Any:
        if np.ndim(method) or as_bytes(method) != b"farmhash64":
            raise invalid(f"method must be farmhash64, got {method!r}")
        if not np.ndim(data):
            raise invalid("data must have at least one dimension")
        rows = data.reshape(len(data), math.prod(data.shape[1:]))
        if data.dtype != object:
            return _bytes_of_hashes([row.tobytes() for row in rows])
        if data.ndim == 1:
            return _bytes_of_hashes(flat(data))
        # Strings are hashed one by one, then their hashes.
        return _bytes_of_hashes([_bytes_of_hashes(list(row)).tobytes() for row in rows])

    return run


def _bytes_of_hashes(texts: list[bytes]) -> np.ndarray:
    found = np.asarray(fingerprint64(texts), "<u8") if texts else np.zeros(0, "<u8")
    return found.reshape(-1, 1).view(np.uint8)
