"""Kernels of Fourier transforms, by the array module's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown

_SUFFIX = {1: "", 2: "2D", 3: "3D"}


def _check_rank(x: Any, rank: int) -> None:
    if x.ndim < rank:
        raise invalid(f"Input must have rank of at least {rank} but got: {shown(x)}")


def _sizes(lengths: Any, x: Any, rank: int, half: bool) -> tuple[int, ...]:
    """The lengths of the transforms, checked; with `half`, of half spectra `x`."""
    sizes = tuple(int(n) for n in lengths)
    if len(sizes) != rank:
        raise invalid(f"fft_length must have {rank} elements, got {list(sizes)}")
    if min(sizes) < 0:
        raise invalid(f"fft_length must not be negative, got {list(sizes)}")
    needed = (*sizes[:-1], sizes[-1] // 2 + 1) if half else sizes
    if x.size and any(n < m for n, m in zip(x.shape[x.ndim - rank:], needed)):
        raise invalid(f"Input must have at least {list(needed)} elements along its last "
                      f"dimensions but got: {shown(x)}")
    return sizes


def _register(rank: int) -> None:
    axes = tuple(range(-rank, 0))
    suffix = _SUFFIX[rank]

    def transform(name: str) -> Callable:
        def factory(node: KernelNode) -> Callable:
            apply, dtype = getattr(node.xp.fft, name), node.np_dtype()

            def run(x: Any) -> Any:
                _check_rank(x, rank)
                return apply(x, axes=axes).astype(dtype, copy=False) if x.size else x.copy()

            return run

        return factory

    for op_type, name in (("FFT", "fftn"), ("IFFT", "ifftn")):
        kernel(f"{op_type}{suffix}", f"Batch{op_type}{suffix}", fresh=True)(transform(name))

    @kernel(f"RFFT{suffix}", fresh=True, host_inputs=(1,))
    def _rfft(node: KernelNode) -> Callable:
        xp, dtype = node.xp, node.np_dtype()

        def run(x: Any, lengths: Any) -> Any:
            _check_rank(x, rank)
            sizes = _sizes(lengths, x, rank, False)
            if not (x.size and all(sizes)):
                last = sizes[-1] // 2 + 1 if sizes[-1] else 0
                return xp.zeros((*x.shape[: x.ndim - rank], *sizes[:-1], last), dtype)
            return xp.fft.rfftn(x, sizes, axes).astype(dtype, copy=False)

        return run

    @kernel(f"IRFFT{suffix}", fresh=True, host_inputs=(1,))
    def _irfft(node: KernelNode) -> Callable:
        xp, dtype = node.xp, node.np_dtype()

        def run(x: Any, lengths: Any) -> Any:
            _check_rank(x, rank)
            sizes = _sizes(lengths, x, rank, True)
            if not (x.size and all(sizes)):
                return xp.zeros((*x.shape[: x.ndim - rank], *sizes), dtype)
            return xp.fft.irfftn(x, sizes, axes).astype(dtype, copy=False)

        return run


for _rank in _SUFFIX:
    _register(_rank)
