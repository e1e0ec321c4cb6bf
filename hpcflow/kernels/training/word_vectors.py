"""Kernels that train word vectors (Mikolov et al., 2013: skip-grams, negative sampling)."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from hpcflow.kernels.common.text import string_array
from hpcflow.kernels.random.random import make_generator
from hpcflow.kernels.registry import KernelNode, invalid, kernel
from hpcflow.shapes import format_shape
from hpcflow.storage.system_errors import system_errors

_UNKNOWN = b"UNK"
_SENTENCE = 1000  # words that may see each other
_POWER = 0.75  # of the frequencies by which negative samples are drawn


class _Corpus:
    """A text as word numbers (by falling frequency, from 1; 0: a rare word), and a place in it."""

    def __init__(self, node: KernelNode, generator: np.random.Generator) -> None:
        self.lock = threading.Lock()
        self._rng = generator
        self._window, self._subsample = node.attr("window_size"), node.attr("subsample")
        path = node.attr("filename").decode()
        with system_errors(f"reading file '{path}'"), open(path, "rb") as file:
            words = file.read().split()
        if len(words) < 10 * self._window:
            raise invalid(f"The text file {path} contains too little data: {len(words)} words")
        often = [(word, count) for word, count in Counter(words).most_common()
                 if count >= node.attr("min_count")]
        rare = len(words) - sum(count for _, count in often)
        number = {word: i for i, (word, _) in enumerate(often, start=1)}
        self._text = np.array([number.get(word, 0) for word in words], np.int32)
        self.words = string_array([_UNKNOWN, *[word for word, _ in often]])
        self.counts = np.array([rare, *[count for _, count in often]], np.int32)
        self.size = len(words)
        self.epoch = self.processed = self._at = 0
        self._pairs = self._all_pairs()

    def take(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """The next `count` pairs: words, and words near them."""
        pairs = np.array([next(self._pairs) for _ in range(count)], np.int32).reshape(count, 2)
        return pairs[:, 0].copy(), pairs[:, 1].copy()

    def _all_pairs(self) -> Iterator[tuple[int, int]]:
        while True:
            sentence = self._next_sentence()
            for place, word in enumerate(sentence):
                reach = int(self._rng.integers(1, self._window + 1))
                for other in range(max(0, place - reach), min(len(sentence), place + reach + 1)):
                    if other != place:
                        yield word, sentence[other]

    def _next_sentence(self) -> list[int]:
        if self._at >= self.size:
            self._at = 0
            self.epoch += 1
        words = self._text[self._at:self._at + _SENTENCE]
        self._at += len(words)
        self.processed += len(words)
        if self._subsample > 0:  # frequent words are left out at random
            ratio = self._subsample * self.size / np.maximum(self.counts[words], 1)
            words = words[self._rng.random(len(words)) <= np.sqrt(ratio) + ratio]
        return words.tolist()


@kernel("Skipgram", device="CPU")
def _skipgram(node: KernelNode) -> Callable:
    if node.attr("batch_size") < 1 or node.attr("window_size") < 1:
        raise invalid("batch_size and window_size must be positive, got "
                      f"{node.attr('batch_size')} and {node.attr('window_size')}")

    def draw() -> tuple:
        corpus = node.state(lambda: _Corpus(node, make_generator(0, 0, node.name)))
        with corpus.lock:
            examples, labels = corpus.take(node.attr("batch_size"))
            return (corpus.words, corpus.counts, np.int64(corpus.size), np.int32(corpus.epoch),
                    np.int64(corpus.processed), examples, labels)

    return draw


@kernel("NegTrain", device="CPU")
def _negative_training(node: KernelNode) -> Callable:
    weights = np.asarray(node.attr("vocab_count"), np.float64) ** _POWER
    negatives = node.attr("num_negative_samples")
    if not weights.size or not weights.sum() > 0:
        raise invalid("vocab_count must hold a positive count")
    if negatives < 0:
        raise invalid(f"num_negative_samples must be >= 0, got {negatives}")
    limits = np.cumsum(weights) / weights.sum()

    def train(w_in: Any, w_out: Any, examples: Any, labels: Any, rate: Any) -> None:
        rng = node.state(lambda: make_generator(0, 0, node.name))
        first, second = sorted((w_in, w_out), key=id)  # in one order, so that nobody waits forever
        with first.lock, second.lock:
            inner, outer = w_in.writable(), w_out.writable()
            _check(inner, outer, examples, labels, rate, limits.size)
            for example, label in zip(examples.tolist(), labels.tolist(), strict=True):
                drawn = np.searchsorted(limits, rng.random(negatives), "right")
                _train_pair(inner[example], outer, label, drawn.tolist(), np.float32(rate))

    return train


def _train_pair(word: np.ndarray, outer: np.ndarray, label: int, negatives: list[int],
                rate: np.float32) -> None:
    """One step of descent: `word` goes towards its label and away from negative samples."""
    change = np.zeros_like(word)
    for row, wanted in [(label, 1.0), *[(n, 0.0) for n in negatives if n != label]]:
        other = outer[row]
        slope = np.float32(wanted - 1.0 / (1.0 + np.exp(-float(word @ other)))) * rate
        change += slope * other
        other += slope * word
    word += change


def _check(inner: np.ndarray, outer: np.ndarray, examples: np.ndarray, labels: np.ndarray,
           rate: Any, words: int) -> None:
    if inner.ndim != 2 or inner.shape != outer.shape or len(inner) != words:
        raise invalid(f"w_in and w_out must be matrices with {words} rows (as vocab_count), got "
                      f"{format_shape(inner.shape)} and {format_shape(outer.shape)}")
    if np.ndim(examples) != 1 or np.shape(examples) != np.shape(labels) or np.ndim(rate):
        raise invalid("examples and labels must be vectors of one length and lr a scalar, got "
                      f"{format_shape(np.shape(examples))}, {format_shape(np.shape(labels))} and "
                      f"{format_shape(np.shape(rate))}")
    for what, values in (("examples", examples), ("labels", labels)):
        if values.size and not (values.min() >= 0 and values.max() < words):
            raise invalid(f"{what} must be in [0, {words})")
