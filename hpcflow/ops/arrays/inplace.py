"""Functions of ``python.ops.inplace_ops``: tensors with other rows, and tensors without content.

Nothing is changed in place here: the functions return copies.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.dtypes import DTypeLike
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.arrays.constants import zeros

__all__: list[str] = []


def inplace_update(x: TensorLike, i: TensorLike | None, v: TensorLike) -> Tensor:
    """Return `x` with its rows `i` (a number or several, which count round; None for all)
    replaced by `v`."""
    return _with_rows(x, i, v, raw_ops.InplaceUpdate)


def inplace_add(x: TensorLike, i: TensorLike | None, v: TensorLike) -> Tensor:
    """Return `x` with `v` added to its rows `i`, see :func:`inplace_update`."""
    return _with_rows(x, i, v, raw_ops.InplaceAdd)


def inplace_sub(x: TensorLike, i: TensorLike | None, v: TensorLike) -> Tensor:
    """Return `x` with `v` subtracted from its rows `i`, see :func:`inplace_update`."""
    return _with_rows(x, i, v, raw_ops.InplaceSub)


def empty(shape: TensorLike, dtype: DTypeLike, init: bool = False) -> Tensor:
    """Return a tensor whose content nobody relies on, here zeros; they are promised if `init`."""
    return zeros(shape, dtype)


def empty_like(x: TensorLike, init: bool | None = None) -> Tensor:
    """Return :func:`empty` of the shape and type of `x`."""
    x = convert_to_tensor(x)
    return zeros(raw_ops.Shape(x), x.dtype.base_dtype)


def _with_rows(x: TensorLike, i: TensorLike | None, v: TensorLike,
               change: Callable[..., Any]) -> Tensor:
    x = convert_to_tensor(x)
    v = convert_to_tensor(v, x.dtype.base_dtype)
    if i is None:
        whole = raw_ops.ExpandDims(x, np.int32(0))
        changed = change(whole, np.zeros(1, np.int32), raw_ops.ExpandDims(v, np.int32(0)))
        return raw_ops.Squeeze(changed, squeeze_dims=[0])
    rows = convert_to_tensor(i, dtypes.int32)
    if rows.shape.ndims == 0:
        rows, v = raw_ops.ExpandDims(rows, np.int32(0)), raw_ops.ExpandDims(v, np.int32(0))
    return change(x, rows, v)
