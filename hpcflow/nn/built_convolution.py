"""Convolutions whose options are checked before there is a filter, as layers make them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.nn.convolution import convolution
from hpcflow.nn.windowing import positive_list
from hpcflow.shapes import TensorShape


class Convolution:
    """A function of an input and a filter: see :func:`hpcflow.nn.convolution`.

    Args:
        input_shape: the static shape of the input, with known channels.
        filter_shape: the static shape of the filter.
        padding, strides, dilation_rate, name, data_format: as of ``convolution``.

    Raises:
        ValueError: if the rank is not known, ranks or depths differ, or there are strides and
            holes.
    """

    def __init__(self, input_shape: Any, filter_shape: Any, padding: str,
                 strides: Sequence[int] | None = None, dilation_rate: Sequence[int] | None = None,
                 name: str | None = None, data_format: str | None = None) -> None:
        self.input_shape, self.filter_shape = TensorShape(input_shape), TensorShape(filter_shape)
        ranks = self.filter_shape.ndims, self.input_shape.ndims
        rank = ranks[1] if ranks[0] is None else ranks[0]
        if rank is None:
            raise ValueError("rank of input or filter must be known")
        if ranks[1] not in (None, rank):
            raise ValueError(f"input tensor must have rank {rank}")
        first = bool(data_format) and str(data_format).startswith("NC")
        if None not in ranks:
            channels, taken = self.input_shape[1 if first else -1], self.filter_shape[-2]
            if not channels.is_compatible_with(taken):
                raise ValueError("number of input channels does not match corresponding dimension "
                                 f"of filter, {channels} != {taken}")
        self.strides = positive_list(strides, rank - 2, "strides")
        self.dilation_rate = positive_list(dilation_rate, rank - 2, "dilation_rate")
        if max(self.strides) > 1 and max(self.dilation_rate) > 1:
            raise ValueError("strides > 1 not supported in conjunction with dilation_rate > 1")
        self.padding, self.name, self.data_format = padding, name, data_format

    def __call__(self, inp: TensorLike, filter: TensorLike) -> Tensor:
        """Return the convolution of `inp` with `filter`."""
        return convolution(inp, filter, self.padding, self.strides, self.dilation_rate, self.name,
                           self.data_format)
