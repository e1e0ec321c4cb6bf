"""sizes: how large values are, as far as their static shapes tell."""

from __future__ import annotations

from hpcflow.compiler.ir.step_graph import Port

UNKNOWN_DIMENSION = 32  # what a dimension that is known only at run time counts as


def bytes_of(port: Port) -> int:
    """The size of an output; of strings the pointers."""
    node, index = port
    dtype = node.dtypes[index]
    if dtype._is_ref_dtype or dtype.name in ("resource", "variant"):
        return 0
    return (dtype.size or 8) * elements_of(port)


def elements_of(port: Port) -> int:
    """The number of elements of an output, with unknown dimensions as ``UNKNOWN_DIMENSION``."""
    node, index = port
    dims, total = node.dims[index], 1
    for d in (UNKNOWN_DIMENSION,) if dims is None else dims:
        total *= UNKNOWN_DIMENSION if d is None else d
    return total
