"""The specification of optionals, which elements of data sets may be."""

from __future__ import annotations

from typing import Any

from hpcflow import dtypes
from hpcflow.base.hooks import Hook
from hpcflow.graph.operation import Tensor
from hpcflow.graph.tensor_spec import TensorSpec
from hpcflow.graph.type_spec import TypeSpec


class AnyOptional:
    """An optional, as far as other modules of this room know it: a variant and the structure of
    its value."""

    _variant_tensor: Tensor
    _structure: Any


#: ``optional_of(variant, specs)`` is the optional of a variant; `optional` provides it.
optional_of = Hook("the class of optionals")


class OptionalSpec(TypeSpec):
    """A specification of optionals: that of their values."""

    __slots__ = ("_value_structure",)

    def __init__(self, value_structure: Any) -> None:
        self._value_structure = value_structure

    @classmethod
    def from_value(cls, value: Any) -> OptionalSpec:
        """Return the specification of an optional."""
        return cls(value.value_structure)

    @property
    def value_type(self) -> type:
        """The class of optionals."""
        return AnyOptional

    def _serialize(self) -> tuple[Any, ...]:
        return (self._value_structure,)

    @property
    def _component_specs(self) -> list[TensorSpec]:
        return [TensorSpec((), dtypes.variant)]

    def _to_components(self, value: Any) -> list[Any]:
        return [value._variant_tensor]

    def _from_components(self, components: Any) -> Any:
        return optional_of(components[0], self._value_structure)
