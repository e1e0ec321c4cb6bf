"""Slots: variables that belong to a variable, have its shape and live on its device."""

from __future__ import annotations

from typing import Any

from hpcflow.dtypes import DType
from hpcflow.graph.graph import Graph, colocate_with
from hpcflow.graph.likes import InitializerLike, TensorHandle, TensorLike
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.common.slice_info import SaveSliceInfo
from hpcflow.ops.state.initializers import Constant
from hpcflow.ops.state.variable_scope import get_variable, variable_scope
from hpcflow.ops.state.variables import Variable
from hpcflow.shapes import ShapeLike


def slot_key(variable: Any) -> tuple[Graph, str]:
    """Return the key of `variable` in the tables of slots: its graph, and its name there."""
    return variable.op.graph, variable.op.name


def create_slot(primary: TensorLike, value: TensorHandle, name: str,
                colocate_with_primary: bool = True) -> Variable:
    """Return a new variable ``<primary>/<name>`` with the initial value `value`.

    A second slot of the same name gets a number. The slot of a slice of a partitioned variable
    is the same slice of the slot's whole.
    """
    return _create(primary, name, colocate_with_primary, initializer=value,
                   validate_shape=value.shape.is_fully_defined())


def create_filled_slot(primary: Any, value: float, name: str, dtype: DType | None = None,
                       colocate_with_primary: bool = True) -> Variable:
    """Return a new slot of the shape of `primary` with all elements `value`."""
    dtype = (dtype or primary.dtype).base_dtype
    shape = primary.get_shape()
    if shape.is_fully_defined():
        return _create(primary, name, colocate_with_primary, shape=shape, dtype=dtype,
                       initializer=Constant(value, dtype))
    known = primary.initialized_value() if isinstance(primary, Variable) else primary
    filled = raw_ops.Fill(raw_ops.Shape(known), Constant(value, dtype)([]))
    return create_slot(primary, filled, name, colocate_with_primary)


def create_zeros_slot(primary: TensorLike, name: str, dtype: DType | None = None,
                      colocate_with_primary: bool = True) -> Variable:
    """Return a new slot of the shape of `primary` that begins with zeros."""
    return create_filled_slot(primary, 0.0, name, dtype, colocate_with_primary)


def create_slot_with_initializer(primary: TensorLike, initializer: InitializerLike,
                                 shape: ShapeLike, dtype: DType, name: str,
                                 colocate_with_primary: bool = True) -> Variable:
    """Return a new slot of a `shape` of its own, which `initializer` fills."""
    return _create(primary, name, colocate_with_primary, shape=shape, dtype=dtype,
                   initializer=initializer)


def _create(primary: Any, name: str, colocated: bool, **options: Any) -> Variable:
    options["use_resource"] = getattr(primary, "_is_by_handle", None)
    with variable_scope(None, f"{primary.op.name}/{name}") as scope:
        # A slot is kept whole, like the slice it belongs to.
        scope.set_partitioner(None)
        if colocated:
            with colocate_with(primary):
                slot = get_variable("", trainable=False, **options)
        else:
            slot = get_variable("", trainable=False, **options)
    if isinstance(primary, Variable):
        _describe_slice(primary, slot)
    return slot


def _describe_slice(primary: Variable, slot: Variable) -> None:
    info = primary._get_save_slice_info()
    if info is None:
        return
    own_name = slot.op.name[len(primary.op.name) + 1 :]
    slot._set_save_slice_info(SaveSliceInfo(
        f"{info.full_name}/{own_name}", info.full_shape, info.var_offset, info.var_shape))
