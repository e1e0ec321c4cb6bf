"""Networks that run over whole sequences: the LSTM that is one op, and adaptors of cells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hpcflow import dtypes
from hpcflow.contrib.rnn.block_cells import NO_LIMIT, input_size_of, lstm_variables
from hpcflow.contrib.rnn.cell import RNNCell
from hpcflow.contrib.rnn.lstm import LSTMStateTuple
from hpcflow.contrib.rnn.static import static_rnn
from hpcflow.dtypes import DTypeLike
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.nn.rnn import dynamic_rnn
from hpcflow.nn.rnn_steps import as_lengths, batch_size_of, zeros_of
from hpcflow.ops.arrays.constants import range as range_of
from hpcflow.ops.arrays.joining import stack, unstack
from hpcflow.ops.arrays.layout import reverse, reverse_sequence
from hpcflow.ops.arrays.masks import sequence_mask

if TYPE_CHECKING:
    from hpcflow.ops.state.variable_scope import VariableScope


class FusedRNNCell:
    """A recurrent network that runs over whole sequences when it is called."""

    def __call__(self, inputs: Any, initial_state: TensorLike | None = None,
                 dtype: DTypeLike | None = None, sequence_length: TensorLike | None = None,
                 scope: str | VariableScope | None = None) -> tuple[Any, Any]:
        """Run over `inputs`.

        Args:
            inputs: a tensor ``[time, batch, size]``, or a list of one ``[batch, size]`` per step.
            initial_state: before the first step; zeros if None.
            dtype: of the zero state; required without `initial_state`.
            sequence_length: int vector ``[batch]``; every sequence has all steps if None.
            scope: variable scope.

        Returns: (outputs, final state): outputs in the form of `inputs`, with zeros past the end
        of a sequence, and the state at its end.
        """
        raise NotImplementedError(f"{type(self).__name__} does not say what it computes")


class LSTMBlockWrapper(FusedRNNCell):
    """Base of LSTMs over whole sequences: a class derived from it has ``num_units``, and says in
    ``_call_cell`` what the memories and outputs are.

    Args:
        name: of the variable scope.
        reuse: as of ``variable_scope``.
    """

    def __init__(self, name: str = "lstm_fused_cell", reuse: bool | None = None) -> None:
        self._owner = RNNCell(name=name)
        self._reuse = reuse

    @property
    def num_units(self) -> int:
        """The number of units."""
        raise NotImplementedError(f"{type(self).__name__} does not say how many units it has")

    def _call_cell(self, inputs: Any, initial_cell_state: Any, initial_output: Any, dtype: Any,
                   sequence_length: Any) -> tuple[Any, Any]:
        """Return memory and output after every step, ``[time, batch, units]``; what is behind the
        end of a sequence is not used."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it computes")

    def __call__(self, inputs: Any, initial_state: Any = None, dtype: Any = None,
                 sequence_length: Any = None,
                 scope: str | VariableScope | None = None) -> tuple[Any, Any]:
        """See :class:`FusedRNNCell`; states are pairs of memory and output.

        Raises: ``ValueError`` for inputs of another rank or unknown size, a state that is no pair,
        or neither state nor dtype.
        """
        with self._owner._step_scope(scope, "lstm_fused_cell", self._reuse):
            x, lengths = _as_sequences(inputs), as_lengths(sequence_length)
            before = self._initial(x, initial_state, dtype)
            memories, outputs = self._call_cell(
                x, *before, before[0].dtype.base_dtype if dtype is None else dtype, lengths)
            if lengths is None:
                after = memories[-1], outputs[-1]
            else:
                after = _states_at(lengths, zip(before, (memories, outputs), strict=True))
                outputs = _without_rest(outputs, lengths)
        is_list = isinstance(inputs, (list, tuple))
        return unstack(outputs) if is_list else outputs, LSTMStateTuple(*after)

    def _initial(self, x: Tensor, state: Any, dtype: Any) -> tuple[Tensor, Tensor]:
        if state is None:
            if dtype is None:
                raise ValueError("Either initial_state or dtype needs to be specified")
            zeros = zeros_of(self.num_units, batch_size_of(x, 1), dtypes.as_dtype(dtype))
            return zeros, zeros
        if len(state) != 2:
            raise ValueError("initial_state must be a pair of memory and output")
        return convert_to_tensor(state[0]), convert_to_tensor(state[1])


