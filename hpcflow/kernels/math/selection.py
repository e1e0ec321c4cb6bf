"""Kernels of Select, and the choice between two arrays element by element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.host.tuning import kernels as tuning
from hpcflow.kernels.compiled import array_loops
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown

_SIGNED = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}


def where_of(xp: Any, dtype: np.dtype) -> Callable[[Any, Any, Any], Any]:
    """``where(condition, t, e)`` for values of this dtype: CuPy's makes float32 of bfloat16."""
    if xp is np or dtype.name != "bfloat16":
        return xp.where
    return lambda condition, t, e: xp.where(condition, t, e).astype(dtype)


@kernel("Select", fresh=True, elementwise=True)
def _select(node: KernelNode) -> Any:
    xp = node.xp
    where, choose = where_of(xp, node.np_dtype()), chooser(xp, node.np_dtype())
    static = node.static_dims(0)
    if static and static == node.static_dims(1) == node.static_dims(2):
        return where if np.prod(static) < tuning.SELECTION_LARGE else choose

    def run(condition: Any, t: Any, e: Any) -> Any:
        if t.shape != e.shape:
            raise invalid(f"both values must have one shape, got {shown(t)} and "
                          f"{shown(e)}")
        if condition.shape == t.shape:
            return choose(condition, t, e)
        if not condition.ndim:
            return (t if condition else e).copy()
        if condition.ndim == 1 and t.ndim and condition.shape[0] != t.shape[0]:
            raise invalid(f"Number of batches of 'then' must match size of 'cond', but saw: "
                          f"{t.shape[0]} vs. {condition.shape[0]}")
        if condition.ndim != 1 or not t.ndim:
            raise invalid(f"the condition's shape {shown(condition)} is neither that of the "
                          f"values, {shown(t)}, nor a vector for their rows")
        return where(condition.reshape((-1,) + (1,) * (t.ndim - 1)), t, e)

    return run


_CHOICE = """
def loop(condition, t, e, out):
    for i in range(out.size):
        yes, no = t[i], e[i]
        out[i] = yes if condition[i] else no
"""


def chooser(xp: Any, dtype: np.dtype) -> Callable[[Any, Any, Any], Any]:
    """``where(condition, t, e)`` for arrays of one shape, whose values have this dtype."""
    where, integers = where_of(xp, dtype), _SIGNED.get(dtype.itemsize)
    if xp is not np or integers is None or dtype.kind == "O":
        return lambda condition, t, e: where(condition, t, e)[()]

    def choose(condition: Any, t: Any, e: Any) -> Any:
        if condition.size < tuning.SELECTION_LARGE:
            return where(condition, t, e)[()]
        if all([a.flags.c_contiguous for a in (condition, t, e)]):
            parts = [condition.reshape(-1), *[array_loops.words(a.reshape(-1)) for a in (t, e)]]
            return array_loops.run_rows(
                _CHOICE, parts, [(parts[1].shape, parts[1].dtype)],
                lambda: by_masks(*parts)).view(dtype).reshape(t.shape)
        return by_masks(condition, t, e).view(dtype)

    def by_masks(condition: Any, t: Any, e: Any) -> Any:
        # e ^ ((t ^ e) & mask), the mask being all ones where the condition holds.
        mask = np.negative(condition.view(np.int8)).astype(integers, copy=False)
        t, e = t.view(integers), e.view(integers)
        np.bitwise_and(mask, np.bitwise_xor(t, e), out=mask)
        return np.bitwise_xor(mask, e, out=mask)

    return choose


def _text_shape(x: Any) -> tuple:
    return x.shape if isinstance(x, np.ndarray) else ()


@kernel("Select", device="CPU", types={"T": ["string"]})
def _select_strings(node: KernelNode) -> Any:
    def run(condition: Any, t: Any, e: Any) -> Any:
        if not condition.ndim and _text_shape(t) == _text_shape(e):
            return t if condition else e
        if not condition.ndim or _text_shape(t) != _text_shape(e) or (
                condition.shape[0] != _text_shape(t)[0]):
            raise invalid(f"the condition's shape {shown(condition)} does not fit values of "
                          f"shapes {shown(_text_shape(t))} and {shown(_text_shape(e))}")
        extra = t.ndim - condition.ndim
        return np.where(condition.reshape(condition.shape + (1,) * extra), t, e)

    return run


@kernel("SelectV2", fresh=True, elementwise=True)
def _select_broadcast(node: KernelNode) -> Any:
    where, choose = (of(node.xp, node.np_dtype()) for of in (where_of, chooser))

    def run(condition: Any, t: Any, e: Any) -> Any:
        if condition.shape == t.shape == e.shape:
            return choose(condition, t, e)
        try:
            return where(condition, t, e)[()]
        except ValueError:
            raise invalid("the condition and the values do not broadcast: "
                          f"{shown(condition)}, {shown(t)}, {shown(e)}") from None

    return run


@kernel("SelectV2", device="CPU", types={"T": ["string"]})
def _select_broadcast_strings(node: KernelNode) -> Any:
    def run(condition: Any, t: Any, e: Any) -> Any:
        values = [v if isinstance(v, np.ndarray) else np.array(v, object) for v in (t, e)]
        return np.where(condition, *values)[()]

    return run


def placed(result: Any, out: Any) -> Any:
    """`result`, in `out` if that is given."""
    if out is None:
        return result[()]
    out[...] = result
    return out
