"""``hpcflow.estimator.inputs``: input functions for data in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.data import Dataset

__all__ = ["numpy_input_fn", "pandas_input_fn"]


def numpy_input_fn(x: Mapping[str, Any], y: Any = None, batch_size: int = 128,
                   num_epochs: int | None = 1, shuffle: bool | None = None,
                   queue_capacity: int = 1000, num_threads: int = 1) -> Callable:
    """Return an input function of batches of arrays.

    Args:
        x: an array, or a dict of arrays, of as many examples.
        y: labels: the same.
        batch_size: examples of a batch; the last one may have fewer.
        num_epochs: passes over the data; None for no end.
        shuffle: whether each pass has another order; must be said.
        queue_capacity, num_threads: for the 1.x API.

    Raises ``TypeError`` for other features, ``ValueError`` for lengths that differ, no features, or
    if `shuffle` is not said.
    """
    if not isinstance(shuffle, bool):
        raise ValueError("shuffle must be provided and explicitly set as boolean (it is "
                         f"recommended to set it as True for training); got {shuffle}")
    if not isinstance(x, (Mapping, np.ndarray)):
        raise TypeError(f"x must be a dict or array; got {type(x).__name__}")
    if isinstance(x, Mapping) and not x:
        raise ValueError("x cannot be an empty dict")
    if isinstance(y, Mapping) and not y:
        raise ValueError("y cannot be empty dict, use None instead.")
    parts = [_arrays(part) for part in (x, y) if part is not None]
    lengths = {len(array) for arrays in parts for array in arrays.values()}
    if len(lengths) != 1:
        raise ValueError("Length of tensors in x and y is mismatched. All elements in x and y must "
                         f"have the same length; they have {sorted(lengths)}")
    (count,) = lengths

    def batches() -> Iterator:
        for rows in _rows(count, batch_size, num_epochs, shuffle):
            taken = [_restored(given, {name: a[rows] for name, a in arrays.items()})
                     for given, arrays in zip((x, y), parts)]
            yield tuple(taken) if y is not None else taken[0]

    def described(describe: Callable) -> Any:
        found = [_restored(given, {name: describe(a) for name, a in arrays.items()})
                 for given, arrays in zip((x, y), parts)]
        return tuple(found) if y is not None else found[0]

    def input_fn() -> Any:
        """(features, labels), or features if there are no labels."""
        dataset = Dataset.from_generator(
            batches, described(lambda a: dtypes.as_dtype(a.dtype)),
            described(lambda a: [None, *a.shape[1:]]))
        return dataset.prefetch(1)

    return input_fn


def pandas_input_fn(x: Any, y: Any = None, batch_size: int = 128, num_epochs: int | None = 1,
                    shuffle: bool | None = None, queue_capacity: int = 1000,
                    num_threads: int = 1, target_column: str = "target") -> Callable:
    """Return an input function of batches of the columns of a ``DataFrame``.

    Args:
        x: the frame, each of whose columns is a feature.
        y: labels: a ``Series`` or frame of the same index.
        target_column: for the 1.x API.

    Other arguments and errors as of :func:`numpy_input_fn`; ``ValueError`` too for other indices.
    """
    if y is not None and not x.index.equals(y.index):
        raise ValueError("Index for x and y are mismatched.")
    labels = None
    if y is not None:
        labels = ({name: _values(y[name]) for name in y.columns} if hasattr(y, "columns")
                  else _values(y))
    return numpy_input_fn({str(name): _values(x[name]) for name in x.columns}, labels, batch_size,
                          num_epochs, shuffle)


def _values(column: Any) -> np.ndarray:
    return column.to_numpy()


def _arrays(given: Any) -> dict:
    found = given if isinstance(given, Mapping) else {"": given}
    return {name: np.asarray(array) for name, array in found.items()}


def _restored(given: Any, arrays: dict) -> Any:
    return arrays if isinstance(given, Mapping) else arrays[""]


def _rows(count: int, size: int, epochs: int | None, shuffle: bool) -> Iterator[np.ndarray]:
    """The numbers of the examples of each batch; batches go on from one pass to the next."""
    left, number = np.empty(0, np.int64), 0
    random = np.random.default_rng() if shuffle else None
    while count and (epochs is None or number < epochs):
        number += 1
        order = np.arange(count) if random is None else random.permutation(count)
        left = np.concatenate([left, order])
        whole = len(left) // size * size
        yield from left[:whole].reshape(-1, size)
        left = left[whole:]
    if len(left):
        yield left
