"""``contrib.learn.io``: input functions for data in memory, and frames as arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcflow.contrib.learn.feeding import (
    extract_pandas_data,
    extract_pandas_labels,
    extract_pandas_matrix,
)
from hpcflow.estimator import inputs

__all__ = ["extract_pandas_data", "extract_pandas_labels", "extract_pandas_matrix",
           "numpy_input_fn", "pandas_input_fn"]


def numpy_input_fn(x: Any, y: Any = None, batch_size: int = 128, num_epochs: int | None = 1,
                   shuffle: bool = True, queue_capacity: int = 1000,
                   num_threads: int = 1) -> Callable:
    """Return ``hf.estimator.inputs.numpy_input_fn`` of these, in another order by default."""
    return inputs.numpy_input_fn(x, y, batch_size, num_epochs, shuffle, queue_capacity,
                                 num_threads)


def pandas_input_fn(x: Any, y: Any = None, batch_size: int = 128, num_epochs: int | None = 1,
                    shuffle: bool = True, queue_capacity: int = 1000, num_threads: int = 1,
                    target_column: str = "target") -> Callable:
    """Return ``hf.estimator.inputs.pandas_input_fn`` of these, in another order by default."""
    return inputs.pandas_input_fn(x, y, batch_size, num_epochs, shuffle, queue_capacity,
                                  num_threads, target_column)
