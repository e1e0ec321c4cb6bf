"""An LSTM in groups that do not see each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcflow.contrib.rnn.block_cells import input_size_of
from hpcflow.contrib.rnn.cell import activation_of, affine
from hpcflow.contrib.rnn.lstm import LSTMStateTuple, MemoryCell
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import InitializerLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.math.elementwise import sigmoid, tanh
from hpcflow.ops.state.initializers import Constant
from hpcflow.ops.state.variable_scope import get_variable, variable_scope


class GLSTMCell(MemoryCell):
    """Group LSTM (Kuchaiev and Ginsburg, arXiv:1703.10722): inputs, memory and output in groups.

    Args:
        num_units: size of the memory.
        initializer: of the weights.
        num_proj: size of the output after a projection; None for no projection.
        number_of_groups: groups, which divide `num_units`, `num_proj` and the size of the inputs.
        forget_bias: added to the forget gate.
        activation: a function of tensors, or its name.
        reuse: as of ``variable_scope``.

    Raises ``ValueError`` for sizes that the groups do not divide.
    """

    def __init__(self, num_units: int, initializer: InitializerLike | None = None,
                 num_proj: int | None = None, number_of_groups: int = 1,
                 forget_bias: float = 1.0, activation: Callable | str | None = tanh,
                 reuse: bool | None = None) -> None:
        super().__init__(num_units, num_proj)
        for name, size in (("num_units", num_units), ("num_proj", num_proj or 0)):
            if size % number_of_groups:
                raise ValueError(f"{name} must be divisible by number_of_groups")
        self._initializer = initializer
        self._groups = number_of_groups
        self._forget_bias = forget_bias
        self._activation = activation_of(activation)
        self._reuse = reuse

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[Any, Any]:
        """Run one step. ``ValueError`` for inputs whose size the groups do not divide."""
        inputs = convert_to_tensor(inputs)
        if input_size_of(inputs) % self._groups:
            raise ValueError(f"input size ({input_size_of(inputs)}) must be divisible by "
                             f"number_of_groups ({self._groups})")
        with self._step_scope(scope, "glstm_cell", self._reuse, initializer=self._initializer):
            c, h = self._state_parts(state)
            i, j, f, o = self._gates(inputs, h)
            forget = raw_ops.Add(f, f.dtype.base_dtype.np.type(self._forget_bias))
            memory = raw_ops.Add(raw_ops.Mul(sigmoid(forget), c),
                                 raw_ops.Mul(sigmoid(i), tanh(j)))
            output = raw_ops.Mul(sigmoid(o), self._activation(memory))
            if self._num_proj is not None:
                with variable_scope("projection"):
                    output = affine([output], self._num_proj, bias=False)
        return output, LSTMStateTuple(memory, output)

    def _gates(self, inputs: Tensor, h: Tensor) -> list[Tensor]:
        """The sums of the four gates, each over all groups."""
        of_groups = []
        for number, parts in enumerate(zip(raw_ops.Split(1, inputs, num_split=self._groups),
                                           raw_ops.Split(1, h, num_split=self._groups),
                                           strict=True)):
            with variable_scope(f"group{number}"):
                sums = affine(parts, 4 * self._num_units // self._groups, bias=False)
                of_groups.append(raw_ops.Split(1, sums, num_split=4))
        return [self._biased(name, list(parts))
                for name, parts in zip("ijfo", zip(*of_groups, strict=True), strict=True)]

    def _biased(self, name: str, parts: list[Tensor]) -> Tensor:
        dtype = parts[0].dtype.base_dtype
        biases = get_variable(f"bias_{name}", [self._num_units], dtype, Constant(0.0, dtype))
        joined = parts[0] if len(parts) == 1 else raw_ops.ConcatV2(parts, 1)
        return raw_ops.BiasAdd(joined, convert_to_tensor(biases))
