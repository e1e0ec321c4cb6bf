"""Kernels of crosses of features: all combinations of the features of each example."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.kernels.common.text import as_bytes, string_array
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown
from hpcflow.kernels.strings.string_hashes import fingerprint64, siphash

_FACTOR, _WORD = 0xC6A4A7935BD1E995, (1 << 64) - 1
_LARGEST = (1 << 63) - 1


def _rows_of(indices: Any, values: Any, shape: Any) -> list[list]:
    """The features of each example of a sparse input."""
    if indices.ndim != 2 or indices.shape[1] != 2 or len(shape) != 2:
        raise invalid(f"sparse inputs must be matrices, got indices of shape {shown(indices)}")
    if np.shape(values) != indices.shape[:1]:
        raise invalid(f"values of shape {shown(values)} do not fit indices of shape "
                      f"{shown(indices)}")
    rows = indices[:, 0]
    if len(rows) and (rows.min() < 0 or rows.max() >= shape[0] or (np.diff(rows) < 0).any()):
        raise invalid("indices of sparse inputs are out of order or out of bounds")
    ends = np.searchsorted(rows, np.arange(int(shape[0]) + 1)).tolist()
    features = values.tolist()
    return [features[begin:end] for begin, end in itertools.pairwise(ends)]


def _features(node: KernelNode, inputs: tuple) -> list[list[list]]:
    """For each input its rows of features."""
    sparse, dense = node.attr("N") or 0, len(node.attr("dense_types") or ())
    indices, values, shapes = (inputs[k * sparse : (k + 1) * sparse] for k in range(3))
    found = [_rows_of(*parts) for parts in zip(indices, values, shapes, strict=True)]
    for x in inputs[3 * sparse : 3 * sparse + dense]:
        if np.ndim(x) != 2:
            raise invalid(f"dense inputs must be matrices, got shape {shown(x)}")
        found.append(x.tolist())
    if len({len(rows) for rows in found}) > 1:
        raise invalid("all inputs must have one number of examples, got "
                      f"{[len(rows) for rows in found]}")
    return found


def _crossed(columns: list[list[list]]) -> Iterator[list[tuple]]:
    """The combinations of each example."""
    for features in zip(*columns, strict=True):
        yield list(itertools.product(*features))


def _result(rows: list[list], values: Any) -> tuple:
    counts = [len(row) for row in rows]
    places = [[example, k] for example, count in enumerate(counts) for k in range(count)]
    return (np.array(places, np.int64).reshape(-1, 2), values,
            np.array([len(rows), max(counts, default=0)], np.int64))


def _joined(columns: list[list[list]], separator: bytes) -> tuple:
    texts = [[[f if isinstance(f, bytes) else b"%d" % f for f in row] for row in rows]
             for rows in columns]
    rows = list(_crossed(texts))
    return _result(rows, string_array([separator.join(parts) for row in rows for parts in row]))


def _mixed(word: int) -> int:
    return word ^ (word >> 47)


def _combined(first: int, second: int) -> int:
    """A hash of two hashes."""
    found = first ^ _FACTOR ^ (_mixed(second * _FACTOR & _WORD) * _FACTOR & _WORD)
    found = _mixed(found * _FACTOR & _WORD) * _FACTOR & _WORD
    return _mixed(found)


def _hashed(words: list[list[list[int]]], buckets: int, key: tuple[int, ...] = ()) -> tuple:
    """Hashes of the combinations of `words`, those of the features; `key` comes before them."""
    rows = list(_crossed(words))
    found = np.empty(sum(map(len, rows)), np.int64)
    for place, parts in enumerate(itertools.chain.from_iterable(rows)):
        found[place] = functools.reduce(_combined, (*key, *parts)) % (buckets or _LARGEST)
    return _result(rows, found)


def _words(rows: list[list]) -> list[list[int]]:
    """The hash of every string; a number stands for itself."""
    texts = [f for row in rows for f in row if isinstance(f, bytes)]
    hashes = iter(fingerprint64(texts).tolist() if texts else ())
    return [[next(hashes) if isinstance(f, bytes) else f & _WORD for f in row] for row in rows]


@kernel("SparseCross", device="CPU", fresh=True)
def _cross(node: KernelNode) -> Callable:
    # The type that is asked for decides, whatever `hashed_output` says.
    hashes = node.attr("out_type") is not dtypes.string
    key, buckets = node.attr("hash_key"), node.attr("num_buckets")

    def run(*inputs: Any) -> tuple:
        columns = _features(node, inputs)
        if not hashes:
            return _joined(columns, b"_X_")
        return _hashed([_words(rows) for rows in columns], buckets, (key & _WORD,))

    return run


@kernel("SparseCrossV2", device="CPU", fresh=True)
def _cross_v2(node: KernelNode) -> Callable:
    def run(*inputs: Any) -> tuple:
        *features, separator = inputs
        if np.ndim(separator):
            raise invalid(f"sep must be a scalar, got shape {shown(separator)}")
        return _joined(_features(node, tuple(features)), as_bytes(separator))

    return run


@kernel("SparseCrossHashed", device="CPU", fresh=True)
def _cross_hashed(node: KernelNode) -> Callable:
    def run(*inputs: Any) -> tuple:
        *features, buckets, strong, salt = inputs
        if np.shape(salt) != (2,):
            raise invalid(f"salt must be two numbers, got shape {shown(np.shape(salt))}")
        if buckets < 0:
            raise invalid(f"num_buckets must not be negative, got {buckets}")
        columns, sparse = _features(node, tuple(features)), node.attr("N") or 0
        key = (int(salt[0]) & _WORD, int(salt[1]) & _WORD)
        hashes = functools.partial(siphash, key=key) if strong else fingerprint64
        # Numbers of dense inputs stand for themselves unless the hash is a strong one.
        words = [_hashes(rows, hashes) if strong or i < sparse else _words(rows)
                 for i, rows in enumerate(columns)]
        return _hashed(words, int(buckets))

    return run


def _hashes(rows: list[list], hashes: Callable[..., Any]) -> list[list[int]]:
    """The hash of every string, and of the lower half of every number."""
    texts = [f if isinstance(f, bytes) else (f & 0xFFFFFFFF).to_bytes(4, "little")
             for row in rows for f in row]
    found = iter(hashes(texts).tolist() if texts else ())
    return [[next(found) for _ in row] for row in rows]
