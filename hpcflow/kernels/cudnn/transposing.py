"""Matrices on a GPU written with rows and columns exchanged: channels last to first, and back.

The sides of a tile are those of a warp: what is read and what is written lies together.
"""

from __future__ import annotations

import functools
from typing import Any

# 32 x 33 elements, so that a column of the tile is in as many banks of the shared memory.
SOURCE = """
extern "C" __global__ void __launch_bounds__(256) transpose(
        const ELEMENT* __restrict__ from, ELEMENT* __restrict__ to, long long count,
        long long rows, long long columns) {
    __shared__ ELEMENT tile[32][33];
    const unsigned across = (columns + 31) / 32;
    const long long left = blockIdx.x % across * 32LL, top = blockIdx.x / across * 32LL;
    const int x = threadIdx.x, y = threadIdx.y;
    for (long long i = blockIdx.y; i < count; i += gridDim.y) {
        const long long start = i * rows * columns;
        for (int k = y; k < 32; k += 8)
            if (top + k < rows && left + x < columns)
                tile[k][x] = from[start + (top + k) * columns + left + x];
        __syncthreads();
        for (int k = y; k < 32; k += 8)
            if (left + k < columns && top + x < rows)
                to[start + (left + k) * rows + top + x] = tile[x][k];
        __syncthreads();
    }
}
"""
#: Bytes of an element -> the type that moves it.
ELEMENTS = {2: "unsigned short", 4: "unsigned int", 8: "unsigned long long"}
_MOST = 65535  # blocks along all dimensions of a grid but the first


@functools.cache
def _kernel(size: int) -> Any:
    import cupy

    return cupy.RawKernel(SOURCE.replace("ELEMENT", ELEMENTS[size]), "transpose")


def transpose(source: Any, result: Any, count: int, rows: int, columns: int) -> None:
    """Write each of `count` matrices, [rows, columns] of `source`, to `result` transposed.

    Both arrays are in C order; elements have 2, 4 or 8 bytes. On the current stream.
    """
    tiles = -(-rows // 32) * -(-columns // 32)
    _kernel(source.itemsize)((tiles, min(count, _MOST)), (32, 8), (
        source, result, count, rows, columns))
