"""Networks of several layers, each of which runs forward and backward."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hpcflow.contrib.rnn.static import static_bidirectional_rnn
from hpcflow.dtypes import DTypeLike
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.nn.rnn import bidirectional_dynamic_rnn
from hpcflow.nn.rnn_steps import batch_size_of
from hpcflow.ops.arrays.joining import concat
from hpcflow.ops.state.variable_scope import variable_scope

if TYPE_CHECKING:
    from hpcflow.contrib.rnn.cell import RNNCell
    from hpcflow.ops.state.variable_scope import VariableScope


def stack_bidirectional_dynamic_rnn(
        cells_fw: Sequence[Any], cells_bw: Sequence[Any], inputs: Any,
        initial_states_fw: Sequence[Any] | None = None,
        initial_states_bw: Sequence[Any] | None = None, dtype: DTypeLike | None = None,
        sequence_length: TensorLike | None = None, parallel_iterations: int | None = None,
        time_major: bool = False,
        scope: str | VariableScope | None = None) -> tuple[Tensor, tuple, tuple]:
    """Run ``nn.bidirectional_dynamic_rnn`` on the joined outputs of another, layer upon layer.

    Args:
        cells_fw: a cell per layer that runs forward, the lowest first.
        cells_bw: as many that run backward.
        inputs: ``[batch, steps, ...]`` (``[steps, batch, ...]`` if `time_major`).
        initial_states_fw: a state per cell of `cells_fw`; zeros if None.
        initial_states_bw: the same of `cells_bw`.
        dtype: of zero states; required without initial states.
        sequence_length: int vector ``[batch]``.
        parallel_iterations: how many steps may be under way at a time.
        time_major: time is the first dimension of inputs and outputs.
        scope: variable scope ("stack_bidirectional_rnn"); a layer's is ``cell_0`` and so on.

    Returns: (outputs, final states forward, final states backward): the outputs of the last layer,
        both directions joined along the last dimension, and a tuple of the layers' states each.

    Raises ``ValueError`` for other than two lists of the same length, or states of another number.
    """
    layers = _layers(cells_fw, cells_bw, initial_states_fw, initial_states_bw)
    states = []
    with variable_scope(scope or "stack_bidirectional_rnn"):
        for number, (forward, backward, first_fw, first_bw) in enumerate(layers):
            with variable_scope(f"cell_{number}"):
                outputs, final = bidirectional_dynamic_rnn(
                    forward, backward, inputs, sequence_length, first_fw, first_bw, dtype,
                    parallel_iterations, time_major=time_major)
            inputs = concat(list(outputs), 2)
            states.append(final)
    states_fw, states_bw = zip(*states, strict=True)
    return inputs, states_fw, states_bw


def stack_bidirectional_rnn(cells_fw: Sequence[Any], cells_bw: Sequence[Any], inputs: Sequence[Any],
                            initial_states_fw: Sequence[Any] | None = None,
                            initial_states_bw: Sequence[Any] | None = None,
                            dtype: DTypeLike | None = None,
                            sequence_length: TensorLike | None = None,
                            scope: str | VariableScope | None = None) -> tuple[list, tuple, tuple]:
    """:func:`stack_bidirectional_dynamic_rnn` for a list of inputs, one per step, unrolled."""
    layers = _layers(cells_fw, cells_bw, initial_states_fw, initial_states_bw)
    states = []
    with variable_scope(scope or "stack_bidirectional_rnn"):
        for number, (forward, backward, first_fw, first_bw) in enumerate(layers):
            with variable_scope(f"cell_{number}") as own:
                inputs, *final = static_bidirectional_rnn(
                    forward, backward, inputs, first_fw, first_bw, dtype, sequence_length, own)
            states.append(final)
    states_fw, states_bw = zip(*states, strict=True)
    return list(inputs), states_fw, states_bw


def _layers(cells_fw: Sequence[RNNCell], cells_bw: Sequence[RNNCell],
            states_fw: Sequence[Tensor] | None, states_bw: Sequence[Tensor] | None) -> list[tuple]:
    """(cell forward, cell backward, their first states or None) of each layer."""
    for name, cells in (("cells_fw", cells_fw), ("cells_bw", cells_bw)):
        if not isinstance(cells, (list, tuple)) or not cells:
            raise ValueError(f"{name} must be a list of cells, not empty: {cells!r}")
    if len(cells_fw) != len(cells_bw):
        raise ValueError(f"there must be as many cells forward as backward: {len(cells_fw)} and "
                         f"{len(cells_bw)}")
    for name, states in (("initial_states_fw", states_fw), ("initial_states_bw", states_bw)):
        if states is not None and (not isinstance(states, (list, tuple))
                                   or len(states) != len(cells_fw)):
            raise ValueError(f"{name} must be a list of {len(cells_fw)} states: {states!r}")
    none = [None] * len(cells_fw)
    return list(zip(cells_fw, cells_bw, states_fw or none, states_bw or none, strict=True))


def transpose_batch_time(x: TensorLike) -> Tensor:
    """Return `x` with its first two dimensions exchanged.

    Raises ``ValueError`` for a rank below 2; an unknown one is returned as unknown.
    """
    x = convert_to_tensor(x)
    if x._dims is not None and len(x._dims) < 2:
        raise ValueError(f"Expected input tensor {x.name} to have rank at least 2, but saw shape: "
                         f"{x.shape}")
    rank = raw_ops.Rank(x)
    order = raw_ops.ConcatV2([[1, 0], raw_ops.Range(2, rank, 1)], 0)
    turned = raw_ops.Transpose(x, order)
    if x._dims is not None:
        turned.set_shape([x._dims[1], x._dims[0], *x._dims[2:]])
    return turned


def best_effort_input_batch_size(flat_input: Sequence[Tensor]) -> Any:
    """Return the second dimension of tensors ``[time, batch, ...]``: a number if one of them knows
    it, else a scalar tensor.

    Raises ``ValueError`` for a rank below 2.
    """
    for tensor in flat_input:
        dims = tensor._dims
        if dims is not None and len(dims) < 2:
            raise ValueError(f"Expected input tensor {tensor.name} to have rank at least 2")
        if dims is not None and dims[1] is not None:
            return dims[1]
    return batch_size_of(flat_input[0], 1)
