"""Places exchanged: rolled arrays, conjugate transposes, other data formats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.arrays.layout import transpose
from hpcflow.kernels.common.strings import also_strings
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown


@kernel("Roll", fresh=True, host_inputs=(1, 2))
def _roll(node: KernelNode) -> Any:
    xp = node.xp

    def run(x: Any, shift: Any, axis: Any) -> Any:
        axes, rank = [int(a) for a in np.ravel(axis)], np.ndim(x)
        if not rank:
            raise invalid("input must be 1-D or higher, but is a scalar")
        for name, value in (("axis", axis), ("shift", shift)):
            if np.ndim(value) > 1:
                raise invalid(f"{name} must be a scalar or a 1-D vector, but has shape "
                              f"{shown(np.shape(value))}")
        if np.shape(axis) != np.shape(shift):
            raise invalid(f"shift and axis must have the same size, got shapes "
                          f"{shown(np.shape(shift))} and {shown(np.shape(axis))}")
        if any(not -rank <= a < rank for a in axes):
            raise invalid(f"axis is out of range: shifts {np.ravel(shift).tolist()} along axes "
                          f"{axes} do not fit shape {shown(x)}")
        return xp.roll(x, [int(s) for s in np.ravel(shift)], axes)

    return run


@kernel("ConjugateTranspose", host_inputs=(1,))
@also_strings("ConjugateTranspose")
def _conjugate_transpose(node: KernelNode) -> Callable:
    moved = transpose(node)
    if node.np_dtype().kind != "c":
        return moved
    return lambda x, perm: moved(x, perm).conj()


def _formats(node: KernelNode) -> tuple[str, str]:
    found = tuple(node.attr(f"{name}_format").decode() for name in ("src", "dst"))
    for format_, which in zip(found, ("Source", "Destination"), strict=True):
        if len(format_) not in (4, 5):
            raise invalid(f"{which} format must be of length 4 or 5, got {format_!r}")
    if len(set(found[0])) < len(found[0]) or sorted(found[0]) != sorted(found[1]):
        raise invalid("Destination and source format must determine a permutation, got "
                      f"{found[0]!r} and {found[1]!r}")
    return found  # type: ignore[return-value]


@kernel("DataFormatDimMap", fresh=True, host_inputs=(0,), host_outputs=(0,))
def _dim_map(node: KernelNode) -> Callable:
    """Where the dimensions with these numbers are in the other format."""
    source, target = _formats(node)
    places = np.array([target.index(c) for c in source], node.np_dtype())
    rank = len(source)

    def run(x: Any) -> Any:
        if np.size(x) and (np.min(x) < -rank or np.max(x) >= rank):
            raise invalid(f"dimensions must be in [{-rank}, {rank}), got {np.ravel(x).tolist()}")
        return places[x]

    return run


@kernel("DataFormatVecPermute", fresh=True, host_inputs=(0,), host_outputs=(0,))
def _vec_permute(node: KernelNode) -> Callable:
    """Sizes (or pairs of paddings) of the dimensions, in the order of the other format."""
    source, target = _formats(node)

    def run(x: Any) -> Any:
        rank = len(source)
        if x.ndim not in (1, 2) or len(x) not in (rank, rank - 2) or x.ndim == 2 and (
                x.shape[1] != 2):
            raise invalid(f"expected {rank} or {rank - 2} numbers, or as many pairs, got shape "
                          f"{shown(x)}")
        of, to = source, target
        if len(x) == rank - 2:  # of the spatial dimensions alone
            of, to = ("".join(c for c in f if c not in "NC") for f in (of, to))
        return x[[of.index(c) for c in to]]

    return run
