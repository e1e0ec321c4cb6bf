"""Transformations of data sets: random numbers, shuffling, interleaving, scans, error handling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcflow import dtypes
from hpcflow.data import nest
from hpcflow.data.arguments import get_seed
from hpcflow.data.dataset import AUTOTUNE, Dataset, _inner, _int64
from hpcflow.data.functions import ElementFunction
from hpcflow.data.scanning import state_function
from hpcflow.data.structure import Leaf, Structure, as_tensors
from hpcflow.dtypes import DTypeLike
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import DeviceLike, Nest, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.shapes import TensorShape

Transformation = Callable[[Dataset], Dataset]


def Counter(start: int = 0, step: int = 1, dtype: DTypeLike = dtypes.int64) -> Dataset:
    """The numbers ``start, start + step, ...`` without end."""
    first, by = convert_to_tensor(start, dtype), convert_to_tensor(step, dtype)
    return Dataset.from_tensors(0).repeat(None).apply(
        scan(first, lambda state, _: (state + by, state)))


def RandomDataset(seed: int | None = None) -> Dataset:
    """Random int64 numbers below 2**32, without end."""
    seed1, seed2 = get_seed(seed)
    structure = Structure(Leaf(dtypes.int64, TensorShape([])))
    variant = raw_ops.RandomDataset(seed=seed1, seed2=seed2, **structure.attrs)
    return Dataset._of(variant, structure)


def enumerate_dataset(start: int = 0) -> Transformation:
    """Pairs of a number, from `start` on, and the element."""
    return lambda dataset: dataset.enumerate(start)


def ignore_errors() -> Transformation:
    """Leave out the elements whose computation raises an error."""
    return lambda dataset: dataset._derived("IgnoreErrorsDataset")


def shuffle_and_repeat(buffer_size: TensorLike, count: TensorLike | None = None,
                       seed: int | None = None) -> Transformation:
    """``shuffle`` and ``repeat`` in one."""

    def change(dataset: Dataset) -> Dataset:
        size = _int64(buffer_size, "buffer_size")
        seed1, seed2 = get_seed(seed)
        return dataset._derived(
            "ShuffleAndRepeatDataset", buffer_size=size, seed=seed1, seed2=seed2,
            count=_int64(-1 if count is None else count, "count"))

    return change


def parallel_interleave(map_func: Callable, cycle_length: Any, block_length: TensorLike = 1,
                        sloppy: TensorLike = False, buffer_output_elements: Any = None,
                        prefetch_input_elements: Any = None) -> Transformation:
    """As ``interleave``, with the elements of each data set computed ahead.

    The order is that of ``interleave``, also with `sloppy`.
    """

    def change(dataset: Dataset) -> Dataset:
        function = dataset._opening(map_func, "parallel_interleave")
        buffered = buffer_output_elements
        if buffered is None:
            buffered = raw_ops.Mul(_int64(block_length, "block_length"), 2)
        ahead = 0 if prefetch_input_elements is None else prefetch_input_elements
        return dataset._derived(
            "ParallelInterleaveDataset", _inner(function),
            cycle_length=_int64(cycle_length, "cycle_length"),
            block_length=_int64(block_length, "block_length"),
            sloppy=convert_to_tensor(sloppy, dtypes.bool, "sloppy"),
            buffer_output_elements=_int64(buffered, "buffer_output_elements"),
            prefetch_input_elements=_int64(ahead, "prefetch_input_elements"), **function.inputs())

    return change


def prefetch_to_device(device: DeviceLike, buffer_size: TensorLike | None = None) -> Transformation:
    """As ``prefetch``; elements go to `device` when it reads them."""
    return lambda dataset: dataset.prefetch(AUTOTUNE if buffer_size is None else buffer_size)


def copy_to_device(target_device: object, source_device: str = "/cpu:0") -> Transformation:
    """The same elements; they go to a device when it reads them."""
    return lambda dataset: dataset


def scan(initial_state: Nest, scan_func: Callable) -> Transformation:
    """Return a transformation that carries a state from element to element: ``scan_func(state,
    element)`` returns the next state and the new element."""
    values = as_tensors(initial_state, "initial_state")

    def change(dataset: Dataset) -> Dataset:
        def make(state: Structure) -> ElementFunction:
            return ElementFunction(scan_func, [state, dataset._structure], "scan")

        function, state = state_function(make, Structure.of_values(values), _first)
        tree: Any = function.structure.tree
        return dataset._derived("ScanDataset", Structure(tree[1]),
                                initial_state=state.to_tensors(values),
                                preserve_cardinality=True, **function.inputs())

    return change


def _first(result: Structure) -> Structure:
    tree: Any = result.tree
    if not isinstance(tree, tuple) or len(tree) != 2:
        raise TypeError("The scan function must return a pair comprising the new state and the "
                        "output value.")
    return Structure(tree[0])


def take_while(predicate: Callable) -> Transformation:
    """The elements before the first for which `predicate` gives False; ``ValueError`` unless it
    gives a scalar bool."""

    def change(dataset: Dataset) -> Dataset:
        function = ElementFunction(predicate, [dataset._structure], "take_while")
        leaves = function.structure.leaves
        if len(leaves) != 1 or leaves[0].dtype is not dtypes.bool or (
                not leaves[0].shape.is_compatible_with(TensorShape([]))):
            raise ValueError("`predicate` must return a scalar boolean tensor.")
        return dataset._derived("TakeWhileDataset", predicate=function.func,
                                other_arguments=function.captured)

    return change


def unique() -> Transformation:
    """Each element once: ``TypeError`` unless elements are single int32, int64 or string
    tensors."""

    def change(dataset: Dataset) -> Dataset:
        if nest.is_nested(dataset._structure.tree) or dataset.output_types not in (
                dtypes.int32, dtypes.int64, dtypes.string):
            raise TypeError("`tf.data.experimental.unique()` only supports inputs with a single "
                            "`tf.int32`, `tf.int64`, or `tf.string` component.")
        return dataset._derived("UniqueDataset")

    return change


INFINITE_CARDINALITY, UNKNOWN_CARDINALITY = -1, -2


def cardinality(dataset: Dataset) -> Tensor:
    """The number of elements of a data set, int64, as far as it is known without a pass over it.

    ``INFINITE_CARDINALITY`` for a data set without end, ``UNKNOWN_CARDINALITY`` where it depends on
    what functions or files say: behind ``filter``, ``flat_map`` and ``map``, whose function may end
    a data set.
    """
    return raw_ops.DatasetCardinality(input_dataset=dataset._variant_tensor)


def get_single_element(dataset: Dataset) -> Any:
    """The only element of a data set, as tensors.

    In a step, ``InvalidArgumentError`` if there are none or several; ``TypeError`` for anything but
    a data set.
    """
    if not isinstance(dataset, Dataset):
        raise TypeError(f"`dataset` must be a `tf.data.Dataset` object, but is {dataset!r}.")
    parts = raw_ops.DatasetToSingleElement(dataset=dataset._variant_tensor,
                                           **dataset._structure.attrs)
    return dataset._structure.from_tensors(
        list(parts) if isinstance(parts, (list, tuple)) else [parts])
