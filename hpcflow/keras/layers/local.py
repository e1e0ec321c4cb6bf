"""Locally connected layers: convolutions with other weights at each position."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

import hpcflow as hf
from hpcflow.keras import backend
from hpcflow.keras.layers.function_layer import OF_KERNEL, REQUIRED, OptionLayer
from hpcflow.shapes import ShapeLike


class LocallyConnected2D(OptionLayer):
    """A convolution over images that has weights of their own at each position.

    The bias has shape ``[height, width, filters]``. The kernel has, by `implementation`, 1: shape
    ``[positions, kernel height * width * channels, filters]``; 2: the shape of an input and behind
    it that of an output, only the weights between what is connected count; 3: these weights as a
    vector.

    Args:
        filters: channels of the result.
        kernel_size, strides, data_format: of the convolution.
        padding: ``valid``, or ``same`` with another implementation than 1.
        activation, use_bias, and initializers, regularizers and constraints of ``kernel`` and
            ``bias``.
        implementation: form of the kernel: small, fast for small inputs, or for large sparse ones.

    Raises ``ValueError`` for another padding and where sizes are not known.
    """

    arguments: Mapping[str, Any] = {
        "filters": REQUIRED, "kernel_size": REQUIRED, "strides": 1, "padding": "valid",
        "data_format": None, **OF_KERNEL, "implementation": 1}

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        padding: str = self._options["padding"].lower()
        self.padding = self._options["padding"] = padding
        if padding not in ("valid", "same") or (padding != "valid" and self.implementation == 1):
            raise ValueError(f"Invalid border mode for {type(self).__name__} (only \"valid\" is "
                             f"supported if implementation is 1): {padding}")
        if self.implementation not in (1, 2, 3):
            raise ValueError(f"Unrecognized implementation mode: {self.implementation}.")

    def build(self, input_shape: ShapeLike) -> None:
        """Make the variables."""
        dims: Any = hf.TensorShape(input_shape).as_list()[1:]
        if None in dims:
            raise ValueError(f"The sizes of inputs of {type(self).__name__} should be fully "
                             f"defined, got {dims}")
        first = self.data_format == "channels_first"
        space, channels = (dims[1:], dims[0]) if first else (dims[:-1], dims[-1])
        lost = [own - 1 if self.padding == "valid" else 0 for own in self.kernel_size]
        self._after = [-(-(size - less) // step) for size, less, step in zip(
            space, lost, self.strides, strict=True)]
        self._result = [self.filters, *self._after] if first else [*self._after, self.filters]
        if self.implementation == 1:
            shape = [int(np.prod(self._after)), channels * int(np.prod(self.kernel_size)),
                     self.filters]
        else:
            self._links = self._connected(space, channels, first)
            shape = ([int(self._links.sum())] if self.implementation == 3
                     else [*dims, *self._result])
        self.kernel = self._add("kernel", shape)
        if self.use_bias:
            self.bias = self._add("bias", [*self._after, self.filters])
        self.built = True

    def _connected(self, space: list[int], channels: int, first: bool) -> np.ndarray:
        """Which inputs (rows) are connected to which outputs (columns)."""
        found = np.zeros([*space, *self._after], bool)
        for place in itertools.product(*map(range, self._after)):
            windows = []
            for n, size in enumerate(space):
                half = self.kernel_size[n] // 2
                begin = place[n] * self.strides[n] - (half if self.padding == "same" else 0)
                windows.append(slice(max(begin, 0), min(begin + self.kernel_size[n], size)))
            where: Any = (*windows, *place)
            found[where] = True
        rank = self.rank
        axes = (0, 1 + rank) if first else (rank, 1 + 2 * rank)  # those of the channels
        found = np.expand_dims(found, axes)
        found = np.repeat(np.repeat(found, channels, axes[0]), self.filters, axes[1])
        return found.reshape(int(np.prod(space)) * channels, -1)

    def call(self, inputs: Any) -> Any:
        """Return the result of the convolution."""
        outputs = self._local(inputs) if self.implementation == 1 else self._product(inputs)
        if self.use_bias:
            first = self.data_format == "channels_first"
            order = [self.rank, *range(self.rank)] if first else range(1 + self.rank)
            outputs = outputs + hf.transpose(self.bias, list(order))
        return self.activation(outputs)

    def _local(self, inputs: Any) -> Any:
        own = (inputs, self.kernel, self.kernel_size, self.strides)
        return (backend.local_conv1d(*own, self.data_format) if self.rank == 1 else
                backend.local_conv2d(*own, self._after, self.data_format))

    def _product(self, inputs: Any) -> Any:
        rows: Any = hf.reshape(inputs, [-1, self._links.shape[0]])
        if self.implementation == 2:
            weights = hf.reshape(self.kernel, self._links.shape)
            product = hf.matmul(rows, weights * hf.constant(self._links, weights.dtype))
        else:  # the weights in the order of the outputs
            places = np.argwhere(self._links.T)
            weights = hf.SparseTensor(places, hf.convert_to_tensor(self.kernel),
                                      self._links.T.shape)
            product = hf.transpose(hf.sparse_tensor_dense_matmul(weights, rows, adjoint_b=True))
        return hf.reshape(product, [-1, *self._result])


class LocallyConnected1D(LocallyConnected2D):
    """A convolution over sequences that has weights of their own at each position; see
    :class:`LocallyConnected2D`. The bias has shape ``[length, filters]``."""

    rank = 1
