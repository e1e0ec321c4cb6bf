"""Kernels of lists of tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import combinations
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
        most: the largest number of elements; -1 for any.
    """

    __slots__ = ("items", "of", "dims", "xp", "most")

    def __init__(self, items: list, dtype: DType, shape: Shape, xp: Any, most: int = -1) -> None:
        self.items = items
        self.of = dtype
        self.dims = shape
        self.xp = xp
        self.most = most

    def with_items(self, items: list) -> TensorList:
        """Another list of the same kind."""
        return TensorList(items, self.of, self.dims, self.xp, self.most)

    def pushed(self, item: Any) -> TensorList:
        """This list with one more element, if it may have that many."""
        if len(self.items) == self.most:
            raise invalid(f"Tried to push item into a full list list size: {len(self.items)} "
                          f"max_num_elements: {self.most}")
        return self.with_items([*self.items, self.checked(item)])

    def checked(self, item: Any) -> Any:
        """`item`, if it may be an element of this list."""
        if not _fits(np.shape(item), self.dims):
            raise invalid(f"a tensor with an incompatible shape: the list holds elements of shape "
                          f"{_show(self.dims)}, got one of shape {shown(np.shape(item))}")
        return item

    def at(self, index: Any) -> Any:
        """One element; None if it was never set."""
        if not 0 <= index < len(self.items):
            raise invalid(f"Trying to access element {int(index)} in a list with "
                          f"{len(self.items)} elements.")
        return self.items[index]

    def zeros_like(self) -> TensorList:
        """The list of zeros of the shapes of the elements."""
        if self.of.name == "variant":
            return self.with_items([None if i is None else i.zeros_like() for i in self.items])
        return self.with_items([None if i is None else zeros(self.xp, self.of, np.shape(i))
                                for i in self.items])

    def item(self, index: Any, shape: Shape) -> Any:
        """One element; zeros if it was never set, for which the shape must be known."""
        found = self.at(index)
        return self._zeros(shape) if found is None else found

    def _zeros(self, shape: Shape) -> Any:
        known = self.common_shape(shape, self.items)
        if not _is_known(known):
            raise invalid("Trying to read an uninitialized tensor but element_shape is not fully "
                          f"defined: {_show(known)}")
        return zeros(self.xp, self.of, known)

    def common_shape(self, shape: Shape, items: list) -> Any:
        """What is known of the shape of `items` of this list that are to be in one tensor."""
        known = _merged(shape, self.dims)
        if not _is_known(known):
            for item in items:
                known = known if item is None else _merged(known, np.shape(item))
        return known


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


def _may_agree(a: Shape, b: Shape) -> bool:
    """Whether a tensor can be of both shapes."""
    return a is None or b is None or len(a) == len(b) and all(
        x == y or -1 in (x, y) for x, y in zip(a, b, strict=True))


def _is_known(shape: Shape) -> bool:
    return shape is not None and -1 not in shape


def _merged(a: Shape, b: Shape) -> Shape:
    if a is None or b is None:
        return b if a is None else a
    if len(a) != len(b):
        raise invalid(f"Incompatible ranks during merge: {len(a)} vs. {len(b)}")
    if not _may_agree(a, b):
        raise invalid(f"Incompatible shapes during merge: {_show(a)} vs. {_show(b)}")
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
    return lambda shape, most: TensorList([], dtype, _shape_of(shape), node.xp, int(most))


@_register("TensorListReserve", host_inputs=(0, 1))
def _reserve(node: KernelNode) -> Any:
    dtype = node.attr("element_dtype")

    def reserve(shape: Any, count: Any) -> TensorList:
        if count < 0:
            raise invalid("The num_elements to reserve must be a non negative number, but got "
                          f"{int(count)}")
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
            raise invalid("TensorListSlice expects size to be non-negative. Got: "
                          f"{int(size)}")
        kept = items.items[: int(size)]
        return items.with_items(kept + [None] * (int(size) - len(kept)))

    return resize


