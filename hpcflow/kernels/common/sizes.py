"""Sizes of tensors that a program gives as values."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hpcflow.host import free_memory
from hpcflow.kernels.registry import invalid, shown

_MOST = 2 ** 63  # elements of a tensor: they are counted in int64


def check_count(dims: Sequence[int], itemsize: int = 0) -> None:
    """Raise ``InvalidArgumentError`` if a shape has more elements than can be counted, and
    ``MemoryError`` for more than there is memory for; an element takes `itemsize` bytes of it."""
    count = math.prod(dims)
    if count >= _MOST:
        raise invalid(f"Encountered overflow when multiplying the dimensions of shape "
                      f"{shown(tuple(dims))}")
    free_memory.require(count * itemsize)
