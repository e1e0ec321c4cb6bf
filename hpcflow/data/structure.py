"""The structure of elements of data sets: nests of tensors, sparse tensors, data sets and arrays.

In the graph an element is a list of tensors: a sparse tensor is three strings, a data set within an
element a variant, and a TensorArray the tensor of its elements.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hpcflow import dtypes
from hpcflow.base.hooks import Hook
from hpcflow.data import nest
from hpcflow.data.optional_spec import AnyOptional, OptionalSpec, optional_of
from hpcflow.dtypes import DType
from hpcflow.graph.composite_specs import SparseTensorSpec
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.operation import Dims, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.sparse_tensor import SparseTensor, SparseTensorValue
from hpcflow.graph.tensor_spec import TensorSpec
from hpcflow.graph.type_spec import TypeSpec
from hpcflow.ops.flow.tensor_array import TensorArray
from hpcflow.shapes import ShapeLike, TensorShape, as_shape

if TYPE_CHECKING:
    from hpcflow.data.dataset import Dataset


class Leaf:
    """One tensor of an element.

    Attributes:
        dtype, shape: as the user sees them.
        graph_type, graph_dims: those of the tensor that stands for it in the graph.
        kind: the class of the value.
    """

    kind: Any = Tensor

    def __init__(self, dtype: DType, shape: TensorShape) -> None:
        self.dtype, self.shape = dtype, shape

    @property
    def spec(self) -> TypeSpec:
        """The specification of the value."""
        return TensorSpec(self.shape, self.dtype)

    @property
    def graph_type(self) -> DType:
        """The type of the tensor in the graph."""
        return self.dtype

    @property
    def graph_dims(self) -> Dims:
        """The dims of the tensor in the graph."""
        return self.shape._dims

    def to_tensor(self, value: Tensor) -> Tensor:
        """The tensor that stands for `value` in the graph."""
        return value

    def from_tensor(self, tensor: Tensor) -> Any:
        """The value that `tensor` stands for."""
        return tensor

    def with_shape(self, shape: TensorShape) -> Leaf:
        """The same with another shape."""
        return type(self)(self.dtype, shape)


class SparseLeaf(Leaf):
    """A sparse tensor: its indices, values and shape as strings."""

    kind = SparseTensor

    @property
    def spec(self) -> TypeSpec:
        """The specification of the value."""
        return SparseTensorSpec(self.shape, self.dtype)

    @property
    def graph_type(self) -> DType:
        """The type of the tensor in the graph: strings."""
        return dtypes.string

    @property
    def graph_dims(self) -> Dims:
        """The dims in the graph, unknown: three strings for a sparse tensor, or rows of three."""
        return None

    def to_tensor(self, value: Any) -> Tensor:
        """Serialize a sparse tensor to strings."""
        return raw_ops.SerializeSparse(value.indices, value.values, value.dense_shape)

    def from_tensor(self, tensor: Tensor) -> SparseTensor:
        """Deserialize a sparse tensor from strings."""
        parts = raw_ops.DeserializeSparse(serialized_sparse=tensor, dtype=self.dtype)
        rank = self.shape.ndims
        result = SparseTensor(*parts)
        if rank is not None:
            result.indices.set_shape([None, rank])
            result.dense_shape.set_shape([rank])
        return result


class DatasetLeaf(Leaf):
    """A data set within an element, or, of another shape than a scalar's, a tensor of data sets.

    Attributes:
        structure: that of its elements.
    """

    def __init__(self, structure: Structure, shape: ShapeLike = ()) -> None:
        super().__init__(dtypes.variant, as_shape(shape))
        self.structure = structure

    @property
    def kind(self) -> Any:  # type: ignore[override]
        """The class of the component: a data set of elements of this structure."""
        return self

    @property
    def spec(self) -> TypeSpec:
        """The specification of the value."""
        return DatasetSpec(self.structure.specs, self.shape)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DatasetLeaf) and self.structure.like(other.structure)

    def __hash__(self) -> int:
        return hash(DatasetLeaf)

    def to_tensor(self, value: Any) -> Tensor:
        """Return the variant tensor of the data set."""
        return value._variant_tensor

    def from_tensor(self, tensor: Tensor) -> Any:
        """A data set of the variant, or the tensor of data sets."""
        if self.shape.ndims:
            return Datasets(tensor, self.structure)
        return dataset_of(tensor, self.structure)

    def with_shape(self, shape: TensorShape) -> Leaf:
        """The same with another shape."""
        return DatasetLeaf(self.structure, shape)


class ArrayLeaf(Leaf):
    """A TensorArray within an element, a scalar variant to the user.

    Attributes:
        elements: what it holds: their dtype and shape.
    """

    def __init__(self, elements: TensorSpec) -> None:
        super().__init__(dtypes.variant, TensorShape([]))
        self.elements = elements

    @property
    def kind(self) -> Any:  # type: ignore[override]
        """The class of the component: a TensorArray of such elements."""
        return self

    @property
    def spec(self) -> TypeSpec:
        """The specification of the tensor that stands for it."""
        return TensorSpec(self.graph_dims, self.graph_type)

    @property
    def graph_type(self) -> DType:
        """The type of the tensor in the graph: that of the elements."""
        return self.elements.dtype

    @property
    def graph_dims(self) -> Dims:
        """The dims of the tensor in the graph: of the elements below each other."""
        dims = self.elements.shape._dims
        return None if dims is None else (None, *dims)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ArrayLeaf) and self.elements == other.elements

    def __hash__(self) -> int:
        return hash(ArrayLeaf)

    def to_tensor(self, value: Any) -> Tensor:
        """Return the elements as one tensor."""
        return value.stack()

    def from_tensor(self, tensor: Tensor) -> TensorArray:
        """A TensorArray of the slices of the tensor."""
        size = raw_ops.StridedSlice(raw_ops.Shape(tensor), [0], [1], [1], shrink_axis_mask=1)
        array = TensorArray(self.elements.dtype, size, dynamic_size=True, clear_after_read=False,
                            element_shape=self.elements.shape)
        return array.unstack(tensor)

    def with_shape(self, shape: TensorShape) -> Leaf:
        """The leaf itself, for a scalar; ``TypeError`` for batches."""
        if shape.ndims != 0:
            raise TypeError("Elements that are TensorArrays cannot be batched")
        return self


class OptionalLeaf(Leaf):
    """An optional within an element, a scalar variant in the graph.

    Attributes:
        structure: that of its value.
    """

    def __init__(self, structure: Structure, shape: ShapeLike = ()) -> None:
        super().__init__(dtypes.variant, as_shape(shape))
        self.structure = structure

    @property
    def kind(self) -> Any:  # type: ignore[override]
        """The class of the component: an optional of such a value."""
        return self

    @property
    def spec(self) -> TypeSpec:
        """The specification of the value."""
        return OptionalSpec(self.structure.specs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OptionalLeaf) and self.structure.like(other.structure)

    def __hash__(self) -> int:
        return hash(OptionalLeaf)

    def to_tensor(self, value: Any) -> Tensor:
        """Return the variant tensor of the optional."""
        return value._variant_tensor

    def from_tensor(self, tensor: Tensor) -> Any:
        """The optional of the variant."""
        return optional_of(tensor, self.structure.specs)

    def with_shape(self, shape: TensorShape) -> Leaf:
        """The same with another shape."""
        return OptionalLeaf(self.structure, shape)


class Structure:
    """The structure of elements; `tree` is a nest of leaves."""

    def __init__(self, tree: Any) -> None:
        self.tree = tree
        self.leaves: list[Leaf] = nest.flatten(tree)

    @classmethod
    def of_parts(cls, types: Any, shapes: Any = None, classes: Any = None) -> Structure:
        """Build a structure from nested types, shapes (None: any) and classes (None: tensors).

        Raises ``TypeError`` or ``ValueError`` where they are not nested alike.
        """
        flat_types = [dtypes.as_dtype(t) for t in nest.flatten(types)]
        flat_shapes = ([TensorShape(None)] * len(flat_types) if shapes is None
                       else [as_shape(s) for s in nest.flatten_up_to(types, shapes)])
        flat_classes = ([Tensor] * len(flat_types) if classes is None
                        else nest.flatten_up_to(types, classes))
        leaves = [SparseLeaf(t, s) if c is SparseTensor
                  else c if isinstance(c, (ArrayLeaf, OptionalLeaf))
                  else DatasetLeaf(c.structure, s) if isinstance(c, DatasetLeaf) else Leaf(t, s)
                  for t, s, c in zip(flat_types, flat_shapes, flat_classes, strict=True)]
        return cls(nest.pack_as(types, leaves))

    @classmethod
    def of_values(cls, values: Any) -> Structure:
        """Return the structure of a nest of tensors, sparse tensors, data sets, TensorArrays."""
        return cls(nest.map_structure(_leaf_of, values))

    @classmethod
    def of_specs(cls, specs: Any) -> Structure:
        """Return the structure of a nest of specifications; ``TypeError`` for others than of
        tensors, sparse tensors, data sets and optionals."""
        return cls(nest.map_structure(_specified_leaf, specs))

    # ------------------------------------------------------------ as the user sees it

    @property
    def specs(self) -> Any:
        """The nest of the specifications."""
        return nest.map_structure(lambda leaf: leaf.spec, self.tree)

    @property
    def types(self) -> Any:
        """The nest of the types."""
        return nest.map_structure(lambda leaf: leaf.dtype, self.tree)

    @property
    def shapes(self) -> Any:
        """The nest of the shapes."""
        return nest.map_structure(lambda leaf: leaf.shape, self.tree)

    @property
    def classes(self) -> Any:
        """The nest of the classes."""
        return nest.map_structure(lambda leaf: leaf.kind, self.tree)

    # ------------------------------------------------------------ as the graph sees it

    @property
    def graph_types(self) -> list[DType]:
        """The types of the tensors in the graph."""
        return [leaf.graph_type for leaf in self.leaves]

    @property
    def graph_dims(self) -> list[Dims]:
        """The dims of the tensors in the graph."""
        return [leaf.graph_dims for leaf in self.leaves]

    @property
    def attrs(self) -> dict[str, Any]:
        """The attributes of an operation that describe its output types and shapes."""
        return {"output_types": self.graph_types,
                "output_shapes": [TensorShape(d) for d in self.graph_dims]}

    def to_tensors(self, values: Any) -> list[Tensor]:
        """The tensors in the graph of a nest of values."""
        flat = nest.flatten_up_to(self.tree, values)
        return [leaf.to_tensor(v) for leaf, v in zip(self.leaves, flat, strict=True)]

    def from_tensors(self, tensors: list[Tensor]) -> Any:
        """The nest of values that tensors of the graph stand for."""
        values = []
        for leaf, tensor in zip(self.leaves, tensors, strict=True):
            if leaf.graph_dims is not None:
                tensor.set_shape(TensorShape(leaf.graph_dims))
            values.append(leaf.from_tensor(tensor))
        return nest.pack_as(self.tree, values)

    def like(self, other: Structure) -> bool:
        """True if both have the same containers with the same types, shapes and classes."""
        if self.types != other.types or self.classes != other.classes:
            return False
        return all(a.shape._dims == b.shape._dims
                   for a, b in zip(self.leaves, other.leaves, strict=True))

    def map_shapes(self, change: Callable[..., Any]) -> Structure:
        """Return the structure with each shape replaced by ``change(shape)``."""
        return Structure(nest.map_structure(lambda leaf: leaf.with_shape(change(leaf.shape)),
                                            self.tree))

    def batched(self, size: int | None) -> Structure:
        """Return the structure of batches of `size` elements."""
        return self.map_shapes(TensorShape([size]).concatenate)


class DatasetSpec(TypeSpec):
    """A specification of data sets: that of their elements, and the shape of a tensor of them.

    Args:
        element_spec: a nest of specifications.
        dataset_shape: the shape of the variant tensor, a scalar for one data set.
    """

    __slots__ = ("_dataset_shape", "_element_spec")

    def __init__(self, element_spec: Any, dataset_shape: ShapeLike = ()) -> None:
        self._element_spec, self._dataset_shape = element_spec, as_shape(dataset_shape)

    @classmethod
    def from_value(cls, value: Any) -> DatasetSpec:
        """Return the specification of a data set."""
        return cls(value.element_spec)

    @property
    def value_type(self) -> type:
        """The class of data sets."""
        return AnyDataset

    def _serialize(self) -> tuple[Any, ...]:
        return self._element_spec, self._dataset_shape

    @property
    def _component_specs(self) -> TensorSpec:
        return TensorSpec(self._dataset_shape, dtypes.variant)

    def _to_components(self, value: Any) -> Any:
        return value._variant_tensor

    def _from_components(self, components: Any) -> Any:
        return dataset_of(components, Structure.of_specs(self._element_spec))


class Structured:
    """A mixin for objects whose elements have one structure: their types, shapes and classes."""

    _structure: Structure

    @property
    def element_spec(self) -> Any:
        """The specification of each component of an element, nested as the element."""
        return self._structure.specs

    @property
    def output_types(self) -> Any:
        """The type of each component of an element, nested as the element."""
        return self._structure.types

    @property
    def output_shapes(self) -> Any:
        """The static shape of each component of an element."""
        return self._structure.shapes

    @property
    def output_classes(self) -> Any:
        """The class of each component of an element: ``Tensor`` or ``SparseTensor``."""
        return self._structure.classes


class AnyDataset(Structured):
    """A data set, as far as other modules of this room know it: a variant and its structure."""

    _variant_tensor: Tensor
    _structure: Structure


class Datasets(AnyDataset):
    """A tensor of data sets whose elements are alike."""

    def __init__(self, variant: Tensor, structure: Structure) -> None:
        self._variant_tensor, self._structure = variant, structure


#: ``dataset_of(variant, structure)`` is the data set of a variant; `dataset` provides it.
dataset_of = Hook("the class of data sets")


def _leaf_of(value: Tensor | Dataset) -> Leaf:
    if isinstance(value, SparseTensor):
        return SparseLeaf(value.dtype, value.get_shape())
    if isinstance(value, AnyDataset):
        return DatasetLeaf(value._structure, value._variant_tensor.shape)
    if isinstance(value, TensorArray):
        return ArrayLeaf(TensorSpec(value.element_shape, value.dtype))
    if isinstance(value, AnyOptional):
        return OptionalLeaf(value._structure)
    return Leaf(value.dtype.base_dtype, value.get_shape())


def _specified_leaf(spec: TypeSpec) -> Leaf:
    if isinstance(spec, TensorSpec):
        return Leaf(spec.dtype, spec.shape)
    if isinstance(spec, SparseTensorSpec):
        return SparseLeaf(spec.dtype, spec.shape)
    if isinstance(spec, DatasetSpec):
        return DatasetLeaf(Structure.of_specs(spec._element_spec), spec._dataset_shape)
    if isinstance(spec, OptionalSpec):
        return OptionalLeaf(Structure.of_specs(spec._value_structure))
    raise TypeError("Elements of data sets have tensors, sparse tensors, data sets and optionals, "
                    f"not {spec}")


def as_tensors(values: Any, what: str = "component") -> Any:
    """A nest of values as one of tensors and sparse tensors."""
    def convert(pair: tuple[int, Any]) -> Any:
        index, value = pair
        if isinstance(value, (SparseTensor, AnyDataset, AnyOptional, TensorArray)):
            return value
        if isinstance(value, list) and value and all(isinstance(v, AnyDataset) for v in value):
            return Datasets(raw_ops.Pack([v._variant_tensor for v in value]), value[0]._structure)
        if isinstance(value, SparseTensorValue):
            return SparseTensor.from_value(value)
        return convert_to_tensor(value, name=f"{what}_{index}")

    flat = [convert(pair) for pair in enumerate(nest.flatten(values))]
    return nest.pack_as(values, flat)


def merged(first: Structure, second: Structure, what: str) -> Structure:
    """Return the most specific structure that fits the elements of both.

    Raises ``TypeError`` unless types and classes are the same.
    """
    for name in ("types", "classes"):
        mine, others = getattr(first, name), getattr(second, name)
        alike = True
        try:
            nest.check_same(mine, others)
        except (TypeError, ValueError):
            alike = False
        if not alike or nest.flatten(mine) != nest.flatten(others):
            raise TypeError(f"{what} have different {name} {mine} and {others}")
    shapes = [most_specific(a.shape, b.shape)
              for a, b in zip(first.leaves, second.leaves, strict=True)]
    leaves = [a.with_shape(s) for a, s in zip(first.leaves, shapes, strict=True)]
    return Structure(nest.pack_as(first.tree, leaves))


def most_specific(a: TensorShape, b: TensorShape) -> TensorShape:
    """The most specific shape that both have."""
    if a.ndims is None or b.ndims is None or a.ndims != b.ndims:
        return TensorShape(None)
    return TensorShape([x if x == y else None
                        for x, y in zip(a._dims or (), b._dims or (), strict=True)])