class LSTMBlockFusedCell(LSTMBlockWrapper):
    """LSTM (Zaremba et al., 2014, arXiv:1409.2329) over whole sequences, as one op.

    Args:
        num_units: size of memory and output.
        forget_bias: added to the forget gate, so that training begins with remembering.
        cell_clip: limit of the memory's absolute values; None or 0 for none.
        use_peephole: the gates also see the memory, each unit its own.
        reuse: as of ``variable_scope``.
        dtype: accepted; the inputs say theirs.
        name: of the variable scope.
    """

    def __init__(self, num_units: int, forget_bias: float = 1.0, cell_clip: float | None = None,
                 use_peephole: bool = False, reuse: bool | None = None,
                 dtype: DTypeLike | None = None, name: str = "lstm_fused_cell") -> None:
        super().__init__(name, reuse)
        self._num_units = num_units
        self._forget_bias = forget_bias
        self._cell_clip = cell_clip or NO_LIMIT
        self._use_peephole = use_peephole

    @property
    def num_units(self) -> int:
        """The number of units."""
        return self._num_units

    def _call_cell(self, inputs: Tensor, initial_cell_state: Tensor, initial_output: Tensor,
                   dtype: Any, sequence_length: Tensor | None) -> tuple[Any, Any]:
        weights = lstm_variables(inputs, self._num_units, self._use_peephole)
        steps = (_steps_of(inputs) if sequence_length is None else
                 raw_ops.Max(sequence_length, np.int32(0)))
        found = raw_ops.BlockLSTM(
            seq_len_max=raw_ops.Cast(steps, DstT=dtypes.int64), x=inputs,
            cs_prev=initial_cell_state, h_prev=initial_output, **weights,
            forget_bias=self._forget_bias, cell_clip=self._cell_clip,
            use_peephole=self._use_peephole)
        return found.cs, found.h


def _as_sequences(inputs: TensorLike) -> Tensor:
    x = stack(inputs) if isinstance(inputs, (list, tuple)) else convert_to_tensor(inputs)
    if x._dims is not None and len(x._dims) != 3:
        raise ValueError(f"inputs must have the shape [time, batch, size], got {x.shape}")
    input_size_of(x)
    return x


def _steps_of(x: Tensor) -> Tensor:
    return raw_ops.Gather(raw_ops.Shape(x), np.int32(0))


def _states_at(lengths: Tensor, states: Any) -> tuple:
    """Of pairs of (initial state, states after every step), those after `lengths` steps."""
    where = stack([lengths, range_of(raw_ops.Size(lengths))], 1)
    return tuple(raw_ops.GatherNd(raw_ops.ConcatV2([before[None], after], np.int32(0)), where)
                 for before, after in states)


def _without_rest(outputs: Tensor, lengths: Tensor) -> Tensor:
    """Zeros past the end of sequences."""
    mask = sequence_mask(lengths, _steps_of(outputs), outputs.dtype)
    masked = outputs * raw_ops.Transpose(mask, np.array([1, 0], np.int32))[:, :, None]
    masked.set_shape(outputs.shape)
    return masked


class FusedRNNCellAdaptor(FusedRNNCell):
    """Runs a cell step by step.

    Args:
        cell: an RNN cell.
        use_dynamic_rnn: in a loop; else unrolled in the graph, one copy for each step.
    """

    def __init__(self, cell: RNNCell, use_dynamic_rnn: bool = False) -> None:
        self._cell = cell
        self._use_dynamic_rnn = use_dynamic_rnn

    def __call__(self, inputs: Any, initial_state: Any = None, dtype: Any = None,
                 sequence_length: Any = None,
                 scope: str | VariableScope | None = None) -> tuple[Any, Any]:
        """See :class:`FusedRNNCell`."""
        is_list = isinstance(inputs, (list, tuple))
        if self._use_dynamic_rnn:
            outputs, state = dynamic_rnn(
                self._cell, stack(inputs) if is_list else inputs, sequence_length, initial_state,
                dtype, time_major=True, scope=scope)
            return unstack(outputs) if is_list else outputs, state
        steps = inputs if is_list else unstack(inputs)
        outputs, state = static_rnn(self._cell, steps, initial_state, dtype, sequence_length,
                                    scope)
        return outputs if is_list else stack(outputs), state


class TimeReversedFusedRNN(FusedRNNCell):
    """Runs another network over the sequences from their ends to their beginnings.

    Args:
        cell: a network that is called as :class:`FusedRNNCell`.
    """

    def __init__(self, cell: FusedRNNCell) -> None:
        self._cell = cell

    def __call__(self, inputs: Any, initial_state: TensorLike | None = None, dtype: Any = None,
                 sequence_length: Any = None,
                 scope: str | VariableScope | None = None) -> tuple[Any, Any]:
        """See :class:`FusedRNNCell`; the outputs are in the order of the inputs."""
        outputs, state = self._cell(_reversed(inputs, sequence_length), initial_state, dtype,
                                    sequence_length, scope)
        return _reversed(outputs, sequence_length), state


def _reversed(values: TensorLike, lengths: Any) -> Any:
    """Sequences in the opposite order, each up to its length; what follows stays in place."""
    if isinstance(values, (list, tuple)):
        return unstack(_reversed(stack(values), lengths))
    if lengths is None:
        return reverse(values, [0])
    return reverse_sequence(values, lengths, 0, 1)
