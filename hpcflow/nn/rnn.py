"""Recurrent networks as loops: dynamic_rnn, bidirectional_dynamic_rnn, raw_rnn."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcflow import dtypes
from hpcflow.dtypes import DTypeLike
from hpcflow.graph import nest
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import get_default_graph
from hpcflow.graph.likes import Nest, TensorHandle, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.seeds import count_as, operations_of
from hpcflow.host.tuning import programs as tuning
from hpcflow.nn.rnn_steps import (
    as_lengths,
    batch_size_of,
    check_cell,
    initial_state_of,
    select_rows,
    size_dims,
    static_batch,
    step_until,
    zero_rows,
    zeros_of,
)
from hpcflow.ops.flow.tensor_array import TensorArray
from hpcflow.ops.flow.while_loop import while_loop
from hpcflow.ops.math.reductions import reduce_all
from hpcflow.ops.state.variable_scope import variable_scope

if TYPE_CHECKING:
    from hpcflow.contrib.rnn.cell import RNNCell
    from hpcflow.ops.state.variable_scope import VariableScope

__all__ = ["bidirectional_dynamic_rnn", "dynamic_rnn", "raw_rnn"]


def dynamic_rnn(cell: Any, inputs: Any, sequence_length: TensorLike | None = None,
                initial_state: TensorLike | None = None, dtype: DTypeLike | None = None,
                parallel_iterations: int | None = None, swap_memory: bool = False,
                time_major: bool = False,
                scope: str | VariableScope | None = None) -> tuple[Any, Any]:
    """Run a recurrent network over time, with a loop of as many steps as the inputs have.

    Args:
        cell: an RNN cell: ``cell(input, state) -> (output, state)``.
        inputs: shape ``[batch, time, ...]`` (``[time, batch, ...]`` if `time_major`), or a nest of
            such tensors.
        sequence_length: int vector ``[batch]``: beyond it a row's outputs are zeros and its state
            stays as it is.
        initial_state: a state of the cell; zeros if None.
        dtype: of the zero state; required without `initial_state`.
        parallel_iterations: how many steps may be under way at a time.
        swap_memory: whether values kept for gradients may move from the device to the host.
        time_major: time is the first dimension of inputs and outputs.
        scope: variable scope ("rnn").

    Returns: (outputs, final state); outputs have the inputs' layout and the cell's output size.

    Raises: ``TypeError`` for something that is not a cell, ``ValueError`` if the inputs' sizes
        after time and batch are unknown or neither state nor dtype is given.
    """
    check_cell(cell)
    count = _Count(time_major, sequence_length is not None)
    with variable_scope(scope or "rnn"):
        sequences = [_time_first(x, time_major) for x in nest.flatten(inputs)]
        batch_size = _common_batch(sequences)
        with count.as_it_is():
            lengths = as_lengths(sequence_length)
            state = initial_state_of(cell, initial_state, batch_size, dtype)
        outputs, final = _loop(cell, inputs, sequences, state, lengths, batch_size,
                               parallel_iterations or tuning.RNN_PARALLEL, swap_memory, dtype,
                               count)
        if not time_major:
            outputs = nest.pack_as(outputs, [_swapped(x) for x in nest.flatten(outputs)])
        count.end()
        return outputs, final


class _Count:
    """The operations that TensorFlow 1.15 makes before the cell's and after them, of one sequence
    with one output."""

    def __init__(self, time_major: bool, has_lengths: bool) -> None:
        self.graph = get_default_graph()
        self.place = operations_of(self.graph)  # behind what is counted so far
        self.moves, self.has_lengths = 0 if time_major else 8, has_lengths
        self.leaves, self.is_known = 0, True

    @contextlib.contextmanager
    def as_it_is(self) -> Iterator[None]:
        """Count what is made within: the lengths and the zero state."""
        before = operations_of(self.graph)
        yield
        self.place += operations_of(self.graph) - before

    def begin(self, leaves: int, knows_rows: bool, knows_steps: bool) -> None:
        """The cell is called, with a state of some tensors; the numbers of rows and of steps are
        known or not."""
        self.leaves, self.is_known = leaves, knows_rows and knows_steps
        count_as(self.graph, self.place + 4 * leaves + (50 if knows_rows else 61) + self.moves
                 + 18 * self.has_lengths)

    def called(self) -> None:
        """The cell's operations are made."""
        self.place = operations_of(self.graph)

    def end(self) -> None:
        """The loop is made."""
        count_as(self.graph, self.place + 2 * self.leaves + (17 if self.is_known else 16)
                 + self.moves + (2 + self.leaves) * self.has_lengths)


def _time_first(x: Tensor | np.ndarray, time_major: bool) -> Tensor:
    x = convert_to_tensor(x)
    if x._dims is not None and len(x._dims) < 2:
        raise ValueError(f"inputs must have at least the dimensions batch and time, got "
                         f"{list(x._dims)}")
    return x if time_major else _swapped(x)


