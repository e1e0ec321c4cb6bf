"""Lines that take arrays apart, or put them together: what they make are maps into other arrays.

A part is read where it lies in the whole, and a part of a result is written there, so neither is
copied.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hpcflow.compiler.ir.step_graph import Node
from hpcflow.compiler.regions.bind import constant_value
from hpcflow.compiler.regions.lines import Line
from hpcflow.kernels.registry import is_own
from hpcflow.loops.form import Map

Dims = tuple[int | None, ...]


def closed(dims: Dims, shape: Sequence[int]) -> tuple[int, ...]:
    """The dims with those known that are open, which are the leading ones of `shape`."""
    if None not in dims:
        return dims  # type: ignore[return-value]
    return tuple([shape[i] if d is None else d for i, d in enumerate(dims)])


class View(NamedTuple):
    """A value that is part of another.

    Attributes:
        source: the name of the whole.
        dims: of the whole.
        split: the number of leading dimensions that are rows; None if it lies in one piece.
        map: of its elements in the whole.
    """

    source: str
    dims: Dims
    split: int | None
    map: Map


class Joined(NamedTuple):
    """Parts of one shape that make a result: see `View` for `split` and `maps`."""

    parts: int
    split: int | None
    maps: list[Map]


def views_of(line: Line) -> list[View]:
    """The views that a line's targets are; none if it is of another kind."""
    found = _cut(line)
    if found is None:
        return []
    name, dims, axis, sizes = found
    inner = math.prod(dims[axis + 1:])  # type: ignore[arg-type]
    row = math.prod(dims[axis:])  # type: ignore[arg-type]
    starts = np.cumsum([0, *sizes[:-1]])
    return [View(name, dims, axis or None, Map(row if axis else None, 1, int(s) * inner))
            for s in starts]


def _cut(line: Line) -> tuple[str, Dims, int, list[int]] | None:
    """What is cut: its name and dims, the axis, and the lengths of the pieces."""
    node, b = line.node, line.bound
    at = {"Split": 1, "SplitV": 0, "Unpack": 0}.get(node.type)
    if at is None or b is None or b.kernel is None or not is_own(b.kernel) or (
            b.kernel.host_outputs or len(line.arguments) != len(node.inputs)):
        return None
    source, port = node.inputs[at]
    dims = source.dims[port]
    axis = _axis(node, {"Split": 0, "SplitV": 2}.get(node.type), len(dims or ()))
    if not _is_cut_well(dims, axis):
        return None
    assert dims is not None and axis is not None
    if node.type == "Unpack":
        return line.arguments[at], dims, axis, [1] * len(line.targets)
    lengths = [d[axis] if d is not None else None for d in node.dims]
    if None in lengths or sum(lengths) != dims[axis]:  # type: ignore[arg-type]
        return None
    return line.arguments[at], dims, axis, lengths  # type: ignore[return-value]


def _axis(node: Node, position: int | None, rank: int) -> int | None:
    """The axis of a line: attribute, or constant input at `position`."""
    value = node.attrs.get("axis") if position is None else constant_value(node.inputs[position])
    if value is None or np.size(value) != 1:
        return None
    axis = int(np.reshape(value, -1)[0])
    axis = axis + rank if axis < 0 else axis
    return axis if 0 <= axis < rank else None


def _is_cut_well(dims: Dims | None, axis: int | None) -> bool:
    """True if the places of the pieces are known."""
    return dims is not None and axis is not None and None not in dims[1:] and 0 not in dims and (
        axis > 0 or dims[0] is not None)


def joined(node: Node, shape: Dims) -> Joined | None:
    """How a ConcatV2 or Pack puts parts of `shape` together; None for all else."""
    if node.type == "ConcatV2":
        parts = len(node.inputs) - 1
        axis = _axis(node, parts, len(shape))
    elif node.type == "Pack":
        parts = len(node.inputs)
        axis = _axis(node, None, len(shape) + 1)
    else:
        return None
    if axis is None or (axis == 0 and None in shape):
        return None
    if any(s.dims[i] != shape for s, i in node.inputs[:parts]):
        return None
    size = math.prod(shape[axis:])  # type: ignore[arg-type]
    maps = [Map(parts * size if axis else None, 1, k * size) for k in range(parts)]
    return Joined(parts, axis or None, maps)


def is_joining(line: Line) -> bool:
    """True for a line that may be one of a program as in `joined`."""
    return line.node.type in ("ConcatV2", "Pack")


def all_views(lines: Sequence[Line]) -> dict[str, View]:
    """Name -> the view that it is."""
    return {name: view for line in lines for name, view in zip(line.targets, views_of(line))}
