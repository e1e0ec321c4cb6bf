"""Cells that later papers found: normalized LSTM, update gate alone, architecture search."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcflow.contrib.rnn.block_cells import input_size_of
from hpcflow.contrib.rnn.cell import WEIGHTS, RNNCell, affine
from hpcflow.contrib.rnn.lstm import LSTMStateTuple
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.nn import normalization
from hpcflow.nn.activations import dropout
from hpcflow.ops.elementwise import sigmoid, tanh
from hpcflow.ops.initializers import Constant
from hpcflow.ops.variable_scope import get_variable, variable_scope


class LayerNormBasicLSTMCell(RNNCell):
    """LSTM with normalized gates and memory, and dropout of what is new to the memory.

    The step is that of ``BasicLSTMCell``, each gate's sum and the new memory normalized over the
    units (arXiv:1607.06450), and activation(j) dropped in part (arXiv:1603.05118).

    Args:
        num_units: size of memory and output.
        forget_bias: added to the forget gate.
        input_size: accepted; the inputs say their size.
        activation: a function of tensors.
        layer_norm: whether to normalize; without it there are biases.
        norm_gain: what the factors ``gamma`` of the normalization begin at.
        norm_shift: what its shifts ``beta`` begin at.
        dropout_keep_prob: probability of keeping what is new; a number or a tensor.
        dropout_prob_seed: seed of the random numbers.
        reuse: as of ``variable_scope``.
    """

    def __init__(self, num_units: int, forget_bias: float = 1.0, input_size: Any = None,
                 activation: Callable | None = tanh, layer_norm: bool = True,
                 norm_gain: float = 1.0, norm_shift: float = 0.0, dropout_keep_prob: Any = 1.0,
                 dropout_prob_seed: int | None = None, reuse: bool | None = None) -> None:
        super().__init__()
        self._num_units = num_units
        self._forget_bias = forget_bias
        self._activation = activation or tanh
        self._layer_norm = layer_norm
        self._starts = {"gamma": norm_gain, "beta": norm_shift}
        self._keep_prob = dropout_keep_prob
        self._seed = dropout_prob_seed
        self._reuse = reuse

    @property
    def state_size(self) -> LSTMStateTuple:
        """The sizes of memory and output."""
        return LSTMStateTuple(self._num_units, self._num_units)

    @property
    def output_size(self) -> int:
        """The number of units."""
        return self._num_units

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[Any, Any]:
        """Run one step."""
        with self._step_scope(scope, "layer_norm_basic_lstm_cell", self._reuse):
            c, h = (convert_to_tensor(part) for part in state)
            sums = affine([inputs, h], 4 * self._num_units, not self._layer_norm)
            i, j, f, o = (self._normalized(x, gate) for x, gate in zip(
                raw_ops.Split(1, sums, num_split=4), ("input", "transform", "forget", "output"),
                strict=True))
            new = self._activation(j)
            if not isinstance(self._keep_prob, (int, float)) or self._keep_prob < 1:
                new = dropout(new, self._keep_prob, seed=self._seed)
            forget = raw_ops.Add(f, f.dtype.base_dtype.np.type(self._forget_bias))
            memory = raw_ops.Add(raw_ops.Mul(c, sigmoid(forget)), raw_ops.Mul(sigmoid(i), new))
            memory = self._normalized(memory, "state")
            output = raw_ops.Mul(self._activation(memory), sigmoid(o))
            return output, LSTMStateTuple(memory, output)

    def _normalized(self, x: Tensor, scope: str) -> Tensor:
        if not self._layer_norm:
            return x
        dtype = x.dtype.base_dtype
        with variable_scope(scope):
            gamma, beta = (convert_to_tensor(get_variable(
                name, [self._num_units], dtype, Constant(start, dtype)))
                for name, start in self._starts.items())
        mean, variance = normalization.moments(x, [1], keep_dims=True)
        return normalization.batch_normalization(x, mean, variance, beta, gamma, 1e-12)


class UGRNNCell(RNNCell):
    """Update gate RNN (arXiv:1611.09913): between a simple cell and a gated recurrent unit.

    g, c = W [inputs, state] + b; g' = sigmoid(g + forget_bias);
    output = new state = g' state + (1 - g') activation(c).

    Args:
        num_units: size of state and output.
        initializer: of the weights.
        forget_bias: added to the gate, so that training begins with remembering.
        activation: a function of tensors.
        reuse: as of ``variable_scope``.
    """

    def __init__(self, num_units: int, initializer: Any = None, forget_bias: float = 1.0,
                 activation: Callable | None = tanh, reuse: bool | None = None) -> None:
        super().__init__()
        self._num_units = num_units
        self._initializer = initializer
        self._forget_bias = forget_bias
        self._activation = activation or tanh
        self._reuse = reuse

    @property
    def state_size(self) -> int:
        """The number of units."""
        return self._num_units

    @property
    def output_size(self) -> int:
        """The number of units."""
        return self._num_units

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[Any, Any]:
        """Run one step."""
        state = convert_to_tensor(state)
        with self._step_scope(scope, "ugrnn_cell", self._reuse, initializer=self._initializer):
            sums = affine([inputs, state], 2 * self._num_units)
            gate, new = raw_ops.Split(1, sums, num_split=2)
            gate = sigmoid(raw_ops.Add(gate, gate.dtype.base_dtype.np.type(self._forget_bias)))
            new = self._activation(new)
            output = raw_ops.Add(new, raw_ops.Mul(gate, raw_ops.Sub(state, new)))
        return output, output


class NASCell(RNNCell):
    """The cell that a search over architectures found (arXiv:1611.01578).

    Args:
        num_units: size of the memory.
        num_proj: size of the output after a projection; None for no projection.
        use_biases: whether sums have biases.
        reuse: as of ``variable_scope``.
    """

    def __init__(self, num_units: int, num_proj: int | None = None, use_biases: bool = False,
                 reuse: bool | None = None) -> None:
        super().__init__()
        self._num_units = num_units
        self._num_proj = num_proj
        self._use_biases = use_biases
        self._reuse = reuse

    @property
    def state_size(self) -> LSTMStateTuple:
        """The sizes of memory and output."""
        return LSTMStateTuple(self._num_units, self.output_size)

    @property
    def output_size(self) -> int:
        """The size of the projection, or the number of units."""
        return self._num_units if self._num_proj is None else self._num_proj

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[Any, Any]:
        """Run one step."""
        c, h = (convert_to_tensor(part) for part in state)
        inputs = convert_to_tensor(inputs)
        with self._step_scope(scope, "nas_rnn", self._reuse):
            memory, output = self._combined(self._sums(inputs, h), c)
            if self._num_proj is not None:
                output = self._product(output, "projection_weights", self._num_units,
                                       self._num_proj)
            return output, LSTMStateTuple(memory, output)

    def _product(self, x: Tensor, name: str, rows: int, columns: int) -> Tensor:
        weights = get_variable(name, [rows, columns], x.dtype.base_dtype)
        return raw_ops.MatMul(x, convert_to_tensor(weights))

    def _sums(self, inputs: Tensor, h: Tensor) -> list[tuple[Tensor, Tensor]]:
        """The eight parts of what comes of the inputs, and of the last output."""
        size = 8 * self._num_units
        of_output = self._product(h, f"recurrent_{WEIGHTS}", self.output_size, size)
        of_inputs = self._product(inputs, WEIGHTS, input_size_of(inputs), size)
        if self._use_biases:
            dtype = inputs.dtype.base_dtype
            biases = get_variable("bias", [size], dtype, Constant(0.0, dtype))
            of_output = raw_ops.BiasAdd(of_output, convert_to_tensor(biases))
        return list(zip(raw_ops.Split(1, of_inputs, num_split=8),
                        raw_ops.Split(1, of_output, num_split=8), strict=True))

    @staticmethod
    def _combined(parts: list[tuple[Tensor, Tensor]], c: Tensor) -> tuple[Tensor, Tensor]:
        """The new memory and output: the tree of Figure 8 of the paper, from its leaves."""
        relu, add, mul = raw_ops.Relu, raw_ops.Add, raw_ops.Mul
        first = [act(join(x, h)) for (x, h), act, join in zip(
            parts, (sigmoid, relu, sigmoid, relu, tanh, sigmoid, tanh, sigmoid),
            (add, add, add, mul, add, add, add, add), strict=True)]
        kept = tanh(add(tanh(mul(first[0], first[1])), c))
        memory = mul(kept, tanh(add(first[2], first[3])))
        shown = tanh(add(tanh(mul(first[4], first[5])), sigmoid(add(first[6], first[7]))))
        return memory, tanh(mul(memory, shown))
