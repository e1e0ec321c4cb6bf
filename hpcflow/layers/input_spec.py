"""InputSpec: what a layer expects of its inputs."""

from __future__ import annotations

from typing import Any, NamedTuple

from hpcflow import dtypes
from hpcflow.graph.operation import Tensor


class InputSpec(NamedTuple):
    """The constraints on an input of a layer; None means that anything is allowed.

    Attributes:
        dtype: element type.
        shape: shape, None for sizes that may be any.
        ndim, max_ndim, min_ndim: number of dimensions.
        axes: dict from dimensions to their sizes.
    """

    dtype: Any = None
    shape: Any = None
    ndim: int | None = None
    max_ndim: int | None = None
    min_ndim: int | None = None
    axes: dict[int, int | None] | None = None


def check_input(spec: InputSpec, tensor: Tensor, what: str) -> None:
    """Raise ``ValueError`` unless the type and the static shape of `tensor` are as specified."""
    message = f"{what} is incompatible with the layer: "
    if spec.dtype is not None and tensor.dtype.base_dtype is not dtypes.as_dtype(spec.dtype):
        raise ValueError(f"{message}expected dtype={dtypes.as_dtype(spec.dtype).name}, found "
                         f"dtype={tensor.dtype.base_dtype.name}")
    if all(v is None for v in (spec.ndim, spec.min_ndim, spec.max_ndim, spec.shape, spec.axes)):
        return
    dims = tensor._dims
    if dims is None:
        raise ValueError(f"{message}its rank is undefined, but the layer requires a defined rank.")
    for wanted, name, fits in (
            (spec.ndim, "ndim", spec.ndim == len(dims)),
            (spec.min_ndim, "min_ndim", len(dims) >= (spec.min_ndim or 0)),
            (spec.max_ndim, "max_ndim", len(dims) <= (spec.max_ndim or 0))):  # fmt: skip
        if wanted is not None and not fits:
            raise ValueError(f"{message}expected {name}={wanted}, found ndim={len(dims)}")
    for axis, size in (spec.axes or {}).items():
        if size is not None and dims[axis] not in (size, None):
            raise ValueError(f"{message}expected axis {axis} of input shape to have value {size}, "
                             f"got shape {list(dims)}")
    if spec.shape is not None and not tensor.shape.is_compatible_with(spec.shape):
        raise ValueError(f"{message}expected shape={tuple(spec.shape)}, found shape={list(dims)}")
