"""Op types on variables: Variable, Assign and its kin, the scatter updates, resource variables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.dtypes import DTypeLike
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import (
    merge_dims,
    scalar,
    show,
    unchanged,
)
from hpcflow.ops.arrays.indexing import scattered_shape, with_batch
from hpcflow.ops.arrays.slicing import VariableSlice
from hpcflow.ops.common.type_sets import SUMMED
from hpcflow.shapes import ShapeLike, TensorShape

__all__ = [
    "assign",
    "assign_add",
    "assign_sub",
    "batch_scatter_update",
    "count_up_to",
    "scatter_add",
    "scatter_div",
    "scatter_mul",
    "scatter_nd_add",
    "scatter_nd_sub",
    "scatter_nd_update",
    "scatter_sub",
    "scatter_update",
]

NUMBERS = SUMMED

# ---------------------------------------------------------------- variables


def _legacy_variable_shape(op: Operation) -> list[Dims]:
    """Graphs of old versions say "no shape given" by the scalar's shape."""
    return [op._attrs["shape"]._dims or None]


def _declared_shape(op: Operation) -> list[Dims]:
    return [op._attrs["shape"]._dims]


_VARIABLE = 'shape: shape; dtype: type; container: string = ""; shared_name: string = ""'
register_op("Variable", outputs="ref: Ref(dtype)", attrs=_VARIABLE, stateful=True,
            shape=_legacy_variable_shape)
register_op("VariableV2", outputs="ref: Ref(dtype)", attrs=_VARIABLE, stateful=True,
            shape=_declared_shape)
register_op("TemporaryVariable", outputs="ref: Ref(dtype)",
            attrs='shape: shape; dtype: type; var_name: string = ""', stateful=True,
            shape=_declared_shape)
register_op("DestroyTemporaryVariable", "ref: Ref(T)", "value: T", "T: type; var_name: string",
            shape=unchanged)
register_op("IsVariableInitialized", "ref: Ref(dtype)", "is_initialized: bool", "dtype: type",
            shape=scalar, allows_uninitialized_input=True)
register_op("RefIdentity", "input: Ref(T)", "output: Ref(T)", "T: type", shape=unchanged,
            allows_uninitialized_input=True)
not_differentiable("Variable", "VariableV2", "TemporaryVariable", "DestroyTemporaryVariable",
                   "IsVariableInitialized")


def variable_op(shape: ShapeLike, dtype: DTypeLike, name: str = "Variable", container: str = "",
                shared_name: str = "", set_shape: bool = True) -> Tensor:
    """Return the reference output of a new ``VariableV2`` op.

    Without `set_shape` its value may have any shape, `shape` says nothing then. Raises
    ``TypeError`` for a reference dtype.
    """
    known = TensorShape(shape if set_shape else None)
    return raw_ops.VariableV2(shape=known, dtype=dtypes.as_dtype(dtype), name=name,
                              container=container, shared_name=shared_name)


# ---------------------------------------------------------------- assignment


def _assign_shape(op: Operation) -> list[Dims]:
    ref, value = op.input_dims(0), op.input_dims(1)
    if op.attr("validate_shape", True):
        return [merge_dims(ref, value)]
    return [value]


def _update_shape(op: Operation) -> list[Dims]:
    return [merge_dims(op.input_dims(0), op.input_dims(1))]


register_op("Assign", "ref: Ref(T); value: T", "output_ref: Ref(T)",
            "T: type; validate_shape: bool = true; use_locking: bool = true",
            shape=_assign_shape, allows_uninitialized_input=True)
for _op_type in ("AssignAdd", "AssignSub"):
    register_op(_op_type, "ref: Ref(T); value: T", "output_ref: Ref(T)",
                f"T: {NUMBERS}; use_locking: bool = false", shape=_update_shape)
not_differentiable("Assign", "AssignAdd", "AssignSub")


_METHODS = {"Assign": "assign", "AssignAdd": "assign_add", "AssignSub": "assign_sub"}


def changed(op_type: str, ref: Any, *args: Any, **options: Any) -> Any:
    """The result of an operation of this type on references, or of the one that does the same to
    a variable by handle."""
    if getattr(ref, "_is_by_handle", False):
        return ref._changed(op_type, *args, **options)
    if isinstance(ref, Tensor) and op_type in _METHODS and not ref.dtype._is_ref_dtype:
        raise AttributeError(f"'Tensor' object has no attribute '{_METHODS[op_type]}': only "
                             f"variables change, and {ref!r} is a value")
    return getattr(raw_ops, op_type)(ref, *args, **options)


