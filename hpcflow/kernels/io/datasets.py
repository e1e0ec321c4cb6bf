"""Kernels of data sets without functions of the user: a node gives a `Dataset`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from hpcflow.base.formats.array_protos import make_ndarray
from hpcflow.kernels.common.text import as_bytes
from hpcflow.kernels.io.dataset_cache import FileCacheDataset
from hpcflow.kernels.random.philox import MASK64, Start
from hpcflow.kernels.registry import RESOURCE, KernelNode, invalid, kernel
from hpcflow.kernels.sparse.sparse_serialization import tensor_encoder
from hpcflow.resources.datasets import batching, functions, order, parallel, shuffling, sources
from hpcflow.resources.datasets.base import Dataset, Dims

#: So many blocks of four random numbers are made at once.
_BLOCKS = 64


def components(node: KernelNode, types: str = "output_types") -> tuple[list, list[Dims]]:
    """The types and the dims of the elements, as the node declares them."""
    return node.attr(types), [s._dims for s in node.attr("output_shapes")]


# ---------------------------------------------------------------- sources


@kernel("TensorDataset", device="CPU")
def _tensors(node: KernelNode) -> Callable:
    about = components(node, "Toutput_types")
    return lambda *values: sources.TensorDataset(*about, values)


@kernel("TensorSliceDataset", device="CPU")
def _slices(node: KernelNode) -> Callable:
    about = components(node, "Toutput_types")
    return lambda *values: sources.SliceDataset(*about, values)


@kernel("SparseTensorSliceDataset", device="CPU")
def _sparse_slices(node: KernelNode) -> Callable:
    value_type = node.attr("Tvalues")
    return lambda indices, values, shape: sources.SparseSliceDataset(value_type, indices, values,
                                                                     shape)


@kernel("RangeDataset", device="CPU")
def _range(node: KernelNode) -> Callable:
    about = components(node)
    return lambda start, stop, step: sources.RangeDataset(*about, int(start), int(stop), int(step))


@kernel("RandomDataset", "ExperimentalRandomDataset", device="CPU")
def _random(node: KernelNode) -> Callable:
    about = components(node)
    return lambda seed, seed2: sources.RandomDataset(
        *about, shuffling.Seeds(int(seed), int(seed2), _draws, same=True))


# ---------------------------------------------------------------- order


@kernel("TakeDataset", "SkipDataset", device="CPU")
def _counted(node: KernelNode) -> Callable:
    made, about = getattr(order, node.op_type), components(node)
    return lambda source, count: made(source, *about, int(count))


@kernel("RepeatDataset", device="CPU")
def _repeat(node: KernelNode) -> Callable:
    about = components(node)

    def make(source: Dataset, count: Any) -> Dataset:
        if isinstance(source, shuffling.ShuffleDataset):
            return source.repeated(int(count))
        return order.RepeatDataset(source, *about, int(count))

    return make


@kernel("ShardDataset", device="CPU")
def _shard(node: KernelNode) -> Callable:
    about = components(node)
    return lambda source, count, index: order.ShardDataset(source, *about, int(count), int(index))


@kernel("ConcatenateDataset", device="CPU")
def _concatenate(node: KernelNode) -> Callable:
    about = components(node)
    return lambda first, second: order.ConcatenateDataset(first, second, *about)


@kernel("ZipDataset", device="CPU")
def _zip(node: KernelNode) -> Callable:
    about = components(node)
    return lambda *parts: order.ZipDataset(parts, *about)


def _draws(seed: int, seed2: int) -> Iterator[int]:
    """Random numbers of 32 bits without end."""
    start = Start(seed & MASK64, (seed2 & MASK64) << 64)
    for first in itertools.count(0, _BLOCKS):
        yield from start.words(first, _BLOCKS).tolist()


@kernel("DummySeedGenerator", "DummyMemoryCache", device="CPU", mode=RESOURCE)
def _nothing_shared(node: KernelNode) -> object:
    return object()


@kernel("ShuffleDataset", "ShuffleDatasetV3", device="CPU")
def _shuffle(node: KernelNode) -> Callable:
    about, same = components(node), not node.attr("reshuffle_each_iteration")
    return lambda source, size, seed, seed2, *shared: shuffling.ShuffleDataset(
        source, *about, int(size), shuffling.Seeds(int(seed), int(seed2), _draws, same))


@kernel("ShuffleAndRepeatDataset", "ShuffleAndRepeatDatasetV2", device="CPU")
def _shuffle_and_repeat(node: KernelNode) -> Callable:
    about, same = components(node), not node.attr("reshuffle_each_iteration")

    def make(source: Dataset, size: Any, seed: Any, seed2: Any, count: Any,
             *shared: Any) -> Dataset:
        if count < -1 or count == 0:
            raise invalid(f"ShuffleAndRepeatDataset: the count is {count}, neither positive nor -1 "
                          "for passes without end")
        seeds = shuffling.Seeds(int(seed), int(seed2), _draws, same)
        return shuffling.ShuffleDataset(source, *about, int(size), seeds).repeated(int(count))

    return make


@kernel("WindowDataset", device="CPU")
def _window(node: KernelNode) -> Callable:
    about = components(node)
    return lambda source, size, shift, stride, drop: order.WindowDataset(
        source, *about, int(size), int(shift), int(stride), bool(drop))


# ---------------------------------------------------------------- batches


@kernel("BatchDataset", device="CPU")
def _batch(node: KernelNode) -> Callable:
    about = components(node)
    return lambda source, size: batching.BatchDataset(source, *about, int(size), False)


@kernel("BatchDatasetV2", device="CPU")
def _batch_v2(node: KernelNode) -> Callable:
    about = components(node)
    return lambda source, size, drop: batching.BatchDataset(source, *about, int(size), bool(drop))


@kernel("ParallelBatchDataset", device="CPU")
def _parallel_batch(node: KernelNode) -> Callable:
    about = components(node)
    return lambda source, size, calls, drop: batching.BatchDataset(source, *about, int(size),
                                                                   bool(drop))


@kernel("SlidingWindowDataset", "ExperimentalSlidingWindowDataset", device="CPU")
def _sliding_window(node: KernelNode) -> Callable:
    about = components(node)
    return lambda source, size, shift, stride: batching.SlidingWindowDataset(
        source, *about, int(size), int(shift), int(stride), drop_remainder=True)


@kernel("PaddedBatchDataset", "PaddedBatchDatasetV2", device="CPU")
def _padded_batch(node: KernelNode) -> Callable:
    about = components(node, "Toutput_types")
    count, drops = node.attr("N"), node.op_type.endswith("V2")

    def make(source: Dataset, size: Any, *rest: Any) -> Dataset:
        padded = [tuple(int(d) for d in dims) for dims in rest[:count]]
        values = rest[count : 2 * count]
        for value in values:
            if np.ndim(value):
                raise invalid("All padding values must be scalars")
        return batching.PaddedBatchDataset(source, *about, int(size), padded, values,
                                           drops and bool(rest[-1]))

    return make


@kernel("DenseToSparseBatchDataset", "ExperimentalDenseToSparseBatchDataset", device="CPU")
def _sparse_batch(node: KernelNode) -> Callable:
    about = components(node)
    return lambda source, size, dims: batching.SparseBatchDataset(
        source, *about, int(size), tuple(int(d) for d in dims))


@kernel("UnbatchDataset", "ExperimentalUnbatchDataset", device="CPU")
def _unbatch(node: KernelNode) -> Callable:
    about = components(node)
    return lambda source: batching.UnbatchDataset(source, *about)


# ---------------------------------------------------------------- others


@kernel("UniqueDataset", "ExperimentalUniqueDataset", device="CPU")
def _unique(node: KernelNode) -> Callable:
    about = components(node)
    return lambda source: order.UniqueDataset(source, *about)


@kernel("DirectedInterleaveDataset", "ExperimentalDirectedInterleaveDataset", device="CPU")
def _directed(node: KernelNode) -> Callable:
    about = components(node)
    return lambda choices, *parts: order.DirectedDataset(choices, parts, *about)


@kernel("IgnoreErrorsDataset", "ExperimentalIgnoreErrorsDataset", device="CPU")
def _ignore_errors(node: KernelNode) -> Callable:
    about = components(node)
    return lambda source: functions.IgnoreErrorsDataset(source, *about)


@kernel("PrefetchDataset", device="CPU")
def _prefetch(node: KernelNode) -> Callable:
    about = components(node)
    return lambda source, size: parallel.PrefetchDataset(source, *about, int(size))


def _decoded(record: bytes) -> Any:
    """A component of an element of a cache."""
    from tensorboard.compat.proto.tensor_pb2 import TensorProto

    return make_ndarray(TensorProto.FromString(record))[()]


@kernel("CacheDataset", "CacheDatasetV2", device="CPU")
def _cache(node: KernelNode) -> Callable:
    about = components(node)

    def make(source: Dataset, filename: Any, *shared: Any) -> Dataset:
        name = as_bytes(filename).decode()
        if not name:
            return order.CacheDataset(source, *about)
        if any(t.name in ("variant", "resource") for t in about[0]):
            raise invalid(f"a cache in a file cannot keep elements of {[t.name for t in about[0]]}")
        return FileCacheDataset(source, *about, name, tensor_encoder(), _decoded)

    return make


def _advice(node: KernelNode) -> Callable:
    """What says how elements are made, and with which threads, but not which: nothing to do."""
    return lambda source, *how: source


for _op_type in ("AssertNextDataset", "BytesProducedStatsDataset", "LatencyStatsDataset",
                 "MaxIntraOpParallelismDataset", "NonSerializableDataset",
                 "PrivateThreadPoolDataset"):
    kernel(_op_type, f"Experimental{_op_type}", device="CPU")(_advice)
kernel("ModelDataset", "OptimizeDataset", "OptimizeDatasetV2", "OptionsDataset", "FinalizeDataset",
       device="CPU")(_advice)


@kernel("AssertCardinalityDataset", device="CPU")
def _assert_cardinality(node: KernelNode) -> Callable:
    about = components(node)
    return lambda source, count: order.CountedDataset(source, *about, int(count))
