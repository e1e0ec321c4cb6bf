"""Kernels of variables: making them, reading, assigning, adding and counting."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.errors import AlreadyExistsError, InvalidArgumentError, NotFoundError, OutOfRangeError
from hpcflow.kernels.registry import RESOURCE, KernelNode, invalid, kernel
from hpcflow.resources.variables import VariableState
from hpcflow.shapes import TensorShape

# ---------------------------------------------------------------- making


@kernel("Variable", "VariableV2", "VarHandleOp", mode=RESOURCE)
def _variable(node: KernelNode) -> VariableState:
    name = node.attr("shared_name", b"").decode() or node.name
    container = node.attr("container", b"").decode()
    dtype, dims = node.attr("dtype"), node.attr("shape")._dims
    if node.op_type == "Variable":
        dims = dims or None  # there the scalar's shape says that none was given
    state = node.resources.lookup_or_create(
        container, "variable", name, lambda: VariableState(name, dtype, node.device, dims))
    _check_same(state, dtype, dims)
    return state


def _check_same(state: VariableState, dtype: Any, dims: tuple | None) -> None:
    """Two graphs that name the same variable must agree on what it is."""
    known, wanted = TensorShape(state.dims), TensorShape(dims)
    if state.dtype is not dtype or not known.is_compatible_with(wanted):
        raise invalid(f"variable '{state.name}' exists with {state.dtype.name}{known}, but this "
                      f"graph declares it with {dtype.name}{wanted}")


@kernel("IsVariableInitialized", "VarIsInitializedOp", host_outputs=(0,))
def _is_initialized(node: KernelNode) -> Callable:
    return lambda state: np.bool_(state.value is not None)


@kernel("RefIdentity")
def _ref_identity(node: KernelNode) -> Callable:
    return lambda state: state


@kernel("ReadVariableOp")
def _read(node: KernelNode) -> Callable:
    return VariableState.read


@kernel("DisableCopyOnRead")
def _disable_copy_on_read(node: KernelNode) -> Callable:
    return lambda state: None  # readers have snapshots that are copied only where a write needs it


@kernel("VariableShape", host_outputs=(0,), fresh=True)
def _variable_shape(node: KernelNode) -> Callable:
    dtype = node.np_dtype()

    def shape(state: VariableState) -> Any:
        value = state.read()
        return np.array(getattr(value, "shape", ()), dtype)

    return shape


@kernel("DestroyResourceOp")
def _destroy(node: KernelNode) -> Callable:
    must_exist = not node.attr("ignore_lookup_error", True)

    def destroy(state: VariableState) -> None:
        # The variable stays known, without a value: other compiled steps hold it too.
        with state.lock:
            if must_exist and not state.initialized:
                raise NotFoundError(None, None, f"Resource {state.name} does not exist.")
            state.clear()

    return destroy


# ---------------------------------------------------------------- variables of one step


@kernel("TemporaryVariable", mode="step")
def _temporary_variable(node: KernelNode) -> Callable:
    name = node.attr("var_name").decode() or node.name
    dtype, dims, xp = node.attr("dtype"), node.attr("shape")._dims, node.xp

    def make(step: Any) -> VariableState:
        state = VariableState(name, dtype, node.device, dims)
        made = _temporary(step).setdefault(name, (node.name, []))
        if made[0] != node.name:  # in a loop one node makes several
            raise AlreadyExistsError(None, None, f"Temporary variable '{name}' is there already")
        made[1].append(state)
        # As in 1.x the memory is there from the start, its content is not defined.
        state.value = xp.zeros(dims, dtype.np) if dims else dtype.np.type(0)
        return state

    return make


def _temporary(step: Any) -> dict[str, tuple[str, list[VariableState]]]:
    """The temporary variables of `step`: name -> the node that makes them, and those there are."""
    if step.resources is None:
        step.resources = {}
    return step.resources.setdefault(_temporary, {})


@kernel("DestroyTemporaryVariable", mode="step")
def _destroy_temporary_variable(node: KernelNode) -> Callable:
    name = node.attr("var_name").decode()

    def final_value(step: Any, state: VariableState) -> Any:
        _, states = _temporary(step).get(name, (None, []))
        if not any(s is state for s in states):
            raise NotFoundError(None, None, f"There is no temporary variable '{name}'")
        states[:] = [s for s in states if s is not state]
        if not states:
            del _temporary(step)[name]
        with state.lock:
            value = state.read()
            state.clear()
        return value

    return final_value


# ---------------------------------------------------------------- assigning


@kernel("Assign", takes_over=1)
def _assign(node: KernelNode) -> Callable:
    validate = node.attr("validate_shape", True)

    def assign(state: VariableState, value: Any, own: bool = False) -> VariableState:
        with state.lock:
            state.assign(value, validate, own)
        return state

    return assign


@kernel("AssignVariableOp", takes_over=1)
def _assign_resource(node: KernelNode) -> Callable:
    validate = node.attr("validate_shape", False)

    def assign(state: VariableState, value: Any, own: bool = False) -> None:
        with state.lock:
            state.assign(value, validate, own)

    return assign


def _register_in_place(suffix: str, ufunc_name: str, scalar: Callable) -> None:
    """Register AssignAdd or AssignSub and its form on resource handles."""

    def factory(node: KernelNode) -> Callable:
        ufunc = getattr(node.xp, ufunc_name)
        returns_state = bool(node.output_dtypes)

        def update(state: VariableState, value: Any) -> Any:
            with state.lock:
                if isinstance(state.value, np.generic) and not getattr(value, "shape", ()):
                    state.value = scalar(state.value, value)
                else:
                    target = state.writable()
                    if target.shape != value.shape:
                        raise _shapes_differ(state, value)
                    ufunc(target, value, out=target)
            return state if returns_state else None

        return update

    kernel(f"Assign{suffix}", f"Assign{suffix}VariableOp")(factory)


def _shapes_differ(state: VariableState, value: Any) -> InvalidArgumentError:
    return invalid(f"variable '{state.name}' has shape {TensorShape(state.shape)}, the value "
                   f"{TensorShape(value.shape)}; they must be the same")


_register_in_place("Add", "add", operator.add)
_register_in_place("Sub", "subtract", operator.sub)


@kernel("CountUpTo", "ResourceCountUpTo", fresh=True, device="CPU")
def _count_up_to(node: KernelNode) -> Callable:
    limit = node.attr("limit")
    one = node.np_dtype().type(1)

    def count(state: VariableState) -> Any:
        with state.lock:
            value = state.read()
            if value >= limit:
                raise OutOfRangeError(None, None, f"Reached limit of {limit}")
            state.value = value + one
        return value

    return count
