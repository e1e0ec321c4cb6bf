"""``contrib.learn.io``: input functions for data in memory, and frames as arrays.

Input functions have another order of examples by default."""

from __future__ import annotations

import functools
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


_SHUFFLE = 4  # the place of this argument


def _shuffled(make: Callable) -> Callable:
    @functools.wraps(make)
    def made(*given: Any, **named: Any) -> Callable:
        if len(given) <= _SHUFFLE:
            named.setdefault("shuffle", True)
        return make(*given, **named)

    return made


numpy_input_fn = _shuffled(inputs.numpy_input_fn)
pandas_input_fn = _shuffled(inputs.pandas_input_fn)
