"""Padded segments of sequences, also sparse ones, from a queue runner."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any

from hpcflow import dtypes, errors
from hpcflow.contrib.training.state_saver import (
    NextQueuedSequenceBatch,
    SequenceQueueingStateSaver,
    asserted,
    sizes,
    words,
)
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.sparse_tensor import SparseTensor, SparseTensorValue
from hpcflow.ops.arrays.casting import cast
from hpcflow.ops.arrays.constants import fill, range
from hpcflow.ops.arrays.joining import concat, stack
from hpcflow.ops.arrays.layout import tile
from hpcflow.ops.arrays.shape_ops import expand_dims, reshape
from hpcflow.ops.io.summary import scalar
from hpcflow.ops.math.comparison import equal, logical_and, not_equal
from hpcflow.ops.math.reductions import reduce_all, reduce_max
from hpcflow.ops.random.random_ops import random_uniform
from hpcflow.ops.sparse.sparse_layout import sparse_reshape
from hpcflow.ops.sparse.sparse_serialization import (
    add_many_sparse_to_tensors_map,
    take_many_sparse_from_tensors_map,
)
from hpcflow.ops.strings.strings import as_string, string_join
from hpcflow.train.queue_runner import QueueRunner, add_queue_runner

_SPARSE = (SparseTensor, SparseTensorValue)
_CONTEXT = "_context_in_seq_"  # before the names of sparse contexts among the sequences


def batch_sequences_with_states(
        input_key: TensorLike, input_sequences: Mapping[str, Any], input_context: Mapping[str, Any],
        input_length: Any, initial_states: Mapping[str, TensorLike], num_unroll: int,
        batch_size: Any, num_threads: int = 3, capacity: int = 1000,
        allow_small_batch: bool = True, pad: bool = True, make_keys_unique: bool = False,
        make_keys_unique_seed: int | None = None,
        name: str | None = None) -> NextQueuedSequenceBatch:
    """Return a batch of segments that a queue runner of `num_threads` threads fills.

    The arguments are those of :class:`SequenceQueueingStateSaver`, one example. Sequences and
    contexts may be sparse. With `pad` sequences are filled up with zeros (or empty strings) to a
    multiple of `num_unroll`, and `input_length` None is their length before; else another length is
    an ``InvalidArgumentError`` of a step. With `make_keys_unique` a random number follows the key.
    """
    with name_scope(name, "batch_sequences_with_states"):
        sequences, context = dict(input_sequences), dict(input_context)
        if pad:
            length, sequences = padded(sequences, num_unroll)
            input_length = length if input_length is None else input_length
        else:
            sequences = {key: _checked(key, value, num_unroll) for key, value in sequences.items()}
        _contexts_to_sequences(context, sequences, num_unroll)
        sequences, sparse_keys, maps = sparse_parts_stored(sequences)
        if make_keys_unique:
            number = random_uniform((), 0, 100000000, dtypes.int32, seed=make_keys_unique_seed)
            input_key = string_join([input_key, as_string(number)])
        saver = SequenceQueueingStateSaver(
            batch_size, num_unroll, input_length, input_key, sequences, context, initial_states,
            capacity, allow_small_batch)
        scalar(f"queue/{saver.barrier.name}/ready_segment_batches_",
               cast(saver.barrier.ready_size(), dtypes.float32))
        add_queue_runner(QueueRunner(
            saver, [saver.prefetch_op] * num_threads,
            queue_closed_exception_types=(errors.OutOfRangeError, errors.CancelledError)))
        batch = saver.next_batch
        sparse_parts_restored(batch.sequences, sparse_keys, maps, batch_size, num_unroll)
        _sequences_to_contexts(batch.context, batch.sequences)
        return batch


def padded(sequences: Mapping[str, Any], num_unroll: int) -> tuple[Any, dict[str, Any]]:
    """Return the length of the sequences, and the sequences filled up to a multiple of
    `num_unroll`. Dense ones of different lengths are an ``InvalidArgumentError`` of a step."""
    if not isinstance(num_unroll, Integral):
        raise ValueError(f"Unsupported num_unroll expected int, got: {num_unroll}")
    if not isinstance(sequences, Mapping):
        raise TypeError(f"Unsupported sequences expected dict, got: {sequences}")
    for key in sequences:
        if not isinstance(key, str):
            raise TypeError(f"Unsupported sequences key expected string, got: {key}")
    if not sequences:
        return 0, {}
    values = {key: value if isinstance(value, _SPARSE) else convert_to_tensor(value)
              for key, value in sorted(sequences.items())}
    length = _common_length(list(values.values()))
    whole = length + (-length) % num_unroll
    return length, {key: _filled(value, whole) for key, value in values.items()}


def _common_length(values: list[Any]) -> Any:
    lengths = [sizes(value)[0] for value in values if isinstance(value, Tensor)]
    if not lengths:
        return cast(reduce_max(stack([value.dense_shape[0] for value in values])), dtypes.int32)
    together = stack(lengths)
    return asserted(lengths[0], reduce_all(equal(together, lengths[0])), words(
        "All sequence lengths must match, but received lengths: ", together))


def _filled(value: Any, length: Any) -> Any:
    if isinstance(value, _SPARSE):
        dims: Any = convert_to_tensor(value.dense_shape)
        return SparseTensor(value.indices, value.values,
                            concat([[cast(length, dtypes.int64)], dims[1:]], 0))
    dims = concat([[length - sizes(value)[0]], sizes(value)[1:]], 0)
    nothing = convert_to_tensor("" if value.dtype.base_dtype is dtypes.string else 0, value.dtype)
    return concat([value, fill(dims, nothing)], 0)


def _checked(key: str, value: Any, num_unroll: int) -> Any:
    """A sequence that can be had only if segments divide it."""
    sparse = isinstance(value, _SPARSE)
    if not sparse:
        try:
            value = convert_to_tensor(value)
        except TypeError:
            raise TypeError("Unsupported input_sequences expected Tensor or SparseTensor values, "
                            f"got: {type(value)} for key {key}") from None
    length: Any = cast(value.dense_shape[0] if sparse else sizes(value)[0], dtypes.int32)
    good = logical_and(equal(length % num_unroll, 0), not_equal(length, 0))
    text = words(f"{'SparseTensor' if sparse else 'Tensor'} {key} first dimension should be a "
                   f"multiple of: {num_unroll}", ", but saw value: ", length,
                   ". Consider setting pad=True.")
    if not sparse:
        return asserted(value, good, text)
    return SparseTensor(*(asserted(convert_to_tensor(part), good, text)
                          for part in (value.indices, value.values, value.dense_shape)))


def _contexts_to_sequences(context: dict[str, Any], sequences: dict[str, Any],
                           num_unroll: int) -> None:
    """Make sequences of sparse contexts: the whole of each at the first step of each segment."""
    first: Any = next(iter(sequences.values()), None)
    if isinstance(first, _SPARSE):
        length: Any = convert_to_tensor(first.dense_shape)
        length = length[0]
    else:
        length = 1 if first is None else sizes(first)[0]
    length = cast(length, dtypes.int64)
    for key in sorted(k for k, value in context.items() if isinstance(value, _SPARSE)):
        value = context.pop(key)
        indices: Any = convert_to_tensor(value.indices)
        dims = convert_to_tensor(value.dense_shape)
        starts: Any = range(cast(0, dtypes.int64), length, num_unroll)
        count, found = sizes(starts)[0], sizes(indices)[0]
        steps = reshape(tile(expand_dims(starts, 1), stack([1, found])), [-1, 1])
        sequences[_CONTEXT + key] = SparseTensor(
            concat([steps, tile(indices, stack([count, 1]))], 1),
            tile(convert_to_tensor(value.values), [count]), concat([[length], dims], 0))


def _sequences_to_contexts(context: dict[str, Any], sequences: dict[str, Any]) -> None:
    """Take the sparse contexts out of a batch of sequences."""
    for key in sorted(k for k in sequences if k.startswith(_CONTEXT)):
        value = sequences.pop(key)
        dims = value.dense_shape
        one_step = SparseTensor(value.indices, value.values,
                                concat([dims[:1], [1], dims[2:]], 0))
        context[key.removeprefix(_CONTEXT)] = sparse_reshape(
            one_step, concat([dims[:1], dims[2:]], 0))


def sparse_parts_stored(
        sequences: Mapping[str, Any], shared_name: str | None = None
        ) -> tuple[dict[str, Any], list[str], list[Operation]]:
    """Put sparse sequences into maps. Returns the sequences, with the numbers of the rows of those,
    the names of these, and the operations of their maps."""
    keys = sorted(k for k, value in sequences.items() if isinstance(value, _SPARSE))
    stored = dict(sequences)
    for key in keys:
        stored[key] = add_many_sparse_to_tensors_map(sequences[key], shared_name=shared_name)
    return stored, keys, [stored[key].op for key in keys]


def sparse_parts_restored(sequences: dict[str, Any], sparse_keys: list[str],
                          maps: list[Operation], batch_size: Any, num_unroll: int) -> None:
    """Replace numbers of rows, [batch, time], by sparse tensors of batch, time, and the rest."""
    unroll: Any = convert_to_tensor(num_unroll, dtypes.int64)
    for key, stored in zip(sparse_keys, maps, strict=True):
        value = take_many_sparse_from_tensors_map(
            sparse_map_op=stored, sparse_handles=reshape(sequences[key], [-1]), rank=None)
        found: Any = value.indices
        row = found[:, :1]
        indices = concat([row // unroll, row % unroll, found[:, 1:]], 1)
        rest: Any = value.dense_shape
        dims = concat([[cast(batch_size, dtypes.int64)], [unroll], rest[1:]], 0)
        sequences[key] = SparseTensor(indices, value.values, dims)
