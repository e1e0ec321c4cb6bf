"""Sequences of different lengths as an array, pairs of words, windows of series."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcflow.base.late_names import named_otherwise
from hpcflow.keras import utils

if TYPE_CHECKING:
    from hpcflow.graph.likes import TensorLike


def pad_sequences(sequences: Sequence, maxlen: int | None = None, dtype: str = "int32",
                  padding: str = "pre", truncating: str = "pre",
                  value: TensorLike = 0.0) -> np.ndarray:
    """Return sequences as rows of one length, the longest unless `maxlen` is given.

    Shorter ones are filled with `value`, longer ones cut, before (``pre``) or after (``post``).
    Raises ``ValueError`` for what is no sequence and for other modes.
    """
    if not hasattr(sequences, "__len__"):
        raise ValueError("`sequences` must be iterable.")
    for mode, what in ((padding, "Padding"), (truncating, "Truncating")):
        if mode not in ("pre", "post"):
            raise ValueError(f"{what} type \"{mode}\" not understood")
    for own in sequences:
        if not hasattr(own, "__len__"):
            raise ValueError(f"`sequences` must be a list of iterables. Found non-iterable: {own}")
    length = max(map(len, sequences), default=0) if maxlen is None else maxlen
    inner = next((np.asarray(s).shape[1:] for s in sequences if len(s)), ())
    rows = np.full((len(sequences), length, *inner), value, dtype)
    for row, own in zip(rows, sequences, strict=True):
        if not len(own) or not length:
            continue
        kept = np.asarray(own[-length:] if truncating == "pre" else own[:length], dtype)
        if kept.shape[1:] != inner:
            raise ValueError(f"Shape of sample {kept.shape[1:]} is different from expected shape "
                             f"{inner}")
        if padding == "pre":
            row[-len(kept):] = kept
        else:
            row[:len(kept)] = kept
    return rows


def make_sampling_table(size: int, sampling_factor: float = 1e-5) -> np.ndarray:
    """Return for each rank of a word, the most frequent first, with what probability it is kept.

    Words of rank r are taken to have the frequency of Zipf's law, and those above
    `sampling_factor` are kept less often, as in word2vec. The result has shape ``[size]``.
    """
    rank = np.arange(size)
    rank[0] = 1
    inverse = rank * (np.log(rank) + 0.577) + 0.5 - 1.0 / (12.0 * rank)  # 0.577: Euler's constant
    return np.minimum(1.0, np.sqrt(sampling_factor * inverse))


def skipgrams(sequence: Sequence, vocabulary_size: int, window_size: int = 4,
              negative_samples: float = 1.0, shuffle: bool = True, categorical: bool = False,
              sampling_table: Any = None, seed: int | None = None) -> tuple[list, list]:
    """Return pairs of words and their labels: 1 where the second is within `window_size` of the
    first in `sequence`, 0 where it is any word of the vocabulary.

    Args:
        sequence: numbers of words; 0 is none.
        vocabulary_size: numbers are below it.
        window_size: greatest distance.
        negative_samples: how many pairs of label 0 there are for each of label 1.
        shuffle: whether the pairs are in random order.
        categorical: whether labels are ``[0, 1]`` and ``[1, 0]`` instead of 1 and 0.
        sampling_table: with what probability the word of a number begins pairs.
        seed: of the order. The other numbers are those of Python's ``random``.
    """
    couples = []
    for place, word in enumerate(sequence):
        if not word or (sampling_table is not None and sampling_table[word] < random.random()):
            continue
        around = range(max(0, place - window_size), min(len(sequence), place + window_size + 1))
        couples += [[word, sequence[n]] for n in around if n != place and sequence[n]]
    labels: list = [[0, 1] if categorical else 1 for _ in couples]
    if negative_samples > 0:
        count = int(len(labels) * negative_samples)
        words = [c[0] for c in couples]
        random.shuffle(words)
        couples += [[words[n % len(words)], random.randint(1, vocabulary_size - 1)]
                    for n in range(count)]
        labels += [[1, 0] if categorical else 0 for _ in range(count)]
    if shuffle:
        seed = random.randint(0, 10_000_000) if seed is None else seed
        for entries in (couples, labels):
            random.seed(seed)
            random.shuffle(entries)
    return couples, labels


class TimeseriesGenerator(utils.Sequence):
    """Batches of windows of a series, each with the target of the step after it.

    Args:
        data: the steps along the first dimension.
        targets: as many.
        length: steps that a window reaches back.
        sampling_rate: of the steps of a window each such is kept.
        stride: steps between windows.
        start_index, end_index: the first and the last step that are used.
        shuffle: whether windows are drawn at random.
        reverse: whether windows begin with their last step.
        batch_size: windows of a batch; the last may have fewer.

    Raises ``ValueError`` for another number of targets and where there is no window.
    """

    def __init__(self, data: Any, targets: Any, length: int, sampling_rate: int = 1,
                 stride: int = 1, start_index: int = 0, end_index: int | None = None,
                 shuffle: bool = False, reverse: bool = False, batch_size: int = 128) -> None:
        if len(data) != len(targets):
            raise ValueError("Data and targets have to be of same length. Data length is "
                             f"{len(data)} while target length is {len(targets)}")
        self.data, self.targets, self.length = data, targets, length
        self.sampling_rate, self.stride = sampling_rate, stride
        self.start_index = start_index + length
        self.end_index = len(data) - 1 if end_index is None else end_index
        self.shuffle, self.reverse, self.batch_size = shuffle, reverse, batch_size
        if self.start_index > self.end_index:
            raise ValueError(f"`start_index+length={self.start_index} > end_index="
                             f"{self.end_index}` is disallowed, as no part of the sequence would "
                             "be left to be used as current step.")

    def __len__(self) -> int:
        """Return the number of batches."""
        size = self.batch_size * self.stride
        return (self.end_index - self.start_index + size) // size

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the windows and the targets of a batch."""
        if self.shuffle:
            rows = np.random.randint(self.start_index, self.end_index + 1, size=self.batch_size)
        else:
            first = self.start_index + self.batch_size * self.stride * index
            rows = np.arange(first, min(first + self.batch_size * self.stride,
                                        self.end_index + 1), self.stride)
        windows = np.array([self.data[r - self.length:r:self.sampling_rate] for r in rows])
        targets = np.array([self.targets[r] for r in rows])
        return (windows[:, ::-1, ...] if self.reverse else windows), targets

    def get_config(self) -> dict:
        """Return the arguments; the series as JSON. ``TypeError`` for what JSON has not."""
        names = ("length", "sampling_rate", "stride", "start_index", "end_index", "shuffle",
                 "reverse", "batch_size")
        series = {k: json.dumps(v.tolist() if isinstance(v, np.ndarray) else v)
                  for k, v in (("data", self.data), ("targets", self.targets))}
        return {**series, **{k: getattr(self, k) for k in names}}

    def to_json(self, **keywords: Any) -> str:
        """Return class and arguments as JSON."""
        return json.dumps({"class_name": type(self).__name__, "config": self.get_config()},
                          **keywords)


__getattr__ = named_otherwise(__name__)
