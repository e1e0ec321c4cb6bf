"""LSTM cells whose products are convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hpcflow.contrib.rnn.cell import RNNCell
from hpcflow.contrib.rnn.lstm import LSTMStateTuple
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.nn.convolution import convolution
from hpcflow.ops.math.elementwise import sigmoid, tanh
from hpcflow.ops.state.initializers import Constant
from hpcflow.ops.state.variable_scope import get_variable
from hpcflow.shapes import TensorShape


class ConvLSTMCell(RNNCell):
    """LSTM of images, or of sequences or volumes (arXiv:1506.04214); without peepholes.

    Args:
        conv_ndims: number of dimensions of space: 1, 2 or 3.
        input_shape: shape of an input without the batch, its channels last.
        output_channels: channels of memory and output.
        kernel_shape: size of the convolutions' filters, one number for each dimension of space.
        use_bias: whether the convolution has biases.
        skip_connection: join the input to the output, behind its channels. The state keeps the
            output without it.
        forget_bias: added to the forget gate.
        initializers: of the variables of the cell's scope.
        name: of the variable scope.

    Raises ``ValueError`` for shapes that do not fit `conv_ndims`.
    """

    def __init__(self, conv_ndims: int, input_shape: Sequence[int], output_channels: int,
                 kernel_shape: Sequence[int], use_bias: bool = True,
                 skip_connection: bool = False, forget_bias: float = 1.0,
                 initializers: Any = None, name: str = "conv_lstm_cell") -> None:
        super().__init__(name=name)
        dims = list(input_shape)
        if conv_ndims not in (1, 2, 3) or len(dims) != conv_ndims + 1:
            raise ValueError(f"Invalid input_shape {dims} for conv_ndims={conv_ndims}.")
        if len(kernel_shape) != conv_ndims:
            raise ValueError(f"Invalid kernel_shape {list(kernel_shape)} for "
                             f"conv_ndims={conv_ndims}.")
        self._space, self._input_channels = dims[:-1], dims[-1]
        self._channels = output_channels
        self._kernel_shape = list(kernel_shape)
        self._use_bias = use_bias
        self._skip = skip_connection
        self._forget_bias = forget_bias
        self._initializer = initializers

    @property
    def state_size(self) -> LSTMStateTuple:
        """The shapes of memory and output."""
        size = TensorShape([*self._space, self._channels])
        return LSTMStateTuple(size, size)

    @property
    def output_size(self) -> TensorShape:
        """The shape of an output, with the channels of the input where they are joined."""
        joined = self._input_channels if self._skip else 0
        return TensorShape([*self._space, self._channels + joined])

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[Any, Any]:
        """Run one step."""
        inputs = convert_to_tensor(inputs)
        c, h = (convert_to_tensor(part) for part in state)
        axis = len(self._space) + 1
        with self._step_scope(scope, "conv_lstm_cell", initializer=self._initializer):
            sums = self._convolved(raw_ops.ConcatV2([inputs, h], axis))
            i, j, f, o = raw_ops.Split(axis, sums, num_split=4)
            forget = raw_ops.Add(f, f.dtype.base_dtype.np.type(self._forget_bias))
            memory = raw_ops.Add(raw_ops.Mul(sigmoid(forget), c),
                                 raw_ops.Mul(sigmoid(i), tanh(j)))
            output = raw_ops.Mul(tanh(memory), sigmoid(o))
            shown = raw_ops.ConcatV2([output, inputs], axis) if self._skip else output
        return shown, LSTMStateTuple(memory, output)

    def _convolved(self, joined: Tensor) -> Tensor:
        dtype, channels = joined.dtype.base_dtype, joined.shape.as_list()[-1]
        kernel = get_variable("kernel", [*self._kernel_shape, channels, 4 * self._channels], dtype)
        sums = convolution(joined, convert_to_tensor(kernel), "SAME")
        if not self._use_bias:
            return sums
        biases = get_variable("biases", [4 * self._channels], dtype, Constant(0.0, dtype))
        return raw_ops.Add(sums, convert_to_tensor(biases))


class Conv1DLSTMCell(ConvLSTMCell):
    """:class:`ConvLSTMCell` of sequences."""

    def __init__(self, name: str = "conv_1d_lstm_cell", **kwargs: Any) -> None:
        super().__init__(conv_ndims=1, name=name, **kwargs)


class Conv2DLSTMCell(ConvLSTMCell):
    """:class:`ConvLSTMCell` of images."""

    def __init__(self, name: str = "conv_2d_lstm_cell", **kwargs: Any) -> None:
        super().__init__(conv_ndims=2, name=name, **kwargs)


class Conv3DLSTMCell(ConvLSTMCell):
    """:class:`ConvLSTMCell` of volumes."""

    def __init__(self, name: str = "conv_3d_lstm_cell", **kwargs: Any) -> None:
        super().__init__(conv_ndims=3, name=name, **kwargs)
