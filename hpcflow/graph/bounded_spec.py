"""BoundedTensorSpec: what a tensor is to be, with the least and the greatest of its values."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.tensor_spec import TensorSpec
from hpcflow.shapes import ShapeLike


class BoundedTensorSpec(TensorSpec):
    """A :class:`TensorSpec` of numbers between two bounds, both included.

    Args:
        shape: as a ``TensorShape``.
        dtype: element type.
        minimum, maximum: numbers, or arrays that broadcast to `shape`.
        name: its name, or None.

    Raises ``ValueError`` for bounds of another shape.
    """

    __slots__ = ("_maximum", "_minimum")

    def __init__(self, shape: ShapeLike, dtype: Any, minimum: TensorLike, maximum: TensorLike,
                 name: str | None = None) -> None:
        if minimum is None or maximum is None:
            raise ValueError("minimum and maximum are both needed, not "
                             f"{minimum!r} and {maximum!r}")
        super().__init__(shape, dtype, name)
        self._minimum = self._bound("minimum", minimum)
        self._maximum = self._bound("maximum", maximum)

    def _bound(self, which: str, value: TensorLike) -> np.ndarray:
        bound: np.ndarray = np.array(value, dtype=self.dtype.as_numpy_dtype)
        sizes = self.shape.as_list() if self.shape.is_fully_defined() else None
        if sizes is not None:
            try:
                np.broadcast_to(bound, [size or 0 for size in sizes])
            except ValueError as e:
                raise ValueError(f"{which} is not compatible with shape {self.shape}: {e}") from e
        bound.setflags(write=False)
        return bound

    @property
    def minimum(self) -> np.ndarray:
        """The least values, read-only."""
        return self._minimum

    @property
    def maximum(self) -> np.ndarray:
        """The greatest values, read-only."""
        return self._maximum

    @classmethod
    def from_spec(cls, spec: Any, name: str | None = None) -> BoundedTensorSpec:
        """Return another specification with a name; one without bounds has those of its type."""
        dtype = dtypes.as_dtype(spec.dtype)
        return cls(spec.shape, dtype, getattr(spec, "minimum", dtype.min),
                   getattr(spec, "maximum", dtype.max), name or spec.name)

    def _serialize(self) -> tuple[Any, ...]:
        return self.shape, self.dtype, self._minimum, self._maximum, self.name

    def __eq__(self, other: object) -> bool:
        return (isinstance(other, BoundedTensorSpec)
                and (self.shape, self.dtype, self.name) == (other.shape, other.dtype, other.name)
                and np.allclose(self._minimum, other._minimum)
                and np.allclose(self._maximum, other._maximum))

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype))

    def __repr__(self) -> str:
        return (f"BoundedTensorSpec(shape={self.shape}, dtype={self.dtype!r}, name={self.name!r}, "
                f"minimum={self._minimum!r}, maximum={self._maximum!r})")
