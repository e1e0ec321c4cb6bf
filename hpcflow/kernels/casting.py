"""Kernels of Cast."""

from __future__ import annotations

from typing import Any

from hpcflow.kernels.registry import KernelNode, kernel


@kernel("Cast", fresh=True, accepts_out=True, elementwise=True)
def _cast(node: KernelNode) -> Any:
    """Floating values are cut towards zero, complex ones lose their imaginary part."""
    dtype = node.np_dtype()
    drop_imaginary = node.input_dtypes[0].is_complex and not node.output_dtypes[0].is_complex

    def run(x: Any, out: Any = None) -> Any:
        if drop_imaginary:
            x = x.real
        if out is None:
            return x.astype(dtype)
        out[...] = x
        return out

    return run
