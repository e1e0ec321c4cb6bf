"""Kernels of lists of tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from hpcflow.dtypes import DType
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown

Shape = tuple | None  # -1 for a dimension that is not known


class TensorList:
    """A list of tensors, never changed once it is made.

    Attributes:
        items: the elements; None for one that was not set yet.
        of: the type of all elements.
        dims: what is known of the shape of all elements.
        xp: the array module of the device that the elements are on.
    """

    __slots__ = ("items", "of", "dims", "xp")

    def __init__(self, items: list, dtype: DType, shape: Shape, xp: Any) -> None:
        self.items = items
        self.of = dtype
        self.dims = shape
        self.xp = xp

    def with_items(self, items: list) -> TensorList:
        """Another list of the same kind."""
        return TensorList(items, self.of, self.dims, self.xp)

    def checked(self, item: Any) -> Any:
        """`item`, if it may be an element of this list."""
        if not _fits(np.shape(item), self.dims):
            raise invalid(f"the list holds elements of shape {_show(self.dims)}, got one of shape "
                          f"{shown(np.shape(item))}")
        return item

    def item(self, index: Any, shape: Shape) -> Any:
        """One element; zeros if it was never set, for which the shape must be known."""
        if not 0 <= index < len(self.items):
            raise invalid(f"Trying to access element {int(index)} in a list with "
                          f"{len(self.items)} elements.")
        found = self.items[index]
        return self._zeros(shape) if found is None else found

    def _zeros(self, shape: Shape) -> Any:
        known = _merged(shape, self.dims)
        if known is None or -1 in known:
            others = {np.shape(i) for i in self.items if i is not None}
            if len(others) != 1:
                raise invalid("an element that was never set is read, and its shape "
                              f"{_show(known)} is not known")
            known = others.pop()
        return zeros(self.xp, self.of, known)


def zeros(xp: Any, dtype: DType, shape: tuple) -> Any:
    """Zeros, or empty strings."""
    if dtype.name == "string":
        return np.full(shape, b"", object)[()]
    return xp.zeros(shape, dtype.np)[()]


def _shape_of(value: Any) -> Shape:
    """The shape that an input describes; a scalar stands for none at all."""
    return None if np.ndim(value) == 0 else tuple(int(d) for d in value)


def _fits(shape: tuple, wanted: Shape) -> bool:
    return wanted is None or len(shape) == len(wanted) and all(
        w in (-1, s) for s, w in zip(shape, wanted, strict=True))


def _merged(a: Shape, b: Shape) -> Shape:
    if a is None or b is None:
        return b if a is None else a
    if len(a) != len(b):
        raise invalid(f"shapes {_show(a)} and {_show(b)} of elements differ")
    return tuple(y if x == -1 else x for x, y in zip(a, b, strict=True))


def _show(shape: Shape) -> str:
    return "<unknown>" if shape is None else "[" + ",".join(
        "?" if d < 0 else str(d) for d in shape) + "]"


def _register(*op_types: str, **options: Any) -> Callable:
    """A kernel for lists of arrays, and one for those of strings, which only the host has."""
    def both(factory: Callable) -> Callable:
        kernel(*op_types, device="CPU", **options)(factory)
        return kernel(*op_types, **options)(factory)

    return both


# ---------------------------------------------------------------- whole lists


@_register("EmptyTensorList", host_inputs=(0, 1))
def _empty(node: KernelNode) -> Any:
    dtype = node.attr("element_dtype")
    return lambda shape, _: TensorList([], dtype, _shape_of(shape), node.xp)


@_register("TensorListReserve", host_inputs=(0, 1))
def _reserve(node: KernelNode) -> Any:
    dtype = node.attr("element_dtype")

    def reserve(shape: Any, count: Any) -> TensorList:
        if count < 0:
            raise invalid(f"a list cannot have {int(count)} elements")
        return TensorList([None] * int(count), dtype, _shape_of(shape), node.xp)

    return reserve


@_register("TensorListLength", fresh=True, host_outputs=(0,))
def _length(node: KernelNode) -> Any:
    return lambda items: np.int32(len(items.items))


@_register("TensorListElementShape", fresh=True, host_outputs=(0,))
def _element_shape(node: KernelNode) -> Any:
    dtype = node.np_dtype()
    return lambda items: np.array(-1 if items.dims is None else items.dims, dtype)[()]


@_register("TensorListResize", host_inputs=(1,))
def _resize(node: KernelNode) -> Any:
    def resize(items: TensorList, size: Any) -> TensorList:
        if size < 0:
            raise invalid(f"a list cannot have {int(size)} elements")
        kept = items.items[: int(size)]
        return items.with_items(kept + [None] * (int(size) - len(kept)))

    return resize


@_register("ZerosLike", types={"T": ["variant"]})
def _zeros_like(node: KernelNode) -> Any:
    def like(items: Any) -> TensorList:
        return items.with_items([i if i is None else like(i) if isinstance(i, TensorList)
                                 else zeros(items.xp, items.of, np.shape(i)) for i in items.items])

    return like


@_register("AddN", types={"T": ["variant"]})
def _add_n(node: KernelNode) -> Any:
    """Element by element."""

    def add(first: TensorList, *others: TensorList) -> TensorList:
        if any(len(o.items) != len(first.items) for o in others):
            raise invalid("lists of different lengths cannot be added: "
                          f"{[len(o.items) for o in (first, *others)]}")
        columns = zip(first.items, *(o.items for o in others), strict=True)
        return first.with_items([_sum([i for i in c if i is not None]) for c in columns])

    def _sum(values: list) -> Any:
        if not values:
            return None
        return add(*values) if isinstance(values[0], TensorList) else sum(values[1:], values[0])

    return add


# ---------------------------------------------------------------- single elements


@_register("TensorListPushBack")
def _push(node: KernelNode) -> Any:
    return lambda items, item: items.with_items([*items.items, items.checked(item)])


@_register("TensorListPopBack", host_inputs=(1,))
def _pop(node: KernelNode) -> Any:
    def pop(items: TensorList, shape: Any) -> tuple:
        if not items.items:
            raise invalid("Trying to pop from an empty list.")
        last = items.item(len(items.items) - 1, _shape_of(shape))
        return items.with_items(items.items[:-1]), last

    return pop


@_register("TensorListGetItem", host_inputs=(1, 2))
def _get(node: KernelNode) -> Any:
    return lambda items, index, shape: items.item(index, _shape_of(shape))


@_register("TensorListSetItem", host_inputs=(1,))
def _set(node: KernelNode) -> Any:
    grows = node.attr("resize_if_index_out_of_bounds")

    def assign(items: TensorList, index: Any, item: Any) -> TensorList:
        found = list(items.items)
        if index < 0 or index >= len(found) and not grows:
            raise invalid(f"Trying to modify element {int(index)} in a list with {len(found)} "
                          "elements.")
        found += [None] * (int(index) + 1 - len(found))
        found[index] = items.checked(item)
        return items.with_items(found)

    return assign


# ---------------------------------------------------------------- from tensors and to tensors


@_register("TensorListFromTensor", host_inputs=(1,))
def _from_tensor(node: KernelNode) -> Any:
    dtype = node.attr("element_dtype")

    def convert(tensor: Any, shape: Any) -> TensorList:
        if np.ndim(tensor) == 0:
            raise invalid("a scalar cannot be taken apart into a list")
        found = TensorList([], dtype, _shape_of(shape), node.xp)
        return found.with_items([found.checked(row) for row in tensor])

    return convert


@_register("TensorListStack", fresh=True, host_inputs=(1,))
def _stack(node: KernelNode) -> Any:
    wanted = node.attr("num_elements")

    def stack(items: TensorList, shape: Any) -> Any:
        if wanted >= 0 and len(items.items) != wanted:
            raise invalid(f"Operation expected a list with {wanted} elements but got a list with "
                          f"{len(items.items)} elements.")
        return _stacked(items, range(len(items.items)), _shape_of(shape))

    return stack


@_register("TensorListGather", fresh=True, host_inputs=(1, 2))
def _gather(node: KernelNode) -> Any:
    return lambda items, indices, shape: _stacked(items, indices, _shape_of(shape))


def _stacked(items: TensorList, indices: Iterable, shape: Shape) -> Any:
    rows = [items.item(i, shape) for i in indices]
    if not rows:
        known = _merged(shape, items.dims)
        if known is None or -1 in known:
            raise invalid(f"an empty list of elements of shape {_show(known)} has no tensor")
        return _empty_array(items, (0, *known))
    if len({np.shape(r) for r in rows}) > 1:
        raise invalid("elements of different shapes cannot be stacked: "
                      f"{sorted({np.shape(r) for r in rows})}")
    out = _empty_array(items, (len(rows), *np.shape(rows[0])))
    for i, row in enumerate(rows):
        out[i] = row
    return out


def _empty_array(items: TensorList, shape: tuple) -> Any:
    return np.empty(shape, object) if items.of.name == "string" else items.xp.empty(
        shape, items.of.np)


@_register("TensorListScatterV2", host_inputs=(1, 2, 3))
def _scatter(node: KernelNode) -> Any:
    dtype = node.attr("element_dtype")

    def scatter(tensor: Any, indices: Any, shape: Any, count: Any) -> TensorList:
        length = int(indices.max(initial=-1)) + 1 if count < 0 else int(count)
        return _scattered(
            TensorList([None] * length, dtype, _shape_of(shape), node.xp), tensor, indices)

    return scatter


@_register("TensorListScatterIntoExistingList", host_inputs=(2,))
def _scatter_into(node: KernelNode) -> Any:
    return _scattered


def _scattered(items: TensorList, tensor: Any, indices: Any) -> TensorList:
    found = list(items.items)
    if len(indices) != len(tensor):
        raise invalid(f"{len(indices)} indices for {len(tensor)} rows")
    for index, row in zip(indices, tensor, strict=True):
        if not 0 <= index < len(found):
            raise invalid(f"index {int(index)} is not in a list with {len(found)} elements")
        found[index] = items.checked(row)
    return items.with_items(found)


@_register("TensorListConcatV2", host_inputs=(1, 2), host_outputs=(1,))
def _concat(node: KernelNode) -> Any:
    def concat(items: TensorList, shape: Any, lengths: Any) -> tuple:
        wanted = _shape_of(shape)
        parts = []
        for i, part in enumerate(items.items):
            if part is None and i < len(lengths) and wanted is not None:
                part = zeros(items.xp, items.of, (int(lengths[i]), *wanted[1:]))
            parts.append(items.item(i, wanted) if part is None else part)
        if not parts:
            raise invalid("an empty list cannot be concatenated")
        return items.xp.concatenate(parts), np.array([len(p) for p in parts], np.int64)

    return concat


@_register("TensorListSplit", host_inputs=(1, 2))
def _split(node: KernelNode) -> Any:
    dtype = node.attr("element_dtype")

    def split(tensor: Any, shape: Any, lengths: Any) -> TensorList:
        if int(np.sum(lengths)) != len(tensor):
            raise invalid(f"lengths {lengths.tolist()} do not add up to {len(tensor)} rows")
        ends = np.cumsum(lengths)
        found = TensorList([], dtype, _shape_of(shape), node.xp)
        return found.with_items([found.checked(tensor[e - n : e])
                                 for n, e in zip(lengths, ends, strict=True)])

    return split
