"""Recurrent networks unrolled in the graph: one copy of the cell for each step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcflow.dtypes import DTypeLike
from hpcflow.graph import nest
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import control_dependencies
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.nn.rnn_steps import (
    as_lengths,
    batch_size_of,
    check_cell,
    initial_state_of,
    step_until,
    zeros_of,
)
from hpcflow.ops.state.variable_scope import variable_scope

if TYPE_CHECKING:
    from hpcflow.contrib.rnn.cell import RNNCell
    from hpcflow.ops.state.variable_scope import VariableScope


def static_rnn(cell: RNNCell, inputs: Sequence[Any], initial_state: TensorLike | None = None,
               dtype: DTypeLike | None = None, sequence_length: TensorLike | None = None,
               scope: str | VariableScope | None = None) -> tuple[list, Any]:
    """Run a recurrent network over a list of inputs.

    Args:
        cell: an RNN cell.
        inputs: one tensor ``[batch, size]`` (or nest of tensors) per step.
        initial_state: a state of the cell; zeros if None.
        dtype: of the zero state; required without `initial_state`.
        sequence_length: int vector ``[batch]``: beyond it a row's outputs are zeros and its state
            stays as it is.
        scope: variable scope ("rnn").

    Returns: (outputs, final state): a list with one output per step, and the state.

    Raises: ``TypeError`` for other types, ``ValueError`` for no inputs or neither state nor dtype.
    """
    check_cell(cell)
    if not isinstance(inputs, (list, tuple)):
        raise TypeError("inputs must be a sequence")
    if not inputs:
        raise ValueError("inputs must not be empty")
    with variable_scope(scope or "rnn") as entered:
        inputs = [nest.pack_as(x, [convert_to_tensor(t) for t in nest.flatten(x)]) for x in inputs]
        batch_size = batch_size_of(nest.flatten(inputs[0])[0])
        state = initial_state_of(cell, initial_state, batch_size, dtype)
        lengths = as_lengths(sequence_length)
        zeros = None
        if lengths is not None:
            kind = nest.flatten(state)[0].dtype.base_dtype
            zeros = nest.pack_as(cell.output_size, [zeros_of(s, batch_size, kind)
                                                    for s in nest.flatten(cell.output_size)])
        outputs = []
        for time, x in enumerate(inputs):
            if time > 0:
                entered.reuse_variables()
            output, state = step_until(np.int32(time), lengths, cell, x, state, zeros)
            outputs.append(output)
    return outputs, state


def static_state_saving_rnn(cell: RNNCell, inputs: Sequence[Any], state_saver: Any, state_name: str,
                            sequence_length: TensorLike | None = None,
                            scope: str | VariableScope | None = None) -> tuple[list, Any]:
    """As :func:`static_rnn`, with a state that lives on between steps of the session.

    `state_saver` has ``state(name)``, which returns the state to begin with, and
    ``save_state(name, value)``, which returns an operation that keeps the state for the next time;
    the last output comes after it. `state_name` is one name, or names in the structure of the
    cell's states.
    """
    sizes = nest.flatten(cell.state_size)
    names = nest.flatten(state_name)
    if nest.is_nested(cell.state_size) != nest.is_nested(state_name) or len(sizes) != len(names):
        raise ValueError(f"state_name must have the structure of the cell's state: got "
                         f"{len(names)} names for {len(sizes)} states")
    initial = [_with_rows(state_saver.state(n)) for n in names]
    outputs, state = static_rnn(cell, inputs, nest.pack_as(cell.state_size, initial),
                                sequence_length=sequence_length, scope=scope)
    saving = [state_saver.save_state(n, s) for n, s in zip(names, nest.flatten(state),
                                                           strict=True)]
    with control_dependencies(saving):
        last = [raw_ops.Identity(x) for x in nest.flatten(outputs[-1])]
        outputs[-1] = nest.pack_as(outputs[-1], last)
    return outputs, state


def _with_rows(state: Tensor) -> Tensor:
    """A saved state as a matrix: one that is a vector of one row gets a batch dimension."""
    state = convert_to_tensor(state)
    return raw_ops.ExpandDims(state, 0) if state._dims is not None and len(
        state._dims) == 1 else state


def static_bidirectional_rnn(cell_fw: RNNCell, cell_bw: RNNCell, inputs: Sequence[Any],
                             initial_state_fw: Any = None, initial_state_bw: Any = None,
                             dtype: DTypeLike | None = None,
                             sequence_length: TensorLike | None = None,
                             scope: str | VariableScope | None = None) -> tuple[list, Any, Any]:
    """Run one network forward and another backward over a list of inputs.

    Arguments as of :func:`static_rnn`; rows are reversed within their `sequence_length`.

    Returns: (outputs, final state forward, final state backward); each output is that of both
        networks joined along the last dimension.
    """
    check_cell(cell_fw)
    check_cell(cell_bw)
    lengths = as_lengths(sequence_length)
    with variable_scope(scope or "bidirectional_rnn"):
        with variable_scope("fw") as forward:
            outputs_fw, state_fw = static_rnn(cell_fw, inputs, initial_state_fw, dtype, lengths,
                                              forward)
        with variable_scope("bw") as backward:
            outputs_bw, state_bw = static_rnn(cell_bw, _reversed(inputs, lengths),
                                              initial_state_bw, dtype, lengths, backward)
        outputs = []
        for a, b in zip(outputs_fw, _reversed(outputs_bw, lengths), strict=True):
            joined = [raw_ops.ConcatV2([x, y], 1)
                      for x, y in zip(nest.flatten(a), nest.flatten(b), strict=True)]
            outputs.append(nest.pack_as(a, joined))
    return outputs, state_fw, state_bw


def _reversed(steps: Sequence[Any], lengths: Tensor | None) -> list:
    """The steps from the last to the first, each row within its length."""
    if lengths is None:
        return list(reversed(steps))
    columns = zip(*[nest.flatten(s) for s in steps], strict=True)
    turned = []
    for column in columns:
        stacked = raw_ops.Pack(list(column), axis=0)
        back = raw_ops.ReverseSequence(stacked, lengths, seq_dim=0, batch_dim=1)
        turned.append(raw_ops.Unpack(back, num=len(steps), axis=0))
    return [nest.pack_as(steps[0], list(leaves)) for leaves in zip(*turned, strict=True)]