@_register("ZerosLike", types={"T": ["variant"]}, priority=1)
def _zeros_like(node: KernelNode) -> Any:
    return _zeros_of


def _zeros_of(value: Any) -> Any:
    """The zeros of a variant, which says itself what they are, or of an array of variants."""
    if not isinstance(value, np.ndarray):
        return value.zeros_like()
    made = np.empty(value.shape, object)
    for place, variant in np.ndenumerate(value):
        made[place] = _zeros_of(variant)
    return made


@_register("AddN", types={"T": ["variant"]}, priority=1)
def _add_n(node: KernelNode) -> Any:
    """Element by element."""

    def add(first: Any, *others: Any) -> Any:
        if not isinstance(first, TensorList):
            return sum(others, first)
        if any(len(o.items) != len(first.items) for o in others):
            raise invalid("Trying to add two lists of tensors with different lengths: "
                          f"{[len(o.items) for o in (first, *others)]}")
        if not all(_may_agree(a.dims, b.dims) for a, b in combinations((first, *others), 2)):
            raise invalid("Trying to add two lists of tensors with incompatible element shapes: "
                          f"{[_show(o.dims) for o in (first, *others)]}")
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
    return lambda items, item: items.pushed(item)


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
    def gather(items: TensorList, indices: Any, shape: Any) -> Any:
        return _stacked(items, indices, _shape_of(shape), "gather")

    return gather


def _stacked(items: TensorList, indices: Iterable, shape: Shape, verb: str = "stack") -> Any:
    found = [items.at(i) for i in indices]
    known = items.common_shape(shape, found)
    if not _is_known(known):
        raise invalid(f"{_NO_SHAPE[verb, bool(found)]} element_shape: {_show(known)}")
    out = _empty_array(items, (len(found), *known))
    for i, row in enumerate(found):
        _merged(known, known if row is None else np.shape(row))
        out[i] = zeros(items.xp, items.of, known) if row is None else row
    return out


_NO_SHAPE = {
    ("stack", True): "Tried to stack list which only contains uninitialized tensors and has a "
                     "non-fully-defined",
    ("stack", False): "Tried to stack elements of an empty list with non-fully-defined",
    ("gather", True): "Tried to gather uninitialized tensors from a list with non-fully-defined",
    ("gather", False): "Tried to gather elements of an empty list with non-fully-defined"}


def _empty_array(items: TensorList, shape: tuple) -> Any:
    return np.empty(shape, object) if items.of.name == "string" else items.xp.empty(
        shape, items.of.np)


@_register("TensorListScatterV2", host_inputs=(1, 2, 3))
def _scatter(node: KernelNode) -> Any:
    dtype = node.attr("element_dtype")

    def scatter(tensor: Any, indices: Any, shape: Any, count: Any) -> TensorList:
        if count < -1:
            raise invalid("TensorListScatter expects num_elements >= -1, found: "
                          f"{int(count)}")
        length = int(indices.max(initial=-1)) + 1 if count < 0 else int(count)
        if indices.max(initial=-1) >= length:
            raise invalid(f"TensorListScatter: Trying to scatter at index {int(indices.max())} in "
                          f"list with size {length}")
        return _scattered(
            TensorList([None] * length, dtype, _shape_of(shape), node.xp), tensor, indices)

    return scatter


@_register("TensorListScatterIntoExistingList", host_inputs=(2,))
def _scatter_into(node: KernelNode) -> Any:
    return _scattered


def _scattered(items: TensorList, tensor: Any, indices: Any) -> TensorList:
    if len(indices) != len(tensor):
        raise invalid("Invalid number of rows in input tensor. Expected: "
                      f"{len(indices)} Actual: {len(tensor)}")
    if indices.min(initial=0) < 0:
        raise invalid("Indices in TensorListScatter must all be non-negative.")
    found = items.items + [None] * (int(indices.max(initial=-1)) + 1 - len(items.items))
    for index, row in zip(indices, tensor, strict=True):
        found[index] = items.checked(row)
    return items.with_items(found)


