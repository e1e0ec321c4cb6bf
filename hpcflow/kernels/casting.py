"""Kernels of Cast."""

from __future__ import annotations

from typing import Any

from hpcflow import dtypes
from hpcflow.errors import UnimplementedError
from hpcflow.kernels.registry import KernelNode, kernel


@kernel("Cast", fresh=True, accepts_out=True, elementwise=True)
def _cast(node: KernelNode) -> Any:
    """Floating values are cut towards zero, complex ones lose their imaginary part."""
    dtype = node.np_dtype()
    source, target = node.input_dtypes[0], node.output_dtypes[0]
    if dtypes.string in (source, target) and source is not target:
        raise UnimplementedError(
            None, None, f"Cast {source.name} to {target.name} is not supported")
    drop_imaginary = node.input_dtypes[0].is_complex and not node.output_dtypes[0].is_complex

    def run(x: Any, out: Any = None) -> Any:
        if drop_imaginary:
            x = x.real
        if out is None:
            return x.astype(dtype)
        out[...] = x
        return out

    return run
