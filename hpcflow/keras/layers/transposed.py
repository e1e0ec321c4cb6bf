"""Transposed convolutions, which make images and volumes larger."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import hpcflow as hf
from hpcflow.keras import backend
from hpcflow.keras.layers.function_layer import OF_KERNEL, REQUIRED, OptionLayer
from hpcflow.shapes import ShapeLike


class Conv2DTranspose(OptionLayer):
    """The gradient of a convolution over images, with weights of its own.

    Args:
        filters: channels of the result.
        kernel_size, strides, padding, data_format, dilation_rate: of the convolution.
        activation, use_bias, and initializers, regularizers and constraints of ``kernel`` and
            ``bias``.
        output_padding: how much larger the result is, less than the stride; of several results of
            which the convolution makes inputs of this size the default is that of 1.x.

    Raises ``ValueError`` for a padding that is not below the stride, and for inputs whose channels
    are not known.
    """

    arguments: Mapping[str, Any] = {
        "filters": REQUIRED, "kernel_size": REQUIRED, "strides": 1, "padding": "valid",
        "output_padding": None, "data_format": None, "dilation_rate": 1, **OF_KERNEL}

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        padding = self.output_padding
        if padding is not None and any(
                s <= p for s, p in zip(self.strides, padding, strict=True)):
            raise ValueError(f"Stride {self.strides} must be greater than output padding {padding}")

    def build(self, input_shape: ShapeLike) -> None:
        """Make the variables."""
        self.kernel = self._add(
            "kernel", [*self.kernel_size, self.filters, self._channels(input_shape)])
        if self.use_bias:
            self.bias = self._add("bias", [self.filters])
        self.built = True

    def _lengths(self, sizes: list) -> list:
        """The sizes of the result, of those of the inputs: numbers or tensors."""
        found = []
        for n, size in enumerate(sizes):
            stride = self.strides[n]
            reach = 1 + (self.kernel_size[n] - 1) * self.dilation_rate[n]
            if self.output_padding is None:
                more = max(reach - stride, 0) if self.padding == "valid" else 0
                found.append(size * stride + more)
            else:
                lost = 0 if self.padding == "valid" else 2 * (reach // 2)
                found.append((size - 1) * stride + reach - lost + self.output_padding[n])
        return found

    def call(self, inputs: Any) -> Any:
        """Return the larger images."""
        first = self.data_format == "channels_first"
        axes = range(2, 2 + self.rank) if first else range(1, 1 + self.rank)
        known, shape = inputs.shape.as_list(), hf.shape(inputs)
        lengths = self._lengths([known[a] if known[a] is not None else shape[a] for a in axes])
        space = [self.filters, *lengths] if first else [*lengths, self.filters]
        one = (lambda v: [1, 1, *v]) if first else (lambda v: [1, *v, 1])
        layout = "DHW"[3 - self.rank:]
        function = hf.nn.conv2d_transpose if self.rank == 2 else hf.nn.conv3d_transpose
        outputs = function(inputs, self.kernel, hf.stack([shape[0], *space]), one(self.strides),
                           self.padding.upper(),
                           data_format=f"NC{layout}" if first else f"N{layout}C",
                           dilations=one(self.dilation_rate))
        outputs.set_shape([known[0], *(d if isinstance(d, int) else None for d in space)])
        if self.use_bias:
            outputs = backend.bias_add(outputs, self.bias, self.data_format)
        return self.activation(outputs)


class Conv3DTranspose(Conv2DTranspose):
    """The gradient of a convolution over volumes; see :class:`Conv2DTranspose`."""

    rank = 3
    arguments: Mapping[str, Any] = {
        k: v for k, v in Conv2DTranspose.arguments.items() if k != "dilation_rate"}
    dilation_rate = (1, 1, 1)


Convolution2DTranspose, Convolution3DTranspose = Conv2DTranspose, Conv3DTranspose
