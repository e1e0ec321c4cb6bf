"""Layers that are recurrent networks as one op."""

from __future__ import annotations

from typing import Any, ClassVar

from hpcflow import dtypes
from hpcflow.contrib.cudnn_rnn import operations as o
from hpcflow.contrib.cudnn_rnn import saveables
from hpcflow.dtypes import DTypeLike
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import add_to_collection
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.likes import InitializerLike, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.layers.base import Layer
from hpcflow.layers.input_spec import InputSpec
from hpcflow.nn.rnn_steps import batch_size_of, zeros_of
from hpcflow.ops.arrays.layout import transpose
from hpcflow.ops.state.initializers import Constant, glorot_uniform_initializer
from hpcflow.ops.state.variable_scope import get_variable_scope
from hpcflow.platform import logging
from hpcflow.shapes import ShapeLike, as_shape

_FLOATS = (dtypes.float16, dtypes.float32, dtypes.float64)


class _CudnnRNN(Layer):
    """A network of several layers that has one variable, ``opaque_kernel``.

    A Saver saves it as the variables of cells that compute the same, which may be in the place of
    the layer where the checkpoint is read.

    Args:
        num_layers: the number of layers.
        num_units: the number of units of each.
        input_mode: "linear_input", "skip_input" or "auto_select"; see
            ``cudnn_rnn_ops.cudnn_lstm``.
        direction: "unidirectional" or "bidirectional".
        dropout: the part of the outputs between two layers that is left out in training.
        seed: of dropout, and of the weights where they have no initializer.
        dtype: float16, float32 or float64.
        kernel_initializer: of each matrix; that of Glorot with uniform numbers if None.
        bias_initializer: of each bias; zeros if None.
        name: of the variable scope.

    ``ValueError`` for unknown modes, directions and types.
    """

    _rnn_mode: ClassVar[str]
    _saveable_cls: ClassVar[type[saveables.CudnnOpaqueParamsSaveable]]

    def __init__(self, num_layers: int, num_units: int,
                 input_mode: str = o.CUDNN_INPUT_LINEAR_MODE,
                 direction: str = o.CUDNN_RNN_UNIDIRECTION, dropout: float = 0.0,
                 seed: int | None = None, dtype: DTypeLike = dtypes.float32,
                 kernel_initializer: InitializerLike | None = None,
                 bias_initializer: InitializerLike | None = None,
                 name: str | None = None) -> None:
        super().__init__(name=name, dtype=dtype)
        o.check_direction(direction)
        o.check_input_mode(input_mode)
        if self._dtype not in _FLOATS:
            raise ValueError(f"Only support float16, float32, float64, provided {dtype}")
        self._num_layers, self._num_units = num_layers, num_units
        self._input_mode, self._direction = input_mode, direction
        self._dropout, self._seed = dropout, seed
        self._kernel_initializer: Any = kernel_initializer
        self._bias_initializer: Any = bias_initializer
        self._input_size: int | None = None
        self._saveable: Any = None

    # ------------------------------------------------------------ what it is

    @property
    def num_layers(self) -> int:
        """The number of layers."""
        return self._num_layers

    @property
    def num_units(self) -> int:
        """The number of units of each layer."""
        return self._num_units

    @property
    def input_mode(self) -> str:
        """The mode of the inputs of the first layer."""
        return self._input_mode

    @property
    def input_size(self) -> int:
        """The size of the inputs. ``ValueError`` before the layer is built."""
        if self._input_size is None:
            raise ValueError("'input_size' is unknown since layer has not been built.")
        return self._input_size

    @property
    def rnn_mode(self) -> str:
        """The kind of the cells: "lstm", "gru", "rnn_tanh" or "rnn_relu"."""
        return self._rnn_mode

    @property
    def direction(self) -> str:
        """The direction."""
        return self._direction

    @property
    def num_dirs(self) -> int:
        """The number of directions."""
        return 2 if self._direction == o.CUDNN_RNN_BIDIRECTION else 1

    @property
    def saveable(self) -> Any:
        """What a Saver saves; None before the layer is built."""
        return self._saveable

    @property
    def canonical_weight_shapes(self) -> list[tuple[int, int]]:
        """The shapes of all matrices. ``RuntimeError`` before the layer is built."""
        if self._input_size is None:
            raise RuntimeError(f"{type(self).__name__}.canonical_weight_shapes invoked before "
                               "input shape is known")
        shapes: list[tuple[int, int]] = []
        for layer in range(self._num_layers):
            width = self._input_size if layer == 0 else self.num_dirs * self._num_units
            by_input, by_state = (self._num_units, width), (self._num_units, self._num_units)
            gates = o.PER_LAYER[self._rnn_mode] // 2
            shapes += ([by_input] * gates + [by_state] * gates) * self.num_dirs
        return shapes

    @property
    def canonical_bias_shapes(self) -> list[list[int]]:
        """The shapes of all biases."""
        return [[self._num_units]] * (
            self._num_layers * self.num_dirs * o.PER_LAYER[self._rnn_mode])

    # ------------------------------------------------------------ variables

    def build(self, input_shape: ShapeLike) -> None:
        """Make the variable for inputs of this shape; ``ValueError`` unless it has three
        dimensions, the last of which is known."""
        if self.built:
            return
        shape = as_shape(input_shape)
        if shape.ndims != 3:
            raise ValueError(f"Expecting input_shape with 3 dims, got {shape.ndims}")
        self._input_size = shape[2].value
        if self._input_size is None:
            raise ValueError("The last dimension of the inputs to `CudnnRNN` should be defined. "
                             "Found `None`.")
        self.input_spec = InputSpec(ndim=3, axes={-1: self._input_size})
        with self._entered_scope():
            self._keep_whole()
        self.kernel = self.add_variable("opaque_kernel", None, initializer=self._first())
        scope = get_variable_scope()  # that of the layer in a call, else the one around it
        if scope.reuse is not True:
            self._saveable = self._saveable_cls(
                self.kernel, self._num_layers, self._num_units, self._input_size,
                self._input_mode, self._direction, scope, f"{self.kernel.op.name}_saveable")
            add_to_collection(GraphKeys.SAVEABLE_OBJECTS, self._saveable)
        self.built = True

    def _keep_whole(self) -> None:
        """Let no partitioner cut the variable, which only the network can read."""
        scope: Any = self._scope
        if scope.partitioner is not None:
            logging.warn(f"the variable of {self.name} is not partitioned: it is one vector of all "
                         "parameters")
            scope.set_partitioner(None)

    def _first(self) -> Tensor:
        """The parameters that training begins with."""
        dtype: Any = self._dtype
        kernel = self._kernel_initializer or glorot_uniform_initializer(self._seed, dtype)
        bias = self._bias_initializer or Constant(0.0, dtype)
        return o.cudnn_rnn_canonical_to_opaque_params(
            self._rnn_mode, self._num_layers, self._num_units, self.input_size,
            [kernel(s, dtype=dtype) for s in self.canonical_weight_shapes],
            [bias(s, dtype=dtype) for s in self.canonical_bias_shapes],
            input_mode=self._input_mode, direction=self._direction)

    # ------------------------------------------------------------ applying it

    def call(self, inputs: Any, initial_state: Any = None,
             sequence_lengths: TensorLike | None = None, time_major: bool = True,
             training: bool = True) -> tuple[Tensor, tuple]:
        """Return the output of all steps, and the states at the end.

        Args:
            inputs: ``[time, batch, size]``.
            initial_state: a tuple of the states before, ``[layers and directions, batch, units]``:
                of an LSTM state and memory, else the state. Zeros if None.
            sequence_lengths: int32 ``[batch]``; all rows have all steps if None. Behind the end of
                a row the output is 0.
            time_major: False if the batch is the first dimension of all these.
            training: whether dropout takes place, and gradients can be computed.

        Raises ``TypeError`` for states that are no tuple.
        """
        if initial_state is not None and not isinstance(initial_state, tuple):
            raise TypeError(f"Invalid initial_state type: {initial_state}, expecting tuple.")
        inputs = convert_to_tensor(inputs, self._dtype)
        states = initial_state or self._zeros(inputs, time_major)
        states = [convert_to_tensor(s, self._dtype) for s in states]
        if len(states) != len(self.state_shape(0)):
            raise ValueError(f"initial_state must have {len(self.state_shape(0))} parts, "
                             f"got {len(states)}")
        output, h, c = o.cudnn_rnn(
            inputs, states[0], states[-1] if self._rnn_mode == o.CUDNN_LSTM
            else convert_to_tensor([], self._dtype), self.kernel, training, self._rnn_mode,
            sequence_lengths, time_major, self._input_mode, self._direction, self._dropout,
            self._seed)
        return output, (h, c) if self._rnn_mode == o.CUDNN_LSTM else (h,)

    def state_shape(self, batch_size: Any) -> tuple[list, ...]:
        """Return the shape of each state."""
        shape = [self._num_layers * self.num_dirs, batch_size, self._num_units]
        return (shape, list(shape)) if self._rnn_mode == o.CUDNN_LSTM else (shape,)

    def _zeros(self, inputs: Tensor, time_major: bool) -> list[Tensor]:
        rows = batch_size_of(inputs, 1 if time_major else 0)
        zeros = zeros_of([self._num_layers * self.num_dirs, self._num_units], rows, inputs.dtype)
        return [transpose(zeros, [1, 0, 2]) if time_major else zeros] * len(self.state_shape(0))


class CudnnLSTM(_CudnnRNN):
    """A network of LSTMs; see :class:`_CudnnRNN` for the arguments."""

    _rnn_mode = o.CUDNN_LSTM
    _saveable_cls = saveables.CudnnLSTMSaveable


class CudnnGRU(_CudnnRNN):
    """A network of gated recurrent units that reset behind the product; arguments as of
    :class:`CudnnLSTM`."""

    _rnn_mode = o.CUDNN_GRU
    _saveable_cls = saveables.CudnnGRUSaveable


class CudnnRNNTanh(_CudnnRNN):
    """A network of simple cells with tanh; arguments as of :class:`CudnnLSTM`."""

    _rnn_mode = o.CUDNN_RNN_TANH
    _saveable_cls = saveables.CudnnRNNTanhSaveable


class CudnnRNNRelu(_CudnnRNN):
    """A network of simple cells with relu; arguments as of :class:`CudnnLSTM`."""

    _rnn_mode = o.CUDNN_RNN_RELU
    _saveable_cls = saveables.CudnnRNNReluSaveable
