"""TypeSpec: the static knowledge of a value that is one tensor or is made of several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hpcflow.dtypes import DType
from hpcflow.shapes import TensorShape


class TypeSpec:
    """The base class of specifications: the class of a value, its types and its shapes.

    A subclass gives `value_type`, `_component_specs`, `_serialize` (the arguments of its
    constructor, a tuple), `from_value`, `_to_components` and `_from_components`.
    """

    __slots__ = ()

    @classmethod
    def from_value(cls, value: Any) -> TypeSpec:
        """Return what is known of a value of the class `value_type`."""
        raise NotImplementedError(f"{cls.__name__}.from_value")

    @property
    def value_type(self) -> type:
        """The class of the values that are specified."""
        raise NotImplementedError(f"{type(self).__name__}.value_type")

    @property
    def _component_specs(self) -> Any:
        """The specifications of the tensors that a value is made of."""
        raise NotImplementedError(f"{type(self).__name__}._component_specs")

    def _serialize(self) -> tuple[Any, ...]:
        """The arguments that construct an equal specification."""
        raise NotImplementedError(f"{type(self).__name__}._serialize")

    def _to_components(self, value: Any) -> Any:
        """The tensors that `value` is made of."""
        raise NotImplementedError(f"{type(self).__name__}._to_components")

    def _from_components(self, components: Any) -> Any:
        """The value that is made of `components`."""
        raise NotImplementedError(f"{type(self).__name__}._from_components")

    def is_compatible_with(self, spec_or_value: Any) -> bool:
        """True if a value, or what another specification allows, may be as specified here."""
        other = spec_or_value
        if not isinstance(other, TypeSpec):
            if not isinstance(other, self.value_type):
                return False
            other = self.from_value(other)
        return type(self) is type(other) and _compatible(self._serialize(), other._serialize())

    def most_specific_compatible_type(self, other: TypeSpec) -> TypeSpec:
        """Return the specification that says what this one and `other` agree on.

        Raises ``ValueError`` if no value can be as both say.
        """
        if type(self) is not type(other):
            raise ValueError(f"No TypeSpec is compatible with both {self} and {other}")
        return type(self)(*_common(self._serialize(), other._serialize()))

    def __eq__(self, other: object) -> bool:
        return (isinstance(other, TypeSpec) and type(self) is type(other)
                and _key(self._serialize()) == _key(other._serialize()))

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((type(self), _key(self._serialize())))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._serialize()

    def __repr__(self) -> str:
        return f"{type(self).__name__}{self._serialize()!r}"


class BatchableTypeSpec(TypeSpec):
    """A specification whose values can be made into a batch, and a batch into its values.

    A subclass gives `_batch` and `_unbatch`, too.
    """

    __slots__ = ()

    def _batch(self, batch_size: int | None) -> TypeSpec:
        """The specification of `batch_size` such values, None if their number is not known."""
        raise NotImplementedError(f"{type(self).__name__}._batch")

    def _unbatch(self) -> TypeSpec:
        """The specification of a value of such a batch."""
        raise NotImplementedError(f"{type(self).__name__}._unbatch")


def _key(part: Any) -> Any:
    """What stands for a part of a specification where it is compared and hashed."""
    if isinstance(part, np.ndarray):
        return np.ndarray, part.dtype.str, part.shape, _key(part.ravel().tolist())
    if isinstance(part, Mapping):
        return dict, frozenset((_key(k), _key(v)) for k, v in part.items())
    return (type(part), *map(_key, part)) if isinstance(part, (tuple, list)) else part


def _compatible(a: Any, b: Any) -> bool:
    if type(a) is not type(b):
        return False
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(_compatible, a, b))
    if isinstance(a, (TensorShape, DType, TypeSpec)):
        return a.is_compatible_with(b)
    if isinstance(a, Mapping):
        return set(a) == set(b) and all(_compatible(a[key], b[key]) for key in a)
    return bool(_key(a) == _key(b))


def _common(a: Any, b: Any) -> Any:
    if isinstance(a, (tuple, list)) and type(a) is type(b) and len(a) == len(b):
        return type(a)(map(_common, a, b))
    if isinstance(a, TensorShape) and isinstance(b, TensorShape):
        return a.most_specific_compatible_shape(b)
    if isinstance(a, TypeSpec) and isinstance(b, TypeSpec):
        return a.most_specific_compatible_type(b)
    if isinstance(a, Mapping) and isinstance(b, Mapping) and set(a) == set(b):
        return type(a)((key, _common(a[key], b[key])) for key in a)  # type: ignore[call-arg]
    if type(a) is type(b) and _key(a) == _key(b):
        return a
    raise ValueError(f"Types are not compatible: {a!r} vs {b!r}")


def all_arrays(components: Sequence[Any]) -> bool:
    """True if all components are NumPy arrays, so that they make a value of arrays."""
    return all(isinstance(part, np.ndarray) for part in components)