def _swapped(x: Tensor) -> Tensor:
    """`x` with its first two dimensions exchanged."""
    if x._dims is not None:
        return raw_ops.Transpose(x, np.array([1, 0, *range(2, len(x._dims))], np.int32))
    rest = raw_ops.Range(np.int32(2), raw_ops.Rank(x), np.int32(1))
    return raw_ops.Transpose(x, raw_ops.ConcatV2([np.array([1, 0], np.int32), rest], 0))


def _common_batch(sequences: list[Tensor]) -> Any:
    known = next((x for x in sequences if x._dims is not None and x._dims[1] is not None), None)
    return batch_size_of(sequences[0] if known is None else known, 1)


def _loop(cell: Any, inputs: TensorLike, sequences: list[Tensor], state: Nest,
          lengths: Tensor | None, batch_size: Tensor | int, parallel: int, swap_memory: bool,
          dtype: DTypeLike | None, count: _Count) -> tuple[Any, Any]:
    """The loop over time on inputs with time first; returns (outputs, final state)."""
    steps = batch_size_of(sequences[0], 0)
    for x in sequences:
        if x._dims is None or None in x._dims[2:]:
            raise ValueError("Input size (depth of inputs) must be accessible via shape "
                             f"inference, but saw shape {x.shape} of {x.name}")
    kind = nest.flatten(state)[0].dtype.base_dtype if dtype is None else dtypes.as_dtype(dtype)
    sizes = nest.flatten(cell.output_size)
    zeros = [zeros_of(s, batch_size, kind) for s in sizes] if lengths is not None else sizes
    rows = static_batch(batch_size)
    given = [TensorArray(x.dtype.base_dtype, steps, tensor_array_name="input").unstack(x)
             for x in sequences]
    written = [TensorArray(kind, steps, tensor_array_name="output",
                           element_shape=[rows, *size_dims(s)]) for s in sizes]

    def body(time: Tensor, arrays: list, state: Nest) -> tuple:
        current = [array.read(time) for array in given]
        for x, whole in zip(current, sequences, strict=True):
            x.set_shape([rows, *whole.shape.as_list()[2:]])
        count.begin(len(nest.flatten(state)), rows is not None, isinstance(steps, int))
        output, following = step_until(time, lengths, cell, nest.pack_as(inputs, current), state,
                                       nest.pack_as(cell.output_size, zeros), count.called)
        values = nest.flatten(output)
        arrays = [a.write(time, v) for a, v in zip(arrays, values, strict=True)]
        return raw_ops.Add(time, np.int32(1)), arrays, following

    zero = convert_to_tensor(0, dtypes.int32, name="time")
    limit = convert_to_tensor(steps, dtypes.int32)
    _, written, final = while_loop(lambda time, *_: raw_ops.Less(time, limit), body,
                                   [zero, written, state], parallel_iterations=parallel,
                                   swap_memory=swap_memory)
    outputs = [array.stack() for array in written]
    for output, size in zip(outputs, sizes, strict=True):
        output.set_shape([static_batch(steps), rows, *size_dims(size)])
    return nest.pack_as(cell.output_size, outputs), final


def bidirectional_dynamic_rnn(cell_fw: RNNCell, cell_bw: RNNCell, inputs: Any,
                              sequence_length: Any = None, initial_state_fw: Any = None,
                              initial_state_bw: Any = None, dtype: Any = None,
                              parallel_iterations: int | None = None, swap_memory: bool = False,
                              time_major: bool = False,
                              scope: str | VariableScope | None = None) -> tuple[tuple, tuple]:
    """Run one network forward and another backward in time; see :func:`dynamic_rnn`.

    Rows are reversed within their `sequence_length`; outputs are in the order of the inputs.

    Returns: ((outputs forward, outputs backward), (final state forward, backward)).
    """
    check_cell(cell_fw)
    check_cell(cell_bw)
    options = {"dtype": dtype, "parallel_iterations": parallel_iterations,
               "swap_memory": swap_memory, "time_major": time_major}

    def reversed_in_time(x: TensorLike) -> Tensor:
        time, batch = (0, 1) if time_major else (1, 0)
        if sequence_length is None:
            return raw_ops.ReverseV2(x, np.array([time], np.int32))
        return raw_ops.ReverseSequence(x, sequence_length, seq_dim=time, batch_dim=batch)

    with variable_scope(scope or "bidirectional_rnn"):
        with variable_scope("fw") as forward:
            output_fw, state_fw = dynamic_rnn(cell_fw, inputs, sequence_length, initial_state_fw,
                                              scope=forward, **options)
        with variable_scope("bw") as backward:
            turned = nest.pack_as(inputs, [reversed_in_time(x) for x in nest.flatten(inputs)])
            output_bw, state_bw = dynamic_rnn(cell_bw, turned, sequence_length, initial_state_bw,
                                              scope=backward, **options)
        output_bw = nest.pack_as(output_bw, [reversed_in_time(x) for x in nest.flatten(output_bw)])
    return (output_fw, output_bw), (state_fw, state_bw)


