"""TensorSpec: the type, the shape and the name of a tensor that is to come."""

from __future__ import annotations

from typing import Any

from hpcflow import dtypes
from hpcflow.shapes import TensorShape


class TensorSpec:
    """A specification of a tensor: its shape, element type and name.

    Attributes:
        shape: a ``TensorShape``.
        dtype: element type.
        name: its name, or None.
    """

    __slots__ = ("dtype", "name", "shape")

    def __init__(self, shape: Any, dtype: Any = dtypes.float32, name: str | None = None) -> None:
        self.shape, self.dtype, self.name = TensorShape(shape), dtypes.as_dtype(dtype), name

    @classmethod
    def from_tensor(cls, tensor: Any, name: str | None = None) -> TensorSpec:
        """Return what is known about a tensor."""
        return cls(tensor.get_shape(), tensor.dtype, name or tensor.op.name)

    @classmethod
    def from_spec(cls, spec: Any, name: str | None = None) -> TensorSpec:
        """Return another specification, with a name."""
        return cls(spec.shape, spec.dtype, name or spec.name)

    def is_compatible_with(self, other: Any) -> bool:
        """True if a tensor, or what another one specifies, may be as specified here."""
        return (self.dtype.is_compatible_with(other.dtype)
                and self.shape.is_compatible_with(other.shape))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorSpec) and (
            self.shape, self.dtype, self.name) == (other.shape, other.dtype, other.name)

    def __hash__(self) -> int:
        dims = self.shape.ndims
        return hash((None if dims is None else tuple(self.shape.as_list()), self.dtype, self.name))

    def __repr__(self) -> str:
        return f"TensorSpec(shape={self.shape}, dtype={self.dtype!r}, name={self.name!r})"
