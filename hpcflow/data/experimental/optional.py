"""Optional: an element of a data set that may be missing, as a value of the graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hpcflow.data.optional_spec import AnyOptional, OptionalSpec, optional_of
from hpcflow.data.structure import Structure, as_tensors
from hpcflow.graph.likes import Nest
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops

if TYPE_CHECKING:
    from hpcflow.data.dataset import Dataset
    from hpcflow.data.iterator import Iterator

__all__ = ["Optional", "OptionalSpec", "get_next_as_optional", "get_structure"]


class Optional(AnyOptional):
    """A value, or none. It is made by :meth:`from_value`, :meth:`none_from_structure` and
    :func:`get_next_as_optional`."""

    def __init__(self, variant: Tensor, structure: Structure) -> None:
        self._variant_tensor, self._structure = variant, structure

    @staticmethod
    def from_value(value: Nest) -> Optional:
        """Return one that has `value`, a nest of tensors and sparse tensors."""
        values = as_tensors(value)
        structure = Structure.of_values(values)
        return Optional(raw_ops.OptionalFromValue(components=structure.to_tensors(values)),
                        structure)

    @staticmethod
    def none_from_structure(value_structure: Any) -> Optional:
        """Return one that has no value; its value would be as a nest of specifications says, that
        of a data set's elements or of another optional's value."""
        return Optional(raw_ops.OptionalNone(), Structure.of_specs(value_structure))

    def has_value(self, name: str | None = None) -> Tensor:
        """Return a scalar bool: whether there is a value."""
        return raw_ops.OptionalHasValue(optional=self._variant_tensor, name=name)

    def get_value(self, name: str | None = None) -> Any:
        """Return the value. The step raises ``InvalidArgumentError`` if there is none."""
        parts = raw_ops.OptionalGetValue(optional=self._variant_tensor, name=name,
                                         **self._structure.attrs)
        return self._structure.from_tensors(
            list(parts) if isinstance(parts, (list, tuple)) else [parts])

    @property
    def value_structure(self) -> Any:
        """The specification of each component of the value, nested as the value."""
        return self._structure.specs

    _element_structure = value_structure


optional_of.provide(lambda variant, specs: Optional(variant, Structure.of_specs(specs)))


def get_next_as_optional(iterator: Iterator) -> Optional:
    """Return the next element of an iterator, which is none at the end of the data set: no
    ``OutOfRangeError`` there."""
    structure = iterator._structure
    return Optional(raw_ops.IteratorGetNextAsOptional(iterator=iterator._resource,
                                                      **structure.attrs), structure)


def get_structure(dataset_or_iterator: Dataset | Iterator) -> Any:
    """Return the specification of each component of the elements of a data set or of an iterator,
    nested as the element. Raises ``TypeError`` for anything else."""
    try:
        return dataset_or_iterator.element_spec
    except AttributeError:
        raise TypeError(f"`dataset_or_iterator` must be a Dataset or Iterator object, but got "
                        f"{type(dataset_or_iterator)}.") from None
