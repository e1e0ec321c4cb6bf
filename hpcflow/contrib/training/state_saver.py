"""Batches of segments of long sequences, with a state that is kept from segment to segment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hpcflow import dtypes
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import colocate_with, control_dependencies, get_default_graph, name_scope
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.ops.arrays.casting import cast
from hpcflow.ops.arrays.constants import ones, range
from hpcflow.ops.arrays.identities import identity
from hpcflow.ops.arrays.joining import concat, stack
from hpcflow.ops.arrays.layout import tile
from hpcflow.ops.arrays.masks import boolean_mask
from hpcflow.ops.arrays.shape_ops import expand_dims, rank, reshape, shape
from hpcflow.ops.common.grouping import group
from hpcflow.ops.flow.checks import Assert, assert_greater_equal
from hpcflow.ops.io.barriers import Barrier
from hpcflow.ops.io.queues import FIFOQueue
from hpcflow.ops.math.binary import maximum, minimum
from hpcflow.ops.math.comparison import (
    equal,
    less_equal,
    logical_and,
    logical_not,
    not_equal,
)
from hpcflow.ops.math.reductions import reduce_all, reduce_sum
from hpcflow.ops.strings.strings import as_string, string_join

_FIRST = ("length", "total_length", "next_key", "sequence", "sequence_count")
_FIRST_TYPES = (dtypes.int32, dtypes.int32, dtypes.string, dtypes.int32, dtypes.int32)


class NextQueuedSequenceBatch:
    """The next segments of as many sequences as a batch has, and their states.

    ``key``, ``next_key``, ``length`` (of the segment without padding), ``total_length``,
    ``sequence`` (the number of the segment), ``sequence_count`` and ``insertion_index`` are vectors
    of the batch, ``batch_size`` is a scalar, ``context`` and ``sequences`` are dicts.
    """

    def __init__(self, state_saver: SequenceQueueingStateSaver, indices: Tensor, keys: Tensor,
                 components: dict[str, Any]) -> None:
        self._saver = state_saver
        self.insertion_index = indices
        self.key = keys
        self.length = components["length"]
        self.total_length = components["total_length"]
        self.next_key = components["next_key"]
        self.sequence: Any = components["sequence"]
        self.sequence_count = components["sequence_count"]
        self.batch_size = reshape(shape(self.length), [])
        self.context = _named("context", components)
        self.sequences = _named("sequences", components)
        self._unfinished = self.sequence + 1 < self.sequence_count
        ended = reduce_sum(cast(logical_not(self._unfinished), dtypes.int32))
        with control_dependencies([state_saver._tokens.dequeue_many(ended)]):
            self._states = {name: identity(value)
                            for name, value in _named("states", components).items()}

    def state(self, state_name: str) -> Tensor:
        """Return the states of a name: the initial ones for first segments, else those saved."""
        return self._states[state_name]

    def save_state(self, state_name: str, value: TensorLike, name: str | None = None) -> Operation:
        """Return an operation that saves the states for the next segments; run it in each step.

        Raises ``KeyError`` for a name without initial state, ``ValueError`` for another rank.
        """
        if state_name not in self._states:
            raise KeyError(f"state was not declared: {state_name}")
        saver = self._saver
        with (name_scope(name, "InputQueueingStateSaver_SaveState", [value]),
              colocate_with(saver._tokens.queue_ref)):
            tensor = identity(value, name=f"convert_{state_name}")
            tensor = _of_shape(tensor, self._states[state_name])
            return saver._insert(f"states/{state_name}",
                                 boolean_mask(self.next_key, self._unfinished),
                                 boolean_mask(tensor, self._unfinished))


class SequenceQueueingStateSaver:
    """Cuts sequences into segments of `num_unroll` steps and batches segments of several ones.

    ``prefetch_op`` takes in one example when it runs, mostly in a QueueRunner; ``next_batch`` gives
    segments, those of one example in subsequent batches. ``save_state`` of a batch must run in each
    step for each state: with it the next segments come.

    Args:
        batch_size: the number of segments in a batch, also a tensor.
        num_unroll: the number of steps of a segment, an int.
        input_length: the number of steps without padding, an int32 scalar.
        input_key: a string scalar that no other example has.
        input_sequences: dict of tensors whose first dimension, the same multiple of `num_unroll`
            for all, is time; the others are known.
        input_context: dict of tensors of known shapes that belong to all segments of an example.
        initial_states: dict of states of known shapes, at least one.
        capacity: the number of examples at most, at least `batch_size`; None: any.
        allow_small_batch: after :meth:`close` give smaller batches of what is left.

    Raises ``TypeError`` for arguments and names of the wrong types, ``ValueError`` for unknown
    shapes, no sequences or states, names with colons, and a small capacity.
    """

    def __init__(self, batch_size: Any, num_unroll: int, input_length: TensorLike,
                 input_key: TensorLike, input_sequences: Mapping[str, TensorLike],
                 input_context: Mapping[str, TensorLike], initial_states: Mapping[str, TensorLike],
                 capacity: int | None = None, allow_small_batch: bool = False,
                 name: str | None = None) -> None:
        input_key = _checked_capacity(capacity, batch_size, input_key)
        self._tokens = FIFOQueue(-1 if capacity is None else capacity, [dtypes.int32], [[]])
        with (colocate_with(self._tokens.queue_ref),
              name_scope(name, "InputQueueingStateSaver", [input_key, input_length]) as scope):
            self._scope = scope
            self._batch_size = batch_size
            self._num_unroll = num_unroll
            self._allow_small_batch = allow_small_batch
            self._sequences = _tensors("sequence", input_sequences, 1)
            self._context = _tensors("context", input_context, 0)
            self._states = _tensors("state", initial_states, 0)
            if not self._sequences:
                raise ValueError("must have at least one sequence tensor")
            if not self._states:
                raise ValueError("initial_states may not be empty: at least one state variable is "
                                 "required to properly enqueue split sequences to run in separate "
                                 "iterations")
            self._key = _scalar(convert_to_tensor(input_key, name="key"), dtypes.string, "key")
            length = _scalar(convert_to_tensor(input_length, name="length"), dtypes.int32, "length")
            self._check_lengths(length)
            self._make_barrier()
        self._prefetch_op: Operation | None = None
        self._next_batch: NextQueuedSequenceBatch | None = None

    def _check_lengths(self, length: Tensor) -> None:
        """Let all sequences be of one length, which segments divide, and `length` within it."""
        first = next(iter(self._sequences.values()))
        padded = identity(sizes(first)[0], name="padded_length")
        self._padded_length: Any = _multiple(padded, self._num_unroll)
        for key, value in self._sequences.items():
            size = sizes(value)[0]
            self._sequences[key] = asserted(value, equal(size, self._padded_length), words(
                f"Dimension 0 of tensor labeled sorted_sequences_{key} should be: ",
                self._padded_length, ", shape received: ", shape(value)))
        self._length = asserted(length, less_equal(length, self._padded_length), [
            "Input length should be <= than length from sequences:", length, " vs. ",
            self._padded_length])

    def _make_barrier(self) -> None:
        groups = {"sequences": self._sequences, "context": self._context, "states": self._states}
        parts = {f"{group}/{key}": value for group, found in groups.items()
                 for key, value in found.items()}
        shapes = [([self._num_unroll, *v.shape.as_list()[1:]] if k.startswith("sequences/")
                   else v.shape) for k, v in parts.items()]
        self._names = [*_FIRST, *parts]
        self._barrier = Barrier([*_FIRST_TYPES, *(v.dtype for v in parts.values())],
                                [*([()] * len(_FIRST)), *shapes])

    @property
    def name(self) -> str:
        """The name scope of the operations."""
        return self._scope

    @property
    def barrier(self) -> Barrier:
        """The barrier that holds the segments."""
        return self._barrier

    @property
    def batch_size(self) -> Any:
        """The number of segments in a batch."""
        return self._batch_size

    @property
    def num_unroll(self) -> int:
        """The number of steps of a segment."""
        return self._num_unroll

    @property
    def prefetch_op(self) -> Operation:
        """The operation that takes in one example, and waits while there are `capacity`."""
        if self._prefetch_op is None:
            with get_default_graph().name_scope(self._scope):
                self._prefetch_op = self._prefetch()
        return self._prefetch_op

    @property
    def next_batch(self) -> NextQueuedSequenceBatch:
        """The next batch, which waits for as many segments with states."""
        assert self.prefetch_op is not None
        if self._next_batch is None:
            with get_default_graph().name_scope(self._scope):
                indices, keys, values = self._barrier.take_many(
                    self._batch_size, self._allow_small_batch, name="BarrierTakeMany")
                self._next_batch = NextQueuedSequenceBatch(
                    self, indices, keys, dict(zip(self._names, values, strict=True)))
        return self._next_batch

    def close(self, cancel_pending_enqueues: bool = False, name: str | None = None) -> Operation:
        """Return an operation after which no example is taken in; with `cancel_pending_enqueues`
        those that are in do not end either."""
        with name_scope(name, "SQSSClose") as scope:
            return group(self._barrier.close(cancel_pending_enqueues, "BarrierClose"),
                         self._tokens.close(cancel_pending_enqueues, "FIFOClose"), name=scope)

    def _prefetch(self) -> Operation:
        unroll = self._num_unroll
        count = self._padded_length // unroll
        number: Any = range(count)
        keys: Any = string_join([as_string(number, width=5, fill="0"), "_of_",
                            as_string(count, width=5, fill="0"), ":", self._key])
        all_ones: Any = ones(expand_dims(count, 0), dtypes.int32)
        last = expand_dims(string_join(["STOP:", self._key]), 0)
        values: dict[str, Any] = {
            "length": minimum(unroll, maximum(0, self._length - unroll * number)),
            "total_length": self._length * all_ones, "next_key": concat([keys[1:], last], 0),
            "sequence_count": count * all_ones}
        for key, value in self._sequences.items():
            values[f"sequences/{key}"] = reshape(
                value, stack([count, unroll, *value.shape.as_list()[1:]]))
        for key, value in self._context.items():
            values[f"context/{key}"] = tile(
                expand_dims(value, 0), stack([count, *([1] * len(value.shape.as_list()))]))
        token = self._tokens.enqueue((0,))
        # All segments enter the barrier at once, so that they stay together.
        first = self._insert("sequence", keys, number)
        inserted = [token, first, *(self._insert(k, keys, v) for k, v in values.items())]
        with control_dependencies([first, token]):
            inserted += [self._insert(f"states/{key}", keys[:1], expand_dims(value, 0))
                         for key, value in self._states.items()]
        return group(*inserted, name="StateSaverPrefetchGroup")

    def _insert(self, component: str, keys: Any, values: Any) -> Operation:
        return self._barrier.insert_many(self._names.index(component), keys, values)


def _named(group: str, components: dict[str, Tensor]) -> dict[str, Any]:
    start = f"{group}/"
    return {key.removeprefix(start): value for key, value in components.items()
            if key.startswith(start)}


def _checked_capacity(capacity: int | None, batch_size: Any, key: TensorLike) -> TensorLike:
    """The key, which can be had only while the capacity is enough."""
    if capacity is None:
        return key
    if not isinstance(batch_size, Tensor):
        if capacity < batch_size:
            raise ValueError(f"capacity {capacity} needs to be >= batch_size {batch_size}")
        return key
    with control_dependencies([assert_greater_equal(
            cast(capacity, dtypes.int64), cast(batch_size, dtypes.int64),
            message="capacity needs to be >= batch_size.")]):
        return identity(key)


def _tensors(kind: str, values: Any, unknown: int) -> dict[str, Tensor]:
    """Tensors by sorted names, with known dimensions behind the first `unknown`."""
    what = "initial_states" if kind == "state" else kind
    if not isinstance(values, dict):
        raise TypeError(f"{what} must be a dict")
    for key in values:
        if not isinstance(key, str):
            raise TypeError(f"{kind} key must be string: {key}")
        if ":" in key:
            raise ValueError(f"{kind} key may not have a colon: '{key}'")
    found = {key: convert_to_tensor(values[key], name=f"{kind}_{key}") for key in sorted(values)}
    for key, value in found.items():
        dims = value.shape
        if dims.ndims is None or not dims[unknown:].is_fully_defined():
            raise ValueError(f"Shape for {kind} {key} is not fully defined: {dims}")
    return found


def _scalar(value: Tensor, dtype: dtypes.DType, what: str) -> Tensor:
    if value.dtype.base_dtype is not dtype:
        raise TypeError(f"{what} dtype must be {dtype.name}, but received: {value.dtype}")
    return _of_rank(value, 0)


def sizes(value: Any) -> Any:
    """Return the dimensions of `value`, an int32 vector."""
    return shape(value)


def words(*parts: Any) -> list[Tensor]:
    """Return a text of texts and numbers, as data of an assertion."""
    return [string_join([p if isinstance(p, str) else as_string(p) for p in parts])]


def asserted(value: Any, condition: Tensor, data: Sequence[Any]) -> Any:
    """Return `value`, which is an ``InvalidArgumentError`` of a step unless `condition` holds."""
    with control_dependencies([Assert(condition, data)]):
        return identity(value)


def _multiple(value: Any, number: int) -> Any:
    return asserted(value, logical_and(equal(value % number, 0), not_equal(value, 0)), words(
        f"Tensor {value.name} should be a multiple of: ", convert_to_tensor(number),
        ", but saw value: ", value, ". Consider setting pad=True."))


def _of_rank(value: Tensor, number: Any) -> Tensor:
    ndims = value.shape.ndims
    if ndims not in (None, number):
        raise ValueError(f"Rank check failed for {value.name}: it is of rank {ndims}, not {number}")
    checked = asserted(value, equal(number, rank(value)), [
        *words(f"Rank of tensor {value.name} should be: {number}", ", shape received:"),
        shape(value)])
    checked.set_shape([None] * number)
    return checked


def _of_shape(value: Tensor, other: Tensor) -> Tensor:
    """`value`, checked to be of the shape that `other` has."""
    wanted = shape(other)
    checked = _of_rank(value, other.shape.ndims)
    checked = asserted(checked, reduce_all(equal(wanted, shape(checked))), words(
        f"Shape of tensor {value.name} should be: ", wanted, ", shape received: ", shape(checked)))
    checked.set_shape(other.shape)
    return checked