@_register("TensorListConcatV2", host_inputs=(1, 2), host_outputs=(1,))
def _concat(node: KernelNode) -> Any:
    def concat(items: TensorList, shape: Any, lengths: Any) -> tuple:
        wanted = _shape_of(shape)
        rest = _rows_shape(items, wanted)
        parts = [_part(items, i, wanted, rest, lengths) for i in range(len(items.items))]
        ends = np.array([len(p) for p in parts], np.int64)
        if not parts:
            return _empty_array(items, (0, *rest)), ends
        return items.xp.concatenate(parts), ends

    return concat


def _rows_shape(items: TensorList, shape: Shape) -> tuple:
    """The shape of the rows of all elements, which are to be joined."""
    known = _merged(shape, items.dims)
    if known == ():
        raise invalid("Concat requires elements to be at least vectors, found scalars instead.")
    rest = None if known is None else known[1:]
    for i, item in enumerate(items.items):
        if item is not None and not np.ndim(item):
            raise invalid(f"Concat saw a scalar shape at index {i} but requires at least vectors.")
        rest = rest if item is None else _merged(rest, np.shape(item)[1:])
    if rest is not None and -1 not in rest:
        return rest
    if items.items:
        raise invalid("Trying to concat list with only uninitialized tensors but "
                      f"element_shape_except_first_dim_ is not fully defined: {_show(rest)}")
    raise invalid("All except the first dimension must be fully defined when concating an empty "
                  f"tensor list. element_shape: {_show(known)}")


def _part(items: TensorList, index: int, shape: Shape, rest: tuple, lengths: Any) -> Any:
    if items.items[index] is not None:
        return items.items[index]
    if index < len(lengths):
        return zeros(items.xp, items.of, (int(lengths[index]), *rest))
    known = items.common_shape(shape, items.items)
    if not _is_known(known):
        raise invalid(f"List contains uninitialized tensor at index {index} but leading_dims has "
                      f"only {len(lengths)} elements.")
    return zeros(items.xp, items.of, known)


@_register("TensorListSplit", host_inputs=(1, 2))
def _split(node: KernelNode) -> Any:
    dtype = node.attr("element_dtype")

    def split(tensor: Any, shape: Any, lengths: Any) -> TensorList:
        _check_split(np.shape(tensor), _shape_of(shape), lengths)
        ends = np.cumsum(lengths)
        found = TensorList([], dtype, _shape_of(shape), node.xp)
        return found.with_items([found.checked(tensor[e - n : e])
                                 for n, e in zip(lengths, ends, strict=True)])

    return split


def _check_split(dims: tuple, wanted: Shape, lengths: Any) -> None:
    """Raise unless a tensor of shape `dims` has parts of these lengths, which fit `wanted`."""
    if not dims:
        raise invalid("Tensor must be at least a vector, but saw shape: []")
    if np.ndim(lengths) != 1:
        raise invalid("Expected lengths to be a vector, received shape: "
                      f"{shown(np.shape(lengths))}")
    if wanted == ():
        raise invalid("TensorListSplit requires element_shape to be at least of rank 1, but "
                      "saw: []")
    if wanted is not None and not _fits(dims[1:], wanted[1:]):
        raise invalid(f"tensor shape {_show(dims)} is not compatible with element_shape "
                      f"{_show(wanted)}")
    if lengths.min(initial=0) < 0:
        raise invalid(f"Invalid value in lengths: {lengths.min()}")
    for length, end in zip(lengths, np.cumsum(lengths), strict=True):
        if end > dims[0]:
            raise invalid(f"Attempting to slice [{end - length}, {end}] from tensor with "
                          f"length {dims[0]}")
    if lengths.sum() != dims[0]:
        raise invalid(f"Unused values in tensor. Length of tensor: {dims[0]} "
                      f"Values used: {lengths.sum()}")
