"""Kernels of a GPU that are written out, where no program of the form does: pooling, scatters.

Such a kernel is what one thread does for the element ``i``. Its text is C++ of CUDA without
includes, shared memory and barriers, so that it can be checked where there is no GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from hpcflow.loops import cuda_code

#: ``launch(count, *given)``: run over so many elements. `given` are arrays in C order and numbers,
#: whole ones of Python or NumPy's scalars of the parameter's type.
Run = Callable[..., None]


class ElementKernel(NamedTuple):
    """A kernel over elements; equal ones are compiled once.

    Attributes:
        parameters: C declarations of what a launch is given, as ``const float* x``. Pointers that
            are not const are written to. The type ``position`` is that of places in arrays.
        body: statements that see the parameters, and ``position i``.
        functions: what stands before the kernel.
    """

    parameters: tuple[str, ...]
    body: str
    functions: str = ""

    def text(self, index: str = "int") -> str:
        """The source of ``extern "C" void kernel(parameters, long long count)``."""
        given = ",\n    ".join([*self.parameters, "long long count"])
        return (f"typedef {index} position;\n{cuda_code.PRELUDE}{self.functions}\n"
                f'extern "C" __global__ __launch_bounds__({cuda_code.THREADS}) void kernel(\n'
                f"    {given}) {{\n"
                "  const long long step = (long long)gridDim.x * blockDim.x;\n"
                "  for (long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x; "
                "at < count; at += step) {\n"
                f"    const position i = (position)at;\n{self.body}\n  }}\n}}\n")

    def written(self) -> list[int]:
        """The positions of the arrays that are written to."""
        return [i for i, p in enumerate(self.parameters) if "*" in p and "const" not in p]


def typed(dtype: str, name: str = "") -> str:
    """C++ of how an array of `dtype` is read and written: the types ``NAMEstored`` in memory and
    ``NAMEvalue`` to compute with, ``NAMEget`` and ``NAMEput`` from one to the other."""
    stored, value = cuda_code.types_of(dtype)
    narrow = cuda_code.narrow_of(dtype)
    read, write = (f"from_{narrow}(x)", f"to_{narrow}(x)") if narrow else ("x", "x")
    inline = "static __device__ __forceinline__"
    return (f"typedef {stored} {name}stored;\ntypedef {value} {name}value;\n"
            f"{inline} {name}value {name}get({name}stored x) {{ return {read}; }}\n"
            f"{inline} {name}stored {name}put({name}value x) {{ return {write}; }}\n")


def supports(dtype: str) -> bool:
    """True if kernels can be written for arrays of `dtype`."""
    return cuda_code.types_of(dtype) != ("", "")
