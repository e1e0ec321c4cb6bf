"""Places of sparse tensors: checks, and one number per place that sorts as the places do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hpcflow.kernels.registry import invalid, shown

_LARGEST = np.iinfo(np.int64).max


def check_parts(indices: Any, values: Any, shape: Any, what: str = "") -> None:
    """Raise ``InvalidArgumentError`` unless the three parts fit each other."""
    if indices.ndim != 2:
        raise invalid(f"{what}indices must be a matrix, but have shape {shown(indices)}")
    if values.ndim != 1:
        raise invalid(f"{what}values must be a vector, but have shape {shown(values)}")
    if shape.ndim != 1:
        raise invalid(f"{what}shape must be a vector, but has shape {shown(shape)}")
    if indices.shape != (values.shape[0], shape.shape[0]):
        raise invalid(f"{what}indices of shape {shown(indices)} do not fit "
                      f"{values.shape[0]} values and a dense shape of {shape.shape[0]} dimensions")


def check_sparse(indices: Any, values: Any, shape: Any, what: str = "") -> None:
    """As :func:`check_parts`, and every place must lie within the shape."""
    check_parts(indices, values, shape, what)
    check_within(indices, shape, what)


def check_within(indices: Any, shape: Any, what: str = "") -> None:
    """Raise ``InvalidArgumentError`` that names the first place outside of `shape`, or for a size
    below zero."""
    if not indices.size:
        if (shape < 0).any():
            raise invalid(f"{what}the dense shape {shown(shape.tolist())} has a negative size")
        return
    # One pass for each dimension: as unsigned numbers the negative ones are the largest.
    for column, size in zip(indices.view(f"u{indices.itemsize}").T, shape.tolist()):
        if int(column.max()) >= size:
            outside = ((indices < 0) | (indices >= shape)).any(axis=1)
            row = int(np.flatnonzero(outside)[0])
            raise invalid(f"{what}indices[{row}] = {shown(indices[row].tolist())} is out of "
                          f"bounds: need 0 <= index < {shown(shape.tolist())}")


def element_count(shape: Any) -> int:
    """The dense number of elements; ``InvalidArgumentError`` for sizes that cannot be."""
    total = 1
    for size in np.asarray(shape).tolist():
        if size < 0:
            raise invalid(f"the dense shape {np.asarray(shape).tolist()} has a negative size")
        total *= size
    return total


def dense_size(shape: Any) -> tuple[int, ...]:
    """The shape of a dense result; ``InvalidArgumentError`` if no memory can be so large."""
    if element_count(shape) > _LARGEST >> 4:
        raise invalid(f"a dense tensor of shape {shape.tolist()} has too many elements")
    return tuple(shape.tolist())


def strides_of(shape: Any) -> Any:
    """By how many elements places along each dimension lie apart, in row-major order."""
    strides = np.ones(len(shape), np.int64)
    if len(shape) > 1:
        strides[:-1] = np.cumprod(np.maximum(shape[:0:-1], 1))[::-1]
    return strides


def flat_places(indices: Any, shape: Any) -> Any:
    """The positions of places in the row-major dense tensor."""
    strides = strides_of(shape)
    if not len(strides):
        return np.zeros(len(indices), np.int64)
    flat = indices[:, -1].astype(np.int64)
    for i in range(len(strides) - 1):  # one pass for each dimension
        flat += indices[:, i] * strides[i]
    return flat


def keys_of(indices: Any, shape: Any) -> Any:
    """One int64 for each place, in the order of the places; equal for equal places.

    Where the dense size is too large for int64 they are ranks among the places given.
    """
    if indices.shape[1] == 1:
        return np.ascontiguousarray(indices[:, 0])
    if element_count(np.maximum(shape, 1)) <= _LARGEST:
        return flat_places(indices, shape)
    return np.unique(indices, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)


def keys_of_any(indices: Any, shape: Any) -> Any:
    """As :func:`keys_of`, for places that may lie outside of `shape`."""
    if indices.size and (indices.min() < 0 or (indices.max(axis=0) >= shape).any()):
        return np.unique(indices, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)
    return keys_of(indices, shape)


def joint_keys(tables: Sequence[Any], shape: Any) -> list[Any]:
    """Keys of several lists of places, to be compared with each other."""
    keys = keys_of(np.concatenate(tables), shape)
    ends = np.cumsum([len(t) for t in tables])[:-1]
    return np.split(keys, ends)


def is_sorted(keys: Any) -> bool:
    """True if no key is smaller than the one before."""
    return bool((keys[1:] >= keys[:-1]).all())


def order_of(keys: Any) -> Any:
    """The stable order that sorts `keys`; None if they are in order."""
    return None if is_sorted(keys) else np.argsort(keys, kind="stable")


def group_starts(keys: Any) -> Any:
    """Where in sorted `keys` each run of equal ones starts."""
    if not len(keys):
        return np.zeros(0, np.intp)
    changes = np.empty(len(keys), bool)
    changes[0] = True
    np.not_equal(keys[1:], keys[:-1], out=changes[1:])
    return np.flatnonzero(changes)
