"""Kernels of array and string op types that the format got after its first version."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels import array_loops
from hpcflow.kernels.classification import in_top_k
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown
from hpcflow.shapes import TensorShape

# ---------------------------------------------------------------- products


@kernel("BatchMatMulV2", "BatchMatMulV3", fresh=True)
def _batch_matmul(node: KernelNode) -> Any:
    adj_x, adj_y = node.attr("adj_x"), node.attr("adj_y")
    matmul, dtype = node.xp.matmul, node.np_dtype()
    within = np.dtype(np.float32) if dtype == np.float16 else dtype

    def adjoint(x: Any) -> Any:
        return (x.conj() if dtype.kind == "c" else x).swapaxes(-1, -2)

    def run(x: Any, y: Any) -> Any:
        a, b = x.astype(within, copy=False), y.astype(within, copy=False)
        try:
            z = matmul(adjoint(a) if adj_x else a, adjoint(b) if adj_y else b)
        except ValueError:
            raise invalid(f"factors do not fit: {shown(x)} x {shown(y)} (adj_x={adj_x}, "
                          f"adj_y={adj_y})") from None
        return z.astype(dtype, copy=False)

    return run


# ---------------------------------------------------------------- shapes and places


@kernel("EnsureShape")
def _ensure_shape(node: KernelNode) -> Any:
    wanted = node.attr("shape")

    def run(x: Any) -> Any:
        shape = getattr(x, "shape", ())
        if not wanted.is_compatible_with(TensorShape(shape)):
            raise invalid(f"Shape of tensor {shown(shape)} is not compatible with expected shape "
                          f"{wanted}")
        return x

    return run


@kernel("Roll", fresh=True, host_inputs=(1, 2))
def _roll(node: KernelNode) -> Any:
    xp = node.xp

    def run(x: Any, shift: Any, axis: Any) -> Any:
        axes, rank = [int(a) for a in np.ravel(axis)], np.ndim(x)
        if not rank:
            raise invalid("input must be 1-D or higher, but is a scalar")
        for name, value in (("axis", axis), ("shift", shift)):
            if np.ndim(value) > 1:
                raise invalid(f"{name} must be a scalar or a 1-D vector, but has shape "
                              f"{shown(np.shape(value))}")
        if np.shape(axis) != np.shape(shift):
            raise invalid(f"shift and axis must have the same size, got shapes "
                          f"{shown(np.shape(shift))} and {shown(np.shape(axis))}")
        if any(not -rank <= a < rank for a in axes):
            raise invalid(f"axis is out of range: shifts {np.ravel(shift).tolist()} along axes "
                          f"{axes} do not fit shape {shown(x)}")
        return xp.roll(x, [int(s) for s in np.ravel(shift)], axes)

    return run


_SCATTERS: dict[str, Any] = {"Add": np.add, "Sub": np.subtract, "Max": np.maximum,
                             "Min": np.minimum}


def _scatter(name: str, *op_types: str) -> None:
    @kernel(f"TensorScatter{name}", *op_types, device="CPU", fresh=True)
    def factory(node: KernelNode) -> Any:
        combine = _SCATTERS.get(name)

        def run(x: Any, indices: Any, updates: Any) -> Any:
            at = _places(indices, x.shape)
            wanted = indices.shape[:-1] + x.shape[indices.shape[-1]:]
            if updates.shape != wanted:
                raise invalid(f"updates must have shape {shown(wanted)} for indices "
                              f"{shown(indices)} into {shown(x)}, got "
                              f"{shown(updates)}")
            out = x.copy()
            if combine is None:
                out[at] = updates
            else:
                combine.at(out, at, updates)
            return out

        return run


_scatter("Update")
_scatter("Add", "ScatterNdNonAliasingAdd")
for _name in ("Sub", "Max", "Min"):
    _scatter(_name)


def _places(indices: Any, shape: tuple) -> tuple:
    """Indices along the last dimension as an index of NumPy, checked."""
    depth = indices.shape[-1] if indices.ndim else 0
    if not indices.ndim or depth > len(shape):
        raise invalid(f"indices of shape {shown(indices)} do not fit {shown(shape)}")
    limits = np.array(shape[:depth])
    wrong = ((indices < 0) | (indices >= limits)).any(-1)
    if wrong.any():
        first = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise invalid(f"indices[{','.join(map(str, first))}] = {indices[first].tolist()} does not "
                      f"index into shape {shown(shape)}")
    return tuple(indices[..., i] for i in range(depth))


# ---------------------------------------------------------------- counting and searching


@kernel("LowerBound", "UpperBound", device="CPU", fresh=True)
def _bound(node: KernelNode) -> Any:
    side: Any = "left" if node.op_type == "LowerBound" else "right"
    dtype = node.np_dtype()

    def run(rows: Any, values: Any) -> Any:
        if rows.ndim != 2 or values.ndim != 2 or len(rows) != len(values):
            raise invalid(f"both inputs must be matrices with as many rows, got "
                          f"{shown(rows)} and {shown(values)}")
        found = [np.searchsorted(r, v, side) for r, v in zip(rows, values, strict=True)]
        return np.array(found, dtype).reshape(values.shape)

    return run


@kernel("HistogramFixedWidth", device="CPU", fresh=True)
def _histogram(node: KernelNode) -> Any:
    dtype = node.np_dtype()

    def run(values: Any, limits: Any, count: Any) -> Any:
        if limits.shape != (2,) or not limits[0] < limits[1]:
            raise invalid(f"value_range must be two increasing numbers, got {limits.tolist()}")
        if count <= 0:
            raise invalid(f"nbins must be positive, got {int(count)}")
        low, values = float(limits[0]), np.ravel(values)
        line = np.array([low, int(count) / (float(limits[1]) - low)])
        return _counted(_HISTOGRAM, [values, line], int(count),
                        lambda: by_arrays(values, line[0], line[1], int(count))).astype(dtype)

    def by_arrays(values: Any, low: float, scale: float, count: int) -> Any:
        place = (values.astype(np.float64) - low) * scale
        return np.bincount(np.clip(place, 0, count - 1).astype(np.int64), minlength=count)

    return run


# Values from `line[0]` on, `line[1]` bins to one.
_HISTOGRAM = """
def loop(values, line, out):
    low, scale, last = line[0], line[1], np.float64(out.size - 1)
    for i in range(values.size):
        place = (np.float64(values[i]) - low) * scale
        if place != place:
            return False
        out[np.uint64(min(max(place, 0.0), last))] += 1
    return True
