"""Iterators: where a program takes the elements of data sets from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hpcflow.data import nest
from hpcflow.data.copied import copied_function
from hpcflow.data.structure import Structure, Structured
from hpcflow.dtypes import DType, string
from hpcflow.graph.attr_values import Func
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import colocate_with
from hpcflow.graph.likes import Nest, TensorLike
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.shapes import ShapeLike

if TYPE_CHECKING:
    from hpcflow.data.dataset import Dataset


class Iterator(Structured):
    """A place in a data set; :meth:`get_next` gives the element there and goes on.

    At the end of the data set ``get_next`` raises ``OutOfRangeError``.
    """

    def __init__(self, iterator_resource: Tensor, initializer: Operation | None,
                 output_types: Any, output_shapes: Nest, output_classes: Any) -> None:
        self._resource = self._iterator_resource = iterator_resource
        self._initializer = initializer
        self._structure = Structure.of_parts(output_types, output_shapes, output_classes)
        self._string_handle = raw_ops.IteratorToStringHandle(iterator_resource)

    @classmethod
    def _of(cls, resource: Tensor, initializer: Operation | None,
            structure: Structure) -> Iterator:
        return cls(resource, initializer, structure.types, structure.shapes, structure.classes)

    @staticmethod
    def from_structure(output_types: DType, output_shapes: Sequence[ShapeLike] | None = None,
                       shared_name: str | None = None, output_classes: Any = None) -> Iterator:
        """An iterator for data sets of such elements, each begun by ``make_initializer``."""
        structure = Structure.of_parts(output_types, output_shapes, output_classes)
        return Iterator._of(_resource(structure, shared_name), None, structure)

    @staticmethod
    def from_string_handle(string_handle: TensorLike, output_types: DType,
                           output_shapes: Sequence[ShapeLike] | None = None,
                           output_classes: Any = None) -> Iterator:
        """The iterator that a string names: the value of some ``string_handle()``.

        Fed in each step, it chooses the data set of the step. Raises ``InvalidArgumentError`` in a
        step where elements are of other types or shapes.
        """
        structure = Structure.of_parts(output_types, output_shapes, output_classes)
        handle = convert_to_tensor(string_handle, string)
        resource = raw_ops.IteratorFromStringHandleV2(string_handle=handle, **structure.attrs)
        return Iterator._of(resource, None, structure)

    @property
    def initializer(self) -> Operation:
        """The operation that begins (again) at the first element.

        Raises ``ValueError`` if there is none: for one-shot iterators, and those of
        ``from_structure``.
        """
        if self._initializer is None:
            raise ValueError("Iterator does not have an initializer.")
        return self._initializer

    def make_initializer(self, dataset: Dataset, name: str | None = None) -> Operation:
        """Return the operation that begins at the first element of `dataset`.

        Raises ``TypeError`` unless its elements fit, ``ValueError`` if they are nested otherwise.
        """
        mine, theirs = self._structure, dataset._structure
        nest.check_same(mine.types, theirs.types)
        for have, want in zip(theirs.leaves, mine.leaves, strict=True):
            if have.kind is not want.kind and type(have) is not type(want):
                raise TypeError(f"Expected output classes {self.output_classes!r} but got dataset "
                                f"with output class {dataset.output_classes!r}.")
            if have.dtype is not want.dtype:
                raise TypeError(f"Expected output types {self.output_types!r} but got dataset with "
                                f"output types {dataset.output_types!r}.")
            if not want.shape.is_compatible_with(have.shape):
                raise TypeError("Expected output shapes compatible with "
                                f"{self.output_shapes!r} but got dataset with output shapes "
                                f"{dataset.output_shapes!r}.")
        with colocate_with(self._resource.op):
            return raw_ops.MakeIterator(dataset=dataset._variant_tensor, iterator=self._resource,
                                        name=name)

    def get_next(self, name: str | None = None) -> Any:
        """Return the next element: a new one in every step that runs it."""
        parts = raw_ops.IteratorGetNext(iterator=self._resource, name=name,
                                        **self._structure.attrs)
        parts = list(parts) if isinstance(parts, (list, tuple)) else [parts]
        return self._structure.from_tensors(parts)

    def string_handle(self, name: str | None = None) -> Tensor:
        """Return the string that names this iterator, for :meth:`from_string_handle`."""
        if name is None:
            return self._string_handle
        return raw_ops.IteratorToStringHandle(self._resource, name=name)


def _resource(structure: Structure, shared_name: str | None) -> Tensor:
    from hpcflow.graph.graph import get_default_graph

    return raw_ops.IteratorV2(shared_name=shared_name or "",
                              container=get_default_graph()._container, **structure.attrs)


def initializable_iterator(dataset: Dataset, shared_name: str | None) -> Iterator:
    """See ``Dataset.make_initializable_iterator``."""
    variant = dataset._variant_tensor
    with variant.graph.colocate_with(variant.op, keep_devices=True):
        resource = _resource(dataset._structure, shared_name)
    with colocate_with(resource.op):
        initializer = raw_ops.MakeIterator(dataset=variant, iterator=resource)
    return Iterator._of(resource, initializer, dataset._structure)


def one_shot_iterator(dataset: Dataset) -> Iterator:
    """See ``Dataset.make_one_shot_iterator``."""
    try:
        factory = copied_function(dataset._variant_tensor, "make_dataset")
    except ValueError as e:
        raise ValueError(
            "Failed to create a one-shot iterator for a dataset. `Dataset.make_one_shot_iterator()`"
            " does not support datasets that capture stateful objects, such as a `Variable` or "
            "`LookupTable`. In these cases, use `Dataset.make_initializable_iterator()`. (Original "
            f"error: {e})") from None
    from hpcflow.graph.graph import get_default_graph

    resource = raw_ops.OneShotIterator(
        dataset_factory=Func(factory), container=get_default_graph()._container,
        **dataset._structure.attrs)
    return Iterator._of(resource, None, dataset._structure)
