"""Arrays, frames and iterators as the input of a model: batches that are fed step by step."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.graph.operation import Tensor
from hpcflow.ops.arrays.constants import placeholder

_SHUFFLING_SEED = 42
_NUMBERS = "biuf"


class Feeder:
    """Feeds batches of `x`, and of `y` unless it is None.

    Args:
        x: arrays of all examples, or an iterator of examples; or a dict of these.
        y: labels: the same.
        batch_size: examples of a batch; by default all of arrays, one of an iterator.
        shuffle: whether each pass over arrays has another order: the same in all programs.
        epochs: passes over arrays; None for no end.

    Raises ``ValueError`` for no examples, or an iterator beside arrays.
    """

    def __init__(self, x: Any, y: Any = None, batch_size: int | None = None, shuffle: bool = True,
                 epochs: int | None = None) -> None:
        if batch_size is not None and batch_size <= 0:
            raise ValueError(f"Invalid batch_size {batch_size}.")
        if hasattr(x, "__next__"):
            if y is not None and not hasattr(y, "__next__"):
                raise ValueError("Both x and y should be iterators for streaming learning to work.")
            batches = _of_iterators(x, y, batch_size or 1)
            first = next(batches, None)
            if first is None:
                raise ValueError("x has no examples: the iterator is empty.")
            self._batches: Iterator = itertools.chain([first], batches)
        else:
            x, y = extract_pandas_data(x), extract_pandas_labels(y)
            x = _each(x, lambda a: _rows(np.asarray(a)))
            y = _each(np.array(y) if isinstance(y, list) else y, lambda a: _labels(np.asarray(a)))
            if not _count(x):
                raise ValueError("x has no examples: its first dimension is 0.")
            self._batches = _of_arrays(x, y, batch_size, shuffle, epochs)
            first = (x, y)
        self._kinds = tuple(_each(part, lambda a: (a.dtype, a.shape[1:])) for part in first)
        self._fed: tuple = ()

    def input_fn(self) -> tuple[Any, Any]:
        """Return the features and labels (or None) that are fed."""
        self._fed = tuple(_placeholders(kinds, name)
                          for kinds, name in zip(self._kinds, ("input", "output")))
        return self._fed  # type: ignore[return-value]

    def feed(self) -> dict[Tensor, np.ndarray]:
        """Return what the next step is fed; ``StopIteration`` after the last batch."""
        found: dict[Tensor, np.ndarray] = {}
        for fed, batch in zip(self._fed, next(self._batches)):
            if isinstance(fed, dict):
                found |= {fed[key]: batch[key] for key in fed}
            elif fed is not None:
                found[fed] = batch
        return found


def _each(given: Any, change: Callable) -> Any:
    if isinstance(given, dict):
        return {key: change(value) for key, value in given.items()}
    return None if given is None else change(given)


def _placeholders(kinds: Any, name: str) -> Any:
    def made(kind: tuple, name: str) -> Tensor:
        return placeholder(dtypes.as_dtype(kind[0]), [None, *kind[1]], name=name)

    if isinstance(kinds, dict):
        return {key: made(kind, f"{name}_{key}") for key, kind in kinds.items()}
    return None if kinds is None else made(kinds, name)


def _rows(x: np.ndarray) -> np.ndarray:
    return x.reshape(-1, 1) if x.ndim == 1 else x


def _labels(y: np.ndarray) -> np.ndarray:
    return y[:, 0] if y.ndim > 1 and y.shape[1] == 1 else y


def _count(x: Any) -> int:
    return len(next(iter(x.values()), ()) if isinstance(x, dict) else x)


def _of_arrays(x: Any, y: Any, size: int | None, shuffle: bool,
               epochs: int | None) -> Iterator[tuple]:
    count = _count(x)
    random = np.random.RandomState(_SHUFFLING_SEED)
    for _ in itertools.count() if epochs is None else range(epochs):
        order = random.permutation(count) if shuffle else np.arange(count)
        for start in range(0, count, size or count):
            chosen = order[start:start + (size or count)]
            yield tuple(_each(part, lambda a: a[chosen]) for part in (x, y))


def _of_iterators(x: Iterator, y: Iterator | None, size: int) -> Iterator[tuple]:
    while rows := list(itertools.islice(x, size)):
        labels = None if y is None else _stacked(list(itertools.islice(y, size)))
        yield _each(_stacked(rows), _rows), _each(labels, _labels)


def _stacked(rows: list) -> Any:
    if isinstance(rows[0], dict):
        return {key: np.stack([row[key] for row in rows]) for key in rows[0]}
    return np.stack(rows)


def _is_frame(data: Any) -> bool:
    return hasattr(data, "columns") and hasattr(data, "iloc")


def _check_numbers(frame: Any, what: str) -> None:
    bad = [f"'{name}' type='{frame[name].dtype.name}'" for name in frame
           if frame[name].dtype.kind not in _NUMBERS]
    if bad:
        raise ValueError(f"Data types for extracting {what} must be int, float, or bool. "
                         f"Found: {', '.join(bad)}")


def extract_pandas_data(data: Any) -> Any:
    """Return a frame's values as floats; what is no frame stays as it is.

    Raises ``ValueError`` for columns of other than numbers.
    """
    if not _is_frame(data):
        return data
    _check_numbers(data, "pandas data")
    return data.values.astype(float)


def extract_pandas_matrix(data: Any) -> Any:
    """Return a frame's values; what is no frame stays as it is."""
    return data.values if _is_frame(data) else data


def extract_pandas_labels(labels: Any) -> Any:
    """Return the values of a frame with one column; what is no frame stays as it is.

    Raises ``ValueError`` for more columns, or one of other than numbers.
    """
    if not _is_frame(labels):
        return labels
    if len(labels.columns) > 1:
        raise ValueError("Only one column for labels is allowed.")
    _check_numbers(labels, "labels")
    return labels.values
