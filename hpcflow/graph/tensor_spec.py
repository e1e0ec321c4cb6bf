"""TensorSpec: the type, the shape and the name of a tensor that is to come."""

from __future__ import annotations

from typing import Any

from hpcflow import dtypes
from hpcflow.graph.operation import Tensor
from hpcflow.graph.type_spec import BatchableTypeSpec, TypeSpec
from hpcflow.shapes import TensorShape


class TensorSpec(BatchableTypeSpec):
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
    def from_value(cls, value: Any) -> TensorSpec:
        """Return the shape and the element type of a tensor or of an array."""
        return cls(value.shape, value.dtype)

    @classmethod
    def from_spec(cls, spec: Any, name: str | None = None) -> TensorSpec:
        """Return another specification, with a name."""
        return cls(spec.shape, spec.dtype, name or spec.name)

    def is_compatible_with(self, other: Any) -> bool:
        """True if a tensor, or what another one specifies, may be as specified here."""
        return (self.dtype.is_compatible_with(other.dtype)
                and self.shape.is_compatible_with(other.shape))

    @property
    def value_type(self) -> type:
        """The class ``Tensor``."""
        return Tensor

    def _serialize(self) -> tuple[Any, ...]:
        return self.shape, self.dtype, self.name

    @property
    def _component_specs(self) -> TensorSpec:
        return self

    def _to_components(self, value: Any) -> Any:
        return value

    def _from_components(self, components: Any) -> Any:
        return components

    def _batch(self, batch_size: int | None) -> TensorSpec:
        return TensorSpec(TensorShape([batch_size]).concatenate(self.shape), self.dtype)

    def _unbatch(self) -> TensorSpec:
        if self.shape.ndims == 0:
            raise ValueError("Unbatching a tensor is only supported for rank >= 1")
        return TensorSpec(self.shape[1:], self.dtype)

    def most_specific_compatible_type(self, other: TypeSpec) -> TensorSpec:
        """Return the specification that says what this one and `other` agree on.

        It has a name if both have the same. Raises ``ValueError`` if no tensor can be as both say.
        """
        if not isinstance(other, TensorSpec) or self.dtype != other.dtype:
            raise ValueError(f"Types are not compatible: {self!r} vs {other!r}")
        shape = self.shape.most_specific_compatible_shape(other.shape)
        return TensorSpec(shape, self.dtype, self.name if self.name == other.name else None)

    def __repr__(self) -> str:
        return f"TensorSpec(shape={self.shape}, dtype={self.dtype!r}, name={self.name!r})"
