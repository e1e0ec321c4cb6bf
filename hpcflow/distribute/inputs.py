"""The examples of each replica."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, NamedTuple

from hpcflow.data import Dataset
from hpcflow.data import nest as data_nest
from hpcflow.graph.operation import Operation
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.sparse_tensor import SparseTensor
from hpcflow.ops.arrays.joining import concat, stack
from hpcflow.ops.sparse.sparse_changes import sparse_slice


class InputReplicationMode(enum.Enum):
    """How often an input function is called: once by each worker."""

    PER_WORKER = "PER_WORKER"


class InputContext(NamedTuple):
    """What an input function may ask of a strategy.

    Attributes:
        num_input_pipelines: how many pipelines read the data: each replica has one.
        input_pipeline_id: the number of this one.
        num_replicas_in_sync: the number of replicas.
    """

    num_input_pipelines: int = 1
    input_pipeline_id: int = 0
    num_replicas_in_sync: int = 1

    def get_per_replica_batch_size(self, global_batch_size: int) -> int:
        """The part of a batch of all replicas that each has; ``ValueError`` if there is a rest."""
        if global_batch_size % self.num_replicas_in_sync:
            raise ValueError(f"The `global_batch_size` {global_batch_size!r} is not divisible "
                             f"by `num_replicas_in_sync` {self.num_replicas_in_sync!r} ")
        return global_batch_size // self.num_replicas_in_sync


class StrategyIterator:
    """The elements of a data set that a strategy has divided, for one replica."""

    def __init__(self, dataset: Dataset) -> None:
        self._iterator = dataset.make_initializable_iterator()

    def get_next(self, name: str | None = None) -> Any:
        """The next element."""
        return self._iterator.get_next(name)

    def initialize(self) -> Operation:
        """The operation that begins a pass over the data."""
        return self._iterator.initializer

    @property
    def initializer(self) -> Operation:
        """As :meth:`initialize`."""
        return self._iterator.initializer

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._iterator, name)  # what its elements are: output_shapes, ...


def rows_of_replica(dataset: Dataset, context: InputContext) -> Dataset:
    """`dataset`, whose elements are batches for all replicas, with those rows of each that this
    one has: the batch is cut into parts as equal as can be."""
    index, count = context.input_pipeline_id, context.num_replicas_in_sync
    if count == 1:
        return dataset

    def rows(value: Any) -> Any:
        sparse = isinstance(value, SparseTensor)
        dims = value.get_shape().as_list() if value.get_shape().ndims is not None else None
        if dims == [] or (sparse and dims is None):
            raise TypeError("The elements of a data set that replicas share out are batches of "
                            f"known rank; got {value!r}")
        sizes = raw_ops.Cast(value.dense_shape, DstT="int32") if sparse else (
            raw_ops.Shape(input=value))
        begin, end = sizes[0] * index // count, sizes[0] * (index + 1) // count
        if not sparse:
            return value[begin:end]
        rest = [0] * (len(dims or ()) - 1)
        return sparse_slice(value, stack([begin, *rest]), concat([[end - begin], sizes[1:]], 0))

    return dataset.map(lambda *element: data_nest.map_structure(
        rows, element if len(element) > 1 else element[0]))


def batches_of_replica(dataset: Dataset, context: InputContext) -> Dataset:
    """The batches of `dataset` that this replica has, where they have one each in turn. All have
    equally many: the batches that are left over at the end are dropped."""
    index, count = context.input_pipeline_id, context.num_replicas_in_sync
    if count == 1:
        return dataset
    return dataset.window(count, drop_remainder=True).flat_map(
        lambda *parts: _zipped(parts if len(parts) > 1 else parts[0]).skip(index).take(1))


def _zipped(windows: Any) -> Dataset:
    """The elements of a window, which is given as a data set for each of their parts."""
    return Dataset.zip(windows) if not isinstance(windows, Dataset) else windows


def from_function(function: Callable, context: InputContext) -> Dataset:
    """The data set that an input function of a strategy returns; ``TypeError`` for another value.
    """
    found = function(context)
    if not isinstance(found, Dataset):
        raise TypeError(f"an input function of a strategy returns a Dataset; got {found!r}")
    return found
