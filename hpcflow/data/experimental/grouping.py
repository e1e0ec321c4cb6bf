"""Elements grouped by keys, and by their lengths."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcflow import dtypes
from hpcflow.data import nest
from hpcflow.data.dataset import Dataset
from hpcflow.data.functions import ElementFunction, is_variant_function
from hpcflow.data.scanning import state_function
from hpcflow.data.structure import DatasetLeaf, Leaf, Structure
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import control_dependencies
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.flow.checks import assert_less
from hpcflow.shapes import ShapeLike, TensorShape

if TYPE_CHECKING:
    from hpcflow.graph.operation import Tensor

Transformation = Callable[[Dataset], Dataset]
_NUMBER = Structure(Leaf(dtypes.int64, TensorShape([])))


def group_by_window(key_func: Callable, reduce_func: Callable, window_size: Any = None,
                    window_size_func: Callable | None = None) -> Transformation:
    """Windows of elements of one key, each made a data set of by ``reduce_func(key, window)``.

    Args:
        key_func: gives the key of an element, a scalar int64.
        reduce_func: gets a key and a data set, and returns a data set.
        window_size: the most elements of a window; or `window_size_func` of the key.

    Raises ``ValueError`` unless exactly one of both is given, or for keys of another type.
    """
    if (window_size is not None) == (window_size_func is not None):
        raise ValueError("Must pass either window_size or window_size_func, but not both.")

    def sizes(key: TensorLike) -> Any:
        size = window_size if window_size_func is None else window_size_func(key)
        return convert_to_tensor(size, dtypes.int64)

    def change(dataset: Dataset) -> Dataset:
        key = _key_function(key_func, dataset, "group_by_window_key")
        size = ElementFunction(sizes, [_NUMBER], "group_by_window_size")
        _check_number(size, "`window_size_func` must return a single tf.int64 scalar tensor")
        window = Structure(DatasetLeaf(dataset._structure))
        reduce = ElementFunction(lambda k, w: reduce_func(k, w), [_NUMBER, window],
                                 "group_by_window_reduce")
        if not is_variant_function(reduce):
            raise TypeError("`reduce_func` must return a `Dataset` object.")
        tree: Any = reduce.structure.tree
        return dataset._derived("GroupByWindowDataset", tree.structure, **key.inputs("key"),
                                **reduce.inputs("reduce"), **size.inputs("window_size"))

    return change


def _key_function(key_func: Callable, dataset: Dataset, name: str) -> ElementFunction:
    """The function that gives the key of an element; ``ValueError`` unless it is an int64."""

    @functools.wraps(key_func)
    def keys(*parts: Any) -> Any:
        key = key_func(*parts)
        return convert_to_tensor(key, dtypes.int64) if isinstance(key, int) else key

    key = ElementFunction(keys, [dataset._structure], name)
    _check_number(key, "`key_func` must return a single tf.int64 scalar tensor")
    return key


def _check_number(function: ElementFunction, message: str) -> None:
    leaves = function.structure.leaves
    if len(leaves) != 1 or leaves[0].dtype is not dtypes.int64 or (
            not leaves[0].shape.is_compatible_with(TensorShape([]))):
        raise ValueError(f"{message}.")


class Reducer:
    """How a group becomes one element: three functions, for :func:`group_by_reducer`.

    Args:
        init_func: gives the state of a key before its first element.
        reduce_func: gives the state after an element, from (state, element).
        finalize_func: gives the element that the group becomes, from its last state.
    """

    def __init__(self, init_func: Callable, reduce_func: Callable,
                 finalize_func: Callable) -> None:
        self._init_func = self.init_func = init_func
        self._reduce_func = self.reduce_func = reduce_func
        self._finalize_func = self.finalize_func = finalize_func


def group_by_reducer(key_func: Callable, reducer: Reducer) -> Transformation:
    """One element for each key, in the order of the keys, made by `reducer` of all elements of it.

    `key_func` gives the key of an element, a scalar int64; ``ValueError`` for keys of another
    type, ``TypeError`` if the state changes its types.
    """

    def change(dataset: Dataset) -> Dataset:
        key = _key_function(key_func, dataset, "group_by_reducer_key")
        init = ElementFunction(reducer.init_func, [_NUMBER], "group_by_reducer_init")

        def make(state: Structure) -> ElementFunction:
            return ElementFunction(reducer.reduce_func, [state, dataset._structure],
                                   "group_by_reducer_reduce")

        reduce, state = state_function(make, init.structure, lambda s: s)
        finalize = ElementFunction(reducer.finalize_func, [state], "group_by_reducer_finalize")
        return dataset._derived(
            "GroupByReducerDataset", finalize.structure, **key.inputs("key"), **init.inputs("init"),
            **reduce.inputs("reduce"), **finalize.inputs("finalize"))

    return change


def _with_boundary(bucket: TensorLike, count: int) -> Tensor:
    """The number of a bucket, which must be one of those that end at a boundary."""
    message = ("When pad_to_bucket_boundary=True, elements must have length < "
               "max(bucket_boundaries).")
    with control_dependencies([assert_less(bucket, np.int64(count), message=message)]):
        return raw_ops.Identity(bucket)


def bucket_by_sequence_length(element_length_func: Callable, bucket_boundaries: Sequence[int],
                              bucket_batch_sizes: Sequence[int],
                              padded_shapes: ShapeLike | None = None, padding_values: Any = None,
                              pad_to_bucket_boundary: bool = False, no_padding: bool = False,
                              drop_remainder: bool = False) -> Transformation:
    """Padded batches of elements of about the same length.

    Args:
        element_length_func: gives the length of an element, a scalar int32.
        bucket_boundaries: where one bucket ends and the next begins.
        bucket_batch_sizes: a batch size per bucket: one more than boundaries.
        padded_shapes, padding_values, drop_remainder: as those of ``padded_batch``.
        pad_to_bucket_boundary: unknown dimensions get the largest length of the bucket; an element
            behind all boundaries is an ``InvalidArgumentError`` of the step.
        no_padding: elements of a bucket are of one shape.

    Raises ``ValueError`` for a wrong number of batch sizes.
    """
    if len(bucket_batch_sizes) != len(bucket_boundaries) + 1:
        raise ValueError("len(bucket_batch_sizes) must equal len(bucket_boundaries) + 1")
    sizes = np.array(bucket_batch_sizes, np.int64)
    limits = np.array([*bucket_boundaries, dtypes.int32.max], np.int32)

    def bucket_of(*parts: Any) -> Any:
        length = convert_to_tensor(element_length_func(*parts))
        limit = raw_ops.Cast(limits, DstT=length.dtype)
        return raw_ops.Sum(raw_ops.Cast(raw_ops.LessEqual(limit, length), DstT=dtypes.int64), [0])

    def size_of(bucket: TensorLike) -> Any:
        return raw_ops.Gather(sizes, bucket)

    def batches(bucket: TensorLike, window: Dataset) -> Dataset:
        size = size_of(bucket)
        if no_padding:
            return window.batch(size, drop_remainder=drop_remainder)
        shapes = window.output_shapes if padded_shapes is None else padded_shapes
        if pad_to_bucket_boundary:
            bucket = _with_boundary(bucket, len(bucket_boundaries))
            last = raw_ops.Cast(raw_ops.Gather(limits, bucket), DstT=dtypes.int64) - 1
            shapes = _filled(window._structure, shapes, last)
        return window.padded_batch(size, shapes, padding_values, drop_remainder)

    return group_by_window(bucket_of, batches, window_size_func=size_of)


def _filled(structure: Structure, shapes: ShapeLike, size: Tensor) -> Any:
    """`shapes` with `size` for every dimension that is not known."""
    def fill(shape: ShapeLike) -> Any:
        dims = TensorShape(shape)
        if dims.ndims is None:
            raise ValueError("Expecting a shape with known rank")
        return [size if d is None else d for d in dims.as_list()]

    flat = nest.flatten_up_to(structure.tree, shapes)
    filled = [_vector(fill(s)) for s in flat]
    return nest.pack_as(structure.tree, filled)


def _vector(dims: list) -> Any:
    return raw_ops.Pack([convert_to_tensor(d, dtypes.int64) for d in dims]) if dims else (
        convert_to_tensor(np.zeros(0, np.int64)))
