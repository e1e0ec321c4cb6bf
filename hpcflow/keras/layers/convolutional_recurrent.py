"""Recurrent layers over images, whose products are convolutions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import hpcflow as hf
from hpcflow.keras import backend
from hpcflow.keras.layers.function_layer import _sizes, understood
from hpcflow.keras.layers.recurrent import _Recurrent
from hpcflow.keras.layers.recurrent_cells import LSTMCell

if TYPE_CHECKING:
    from hpcflow.graph.likes import Sizes


class _ConvLSTM2DCell(LSTMCell):
    """A :class:`LSTMCell` of images; the convolution of the state keeps its size."""

    def __init__(self, filters: int, kernel_size: Sizes, strides: Sizes = 1,
                 padding: str = "valid", data_format: str | None = None, dilation_rate: Sizes = 1,
                 activation: Any = "tanh", recurrent_activation: Any = "hard_sigmoid",
                 use_bias: bool = True, **keywords: Any) -> None:
        super().__init__(filters, activation, recurrent_activation, use_bias, **keywords)
        self._options.pop("units")
        self._options.pop("implementation")
        own = {"filters": filters, "padding": padding,
               "data_format": understood("data_format", data_format),
               "kernel_size": _sizes(kernel_size, 2), "strides": _sizes(strides, 2),
               "dilation_rate": _sizes(dilation_rate, 2)}
        self._options.update(own)
        vars(self).update(own)
        self._space: list = []

    @property
    def state_size(self) -> Any:
        """The shapes of both states after the batch; the number of filters before it is built."""
        first = self.data_format == "channels_first"
        if not self._space:
            return [self.filters] * 2
        own = [self.filters, *self._space] if first else [*self._space, self.filters]
        return [hf.TensorShape(own)] * 2

    @property
    def output_size(self) -> Any:
        """The shape of the output after the batch."""
        return self.state_size[0]

    def build(self, input_shape: Any) -> None:
        """Make the variables. ``ValueError`` where channels or sizes of images are not known."""
        dims: Any = hf.TensorShape(input_shape).as_list()[1:]
        first = self.data_format == "channels_first"
        channels = dims[0] if first else dims[-1]
        space = dims[1:] if first else dims[:-1]
        if None in dims:
            raise ValueError("The sizes and channels of the inputs to `ConvLSTM2D` should be "
                             f"defined. Found {dims}.")
        self._space = [self._length(n, size) for n, size in enumerate(space)]
        self.kernel = self.add_weight(
            "kernel", [*self.kernel_size, channels, 4 * self.filters], None,
            self.kernel_initializer, self.kernel_regularizer, constraint=self.kernel_constraint)
        self.recurrent_kernel = self.add_weight(
            "recurrent_kernel", [*self.kernel_size, self.filters, 4 * self.filters], None,
            self.recurrent_initializer, self.recurrent_regularizer,
            constraint=self.recurrent_constraint)
        self.bias = self.add_weight(
            "bias", self._bias_shape(), None, self._first_bias(), self.bias_regularizer,
            constraint=self.bias_constraint) if self.use_bias else None
        self.built = True

    def _length(self, n: int, size: int) -> int:
        reach = 1 + (self.kernel_size[n] - 1) * self.dilation_rate[n]
        positions = size if self.padding == "same" else size - reach + 1
        return -(-positions // self.strides[n])

    def _sums(self, x: Any, h: Any) -> list:
        of_inputs, of_state = self._dropped
        axis = 1 if self.data_format == "channels_first" else 3
        sums = self._times(of_inputs, x, self.kernel, lambda v, w: backend.conv2d(
            v, w, self.strides, self.padding, self.data_format, self.dilation_rate), axis)
        if self.bias is not None:
            sums = backend.bias_add(sums, self.bias, self.data_format)
        sums = sums + self._times(of_state, h, self.recurrent_kernel, lambda v, w: backend.conv2d(
            v, w, (1, 1), "same", self.data_format), axis)
        return hf.split(sums, 4, axis)


class ConvLSTM2D(_Recurrent):
    """Long short-term memory over sequences of images, shape ``[batch, time, ...]``.

    Args:
        filters: channels of the result.
        kernel_size, strides, padding, data_format, dilation_rate: of the convolution of the
            images; that of the state has steps of 1 and keeps the size.

    The other arguments are those of :class:`LSTM`. Sizes of images must be known.
    """

    cell_class = _ConvLSTM2DCell

    def __init__(self, filters: int, *args: Any, **keywords: Any) -> None:
        super().__init__(filters, *args, **keywords)