# ---------------------------------------------------------------- raw_rnn


def raw_rnn(cell: Any, loop_fn: Callable, parallel_iterations: int | None = None,
            swap_memory: bool = False,
            scope: str | VariableScope | None = None) -> tuple[Any, Any, Any]:
    """Run a recurrent network whose inputs and end are decided by a function.

    ``loop_fn(time, cell_output, cell_state, loop_state)`` returns ``(finished, next_input,
    next_state, emit_output, next_loop_state)``. It is first called with time 0 and None for the
    rest; `next_state` is then the initial state, `emit_output` an example of one row of what is to
    be emitted (None: the cell's output), and `next_loop_state` the first loop state (None: there
    is none). `finished` is a bool vector ``[batch]``; rows that have finished keep their state and
    emit zeros.

    Args:
        cell: an RNN cell.
        loop_fn: as above.
        parallel_iterations: how many steps may be under way at a time.
        swap_memory: whether values kept for gradients may move from the device to the host.
        scope: variable scope ("rnn").

    Returns: (emitted, final state, final loop state): a TensorArray, or a nest of them, with one
        element ``[batch, ...]`` per step; the state; the loop state (None if there was none).

    Raises: ``TypeError`` for arguments of another kind.
    """
    check_cell(cell)
    if not callable(loop_fn):
        raise TypeError(f"loop_fn must be callable, got {loop_fn!r}")
    with variable_scope(scope or "rnn"):
        start = convert_to_tensor(0, dtypes.int32, name="time")
        finished, inputs, state, emit, loop_state = loop_fn(start, None, None, None)
        inputs, state = _as_tensors(inputs), _as_tensors(state)
        has_state = loop_state is not None
        carried = loop_state if has_state else convert_to_tensor(0, dtypes.int32)
        batch_size = batch_size_of(nest.flatten(inputs)[0])
        emission = _Emission(cell, emit, nest.flatten(state)[0].dtype.base_dtype, batch_size)

        def body(time: Tensor, ended: Tensor, arrays: list, current: TensorHandle,
                 state: TensorLike, carried: TensorLike) -> tuple:
            output, cell_state = cell(current, state)
            following = raw_ops.Add(time, np.int32(1))
            now, next_input, next_state, emit, next_carried = loop_fn(
                following, output, cell_state, carried if has_state else None)
            nest.check_same(state, next_state, "The state before and after a step")
            arrays = emission.write(arrays, time, ended, emit)
            next_state = select_rows(ended, state, _as_tensors(next_state))
            return (following, raw_ops.LogicalOr(ended, now), arrays, next_input, next_state,
                    carried if next_carried is None else next_carried)

        _, _, arrays, _, final, carried = while_loop(
            lambda _, ended, *rest: raw_ops.LogicalNot(reduce_all(ended)), body,
            [start, convert_to_tensor(finished), emission.arrays, inputs, state, carried],
            parallel_iterations=parallel_iterations or tuning.RNN_PARALLEL, swap_memory=swap_memory)
        return (nest.pack_as(emission.structure, arrays), final, carried if has_state else None)


def _as_tensors(structure: Tensor) -> Any:
    return nest.pack_as(structure, [convert_to_tensor(x) for x in nest.flatten(structure)])


class _Emission:
    """The outputs of a raw_rnn: their structure, zeros for finished rows, and the arrays."""

    def __init__(self, cell: RNNCell, example: Any, dtype: DTypeLike,
                 batch_size: TensorLike) -> None:
        self.structure = cell.output_size if example is None else example
        leaves = nest.flatten(self.structure)
        if example is None:
            self.zeros = [zeros_of(size, batch_size, dtype) for size in leaves]
        else:
            self.zeros = [zero_rows(convert_to_tensor(x), batch_size) for x in leaves]
        self.arrays = [TensorArray(z.dtype, 0, dynamic_size=True, tensor_array_name="rnn_output",
                                   element_shape=z.shape) for z in self.zeros]

    def write(self, arrays: list, time: Tensor, ended: Tensor, emit: TensorLike) -> list:
        """Write the output `emit` of a step, zeros for ended rows, and return the new arrays."""
        nest.check_same(self.structure, emit, "What loop_fn emits first and later")
        rows = select_rows(ended, self.zeros, [convert_to_tensor(x) for x in nest.flatten(emit)])
        return [a.write(time, r) for a, r in zip(arrays, rows, strict=True)]
