"""Kernels that draw candidate classes and say how often each was to be expected.

With `unique` classes are drawn until there are enough different ones. The expected count of a class
of probability p after n draws is n p if just these were wanted, and 1 - (1 - p)ⁿ if it took more.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from hpcflow.errors import NotFoundError
from hpcflow.kernels.common.indices import check_rows
from hpcflow.kernels.random.numbers import Stream
from hpcflow.kernels.random.philox import Sequence
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown

# Blocks of random words that a step has to itself, for each class that it draws.
_BLOCKS_PER_CLASS = 512


class _Uniform:
    """All classes alike."""

    learns = False

    def __init__(self, classes: int) -> None:
        self.classes = self.possible = classes

    def draw(self, stream: Stream, count: int) -> np.ndarray:
        """`count` classes."""
        return stream.below(self.classes, count)

    def probability(self, xp: Any, values: Any) -> Any:
        """The probability of each of `values`, of the array module `xp`."""
        return xp.full(values.shape, 1.0 / self.classes)

    def learn(self, true_classes: np.ndarray) -> None:
        """Take note of the labels of a step."""


class _LogUniform(_Uniform):
    """P(k) = log((k + 2) / (k + 1)) / log(classes + 1): for classes sorted by frequency."""

    def draw(self, stream: Stream, count: int) -> np.ndarray:
        """`count` classes."""
        drawn = np.exp(stream.random(count) * np.log1p(self.classes)).astype(np.int64) - 1
        # Rounding may reach the end of the range.
        return drawn % self.classes

    def probability(self, xp: Any, values: Any) -> Any:
        """The probability of each of `values`, of the array module `xp`."""
        return xp.log((values + 2.0) / (values + 1.0)) / math.log1p(self.classes)


class _Weighted(_Uniform):
    """Classes by given weights."""

    def __init__(self, weights: np.ndarray) -> None:
        super().__init__(weights.size)
        self.weights = weights
        self.limits = np.cumsum(weights)
        self.possible = int(np.count_nonzero(weights))

    def draw(self, stream: Stream, count: int) -> np.ndarray:
        """`count` classes."""
        return np.searchsorted(self.limits, stream.random(count) * self.limits[-1], "right")

    def probability(self, xp: Any, values: Any) -> Any:
        """The probability of each of `values`, of the array module `xp`; 0 outside the range."""
        inside = (values >= 0) & (values < self.classes)
        weights = xp.asarray(self.weights)
        return xp.where(inside, weights[xp.where(inside, values, 0)], 0) / float(self.limits[-1])


class _Learned(_Weighted):
    """Classes by how often they were labels so far, each beginning at one."""

    learns = True

    def __init__(self, classes: int) -> None:
        super().__init__(np.ones(classes))

    def learn(self, true_classes: np.ndarray) -> None:
        """Take note of the labels of a step."""
        np.add.at(self.weights, true_classes.ravel(), 1)
        self.limits = np.cumsum(self.weights)


def _fixed(node: KernelNode) -> _Weighted:
    """The weights of a file (last column) or of a list, in this shard, after reserved classes."""
    path, listed = node.attr("vocab_file", b"").decode(), list(node.attr("unigrams") or ())
    if bool(path) == bool(listed):
        raise invalid("exactly one of vocab_file and unigrams must be given")
    given = _read_weights(path) if path else listed
    shard, shards = node.attr("shard", 0), node.attr("num_shards", 1)
    reserved = np.zeros(node.attr("num_reserved_ids", 0))[shard::shards]
    raised = np.asarray(given, np.float64) ** node.attr("distortion", 1.0)
    # As in the reference the numbering goes on from the reserved classes of this shard.
    weights = np.concatenate([reserved, raised[(shard - reserved.size) % shards::shards]])
    if weights.size != node.attr("range_max"):
        raise invalid(f"range_max is {node.attr('range_max')}, but there are {weights.size} "
                      "weights")
    return _Weighted(weights)


def _read_weights(path: str) -> list[float]:
    """The last of the values, separated by commas, of every line."""
    try:
        lines = Path(path).read_text().splitlines()
        return [float(line.rsplit(",", 1)[-1]) for line in lines if line.strip()]
    except FileNotFoundError:
        raise NotFoundError(None, None, f"{path}: no such vocabulary file") from None
    except ValueError as e:
        raise invalid(f"{path}: wrong vocabulary format: {e}") from None


def _draw(distribution: _Uniform, stream: Stream, count: int,
          unique: bool) -> tuple[np.ndarray, int]:
    """`count` classes, and after how many draws."""
    if not unique:
        return distribution.draw(stream, count), count
    drawn = distribution.draw(stream, count)
    while True:
        first = np.sort(np.unique(drawn, return_index=True)[1])
        if first.size >= count:
            first = first[:count]
            return drawn[first], int(first[-1]) + 1
        drawn = np.concatenate([drawn, distribution.draw(stream, drawn.size)])


def _expected(xp: Any, probability: Any, draws: int, count: int) -> Any:
    if draws == count:  # as in the reference, also where they were to differ
        return (probability * draws).astype(np.float32)
    with np.errstate(divide="ignore"):
        return (-xp.expm1(draws * xp.log1p(-probability))).astype(np.float32)


def _check_classes(true_classes: Any, num_true: int) -> None:
    if true_classes.ndim != 2 or true_classes.shape[1] != num_true:
        raise invalid(f"true_classes must be a matrix with num_true = {num_true} columns, got "
                      f"shape {shown(true_classes)}")


def _register(op_type: str, make: Callable[[KernelNode], _Uniform]) -> None:
    """Register a sampler whose classes come from ``make(node)``."""

    def factory(node: KernelNode) -> Callable:
        xp, count, unique = node.xp, node.attr("num_sampled"), node.attr("unique")
        columns = node.attr("num_true")
        seeds = node.attr("seed", 0), node.attr("seed2", 0)
        sequence, distribution, lock = node.state(
            lambda: (Sequence(*seeds, node.name), make(node), threading.Lock()))

        def sample(true_classes: Any) -> tuple:
            _check_classes(true_classes, columns)
            if unique and count > distribution.possible:
                raise invalid(f"cannot draw {count} different classes: there are "
                              f"{distribution.possible}")
            with lock:
                stream = Stream(sequence.take(_BLOCKS_PER_CLASS * count))
                found, draws = _draw(distribution, stream, count, unique)
                drawn = xp.asarray(found.astype(np.int64, copy=False))
                counts = [_expected(xp, distribution.probability(xp, v), draws, count)
                          for v in (true_classes, drawn)]
                if distribution.learns:
                    distribution.learn(true_classes if xp is np else xp.asnumpy(true_classes))
            return drawn, *counts

        return sample

    kernel(op_type, fresh=True)(factory)


_register("UniformCandidateSampler", lambda node: _Uniform(node.attr("range_max")))
_register("LogUniformCandidateSampler", lambda node: _LogUniform(node.attr("range_max")))
_register("LearnedUnigramCandidateSampler", lambda node: _Learned(node.attr("range_max")))
_register("ThreadUnsafeUnigramCandidateSampler", lambda node: _Learned(node.attr("range_max")))
_register("FixedUnigramCandidateSampler", _fixed)


@kernel("AllCandidateSampler", fresh=True)
def _all_candidates(node: KernelNode) -> Callable:
    xp, count, columns = node.xp, node.attr("num_sampled"), node.attr("num_true")

    def sample(true_classes: Any) -> tuple:
        _check_classes(true_classes, columns)
        check_rows(xp, true_classes, count, "= {} must be in [0, {})", "true_classes")
        return (xp.arange(count), xp.ones(true_classes.shape, np.float32),
                xp.ones(count, np.float32))

    return sample


@kernel("ComputeAccidentalHits", fresh=True)
def _accidental_hits(node: KernelNode) -> Callable:
    xp, columns = node.xp, node.attr("num_true")

    def find_on_device(true_classes: Any, sampled: Any) -> tuple:
        _check_classes(true_classes, columns)
        order = xp.argsort(sampled)
        ordered = sampled[order]
        flat = true_classes.reshape(-1)
        at = xp.minimum(xp.searchsorted(ordered, flat), max(len(sampled) - 1, 0))
        hits = xp.flatnonzero(ordered[at] == flat) if len(sampled) else xp.arange(0)
        weights = xp.full(len(hits), np.finfo(np.float32).min, np.float32)
        return (hits // columns).astype(np.int32), order[at[hits]].astype(np.int64), weights

    if xp is not np:
        return find_on_device

    def find(true_classes: Any, sampled: Any) -> tuple:
        _check_classes(true_classes, columns)
        place = {int(c): i for i, c in enumerate(sampled)}
        hits = [(row, place[c]) for row, classes in enumerate(true_classes.tolist())
                for c in classes if c in place]
        pairs = np.array(hits, np.int64).reshape(-1, 2)
        weights = np.full(len(hits), np.finfo(np.float32).min, np.float32)
        return pairs[:, 0].astype(np.int32), pairs[:, 1].copy(), weights

    return find
