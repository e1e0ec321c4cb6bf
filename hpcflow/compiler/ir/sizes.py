"""sizes: how large values are, as far as their static shapes tell."""

from __future__ import annotations

import math

from hpcflow.compiler.ir.step_graph import Node, Port
from hpcflow.host.tuning import compiler as tuning


def bytes_of(port: Port) -> int:
    """The size of an output; of strings the pointers."""
    node, index = port
    dtype = node.dtypes[index]
    if dtype._is_ref_dtype or dtype.name in ("resource", "variant"):
        return 0
    return (dtype.size or 8) * elements_of(port)


def elements_of(port: Port) -> int:
    """The number of elements of an output; unknown dimensions are ``SIZES_UNKNOWN_DIMENSION``."""
    node, index = port
    dims, total = node.dims[index], 1
    for d in (tuning.SIZES_UNKNOWN_DIMENSION,) if dims is None else dims:
        total *= tuning.SIZES_UNKNOWN_DIMENSION if d is None else d
    return total


def known_bytes(node: Node) -> int:
    """The size of the outputs of a node whose shapes are known; of strings one byte for each."""
    return sum([math.prod(dims) * (dtype.size or 1)
                for dims, dtype in zip(node.dims, node.dtypes, strict=True)
                if dims is not None and None not in dims])
