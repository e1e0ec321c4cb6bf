"""Kernels of the scatter updates of variables: by rows and by coordinates."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.errors import InvalidArgumentError
from hpcflow.kernels import late_errors
from hpcflow.kernels.common import device_rows, repeated_rows
from hpcflow.kernels.common.indices import check_rows, combine_rows, flat_positions, has_duplicates
from hpcflow.kernels.registry import KernelNode, invalid, kernel
from hpcflow.resources.variables import VariableState
from hpcflow.shapes import TensorShape

# ---------------------------------------------------------------- combining


def _set(xp: Any, target: Any, where: Any, updates: Any) -> None:
    if xp is np:
        target[where] = updates  # of duplicates the last wins
    else:
        repeated_rows.put(xp, target, where, updates)


def _combining(ufunc_name: str) -> Callable:
    """``target[where] = ufunc(target[where], updates)``, once for each time an element occurs."""

    def combine(xp: Any, target: Any, where: Any, updates: Any) -> None:
        if xp is not np:
            repeated_rows.combine(xp, ufunc_name, target, where, updates)
            return
        ufunc = getattr(np, ufunc_name)
        if target.ndim > 1:
            combine_rows(ufunc, target.reshape(len(target), -1), where,
                         updates.reshape(len(where), -1))
        else:
            ufunc.at(target, where, updates)

    return combine


def _divide(xp: Any, target: Any, where: Any, updates: Any) -> None:
    if target.dtype.kind not in "iu":
        _combining("divide")(xp, target, where, updates)
        return
    if xp is not np:
        late_errors.note(xp, (updates == 0).any(), _divides_by_zero)
        if device_rows.serves(xp, "divide", target.dtype, where):
            repeated_rows.combine(xp, "divide", target, where, updates)
            return
    elif not updates.all():
        raise _divides_by_zero()
    # Dividing by one divisor after the other towards zero is dividing by their product, but the
    # product may overflow; so duplicates take turns.
    distinct = not has_duplicates(xp, where)
    for i in (slice(None),) if distinct else range(len(updates)):
        rows = where[i]
        quotient = xp.abs(target[rows]) // xp.abs(updates[i])
        target[rows] = quotient * xp.sign(target[rows]) * xp.sign(updates[i])


def _divides_by_zero() -> InvalidArgumentError:
    return invalid("ScatterDiv: integer division by zero")


_COMBINE = {"Update": _set, "Add": _combining("add"), "Sub": _combining("subtract"),
            "Mul": _combining("multiply"), "Div": _divide, "Max": _combining("maximum"),
            "Min": _combining("minimum")}

def _register(prefix: str, suffix: str, apply: Callable) -> None:
    combine = _COMBINE[suffix]

    def factory(node: KernelNode) -> Callable:
        xp, returns_state = node.xp, bool(node.output_dtypes)

        def scatter(state: VariableState, indices: Any, updates: Any) -> VariableState | None:
            with state.lock:
                apply(xp, combine, state, indices, updates)
            return state if returns_state else None

        return scatter

    kernel(f"{prefix}{suffix}", f"Resource{prefix}{suffix}")(factory)


# ---------------------------------------------------------------- rows


def _scatter_rows(xp: Any, combine: Callable, state: VariableState, indices: Any,
                  updates: Any) -> None:
    shape = getattr(state.read(), "shape", ())
    if not shape:
        raise invalid(f"variable '{state.name}' is a scalar; scatter needs rows")
    indices = xp.asarray(indices)
    updates = xp.asarray(updates)
    if updates.shape != indices.shape + shape[1:]:
        if updates.shape:  # a scalar update applies to every row named
            raise _bad_updates(state, shape, indices, updates)
        updates = xp.broadcast_to(updates, indices.shape + shape[1:])
    check_rows(xp, indices, shape[0])
    if not indices.size:
        return
    rows = indices.reshape(-1)
    combine(xp, state.writable(), rows, updates.reshape(-1, *shape[1:]))


def _bad_updates(state: VariableState, shape: tuple, indices: Any, updates: Any) -> Exception:
    return invalid(f"updates must have the shape of indices followed by that of a row: variable "
                   f"'{state.name}' {TensorShape(shape)}, indices {TensorShape(indices.shape)}, "
                   f"updates {TensorShape(updates.shape)}")


# ---------------------------------------------------------------- coordinates


def _scatter_coordinates(xp: Any, combine: Callable, state: VariableState, indices: Any,
                         updates: Any) -> None:
    shape = getattr(state.read(), "shape", ())
    indices, updates = xp.asarray(indices), xp.asarray(updates)
    if not shape:
        raise invalid(f"Output must be at least 1-D, got variable '{state.name}' of shape []")
    if not indices.ndim or indices.shape[-1] > len(shape):
        raise invalid(f"indices {TensorShape(indices.shape)} do not fit variable '{state.name}' "
                      f"of shape {TensorShape(shape)}: the last dimension counts coordinates")
    depth = indices.shape[-1]
    if updates.shape != indices.shape[:-1] + shape[depth:]:
        raise invalid(f"updates must have shape {TensorShape(indices.shape[:-1] + shape[depth:])} "
                      f"for variable '{state.name}' {TensorShape(shape)} and indices "
                      f"{TensorShape(indices.shape)}, got {TensorShape(updates.shape)}")
    if not updates.size:
        return
    flat = flat_positions(xp, indices.reshape(-1, depth), shape[:depth])
    target = state.writable().reshape(-1, *shape[depth:])
    combine(xp, target, flat, updates.reshape(-1, *shape[depth:]))


for _suffix in _COMBINE:
    _register("Scatter", _suffix, _scatter_rows)
for _suffix in ("Update", "Add", "Sub", "Max", "Min"):
    _register("ScatterNd", _suffix, _scatter_coordinates)


# ---------------------------------------------------------------- reading


@kernel("ResourceGather", fresh=True)
def _resource_gather(node: KernelNode) -> Callable:
    xp, batch_dims = node.xp, node.attr("batch_dims", 0)

    def gather(state: VariableState, indices: Any) -> Any:
        value, indices = state.read(), xp.asarray(indices)
        if value.ndim <= batch_dims:
            raise invalid(f"variable '{state.name}' of shape {TensorShape(value.shape)} has no "
                          f"dimension {batch_dims} to gather along")
        check_rows(xp, indices, value.shape[batch_dims])
        if not batch_dims:
            return value[indices]
        leading = xp.ogrid[tuple(slice(n) for n in value.shape[:batch_dims])]
        tail = (1,) * (indices.ndim - batch_dims)
        position = (*(a.reshape(a.shape + tail) for a in leading), indices)
        return value[position]

    return gather


@kernel("ResourceGatherNd", fresh=True)
def _resource_gather_nd(node: KernelNode) -> Callable:
    xp = node.xp

    def gather(state: VariableState, indices: Any) -> Any:
        value, indices = xp.asarray(state.read()), xp.asarray(indices)
        if not indices.ndim or indices.shape[-1] > value.ndim:
            raise invalid(f"indices {TensorShape(indices.shape)} do not fit variable "
                          f"'{state.name}' of shape {TensorShape(value.shape)}: the last dimension "
                          "counts coordinates")
        depth = indices.shape[-1]
        rows = indices.reshape(-1, depth) if depth else xp.zeros(
            (math.prod(indices.shape[:-1]), 0), indices.dtype)
        flat = flat_positions(xp, rows, value.shape[:depth])
        rest = value.shape[depth:]
        return value.reshape(math.prod(value.shape[:depth]), *rest)[flat].reshape(
            *indices.shape[:-1], *rest)

    return gather
