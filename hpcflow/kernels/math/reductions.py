"""Kernels of reductions. Axes that are known when a step is compiled cost nothing in the step."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.host import blas
from hpcflow.host.tuning import kernels as tuning
from hpcflow.kernels.common.parallel import over_rows
from hpcflow.kernels.math import large_reductions
from hpcflow.kernels.math.device_sums import reducer
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown
from hpcflow.loops import strided_copy


def _axes(values: Any, rank: int) -> tuple[int, ...]:
    """The reduced axes as non-negative numbers; InvalidArgumentError if they do not fit."""
    found = []
    for axis in values.reshape(-1).tolist():
        if not -rank <= axis < rank:
            raise invalid(f"Invalid reduction dimension {axis} for input with {rank} "
                          "dimension(s)")
        found.append(axis % rank)
    for axis in found:
        if found.count(axis) > 1:
            raise invalid("Invalid reduction arguments: Axes contains duplicate dimension: "
                          f"{axis}")
    return tuple(found)


def _as_argument(values: Any, rank: int) -> Any:
    """The argument ``axis`` of the array functions: None for all axes, () for none."""
    axes = _axes(values, rank)
    if len(axes) == rank and axes:
        return None
    return axes[0] if len(axes) == 1 else axes


def _reduction(node: KernelNode, reduce: Callable[[Any, Any, bool], Any]) -> Callable:
    """A kernel function over ``reduce(x, axis, keepdims)``.

    Without axes to reduce the input itself is the output, so these kernels are not fresh.
    """
    keep, values, dims = bool(node.attr("keep_dims")), node.constant(1), node.input_dims[0]
    if values is None:

        def by_fed_axes(x: Any, axes: Any) -> Any:
            axis = _as_argument(axes, x.ndim)
            return x if axis == () else reduce(x, axis, keep)

        return by_fed_axes
    if dims is not None:
        axis = _as_argument(values, len(dims))
        if axis == ():
            return lambda x, _: x
        return lambda x, _: reduce(x, axis, keep)
    known: dict[int, Any] = {}  # rank -> axis

    def by_rank(x: Any, _: Any) -> Any:
        rank = x.ndim
        if rank not in known:
            known[rank] = _as_argument(values, rank)
        axis = known[rank]
        return x if axis == () else reduce(x, axis, keep)

    return by_rank


def _ufunc_reduce(node: KernelNode, name: str, dtype: Any) -> Callable[[Any, Any, bool], Any]:
    """Return a function that reduces with a ufunc of the array module, in `dtype`."""
    ufunc = getattr(node.xp, name)

    def run(x: Any, axis: Any, keep: bool) -> Any:
        return large_reductions.reduce(ufunc, x, axis, dtype, keep)

    return run


def _dtype_argument(node: KernelNode) -> Any:
    """The dtype to name in sums: integers would become wider ones, halves are summed as floats."""
    dtype = node.np_dtype()
    return dtype if dtype.kind in "iu" else np.dtype(np.float32) if dtype.itemsize == 2 else None


def _back_to(dtype: np.dtype, reduce: Callable) -> Callable:
    """Return `reduce` with its result cast to `dtype`, as it computes in a wider type."""
    return lambda x, axis, keep: reduce(x, axis, keep).astype(dtype)


def _is_half(node: KernelNode) -> bool:
    return node.np_dtype().itemsize == 2 and node.output_dtypes[0].is_floating


def _total(node: KernelNode, name: str) -> Callable[[Any, Any, bool], Any]:
    if node.xp is np:
        reduce = _ufunc_reduce(node, name, _dtype_argument(node))
    else:
        function = reducer(node.device, "sum") if name == "add" else _product_on(node.xp)
        dtype = _dtype_argument(node)

        def reduce(x: Any, axis: Any, keep: bool) -> Any:
            return function(x, axis, dtype, keep)

    return _back_to(node.np_dtype(), reduce) if _is_half(node) else reduce


def _product_on(xp: Any) -> Callable:
    return lambda x, axis, dtype, keep: xp.prod(x, axis=axis, dtype=dtype, keepdims=keep)


@kernel("Sum", host_inputs=(1,))
def _sum(node: KernelNode) -> Any:
    axes, dims = node.constant(1), node.input_dims[0]
    if (node.xp is np and node.np_dtype() in (np.float32, np.float64) and axes is not None
            and dims is not None and len(dims) == 2 and not node.attr("keep_dims")
            and _as_argument(axes, 2) == 0):
        column_sums = ColumnSums(node.np_dtype())
        return lambda x, _: column_sums(x)
    return _reduction(node, _total(node, "add"))


class ColumnSums:
    """The sums of the columns of a matrix as products with ones, of blocks of rows if it is large.

    No less exact than adding row after row, and several times faster. Blocks are added up in their
    order, so results do not depend on which thread was faster.
    """

    def __init__(self, dtype: np.dtype) -> None:
        self._dtype = dtype
        self._ones = np.ones(1, dtype)

    def __call__(self, x: Any) -> Any:
        """The sums of the columns of `x`."""
        ones = self._ones
        if ones.shape[0] != x.shape[0]:
            ones = self._ones = np.ones(x.shape[0], self._dtype)
        if x.size <= tuning.REDUCTION_ALONE:
            return ones.dot(x)
        found: dict[int, Any] = {}

        def add(rows: slice) -> None:
            found[rows.start] = ones[rows].dot(x[rows])

        with blas.alone():
            over_rows(len(x), x[:1].nbytes, add)
        parts = [found[start] for start in sorted(found)]
        return parts[0] if len(parts) == 1 else np.add.reduce(parts)


@kernel("Prod", host_inputs=(1,))
def _prod(node: KernelNode) -> Any:
    return _reduction(node, _total(node, "multiply"))


def _count(x: Any, reduced: Any) -> int:
    """Return the number of elements of `x` that are summed into each element of `reduced`."""
    return x.size // (reduced.size or 1)


@kernel("Mean", host_inputs=(1,))
def _mean(node: KernelNode) -> Any:
    """The sum divided by the count; of nothing NaN, or zero for integers."""
    dtype = node.np_dtype()
    if node.output_dtypes[0].is_integer or node.output_dtypes[0].is_quantized:
        return _reduction(node, _integer_mean(node))
    wide = np.float32 if dtype.itemsize == 2 else dtype.type
    total = _total_of_floats(node)
    divide, half = node.xp.true_divide, dtype.itemsize == 2

    def mean(x: Any, axis: Any, keep: bool) -> Any:
        y = total(x, axis, wide, keep)
        count = wide(_count(x, y))
        y = divide(y, count, out=y) if y.ndim else y / count
        return y.astype(dtype) if half else y

    return _reduction(node, mean)


def _total_of_floats(node: KernelNode) -> Callable:
    """The function of (array, axis, dtype, keep) that adds up."""
    if node.xp is np:
        return functools.partial(large_reductions.reduce, np.add)
    return reducer(node.device, "sum")


def _integer_mean(node: KernelNode) -> Callable[[Any, Any, bool], Any]:
    """Return the mean of integers: summed in 64 bits, divided with truncation as in C."""
    xp, dtype = node.xp, node.np_dtype()
    wide = np.uint64 if dtype.kind == "u" else np.int64

    def mean(x: Any, axis: Any, keep: bool) -> Any:
        y = xp.sum(x, axis=axis, dtype=wide, keepdims=keep)
        count = wide(max(_count(x, y), 1))
        return ((y - xp.fmod(y, count)) // count).astype(dtype)

    return mean


def lowest(dtype: np.dtype) -> Any:
    """Return the maximum of an empty array: the lowest value of the type."""
    if dtype.kind in "iu":
        return dtype.type(np.iinfo(dtype).min)
    return dtype.type(-np.inf)


def highest(dtype: np.dtype) -> Any:
    """Return the minimum of an empty array: the highest value of the type."""
    if dtype.kind in "iu":
        return dtype.type(np.iinfo(dtype).max)
    return dtype.type(np.inf)


def _extremum(node: KernelNode, name: str, initial: Any) -> Callable[[Any, Any, bool], Any]:
    """Return a maximum or minimum reduction, whose value for no elements is its neutral element."""
    if node.xp is np:
        reduce: Callable = functools.partial(large_reductions.reduce, getattr(np, name))
    else:
        reduce = reducer(node.device, {"maximum": "max", "minimum": "min"}[name])

    def run(x: Any, axis: Any, keep: bool) -> Any:
        if not x.size:
            return _of_nothing(node.xp, x, axis, keep, initial)
        return reduce(x, axis, None, keep)

    return run


def _of_nothing(xp: Any, x: Any, axis: Any, keep: bool, value: Any) -> Any:
    gone = set(range(x.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis)
    shape = [1 if i in gone else d for i, d in enumerate(x.shape) if keep or i not in gone]
    return xp.full(tuple(shape), value, dtype=x.dtype)[()]


@kernel("Max", host_inputs=(1,))
def _max(node: KernelNode) -> Any:
    return _reduction(node, _extremum(node, "maximum", lowest(node.np_dtype())))


@kernel("Min", host_inputs=(1,))
def _min(node: KernelNode) -> Any:
    return _reduction(node, _extremum(node, "minimum", highest(node.np_dtype())))


def _logical(node: KernelNode, name: str) -> Callable[[Any, Any, bool], Any]:
    function = getattr(node.xp, name)
    return lambda x, axis, keep: function(x, axis=axis, keepdims=keep)


@kernel("All", host_inputs=(1,))
def _all(node: KernelNode) -> Any:
    return _reduction(node, _logical(node, "all"))


@kernel("Any", host_inputs=(1,))
def _any(node: KernelNode) -> Any:
    return _reduction(node, _logical(node, "any"))


def _index_of(node: KernelNode, method: str) -> Callable:
    xp, axis, dtype = node.xp, node.constant(1), node.np_dtype()
    known = None if axis is None or axis.ndim else int(axis)
    worst = -np.inf if method == "argmax" else np.inf  # what a NaN counts as

    def run(x: Any, dimension: Any) -> Any:
        if np.ndim(dimension):
            raise invalid("dim must be a scalar, but received tensor of shape: "
                          f"{shown(dimension)}")
        where = int(dimension) if known is None else known
        if not -x.ndim <= where < x.ndim:
            raise invalid(f"Expected dimension in the range [{-x.ndim}, {x.ndim}), but got {where}")
        if not x.shape[where]:
            raise invalid(f"Reduction axis {where} is empty in shape {shown(x)}")
        if xp is np and x.nbytes >= tuning.REDUCTION_LARGE_BYTES and where % x.ndim < x.ndim - 1:
            # NumPy copies such arrays itself, one element after the other.
            x, where = strided_copy.contiguous(np.moveaxis(x, where, -1)), -1
        found = getattr(x, method)(where)
        if x.dtype.kind == "f" and _any_nan(xp, x, found, where):
            found = getattr(xp.where(xp.isnan(x), worst, x), method)(where)
        return found.astype(dtype, copy=False)

    return run


def _any_nan(xp: Any, x: Any, found: Any, axis: int) -> bool:
    """True if a NaN was found, as NumPy does wherever there is one."""
    return bool(xp.isnan(xp.take_along_axis(x, xp.expand_dims(found, axis), axis)).any())


@kernel("ArgMax", fresh=True, host_inputs=(1,))
def _arg_max(node: KernelNode) -> Any:
    return _index_of(node, "argmax")


@kernel("ArgMin", fresh=True, host_inputs=(1,))
def _arg_min(node: KernelNode) -> Any:
    return _index_of(node, "argmin")
