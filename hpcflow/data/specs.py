"""Specifications of the elements of data sets: made of types and shapes, of values, compared."""

from __future__ import annotations

from typing import Any

from hpcflow.data import nest
from hpcflow.data.structure import AnyDataset, DatasetSpec
from hpcflow.dtypes import DTypeLike
from hpcflow.graph.composite_specs import SparseTensorSpec
from hpcflow.graph.composite_specs import type_spec_from_value as of_one
from hpcflow.graph.tensor_spec import TensorSpec
from hpcflow.graph.type_spec import TypeSpec
from hpcflow.shapes import ShapeLike, TensorShape


def TensorStructure(dtype: DTypeLike, shape: ShapeLike) -> TensorSpec:
    """Return ``TensorSpec(shape, dtype)``."""
    return TensorSpec(TensorShape(shape), dtype)


def SparseTensorStructure(dtype: DTypeLike, shape: ShapeLike) -> SparseTensorSpec:
    """Return ``SparseTensorSpec(shape, dtype)``."""
    return SparseTensorSpec(shape, dtype)


def are_compatible(spec1: Any, spec2: Any) -> bool:
    """True if two nests of specifications are nested alike, and compatible leaf by leaf."""
    try:
        nest.assert_same_structure(spec1, spec2)
    except (TypeError, ValueError):
        return False
    return all(a.is_compatible_with(b)
               for a, b in zip(nest.flatten(spec1), nest.flatten(spec2), strict=True))


def type_spec_from_value(element: Any) -> Any:
    """Return the nest of specifications of a nest of values.

    Raises ``TypeError`` for a value that is none of an element.
    """
    def spec(value: Any) -> TypeSpec:
        return DatasetSpec.from_value(value) if isinstance(value, AnyDataset) else of_one(value)

    return nest.map_structure(spec, element)
