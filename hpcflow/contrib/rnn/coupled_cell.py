"""An LSTM that forgets as much as it takes in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcflow.contrib.rnn.block_cells import input_size_of
from hpcflow.contrib.rnn.cell import activation_of
from hpcflow.contrib.rnn.lstm import MemoryCell, diagonals, peep
from hpcflow.contrib.rnn.normalized_lstm import normalized
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import InitializerLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.math.clipping import clip_by_value
from hpcflow.ops.math.elementwise import sigmoid, tanh
from hpcflow.ops.state.initializers import Constant
from hpcflow.ops.state.variable_scope import get_variable


class CoupledInputForgetGateLSTMCell(MemoryCell):
    """LSTM whose input gate is what its forget gate leaves (Greff et al., arXiv:1503.04069).

    c' = f c + (1 - f) activation(j). Arguments as of ``LSTMCell``, and:

    Args:
        num_units: size of the memory.
        use_peepholes: the gates also see the memory, each unit its own.
        initializer: of weights and projection.
        num_proj: size of the output after a projection; None for no projection.
        proj_clip: limit of the projection's absolute values.
        num_unit_shards: number of variables that the weights are cut into, ``W_0`` and so on.
        num_proj_shards: number of variables that the projection is cut into.
        forget_bias: added to the forget gate.
        state_is_tuple: states are pairs; else matrices ``[c, h]``.
        activation: a function of tensors, or its name.
        reuse: as of ``variable_scope``.
        layer_norm: normalize gates and memory over the units; without it there are biases.
        norm_gain: what the factors ``gamma`` of the normalization begin at.
        norm_shift: what its shifts ``beta`` begin at.
    """

    def __init__(self, num_units: int, use_peepholes: bool = False,
                 initializer: InitializerLike | None = None, num_proj: int | None = None,
                 proj_clip: float | None = None, num_unit_shards: int = 1,
                 num_proj_shards: int = 1, forget_bias: float = 1.0, state_is_tuple: bool = True,
                 activation: Callable | str | None = tanh, reuse: bool | None = None,
                 layer_norm: bool = False, norm_gain: float = 1.0,
                 norm_shift: float = 0.0) -> None:
        super().__init__(num_units, num_proj, state_is_tuple)
        self._use_peepholes = use_peepholes
        self._initializer = initializer
        self._proj_clip = proj_clip
        self._shards = num_unit_shards, num_proj_shards
        self._forget_bias = forget_bias
        self._activation = activation_of(activation)
        self._reuse = reuse
        self._starts = (norm_gain, norm_shift) if layer_norm else None

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[Any, Any]:
        """Run one step."""
        with self._step_scope(scope, "coupled_input_forget_gate_lstm_cell", self._reuse,
                              initializer=self._initializer):
            c, h = self._state_parts(state)
            j, f, o = self._gates(convert_to_tensor(inputs), h)
            forget = raw_ops.Add(f, f.dtype.base_dtype.np.type(self._forget_bias))
            peeps = diagonals(("W_F_diag", "W_O_diag") if self._use_peepholes else (), c)
            kept = sigmoid(peep(forget, c, peeps.get("W_F_diag")))
            new = self._activation(j)
            memory = self._normalized(raw_ops.Add(new, raw_ops.Mul(kept, raw_ops.Sub(c, new))),
                                      "state")
            output = raw_ops.Mul(sigmoid(peep(o, memory, peeps.get("W_O_diag"))),
                                 self._activation(memory))
            output = self._projected(output)
        return output, self._joined(memory, output)

    def _gates(self, inputs: Tensor, h: Tensor) -> list[Tensor]:
        size = 3 * self._num_units
        weights = sharded("W", input_size_of(inputs) + self.output_size, size, self._shards[0],
                           inputs)
        biases = convert_to_tensor(get_variable("B", [size], inputs.dtype.base_dtype,
                                                Constant(0.0, inputs.dtype.base_dtype)))
        sums = raw_ops.MatMul(raw_ops.ConcatV2([inputs, h], 1), weights)
        if self._starts is None:
            sums = raw_ops.BiasAdd(sums, biases)
        return [self._normalized(part, name) for part, name in zip(
            raw_ops.Split(1, sums, num_split=3), ("transform", "forget", "output"), strict=True)]

    def _normalized(self, x: Tensor, scope: str) -> Tensor:
        return x if self._starts is None else normalized(x, scope, *self._starts)

    def _projected(self, output: Tensor) -> Tensor:
        if self._num_proj is None:
            return output
        weights = sharded("W_P", self._num_units, self._num_proj, self._shards[1], output)
        output = raw_ops.MatMul(output, weights)
        limit = self._proj_clip
        return output if limit is None else clip_by_value(output, -limit, limit)


def sharded(name: str, rows: int, columns: int, count: int, like: Tensor) -> Tensor:
    """A matrix of `count` variables one below the other. ``ValueError`` for more than it has rows.
    """
    if count > rows:
        raise ValueError(f"Too many shards: shape={[rows, columns]}, num_shards={count}")
    dtype = like.dtype.base_dtype
    parts = [convert_to_tensor(get_variable(
        f"{name}_{n}", [rows // count + (n < rows % count), columns], dtype))
        for n in range(count)]
    return parts[0] if count == 1 else raw_ops.ConcatV2(parts, 0)
