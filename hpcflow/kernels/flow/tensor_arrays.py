"""Kernels of TensorArrays: elements are written and read without copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.registry import STEP, KernelNode, invalid, kernel
from hpcflow.resources.step_state import keep
from hpcflow.resources.tensor_array import TensorArray

_OLD = ("", "V2", "V3")


def _versions(name: str) -> list[str]:
    return [f"TensorArray{name}{version}" for version in _OLD]


# ---------------------------------------------------------------- making


@kernel("TensorArray", "TensorArrayV2", mode=STEP, host_inputs=(0,))
def make(node: KernelNode) -> Callable:
    """A new array in every execution; the handle is the array itself."""
    create = _creator(node)
    return lambda step, size: keep(step, create(int(size)))


@kernel("TensorArrayV3", mode=STEP, host_inputs=(0,))
def make_with_flow(node: KernelNode) -> Callable:
    """The array, and the flow that orders what is done with it."""
    create, flow = _creator(node), _flow(node)
    return lambda step, size: (keep(step, create(int(size))), flow)


def _flow(node: KernelNode) -> Any:
    return node.device.to_device(np.zeros((), np.float32)) if node.device.has_own_memory else (
        np.float32(0))


def _creator(node: KernelNode) -> Callable[[int], TensorArray]:
    name = node.attr("tensor_array_name", b"").decode() or node.name
    dtype, dims = node.attr("dtype"), node.attr("element_shape")._dims
    dynamic, clear = node.attr("dynamic_size"), node.attr("clear_after_read")
    identical = bool(node.attr("identical_element_shapes", False))
    zeros = _zeros(node)
    return lambda size: TensorArray(name, dtype, size, dims, zeros, dynamic, clear, identical)


def _zeros(node: KernelNode) -> Callable[[tuple], Any]:
    """The value of elements that were never written."""
    dtype, xp = node.attr("dtype").base_dtype, node.xp
    if dtype.name == "string":
        return lambda shape: np.full(shape, b"", object)[()]
    return lambda shape: xp.zeros(shape, dtype.np)[()]


@kernel("TensorArrayGrad", "TensorArrayGradV2")
def gradient(node: KernelNode) -> Callable:
    """The array of gradients: one for each source."""
    source = node.attr("source").decode()
    return lambda handle, flow: handle.gradient(source)


@kernel("TensorArrayGradV3")
def gradient_with_flow(node: KernelNode) -> Callable:
    """The array of gradients, and the flow."""
    source = node.attr("source").decode()
    return lambda handle, flow: (handle.gradient(source), flow)


@kernel("TensorArrayClose", "TensorArrayCloseV2", "TensorArrayCloseV3")
def close(node: KernelNode) -> Callable:
    """Drop the elements."""
    return TensorArray.close


@kernel(*_versions("Size"), host_outputs=(0,))
def size(node: KernelNode) -> Callable:
    """The number of elements."""
    return lambda handle, flow: np.int32(handle.size())


# ---------------------------------------------------------------- single elements


@kernel(*_versions("Write"), host_inputs=(1,))
def write(node: KernelNode) -> Callable:
    """Set an element."""
    dtype = node.attr("T").base_dtype

    def run(handle: TensorArray, index: Any, value: Any, flow: Any) -> Any:
        if handle.element_type is not dtype:
            handle.check_dtype(dtype, "is trying to write")
        handle.write(int(index), value)
        return flow

    return run


@kernel(*_versions("Read"), host_inputs=(1,))
def read(node: KernelNode) -> Callable:
    """One element."""
    dtype = node.attr("dtype").base_dtype

    def run(handle: TensorArray, index: Any, flow: Any) -> Any:
        if handle.element_type is not dtype:
            handle.check_dtype(dtype, "requested")
        return handle.read(int(index))

    return run


# ---------------------------------------------------------------- many elements


@kernel(*_versions("Gather"), host_inputs=(1,))
def gather(node: KernelNode) -> Callable:
    """Elements, stacked along a new first dimension."""
    stack = _stacker(node)
    return lambda handle, indices, flow: stack(handle, indices.tolist())


@kernel("TensorArrayPack")
def pack(node: KernelNode) -> Callable:
    """All elements, stacked."""
    stack = _stacker(node)
    return lambda handle, flow: stack(handle, list(range(handle.size())))


def _stacker(node: KernelNode) -> Callable:
    xp, dtype, dims = node.xp, node.attr("dtype").base_dtype, node.attr("element_shape")._dims
    in_own_memory = node.device.has_own_memory

    def stack(handle: TensorArray, indices: list[int]) -> Any:
        if handle.element_type is not dtype:
            handle.check_dtype(dtype, "requested")
        if not indices:
            return xp.empty((0, *handle.empty_shape(dims, "packing")), dtype.np)
        values = handle.read_many(indices, dims)
        if in_own_memory or getattr(values[0], "shape", ()):
            return xp.stack(values)
        result = np.empty(len(values), dtype.np)
        result[:] = values
        return result

    return stack


@kernel(*_versions("Scatter"), host_inputs=(1,))
def scatter(node: KernelNode) -> Callable:
    """Write the rows of a tensor to elements."""
    dtype = node.attr("T").base_dtype

    def run(handle: TensorArray, indices: Any, value: Any, flow: Any) -> Any:
        handle.check_dtype(dtype, "is trying to write")
        places = indices.tolist()
        _check_rows(value, len(places))
        last = max(places, default=-1)
        if last >= handle.size() and not handle.dynamic:
            raise invalid(f"Max scatter index must be < array size ({last} vs. {handle.size()})")
        handle.write_rows(places, value)
        return flow

    return run


@kernel("TensorArrayUnpack")
def unpack(node: KernelNode) -> Callable:
    """Write the rows of a tensor to all elements."""
    dtype = node.attr("T").base_dtype

    def run(handle: TensorArray, value: Any, flow: Any) -> Any:
        handle.check_dtype(dtype, "is trying to write")
        count = len(value) if getattr(value, "shape", ()) else None
        _check_rows(value, count)
        if count != handle.size() and not (handle.dynamic and handle.size() < count):  # type: ignore[operator]
            raise invalid("TensorArray's size is not equal to the size of the unpacked value "
                          f"({handle.size()} vs. {count}), and the TensorArray is not marked as "
                          "dynamically resizeable")
        handle.write_rows(list(range(count or 0)), value)
        return flow

    return run


def _check_rows(value: Any, count: int | None) -> None:
    shape = getattr(value, "shape", ())
    if not shape:
        raise invalid("Input value for unpack must be at least a vector but received shape: []")
    if shape[0] != count:
        raise invalid(f"Expected len(indices) == values.shape[0], but saw: {count} vs. {shape[0]}")


@kernel(*_versions("Concat"), fresh=True, host_outputs=(1,))
def concat(node: KernelNode) -> Callable:
    """All elements, one after the other along their first dimension; and their lengths."""
    xp, dtype = node.xp, node.attr("dtype").base_dtype
    rest = node.attr("element_shape_except0")._dims

    def run(handle: TensorArray, flow: Any) -> tuple:
        handle.check_dtype(dtype, "requested")
        count = handle.size()
        if not count:
            known = handle.dims[1:] if rest is None and handle.dims else rest
            shape = (0, *handle.empty_shape(known, "concatenating"))
            return xp.empty(shape, dtype.np), np.zeros(0, np.int64)
        values = [handle.read(i) for i in range(count)]
        _check_parts(values, rest)
        return xp.concatenate(values), np.array([len(v) for v in values], np.int64)

    return run


def _check_parts(values: list, rest: tuple | None) -> None:
    shapes = [getattr(v, "shape", ()) for v in values]
    for index, shape in enumerate(shapes):
        if not shape:
            raise invalid(f"Concat saw a scalar shape at index {index} but requires at least "
                          "vectors.  Did you mean to call pack?")
        if shape[1:] != shapes[0][1:]:
            raise invalid("TensorArray has inconsistent shapes.  Index 0 has (excepting dimension "
                          f"0) shape: {_show(shapes[0][1:])} but index {index} has (excepting "
                          f"dimension 0) shape: {_show(shape[1:])}")
    found = shapes[0][1:]
    if rest is not None and not (len(rest) == len(found) and all(
            r is None or r == s for r, s in zip(rest, found))):
        raise invalid("TensorArray was passed element_shape_except0 "
                      f"{_show(rest)} but index 0 has (excepting dimension 0) shape: "
                      f"{_show(found)}")


def _show(dims: tuple) -> str:
    return "[" + ",".join("?" if d is None else str(d) for d in dims) + "]"


@kernel(*_versions("Split"), host_inputs=(2,))
def split(node: KernelNode) -> Callable:
    """Write pieces of a tensor, of the given lengths, to all elements."""
    dtype = node.attr("T").base_dtype

    def run(handle: TensorArray, value: Any, lengths: Any, flow: Any) -> Any:
        handle.check_dtype(dtype, "is trying to write")
        shape = getattr(value, "shape", ())
        if np.ndim(lengths) != 1:
            raise invalid(f"Expected lengths to be a vector, received shape: "
                          f"{_show(np.shape(lengths))}")
        if not shape:
            raise invalid("Expected value to be at least a vector, but received shape: []")
        ends = np.cumsum(lengths).tolist()
        if (ends[-1] if ends else 0) != shape[0]:
            raise invalid("Expected sum of lengths to be equal to values.shape[0], but sum of "
                          f"lengths is {ends[-1] if ends else 0} and value's shape is: "
                          f"{_show(shape)}")
        if len(ends) != handle.size() and not (handle.dynamic and handle.size() < len(ends)):
            raise invalid("TensorArray's size is not equal to the size of lengths "
                          f"({handle.size()} vs. {len(ends)}), and the TensorArray is not marked "
                          "as dynamically resizeable")
        for index, (start, end) in enumerate(zip([0, *ends[:-1]], ends)):
            handle.write(index, value[start:end])
        return flow

    return run
