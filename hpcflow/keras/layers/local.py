"""Locally connected layers: convolutions with other weights at each position."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import hpcflow as hf
from hpcflow.keras.layers.function_layer import OptionLayer
from hpcflow.shapes import ShapeLike

if TYPE_CHECKING:
    from hpcflow.graph.likes import Identifier, Sizes


class LocallyConnected2D(OptionLayer):
    """A convolution over images that has weights of their own at each position.

    The kernel has shape ``[positions, kernel height * width * channels, filters]``, the bias
    ``[height, width, filters]``.

    Args:
        filters: channels of the result.
        kernel_size, strides, data_format: of the convolution.
        padding: ``valid``.
        activation, use_bias, and initializers, regularizers and constraints of ``kernel`` and
            ``bias``.
        implementation: 1.

    Raises ``ValueError`` for another padding and where sizes are not known, and
    ``NotImplementedError`` for the implementations 2 and 3, whose kernels have other shapes.
    """

    def __init__(self, filters: int, kernel_size: Sizes, strides: Sizes = 1,
                 padding: str = "valid", data_format: str | None = None,
                 activation: Identifier | None = None, use_bias: bool = True,
                 kernel_initializer: Identifier = "glorot_uniform",
                 bias_initializer: Identifier = "zeros",
                 kernel_regularizer: Identifier | None = None,
                 bias_regularizer: Identifier | None = None,
                 activity_regularizer: Identifier | None = None,
                 kernel_constraint: Identifier | None = None,
                 bias_constraint: Identifier | None = None, implementation: int = 1,
                 **keywords: Any) -> None:
        super().__init__(activity_regularizer=activity_regularizer, **keywords)
        self._take(locals())
        self.padding = self._options["padding"] = padding.lower()
        if implementation != 1:
            raise NotImplementedError(f"{type(self).__name__}: implementation {implementation}")
        if self.padding != "valid":
            raise ValueError(f"Invalid border mode for {type(self).__name__} (only \"valid\" is "
                             f"supported if implementation is 1): {padding}")

    def build(self, input_shape: ShapeLike) -> None:
        """Make the variables."""
        dims: Any = hf.TensorShape(input_shape).as_list()[1:]
        if None in dims:
            raise ValueError(f"The sizes of inputs of {type(self).__name__} should be fully "
                             f"defined, got {dims}")
        first = self.data_format == "channels_first"
        space, channels = (dims[1:], dims[0]) if first else (dims[:-1], dims[-1])
        after = [(size - own) // step + 1 for size, own, step in zip(
            space, self.kernel_size, self.strides, strict=True)]
        positions, size = 1, channels
        for n in range(self.rank):
            positions, size = positions * after[n], size * self.kernel_size[n]
        self._after = after
        self.kernel = self._add("kernel", [positions, size, self.filters])
        if self.use_bias:
            self.bias = self._add("bias", [*after, self.filters])
        self.built = True

    def _patches(self, inputs: Any) -> Any:
        """What each position sees, shape ``[positions, batch, size]``."""
        first = self.data_format == "channels_first"
        images = hf.transpose(inputs, [0, *range(2, 2 + self.rank), 1]) if first else inputs
        if self.rank == 1:
            images = hf.expand_dims(images, 1)
        ones = [1] * (2 - self.rank)
        size, steps = [*ones, *self.kernel_size], [*ones, *self.strides]
        found = hf.extract_image_patches(images, [1, *size, 1], [1, *steps, 1], [1, 1, 1, 1],
                                         "VALID")
        positions, width, _ = self.kernel.shape.as_list()
        if first:
            channels = inputs.shape[1].value
            found = hf.reshape(found, [-1, positions, width // channels, channels])
            found = hf.transpose(found, [0, 1, 3, 2])
        return hf.transpose(hf.reshape(found, [-1, positions, width]), [1, 0, 2])

    def call(self, inputs: Any) -> Any:
        """Return the result of the convolution."""
        sums = hf.transpose(hf.matmul(self._patches(inputs), self.kernel), [1, 0, 2])
        outputs: Any = hf.reshape(sums, [-1, *self._after, self.filters])
        if self.use_bias:
            outputs = outputs + self.bias
        if self.data_format == "channels_first":
            outputs = hf.transpose(outputs, [0, 1 + self.rank, *range(1, 1 + self.rank)])
        return self.activation(outputs)


class LocallyConnected1D(LocallyConnected2D):
    """A convolution over sequences that has weights of their own at each position; see
    :class:`LocallyConnected2D`. The bias has shape ``[length, filters]``."""

    rank = 1