def assign(ref: TensorLike, value: Any, validate_shape: bool | None = None,
           use_locking: bool | None = None, name: str | None = None) -> Tensor:
    """Assign `value` to the variable `ref` and return its reference.

    Args:
        ref: a variable, perhaps not initialized.
        value: what it becomes, of the same type.
        validate_shape: if true (the default) the shape must be the variable's; otherwise the
            variable takes over any shape.
        use_locking: accepted for compatibility; updates always hold the variable's lock.
        name: name of the operation.

    For a slice of a variable (``v[1:]``) that part is replaced.
    """
    if isinstance(ref, VariableSlice):
        return ref.assign(value, name=name)
    return changed("Assign", ref, value, validate_shape=validate_shape, use_locking=use_locking,
                          name=name)


def assign_add(ref: TensorLike, value: TensorLike, use_locking: bool | None = None,
               name: str | None = None) -> Tensor:
    """Add `value`, which has the variable's shape, to `ref` and return its reference."""
    return changed("AssignAdd", ref, value, use_locking=use_locking, name=name)


def assign_sub(ref: TensorLike, value: TensorLike, use_locking: bool | None = None,
               name: str | None = None) -> Tensor:
    """Subtract `value`, which has the variable's shape, from `ref` and return its reference."""
    return changed("AssignSub", ref, value, use_locking=use_locking, name=name)


# ---------------------------------------------------------------- counting


def _count_shape(op: Operation) -> list[Dims]:
    return [merge_dims(op.input_dims(0), ())]


register_op("CountUpTo", "ref: Ref(T)", "output: T", "limit: int; T: {int32, int64}",
            shape=_count_shape)
not_differentiable("CountUpTo")


def count_up_to(ref: TensorLike, limit: int, name: str | None = None) -> Tensor:
    """Return the value of the integer scalar `ref` before incrementing it.

    Raises (when run) ``OutOfRangeError`` once the value has reached `limit`.
    """
    return changed("CountUpTo", ref, limit=limit, name=name)


# ---------------------------------------------------------------- scatter


def _scatter_shape(op: Operation) -> list[Dims]:
    """``updates.shape = indices.shape + ref.shape[1:]``."""
    ref, indices, updates = (op.input_dims(i) for i in range(3))
    if ref is not None and not ref:
        raise ValueError("ref must have at least one dimension, but is a scalar")
    if ref is not None and indices is not None:
        expected = (*indices, *ref[1:])
        try:
            merge_dims(updates or expected, expected)  # a scalar applies to every row
        except ValueError:
            raise ValueError(f"updates must have the shape of indices followed by that of a row of "
                             f"ref: ref {show(ref)}, indices {show(indices)}, updates "
                             f"{show(updates)}") from None
    return [ref]


_SCATTER = ("ref: Ref(T); indices: Tindices; updates: T", "output_ref: Ref(T)")
register_op("ScatterUpdate", *_SCATTER,
            "T: type; Tindices: {int32, int64}; use_locking: bool = true", shape=_scatter_shape)
register_op("ScatterNdUpdate", *_SCATTER,
            "T: type; Tindices: {int32, int64}; use_locking: bool = true", shape=scattered_shape)
_NUMERIC_SCATTER = f"T: {NUMBERS}; Tindices: {{int32, int64}}; use_locking: bool = false"
for _op_type in ("ScatterAdd", "ScatterSub", "ScatterMul", "ScatterDiv"):
    register_op(_op_type, *_SCATTER, _NUMERIC_SCATTER, shape=_scatter_shape)
for _op_type in ("ScatterNdAdd", "ScatterNdSub"):
    register_op(_op_type, *_SCATTER, _NUMERIC_SCATTER, shape=scattered_shape)
_ORDERED_SCATTER = ("T: {half, bfloat16, float, double, int32, int64}; Tindices: {int32, int64}; "
                    "use_locking: bool = false")
for _op_type in ("ScatterMax", "ScatterMin"):
    register_op(_op_type, *_SCATTER, _ORDERED_SCATTER, shape=_scatter_shape)
for _op_type in ("ScatterNdMax", "ScatterNdMin"):
    register_op(_op_type, *_SCATTER, _NUMERIC_SCATTER, shape=scattered_shape)
not_differentiable("ScatterMax", "ScatterMin", "ScatterNdMax", "ScatterNdMin")
not_differentiable("ScatterUpdate", "ScatterNdUpdate", "ScatterAdd", "ScatterSub", "ScatterMul",
                   "ScatterDiv", "ScatterNdAdd", "ScatterNdSub")


