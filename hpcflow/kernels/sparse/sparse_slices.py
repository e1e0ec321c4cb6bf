"""Kernels of parts of sparse tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.errors import InternalError
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown
from hpcflow.kernels.sparse.sparse_places import check_sparse

_LARGEST = np.iinfo(np.int64).max


@kernel("SparseSlice", device="CPU", fresh=True)
def _slice(node: KernelNode) -> Callable:
    def run(indices: Any, values: Any, shape: Any, start: Any, size: Any) -> tuple:
        check_sparse(indices, values, shape)
        if (shape < 0).any():
            raise invalid(f"Expected shape dimensions to be non-negative, got {shape.tolist()}")
        for name, given in (("start", start), ("size", size)):
            if np.shape(given) != shape.shape:
                raise invalid(f"Input {name} should be a vector of {len(shape)} elements but "
                              f"received shape {shown(np.shape(given))}")
        if (size < 0).any():
            raise invalid(f"Expected a non-negative size, got {size.tolist()}")
        # No end lies beyond the largest number.
        end = np.minimum(start + np.minimum(size, _LARGEST - np.maximum(start, 0)), shape)
        inside = ((indices >= start) & (indices < end)).all(axis=1)
        return indices[inside] - start, values[inside], np.maximum(end - start, 0)

    return run


@kernel("SparseSliceGrad", device="CPU", fresh=True)
def _slice_grad(node: KernelNode) -> Callable:
    """Elements of the slice are among those of the whole, in the same order."""

    def run(grad: Any, indices: Any, start: Any, kept: Any) -> Any:
        if np.ndim(grad) != 1 or np.ndim(indices) != 2 or np.ndim(kept) != 2:
            raise invalid("backprop_val_grad must be a vector and indices matrices, got shapes "
                          f"{shown(grad)}, {shown(indices)} and {shown(kept)}")
        if len(grad) != len(kept) or indices.shape[1] != kept.shape[1] or (
                np.shape(start) != indices.shape[1:]):
            raise invalid(f"{len(grad)} gradients and a start of shape {shown(start)} do not fit "
                          f"indices {shown(indices)} and {shown(kept)}")
        out = np.zeros(len(indices), grad.dtype)
        rows = {tuple(place): row for row, place in enumerate((kept + start).tolist())}
        used = 0
        for i, place in enumerate(map(tuple, indices.tolist())):
            row = rows.get(place)
            if row is not None:
                out[i], used = grad[row], used + 1
        if used != len(grad):
            raise InternalError(None, None, "Elements of backprop_val_grad aren't all propagated. "
                                f"Num elements: {len(grad)}, used: {used}")
        return out

    return run
