"""Transformations of data sets that ``data.experimental`` has no more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hpcflow as hf
from hpcflow.data.dataset import Dataset
from hpcflow.graph.likes import TensorLike

Transformation = Callable[[Dataset], Dataset]


def sloppy_interleave(map_func: Callable, cycle_length: int,
                      block_length: int = 1) -> Transformation:
    """``data.experimental.parallel_interleave``, in any order."""
    return hf.data.experimental.parallel_interleave(map_func, cycle_length, block_length,
                                                    sloppy=True)


def sliding_window_batch(window_size: TensorLike, stride: TensorLike | None = None,
                         window_shift: TensorLike | None = None,
                         window_stride: int = 1) -> Transformation:
    """Return a transformation to batches of windows that overlap.

    Args:
        window_size: elements of a batch.
        stride: an older name of `window_shift`.
        window_shift: how far windows are apart, 1 if None.
        window_stride: a window has every so many elements.

    Windows that are not full are left out. Raises ``ValueError`` for both names of one thing.
    """
    if stride is not None and window_shift is not None:
        raise ValueError("Cannot specify both `stride` and `window_shift`")
    shift = stride if window_shift is None else window_shift

    def change(dataset: Dataset) -> Dataset:
        def batched(*window: Any) -> Dataset:
            parts: Any = hf.data.Dataset.zip(window) if len(window) > 1 else window[0]
            return parts.batch(window_size)

        return dataset.window(window_size, 1 if shift is None else shift, window_stride,
                              drop_remainder=True).flat_map(batched)

    return change


def reduce_dataset(dataset: Dataset, reducer: Any) -> Any:
    """Return what a ``Reducer`` makes of all elements of a data set."""
    state = dataset.reduce(reducer.init_func(hf.constant(0, hf.int64)), reducer.reduce_func)
    return reducer.finalize_func(state)