def scatter_update(ref: Any, indices: TensorLike, updates: TensorLike,
                   use_locking: bool | None = None, name: str | None = None) -> Tensor:
    """Set rows: ``ref[indices, ...] = updates``, and return the reference.

    `updates` has the shape ``indices.shape + ref.shape[1:]``. Of duplicate indices the last wins.
    Raises (when run) ``InvalidArgumentError`` for an index out of range.
    """
    return changed("ScatterUpdate", ref, indices, updates, use_locking=use_locking, name=name)


def scatter_add(ref: Any, indices: TensorLike, updates: TensorLike,
                use_locking: bool | None = None, name: str | None = None) -> Tensor:
    """Add to rows: ``ref[indices, ...] += updates``; contributions of duplicates add up.

    Shapes and errors as of :func:`scatter_update`.
    """
    return changed("ScatterAdd", ref, indices, updates, use_locking=use_locking, name=name)


def scatter_sub(ref: Any, indices: TensorLike, updates: TensorLike,
                use_locking: bool | None = None, name: str | None = None) -> Tensor:
    """Subtract from rows: ``ref[indices, ...] -= updates``; duplicates add up.

    Shapes and errors as of :func:`scatter_update`.
    """
    return changed("ScatterSub", ref, indices, updates, use_locking=use_locking, name=name)


def scatter_mul(ref: Any, indices: TensorLike, updates: TensorLike,
                use_locking: bool | None = None, name: str | None = None) -> Tensor:
    """Multiply rows: ``ref[indices, ...] *= updates``; duplicates multiply.

    Shapes and errors as of :func:`scatter_update`.
    """
    return changed("ScatterMul", ref, indices, updates, use_locking=use_locking, name=name)


def scatter_div(ref: Any, indices: TensorLike, updates: TensorLike,
                use_locking: bool | None = None, name: str | None = None) -> Tensor:
    """Divide rows: ``ref[indices, ...] /= updates``; duplicates divide.

    Integers are divided towards zero. Shapes and errors as of :func:`scatter_update`.
    """
    return changed("ScatterDiv", ref, indices, updates, use_locking=use_locking, name=name)


def scatter_nd_update(ref: Any, indices: TensorLike, updates: TensorLike,
                      use_locking: bool | None = None, name: str | None = None) -> Tensor:
    """Set elements or slices by coordinates: ``ref[tuple(indices[i])] = updates[i]``.

    `indices` has the shape ``[..., K]`` with K at most the rank of `ref`, `updates` the shape
    ``indices.shape[:-1] + ref.shape[K:]``. Raises (when run) ``InvalidArgumentError`` for
    coordinates out of range.
    """
    return changed("ScatterNdUpdate", ref, indices, updates, use_locking=use_locking, name=name)


def batch_scatter_update(ref: TensorLike, indices: TensorLike, updates: Sequence[TensorLike],
                         use_locking: bool = True, name: str | None = None) -> Any:
    """Set places in each row of a batch: ``ref[i, ..., indices[i, ..., j]] = updates[i, ..., j]``.

    All but the last dimension of `indices` (of known rank) are those `ref` begins with; `updates`
    has the shape ``indices.shape + ref.shape[rank of indices:]``. Returns the reference. Raises
    (when run) ``InvalidArgumentError`` for places out of range.
    """
    with name_scope(name, "BatchScatterUpdate", [indices, updates]):
        places = convert_to_tensor(indices, name="indices")
        batch_dims = len(places.get_shape().with_rank_at_least(1)) - 1
        places = raw_ops.ExpandDims(places, np.int32(-1))
        if batch_dims:
            places = with_batch(places, batch_dims)
        return scatter_nd_update(ref, places, updates, use_locking=use_locking)


def scatter_nd_add(ref: Any, indices: TensorLike, updates: TensorLike,
                   use_locking: bool | None = None, name: str | None = None) -> Tensor:
    """Add to elements or slices by coordinates; shapes as of :func:`scatter_nd_update`."""
    return changed("ScatterNdAdd", ref, indices, updates, use_locking=use_locking, name=name)


def scatter_nd_sub(ref: Any, indices: TensorLike, updates: TensorLike,
                   use_locking: bool | None = None, name: str | None = None) -> Tensor:
    """Subtract from elements or slices by coordinates; see :func:`scatter_nd_update`."""
    return changed("ScatterNdSub", ref, indices, updates, use_locking=use_locking, name=name)
