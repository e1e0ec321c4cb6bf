"""LSTM cells with normalized gates or weights, and with dropout of what is new."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcflow.contrib.rnn.block_cells import input_size_of
from hpcflow.contrib.rnn.cell import BIASES, WEIGHTS, activation_of, affine, takes_later_order
from hpcflow.contrib.rnn.lstm import LSTMCell, LSTMStateTuple, MemoryCell
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import InitializerLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.nn import normalization
from hpcflow.nn.activations import dropout
from hpcflow.nn.normalization import l2_normalize
from hpcflow.ops.arrays.joining import concat, split
from hpcflow.ops.math.elementwise import sigmoid, tanh
from hpcflow.ops.state.initializers import Constant
from hpcflow.ops.state.variable_scope import get_variable, variable_scope
from hpcflow.shapes import ShapeLike


class LayerNormBasicLSTMCell(MemoryCell):
    """LSTM with normalized gates and memory, and dropout of what is new to the memory.

    The step is that of ``BasicLSTMCell``, each gate's sum and the new memory normalized over the
    units (arXiv:1607.06450), and activation(j) dropped in part (arXiv:1603.05118).

    Args:
        num_units: size of memory and output.
        forget_bias: added to the forget gate.
        input_size: accepted; the inputs say their size.
        activation: a function of tensors, or its name.
        layer_norm: whether to normalize; without it there are biases.
        norm_gain: what the factors ``gamma`` of the normalization begin at.
        norm_shift: what its shifts ``beta`` begin at.
        dropout_keep_prob: probability of keeping what is new; a number or a tensor.
        dropout_prob_seed: seed of the random numbers.
        reuse: as of ``variable_scope``.
    """

    @takes_later_order
    def __init__(self, num_units: int, forget_bias: float = 1.0,
                 input_size: ShapeLike | None = None, activation: Callable | str | None = tanh,
                 layer_norm: bool = True, norm_gain: float = 1.0, norm_shift: float = 0.0,
                 dropout_keep_prob: Any = 1.0, dropout_prob_seed: int | None = None,
                 reuse: bool | None = None) -> None:
        super().__init__(num_units)
        self._forget_bias = forget_bias
        self._activation = activation_of(activation)
        self._layer_norm = layer_norm
        self._starts = norm_gain, norm_shift
        self._keep_prob = dropout_keep_prob
        self._seed = dropout_prob_seed
        self._reuse = reuse

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
        return normalized(x, scope, *self._starts) if self._layer_norm else x


class LayerNormLSTMCell(LSTMCell):
    """``LSTMCell`` with its gates and memory normalized over the units (arXiv:1607.06450).

    Args:
        layer_norm: whether to normalize; the biases are then not used.
        norm_gain: what the factors ``gamma`` of the normalization begin at.
        norm_shift: what its shifts ``beta`` begin at.

    The others are as of ``LSTMCell``.
    """

    _default_scope = "layer_norm_lstm_cell"

    def __init__(self, num_units: int, use_peepholes: bool = False,
                 cell_clip: float | None = None, initializer: InitializerLike | None = None,
                 num_proj: int | None = None, proj_clip: float | None = None,
                 forget_bias: float = 1.0, activation: Callable | str | None = None,
                 layer_norm: bool = False, norm_gain: float = 1.0, norm_shift: float = 0.0,
                 reuse: bool | None = None) -> None:
        super().__init__(num_units, None, use_peepholes, cell_clip, initializer, num_proj,
                         proj_clip, forget_bias=forget_bias, activation=activation, reuse=reuse)
        self._starts = (norm_gain, norm_shift) if layer_norm else None

    def _gates(self, inputs: Any, h: Tensor) -> list[Tensor]:
        if self._starts is None:
            return super()._gates(inputs, h)
        sums = affine([inputs, h], 4 * self._num_units, False)
        get_variable(BIASES, [4 * self._num_units], sums.dtype, Constant(0.0, sums.dtype))
        return [self._normalized(x, gate) for x, gate in zip(
            raw_ops.Split(1, sums, num_split=4), ("input", "transform", "forget", "output"),
            strict=True)]

    def _normalized(self, x: Tensor, name: str) -> Tensor:
        return x if self._starts is None else normalized(x, name, *self._starts)


class WeightNormLSTMCell(LSTMCell):
    """``LSTMCell`` with the columns of its weights at a length that is learned (arXiv:1602.07868).

    Args:
        norm: whether to normalize; the weights of inputs, outputs and projection by themselves.

    The others are as of ``LSTMCell``.
    """

    _default_scope = "wn_lstm_cell"

    def __init__(self, num_units: int, norm: bool = True, use_peepholes: bool = False,
                 cell_clip: float | None = None, initializer: InitializerLike | None = None,
                 num_proj: int | None = None, proj_clip: float | None = None,
                 forget_bias: float = 1, activation: Callable | str | None = None,
                 reuse: bool | None = None) -> None:
        super().__init__(num_units, None, use_peepholes, cell_clip, initializer, num_proj,
                         proj_clip, forget_bias=forget_bias, activation=activation, reuse=reuse)
        self._norm = norm

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[Any, Any]:
        """Run one step."""
        with self._step_scope(scope, self._default_scope, self._reuse), \
                variable_scope("wn_lstm_cell", initializer=self._initializer):
            return self._step(inputs, state)

    def _gates(self, inputs: Any, h: Tensor) -> list[Tensor]:
        sums = self._product([convert_to_tensor(inputs), h], 4 * self._num_units)
        biases = get_variable(BIASES, [4 * self._num_units], sums.dtype,
                              Constant(0.0, sums.dtype))
        return raw_ops.Split(1, raw_ops.BiasAdd(sums, convert_to_tensor(biases)), num_split=4)

    def _projection(self, output: Tensor) -> Tensor:
        return self._product([output], self.output_size)

    def _product(self, parts: list[Tensor], size: int) -> Tensor:
        widths = [input_size_of(part) for part in parts]
        dtype = parts[0].dtype.base_dtype
        weights = convert_to_tensor(get_variable(WEIGHTS, [sum(widths), size], dtype))
        if self._norm:
            weights = concat([raw_ops.Mul(l2_normalize(rows, 0), convert_to_tensor(
                get_variable(f"norm_{n}", [size], dtype))) for n, rows in enumerate(
                    split(weights, widths))], 0)
        return raw_ops.MatMul(concat(parts, 1), weights)


def normalized(x: Tensor, scope: str, gain: float, shift: float) -> Tensor:
    """Return the rows of a matrix with mean 0 and variance 1, times ``gamma``, plus ``beta``: two
    variables in `scope` that begin at `gain` and `shift`."""
    dtype = x.dtype.base_dtype
    with variable_scope(scope):
        gamma, beta = (convert_to_tensor(get_variable(
            name, [x.get_shape()[-1].value], dtype, Constant(start, dtype)))
            for name, start in (("gamma", gain), ("beta", shift)))
    mean, variance = normalization.moments(x, [1], keep_dims=True)
    return normalization.batch_normalization(x, mean, variance, beta, gamma, 1e-12)