"""


def _counted(source: str, given: list, size: int, compute: Callable[[], Any]) -> Any:
    """`size` counts by a loop, or ``compute()`` where there is none, or where it returns False."""
    found = array_loops.find(source, given, [(1, np.int64)])
    if found is not None and found.function is not None:
        out = np.zeros(size, np.int64)
        if found.function(*given, out):
            return out
    return array_loops.timed(found, compute)


@kernel("DenseBincount", "Bincount", device="CPU", fresh=True)
def _bincount(node: KernelNode) -> Any:
    dtype, binary = node.np_dtype(), bool(node.attr("binary_output"))
    by_rows = node.op_type == "DenseBincount"

    def run(values: Any, size: Any, weights: Any) -> Any:
        if weights.size and weights.shape != values.shape:
            raise invalid(f"weights must have shape {shown(values)}, got "
                          f"{shown(weights)}")
        is_plain = not (weights.size or binary or by_rows and values.ndim == 2)
        if size < 0 or not is_plain:
            return by_arrays(values, size, weights)
        return _counted(_BINCOUNT, [np.ravel(values)], int(size),
                        lambda: by_arrays(values, size, weights)).astype(dtype)

    def by_arrays(values: Any, size: Any, weights: Any) -> Any:
        if size < 0 or values.size and values.min() < 0:
            raise invalid("values and size must be non-negative")
        if by_rows and values.ndim == 2:
            filled = weights if weights.size else [weights] * len(values)
            rows = [count(v, int(size), w) for v, w in zip(values, filled, strict=True)]
            return np.array(rows, dtype).reshape(len(values), int(size))
        return count(values, int(size), weights)

    def count(values: Any, size: int, weights: Any) -> Any:
        values = np.ravel(values)
        kept = values < size
        if not weights.size and not binary:
            return np.bincount(values[kept], minlength=size).astype(dtype)
        out = np.zeros(size, dtype)
        if binary:
            out[values[kept]] = 1
        else:
            np.add.at(out, values[kept], np.ravel(weights)[kept])
        return out

    return run


_BINCOUNT = """
def loop(values, out):
    for i in range(values.size):
        value = np.int64(values[i])
        if value < 0:
            return False
        if value < out.size:
            out[np.uint64(value)] += 1
    return True
