"""Dataset: a sequence of elements, described by operations of the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcflow import dtypes
from hpcflow.data import batches, sources
from hpcflow.data.arguments import get_seed
from hpcflow.data.functions import ElementFunction, is_variant_function
from hpcflow.data.iterator import Iterator, initializable_iterator, one_shot_iterator
from hpcflow.data.options import Options
from hpcflow.data.structure import AnyDataset, Structure, dataset_of, merged
from hpcflow.errors import InvalidArgumentError
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import BoolLike, Nest, Sizes, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import constant_value
from hpcflow.shapes import ShapeLike, TensorShape

AUTOTUNE = -1


class BadShard(InvalidArgumentError, ValueError):
    """A number of shards, or of one of them, that there cannot be."""


class Dataset(AnyDataset):
    """A sequence of elements: tensors, sparse tensors, or tuples and dicts of these.

    A data set is a variant tensor of the graph in which it is made. Its elements are computed when
    an iterator asks for them. Methods return a new data set.
    """

    _options: Options

    def __init__(self) -> None:
        raise TypeError("Dataset() cannot be called: use Dataset.from_tensor_slices() and the like")

    @classmethod
    def _of(cls, variant: Tensor, structure: Structure, options: Options | None = None) -> Dataset:
        """Wrap a variant tensor as a data set."""
        dataset = object.__new__(Dataset)
        dataset._variant_tensor, dataset._structure = variant, structure
        dataset._options = options or Options()
        return dataset

    def _derived(self, op_type: str, structure: Structure | None = None,
                 **inputs: Any) -> Dataset:
        """Return the data set that an operation of type `op_type` makes from this one."""
        structure = structure or self._structure
        variant = getattr(raw_ops, op_type)(input_dataset=self._variant_tensor, **inputs,
                                            **structure.attrs)
        return Dataset._of(variant, structure, self._options)

    # ------------------------------------------------------------ facts

    def __repr__(self) -> str:
        return (f"<{type(self).__name__} shapes: {self.output_shapes}, types: {self.output_types}>")

    def __iter__(self) -> Any:
        raise RuntimeError("dataset.__iter__() is only supported when eager execution is enabled.")

    def __bool__(self) -> bool:
        return True

    def options(self) -> Options:
        """The options set by ``with_options``."""
        return self._options

    def with_options(self, options: Options) -> Dataset:
        """Return the same data set with `options`, which change nothing that is computed here.

        Raises ``ValueError`` where an option was set to something else before.
        """
        return Dataset._of(self._variant_tensor, self._structure, self._options.merge(options))

    # ------------------------------------------------------------ iterators

    def make_one_shot_iterator(self) -> Iterator:
        """An iterator that needs no initialization, for data sets that read no state.

        Raises ``ValueError`` for one that reads placeholders, variables, tables and the like.
        """
        return one_shot_iterator(self)

    def make_initializable_iterator(self, shared_name: str | None = None) -> Iterator:
        """An iterator that begins when its ``initializer`` is run.

        Sessions of one server share it by `shared_name`.
        """
        return initializable_iterator(self, shared_name)

    # ------------------------------------------------------------ sources

    @staticmethod
    def from_tensors(tensors: Nest) -> Dataset:
        """A data set of one element."""
        return sources.from_tensors(tensors)

    @staticmethod
    def from_tensor_slices(tensors: Nest) -> Dataset:
        """The slices of tensors along their first dimension.

        Raises ``ValueError`` where first dimensions differ, or a tensor has none.
        """
        return sources.from_tensor_slices(tensors)

    @staticmethod
    def from_sparse_tensor_slices(sparse_tensor: Any) -> Dataset:
        """The rows of a sparse tensor, each as (indices, values, shape); ``TypeError`` for
        anything else."""
        return sources.from_sparse_tensor_slices(sparse_tensor)

    @staticmethod
    def from_generator(generator: Callable, output_types: Any,
                       output_shapes: ShapeLike | None = None,
                       args: tuple | None = None) -> Dataset:
        """Return the data set of the values that ``generator(*args)`` yields, called in each pass.

        The generator gets arrays, and gives what converts to elements of `output_types` and
        `output_shapes`. It runs in the process that built the graph.
        """
        return sources.from_generator(generator, output_types, output_shapes, args)

    @staticmethod
    def range(*args: Any) -> Dataset:
        """The int64 numbers of ``range(*args)``; ``ValueError`` for none or more than three."""
        return sources.number_range(*args)

    @staticmethod
    def zip(datasets: Any) -> Dataset:
        """Elements of a nest of data sets side by side, as long as all have one.

        Raises ``TypeError`` for what is no nest of data sets (a list is none).
        """
        return sources.zipped(datasets)

    @staticmethod
    def list_files(file_pattern: str, shuffle: bool | None = None,
                   seed: int | None = None) -> Dataset:
        """The names of the files that match patterns; in random order unless `shuffle` is False.

        No match is an ``InvalidArgumentError`` when an iterator begins.
        """
        return sources.list_files(file_pattern, shuffle, seed)

    # ------------------------------------------------------------ order

    def concatenate(self, dataset: Dataset) -> Dataset:
        """Return these elements, then those of `dataset`; ``TypeError`` if types or classes
        vary."""
        structure = merged(self._structure, dataset._structure, "Two datasets to concatenate")
        return self._derived("ConcatenateDataset", structure,
                             another_dataset=dataset._variant_tensor)

    def prefetch(self, buffer_size: TensorLike) -> Dataset:
        """The same elements, up to `buffer_size` of them computed ahead."""
        size = AUTOTUNE if buffer_size is None else buffer_size
        return self._derived("PrefetchDataset", buffer_size=_int64(size, "buffer_size"))

    def repeat(self, count: TensorLike | None = None) -> Dataset:
        """`count` passes over the elements; without end for None and -1."""
        return self._derived("RepeatDataset", count=_int64(-1 if count is None else count, "count"))

    def enumerate(self, start: int = 0) -> Dataset:
        """Pairs of a number, from `start` on, and the element."""
        return Dataset.zip((Dataset.range(start, dtypes.int64.max), self))

    def shuffle(self, buffer_size: TensorLike, seed: TensorLike | None = None,
                reshuffle_each_iteration: bool | None = None) -> Dataset:
        """The elements in random order: each is drawn from a buffer of the next `buffer_size`.

        Every pass has an order of its own unless `reshuffle_each_iteration` is False.
        """
        size = _int64(buffer_size, "buffer_size")
        seed1, seed2 = get_seed(seed)
        again = reshuffle_each_iteration is None or reshuffle_each_iteration
        return self._derived("ShuffleDataset", buffer_size=size, seed=seed1, seed2=seed2,
                             reshuffle_each_iteration=bool(again))

    def cache(self, filename: TensorLike = "") -> Dataset:
        """The elements, which the first full pass keeps in memory, or in the file
        ``FILENAME.elements``, where later programs find them."""
        return self._derived("CacheDataset",
                             filename=convert_to_tensor(filename, dtypes.string, "filename"))

    def take(self, count: TensorLike) -> Dataset:
        """The first `count` elements; all for -1."""
        return self._derived("TakeDataset", count=_int64(count, "count"))

    def skip(self, count: TensorLike) -> Dataset:
        """All but the first `count` elements; none for -1."""
        return self._derived("SkipDataset", count=_int64(count, "count"))

    def shard(self, num_shards: Any, index: Any) -> Dataset:
        """Every `num_shards`-th element, from number `index` on.

        Raises ``InvalidArgumentError`` (also a ``ValueError``) for known numbers that do not fit,
        for others when an iterator begins.
        """
        shards, at = _int64(num_shards, "num_shards"), _int64(index, "index")
        count, place = constant_value(shards), constant_value(at)
        if count is not None and count < 1:
            raise BadShard(None, None, f"num_shards must be >= 1; got: {int(count)}")
        if place is not None and place < 0:
            raise BadShard(None, None, f"index must be >= 0; got: {int(place)}")
        if count is not None and place is not None and place >= count:
            raise BadShard(None, None, f"index must be <= num_shards; {int(place)} is not < "
                                       f"{int(count)}")
        return self._derived("ShardDataset", num_shards=shards, index=at)

    # ------------------------------------------------------------ batches

    def batch(self, batch_size: TensorLike, drop_remainder: BoolLike = False) -> Dataset:
        """Stack `batch_size` consecutive elements; the last batch may be smaller, or be dropped."""
        return batches.batch(self, batch_size, drop_remainder)

    def padded_batch(self, batch_size: Any, padded_shapes: Any = None, padding_values: Any = None,
                     drop_remainder: BoolLike = False) -> Dataset:
        """Stack elements, padded to `padded_shapes`, which are nested as the element.

        These are the shapes of the element if they are not given. A dimension of None or -1 is
        that of the largest element of the batch. `padding_values` are zeros and empty strings by
        default.
        """
        return batches.padded_batch(self, batch_size, padded_shapes, padding_values,
                                    drop_remainder)

    def unbatch(self) -> Dataset:
        """The slices of the elements along their first dimension, one after the other."""
        return batches.unbatch(self)

    def window(self, size: TensorLike, shift: TensorLike | None = None, stride: Sizes = 1,
               drop_remainder: BoolLike = False) -> Dataset:
        """Windows of `size` elements, `shift` (by default `size`) apart, of every `stride`-th
        element: elements with a data set in the place of each tensor."""
        return batches.window(self, size, shift, stride, drop_remainder)

    # ------------------------------------------------------------ functions

    def map(self, map_func: Callable, num_parallel_calls: TensorLike | None = None) -> Dataset:
        """Return the data set of ``map_func(element)``; `num_parallel_calls` run at a time."""
        return self._mapped(ElementFunction(map_func, [self._structure], "map"),
                            num_parallel_calls)

    def _mapped(self, function: ElementFunction, num_parallel_calls: TensorLike | None) -> Dataset:
        if num_parallel_calls is None:
            return self._derived("MapDataset", function.structure, **function.inputs())
        calls = convert_to_tensor(num_parallel_calls, dtypes.int32, "num_parallel_calls")
        return self._derived("ParallelMapDataset", function.structure, num_parallel_calls=calls,
                             **function.inputs())

    def flat_map(self, map_func: Callable) -> Dataset:
        """The elements of the data sets that `map_func` makes of each, one after the other;
        ``TypeError`` if it returns anything else."""
        function = self._opening(map_func, "flat_map")
        return self._derived("FlatMapDataset", _inner(function), **function.inputs())

    def interleave(self, map_func: Callable, cycle_length: Any = None, block_length: Any = 1,
                   num_parallel_calls: TensorLike | None = None) -> Dataset:
        """Blocks of elements of `cycle_length` data sets at a time that `map_func` makes, in turn.

        By default, and with ``AUTOTUNE``, these are four.
        With `num_parallel_calls` their elements are computed ahead.
        """
        function = self._opening(map_func, "interleave")
        cycle_length = AUTOTUNE if cycle_length is None else cycle_length
        lengths = {"cycle_length": _int64(cycle_length, "cycle_length"),
                   "block_length": _int64(block_length, "block_length")}
        if num_parallel_calls is None:
            return self._derived("InterleaveDataset", _inner(function), **lengths,
                                 **function.inputs())
        calls = _int64(num_parallel_calls, "num_parallel_calls")
        return self._derived("ParallelInterleaveDatasetV2", _inner(function), **lengths,
                             num_parallel_calls=calls, **function.inputs())

    def _opening(self, function: Callable, what: str) -> ElementFunction:
        made = ElementFunction(function, [self._structure], what)
        if not is_variant_function(made):
            raise TypeError("`map_func` must return a `Dataset` object.")
        return made

    def filter(self, predicate: Callable) -> Dataset:
        """The elements for which `predicate` gives True; ``ValueError`` unless it gives a
        scalar bool."""
        function = ElementFunction(predicate, [self._structure], "filter")
        leaves = function.structure.leaves
        if len(leaves) != 1 or leaves[0].dtype is not dtypes.bool or (
                not leaves[0].shape.is_compatible_with(TensorShape([]))):
            raise ValueError("`predicate` must return a scalar boolean tensor.")
        return self._derived("FilterDataset", predicate=function.func,
                             other_arguments=function.captured)

    def filter_with_legacy_function(self, predicate: Callable) -> Dataset:
        """As :meth:`filter`: there is one kind of functions."""
        return self.filter(predicate)

    def map_with_legacy_function(self, map_func: Callable, num_parallel_calls: int | None = None,
                                 deterministic: bool | None = None) -> Dataset:
        """As :meth:`map`, but ``get_variable`` in the function returns the value of a variable by
        handle, as it is when an iterator begins. The order is kept."""
        del deterministic
        function = ElementFunction(map_func, [self._structure], "map", reads_variables=True)
        return self._mapped(function, num_parallel_calls)

    def reduce(self, initial_state: Nest, reduce_func: Callable) -> Any:
        """Return the state after ``state = reduce_func(state, element)`` for all elements: a nest
        of tensors like `initial_state`. Raises ``TypeError`` if the state changes its types."""
        from hpcflow.data.scanning import reduce

        return reduce(self, initial_state, reduce_func)

    def apply(self, transformation_func: Callable) -> Dataset:
        """``transformation_func(self)``; ``TypeError`` unless that is a data set."""
        dataset = transformation_func(self)
        if not isinstance(dataset, Dataset):
            raise TypeError(f"`transformation_func` must return a Dataset. Got {dataset}.")
        return dataset


def _int64(value: TensorLike, name: str) -> Tensor:
    return convert_to_tensor(value, dtypes.int64, name)


def _inner(function: ElementFunction) -> Structure:
    """Return the element structure of the data sets that a function returns."""
    tree: Any = function.structure.tree
    return tree.structure


dataset_of.provide(Dataset._of)
