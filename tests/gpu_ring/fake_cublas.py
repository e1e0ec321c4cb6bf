"""What is called of cuBLAS, computed by NumPy on the memory of the stand-in's arrays.

It sees memory, strides and order as the library does, so a wrong one gives a wrong result.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow.kernels.cublas.library import Matrices


class FakeCublas:
    """The library; ``calls`` counts its products."""

    def __init__(self) -> None:
        self.calls = 0

    def multiply(self, a: Matrices, b: Matrices, c: Any, m: int, n: int, k: int,
                 count: int = 1, scale: float | None = None) -> None:
        """``c = a @ b``, `count` times, or ``c += scale * a @ b``."""
        self.calls += 1
        assert c.flags.c_contiguous and c.size == count * m * n
        wide: Any = {"float16": np.float32, "bfloat16": np.float32}.get(c.dtype.name, c.dtype)
        left, right, out = _seen(a, m, k, count), _seen(b, k, n, count), c._data
        assert scale is None or count == 1

        def compute() -> None:
            found = (left.astype(wide) @ right.astype(wide)).reshape(out.shape)
            out[...] = (found if scale is None else out + scale * found).astype(out.dtype)

        c._device.run(compute, (), out)


def _seen(matrices: Matrices, rows: int, columns: int, count: int) -> np.ndarray:
    """The factor as [count, rows, columns], from its memory alone."""
    data, item = matrices.array._data, matrices.array.itemsize
    assert matrices.apart >= (rows if matrices.transposed else columns)
    down, right = (1, matrices.apart) if matrices.transposed else (matrices.apart, 1)
    return np.lib.stride_tricks.as_strided(
        data, (count, rows, columns), (matrices.step * item, down * item, right * item),
        writeable=False)
