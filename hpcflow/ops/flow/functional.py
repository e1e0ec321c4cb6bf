"""map_fn, foldl, foldr and scan: a function applied along the first dimension of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcflow import dtypes
from hpcflow.base.keywords import also_ordered
from hpcflow.graph import nest
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import InitializerLike, Nest, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.common.static_shape import shape_of
from hpcflow.ops.flow.tensor_array import TensorArray
from hpcflow.ops.flow.while_loop import while_loop
from hpcflow.shapes import TensorShape

__all__ = ["foldl", "foldr", "map_fn", "scan"]


def map_fn(fn: Callable, elems: TensorLike, dtype: Any = None, parallel_iterations: int = 10,
           back_prop: bool = True, swap_memory: bool = False, infer_shape: bool = True,
           name: str | None = None, fn_output_signature: Any = None) -> Any:
    """Apply `fn` to each row of `elems`, and stack the results.

    Args:
        fn: takes one row of every tensor in `elems`, in the same structure; returns tensors.
        elems: a tensor or a nest of tensors, all with the same first dimension.
        dtype: the type, or nest of types, of what `fn` returns; that of `elems` if None.
        parallel_iterations, back_prop, swap_memory: see :func:`while_loop`.
        infer_shape: all results have the same shape.
        name: the name scope ("map").
        fn_output_signature: the later name of `dtype`.

    Returns:
        The stacked results: ``result[i] = fn(elems[i])``.

    Raises: ``TypeError`` if `fn` is not callable or its result has another structure than `dtype`
        (or `elems`); ``ValueError`` if the first dimensions differ.
    """
    _check_callable("map_fn", fn)
    dtype = fn_output_signature if dtype is None else dtype
    with name_scope(name, "map", nest.flatten(elems)):
        rows = _Rows(elems)
        types = elems if dtype is None else dtype
        results = [TensorArray(t, rows.count, infer_shape=infer_shape)
                   for t in _types(types, rows, dtype is None)]

        def body(i: Tensor, arrays: list) -> list:
            values = fn(rows.read(i))
            nest.check_same(types, values, "map_fn: dtype (or elems) and the result of fn")
            return [raw_ops.Add(i, 1), [a.write(i, v) for a, v in zip(
                arrays, nest.flatten(values), strict=True)]]

        _, written = while_loop(
            lambda i, _: raw_ops.Less(i, rows.count), body, [0, results],
            parallel_iterations=parallel_iterations, back_prop=back_prop, swap_memory=swap_memory)
        return nest.pack_as(types, [rows.stacked(a) for a in written])


def foldl(fn: Callable, elems: TensorLike, initializer: InitializerLike | None = None,
          parallel_iterations: int = 10, back_prop: bool = True, swap_memory: bool = False,
          name: str | None = None) -> Any:
    """Combine the rows of `elems` from the first to the last: ``a = fn(a, elems[i])``.

    Args:
        fn: takes the value so far and a row; returns the next value.
        elems: a tensor or a nest of tensors, all with the same first dimension.
        initializer: the value to start with; the first row if None.
        parallel_iterations, back_prop, swap_memory: see :func:`while_loop`.
        name: the name scope ("foldl").

    Raises: ``TypeError`` if `fn` is not callable.
    """
    options = {"parallel_iterations": parallel_iterations, "back_prop": back_prop,
               "swap_memory": swap_memory}
    return _fold("foldl", fn, elems, initializer, False, name, options)


def foldr(fn: Callable, elems: TensorLike, initializer: InitializerLike | None = None,
          parallel_iterations: int = 10, back_prop: bool = True, swap_memory: bool = False,
          name: str | None = None) -> Any:
    """Combine the rows of `elems` from the last to the first; see :func:`foldl`."""
    options = {"parallel_iterations": parallel_iterations, "back_prop": back_prop,
               "swap_memory": swap_memory}
    return _fold("foldr", fn, elems, initializer, True, name, options)


@also_ordered("reverse", "name")
def scan(fn: Callable, elems: Any, initializer: InitializerLike | None = None,
         parallel_iterations: int = 10, back_prop: bool = True, swap_memory: bool = False,
         infer_shape: bool = True, name: str | None = None, reverse: bool = False) -> Any:
    """As :func:`foldl`, but return the values after every row, stacked.

    Args:
        fn: takes the value so far (in the structure of `initializer`, or of `elems`) and a row;
            returns the next value.
        elems: a tensor or a nest of tensors, all with the same first dimension.
        initializer: the value to start with; if None the first row, which is then the first value.
        parallel_iterations, back_prop, swap_memory: see :func:`while_loop`.
        infer_shape: all values have the same shape.
        name: the name scope ("scan").
        reverse: go from the last row to the first; the values keep their places.

    Raises: ``TypeError`` if `fn` is not callable or returns another structure.
    """
    _check_callable("scan", fn)
    given = [] if initializer is None else nest.flatten(initializer)
    with name_scope(name, "scan", [*nest.flatten(elems), *given]):
        rows = _Rows(elems, clear_after_read=initializer is not None)
        first, value = rows.start(initializer, reverse)
        structure = elems if initializer is None else initializer
        arrays = [TensorArray(v.dtype, rows.count, infer_shape=infer_shape) for v in value]
        if initializer is None:
            at = rows.last() if reverse else 0
            arrays = [a.write(at, v) for a, v in zip(arrays, value, strict=True)]

        def body(i: Tensor, value: list, arrays: list) -> list:
            result = fn(nest.pack_as(structure, value), rows.read(i))
            nest.check_same(structure, result, "scan: the value and the result of fn")
            value = [convert_to_tensor(v, t.dtype.base_dtype) for v, t in zip(
                nest.flatten(result), value, strict=True)]
            arrays = [a.write(i, v) for a, v in zip(arrays, value, strict=True)]
            return [_step(i, reverse), value, arrays]

        _, _, written = while_loop(
            lambda i, *_: rows.has(i, reverse), body, [first, value, arrays],
            parallel_iterations=parallel_iterations, back_prop=back_prop, swap_memory=swap_memory)
        return nest.pack_as(structure, [rows.stacked(a) for a in written])


def _fold(kind: str, fn: Callable, elems: TensorLike, initializer: InitializerLike | None,
          reverse: bool, name: str | None, options: dict[str, Any]) -> Any:
    _check_callable(kind, fn)
    given = [] if initializer is None else nest.flatten(initializer)
    with name_scope(name, kind, [*nest.flatten(elems), *given]):
        rows = _Rows(elems)
        first, value = rows.start(initializer, reverse)
        structure = elems if initializer is None else initializer

        def body(i: Tensor, value: list) -> list:
            result = fn(nest.pack_as(structure, value), rows.read(i))
            nest.check_same(structure, result, f"{kind}: the value and the result of fn")
            return [_step(i, reverse), nest.flatten(result)]

        _, value = while_loop(lambda i, _: rows.has(i, reverse), body, [first, value], **options)
        return nest.pack_as(structure, value)


def _check_callable(kind: str, fn: Callable[..., Any]) -> None:
    if not callable(fn):
        raise TypeError(f"{kind}: fn must be callable, got {fn!r}")


def _step(i: Tensor, reverse: bool) -> Tensor:
    return raw_ops.Sub(i, 1) if reverse else raw_ops.Add(i, 1)


def _types(structure: Nest, rows: _Rows, from_elems: bool) -> list:
    if from_elems:
        return [t.dtype.base_dtype for t in rows.tensors]
    return [dtypes.as_dtype(t) for t in nest.flatten(structure)]


class _Rows:
    """The rows of one or several tensors, read one after the other in a loop.

    Raises ``ValueError`` if the first dimensions are known to differ or a tensor is a scalar.
    """

    def __init__(self, elems: Any, clear_after_read: bool = True) -> None:
        self.structure = elems
        if not nest.flatten(elems):
            raise ValueError("elems must be a Tensor or a structure of Tensors, but holds none")
        self.tensors = [convert_to_tensor(e, name="elem") for e in nest.flatten(elems)]
        self.static_count = self._static_count()
        self.count = self._count()
        self.arrays = [
            TensorArray(t.dtype, self.count, clear_after_read=clear_after_read).unstack(t)
            for t in self.tensors]

    def _static_count(self) -> int | None:
        count = TensorShape([None])
        for tensor in self.tensors:
            dims = tensor._dims
            if dims == ():
                what = "a scalar" if len(self.tensors) == 1 else "scalars"
                raise ValueError("elems must be a Tensor of one or more dimensions, not "
                                 f"{what}: {tensor.name} has no rows")
            if dims is not None:
                count = count.merge_with(TensorShape(dims[:1]))
        return count._dims[0]  # type: ignore[index]

    def _count(self) -> Tensor:
        if self.static_count is not None:
            return convert_to_tensor(self.static_count, dtypes.int32)
        shape = shape_of(self.tensors[0])
        return raw_ops.StridedSlice(shape, [0], [1], [1], shrink_axis_mask=1)

    def last(self) -> Tensor:
        """The index of the last row."""
        return raw_ops.Sub(self.count, 1)

    def has(self, i: Tensor, reverse: bool) -> Tensor:
        """Return a boolean tensor: there is a row `i`, going forwards or backwards."""
        return raw_ops.GreaterEqual(i, 0) if reverse else raw_ops.Less(i, self.count)

    def read(self, i: TensorLike) -> Any:
        """Row `i` of every tensor, in their structure."""
        return nest.pack_as(self.structure, [a.read(i) for a in self.arrays])

    def start(self, initializer: InitializerLike | None, reverse: bool) -> tuple[Any, list[Tensor]]:
        """(index of the first row to combine, the tensors of the value to start with)."""
        first: Any = self.last() if reverse else 0
        if initializer is not None:
            return first, [convert_to_tensor(v) for v in nest.flatten(initializer)]
        return _step(first, reverse) if reverse else 1, nest.flatten(self.read(first))

    def stacked(self, array: TensorArray) -> Tensor:
        """All elements of `array`, which has as many as there are rows."""
        result = array.stack()
        dims = array.element_shape._dims
        if dims is not None:
            result.set_shape(TensorShape((self.static_count, *dims)))
        return result
