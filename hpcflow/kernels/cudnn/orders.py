"""The operands of a convolution in the order of memory in which the library takes them.

Channels may come last, as images have them here, or first: there the library knows more ways in
float32, and gradients in float64. An operand is brought into the order by one transposing.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hpcflow.kernels.cudnn import library as c


class Images:
    """Images of `dims`, (batch, *space, channels), in the order `layout`."""

    def __init__(self, lib: Any, dims: tuple, dtype: np.dtype, layout: int) -> None:
        self._lib, self._dims, self._dtype = lib, dims, dtype
        self._is_first = layout == c.NCHW
        self._size = (math.prod(dims[1:-1]), dims[-1])
        self._blank = (dims[0], dims[-1], *dims[1:-1]) if self._is_first else dims
        self.descriptor = c.tensor(lib, dims, dtype, layout)
        #: Bytes of what is held besides the images themselves.
        self.extra = math.prod(dims) * dtype.itemsize if self._is_first else 0

    def entered(self, xp: Any, images: Any) -> Any:
        """The images in the library's order."""
        if not self._is_first:
            return xp.ascontiguousarray(images)
        turned = images.transpose(0, images.ndim - 1, *range(1, images.ndim - 1))
        if turned.flags.c_contiguous:
            return turned
        made = xp.empty(self._blank, self._dtype)
        self._lib.transpose(xp.ascontiguousarray(images), made, self._dims[0], *self._size)
        return made

    def blank(self, xp: Any) -> Any:
        """Memory for images in the library's order."""
        return xp.empty(self._blank, self._dtype)

    def left(self, xp: Any, images: Any) -> Any:
        """What the library has computed, channels last."""
        if not self._is_first:
            return images
        made = xp.empty(self._dims, self._dtype)
        self._lib.transpose(images, made, self._dims[0], *self._size[::-1])
        return made


class Filters:
    """Filters of `dims`, (*window, inputs, outputs), in the order `layout`."""

    extra = 0

    def __init__(self, lib: Any, dims: tuple, dtype: np.dtype, layout: int) -> None:
        *window, inner, outer = dims
        self._lib, self._dims, self._dtype = lib, dims, dtype
        self._is_first = layout == c.NCHW
        self._window = math.prod(window)
        self._blank = (outer, inner, *window) if self._is_first else (outer, *window, inner)
        self.descriptor = lib.create("Filter", (
            "SetFilterNdDescriptor", c.TYPES[dtype], layout, len(dims),
            c.ints((outer, inner, *window))))

    def entered(self, xp: Any, filters: Any) -> Any:
        """The filters in the library's order."""
        inner, outer = self._dims[-2:]
        if self._is_first:
            parts = filters.reshape(self._window, inner, outer)
            return xp.ascontiguousarray(parts.transpose(2, 1, 0)).reshape(self._blank)
        made = xp.empty(self._blank, self._dtype)
        self._lib.transpose(xp.ascontiguousarray(filters), made, 1, self._window * inner, outer)
        return made

    def blank(self, xp: Any) -> Any:
        """Memory for filters in the library's order."""
        return xp.empty(self._blank, self._dtype)

    def left(self, xp: Any, filters: Any) -> Any:
        """What the library has computed, (*window, inputs, outputs)."""
        inner, outer = self._dims[-2:]
        if self._is_first:
            parts = filters.reshape(outer, inner, self._window)
            return xp.ascontiguousarray(parts.transpose(2, 1, 0)).reshape(self._dims)
        made = xp.empty(self._dims, self._dtype)
        self._lib.transpose(filters, made, 1, outer, self._window * inner)
        return made


Operand = Images | Filters


class Order:
    """All operands of a convolution in one order: images `x`, filters `w`, outputs `y`."""

    def __init__(self, lib: Any, dtype: np.dtype, layout: int, x_dims: tuple, w_dims: tuple,
                 y_dims: tuple) -> None:
        self.x = Images(lib, x_dims, dtype, layout)
        self.w = Filters(lib, w_dims, dtype, layout)
        self.y = Images(lib, y_dims, dtype, layout)