"""


@kernel("InTopKV2", device="CPU", fresh=True)
def _in_top_k(node: KernelNode) -> Any:
    return in_top_k(node)


@kernel("Bucketize", device="CPU", fresh=True)
def _bucketize(node: KernelNode) -> Any:
    limits = np.array(node.attr("boundaries"), np.float32)
    if (np.diff(limits) < 0).any():
        raise invalid(f"boundaries must be sorted, got {limits.tolist()}")
    return lambda x: np.searchsorted(limits, x, "right").astype(np.int32)


# ---------------------------------------------------------------- strings


def _each(function: Callable[[bytes], Any], text: Any, dtype: Any = object) -> Any:
    """`function` of every string."""
    if not isinstance(text, np.ndarray):
        value = function(text)
        return value if dtype is object else dtype(value)
    out = np.empty(text.shape, dtype)
    for at, item in np.ndenumerate(text):
        out[at] = function(item)
    return out


@kernel("StringLength", device="CPU", fresh=True)
def _string_length(node: KernelNode) -> Any:
    in_bytes = node.attr("unit") == b"BYTE"
    count = len if in_bytes else lambda s: len(s.decode("utf-8", "replace"))
    return lambda text: _each(count, text, np.int32)


@kernel("StringStrip", device="CPU")
def _string_strip(node: KernelNode) -> Any:
    return lambda text: _each(bytes.strip, text)


@kernel("StringLower", "StringUpper", device="CPU")
def _string_case(node: KernelNode) -> Any:
    name = "lower" if node.op_type == "StringLower" else "upper"
    if node.attr("encoding") == b"utf-8":
        change = getattr(str, name)
        return lambda text: _each(lambda s: change(s.decode(errors="replace")).encode(), text)
    return lambda text: _each(lambda s: getattr(s, name)(), text)


def _pattern(text: bytes) -> re.Pattern:
    try:
        return re.compile(text)
    except re.error as e:
        raise invalid(f"Invalid pattern: {text.decode(errors='replace')}, error: {e}") from None


@kernel("StaticRegexReplace", "RegexReplace", device="CPU")
def _regex_replace(node: KernelNode) -> Any:
    count = 0 if node.attr("replace_global") else 1
    if node.op_type == "RegexReplace":
        return lambda text, pattern, rewrite: _each(
            lambda s: _pattern(pattern).sub(rewrite, s, count=count), text)
    pattern, rewrite = _pattern(node.attr("pattern")), node.attr("rewrite")
    return lambda text: _each(lambda s: pattern.sub(rewrite, s, count=count), text)


@kernel("RegexFullMatch", device="CPU", fresh=True)
def _regex_full_match(node: KernelNode) -> Any:
    return lambda text, pattern: _each(
        lambda s: _pattern(pattern).fullmatch(s) is not None, text, np.bool_)
