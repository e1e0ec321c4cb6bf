"""assert_shapes: checks of the shapes of several tensors, whose sizes may have names."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.common.grouping import group
from hpcflow.ops.flow.checks import (
    Assert,
    assert_rank,
    assert_rank_at_least,
    assert_rank_in,
)

_ANY = (None, ".")
_OUTER = (Ellipsis, "*")


class _Wanted(NamedTuple):
    """A tensor and the sizes that it shall have, those of the last dimensions if `inner`."""

    tensor: Tensor
    sizes: tuple
    inner: bool

    def axis(self, place: int) -> int:
        """The dimension of the size at a place of `sizes`."""
        return place - len(self.sizes) if self.inner else place

    def known(self, axis: int) -> int | None:
        """The size of a dimension as far as it is known; a scalar counts as one number."""
        dims = self.tensor.shape.as_list() if self.tensor.shape.ndims is not None else None
        return None if dims is None else 1 if not dims else dims[axis]

    def size(self, axis: int) -> Any:
        """The size of a dimension: a number, or a scalar tensor where it is not known."""
        known = self.known(axis)
        if known is not None:
            return known
        sizes = raw_ops.Shape(self.tensor)
        if self.tensor.shape.ndims is None:  # perhaps a scalar
            sizes = raw_ops.ConcatV2([[1], sizes], 0)[-1:] if axis == -1 else sizes
            if axis == 0:
                sizes = raw_ops.ConcatV2([sizes, [1]], 0)
        return sizes[axis]


def assert_shapes(shapes: Mapping | Iterable[tuple[Any, Any]], data: Sequence[Any] | None = None,
                  summarize: int | None = None, message: str | None = None,
                  name: str | None = None) -> Operation:
    """Return an operation that asserts shapes of tensors and that their sizes agree.

    Args:
        shapes: pairs (or a dict) of a tensor and its sizes: numbers; names, which stand for the
            same size wherever they occur; None or ``"."`` for any size. The first may be ``...``
            or ``"*"``: any number of outer dimensions. None instead of sizes checks nothing.
        data: tensors to show on failure; the shape that does not fit if None.
        summarize: how many elements of each to show.
        message: text before the default message.
        name: name of the operation.

    A scalar counts as a vector of one element, and the other way round.

    Raises ``ValueError`` at once where shapes are known not to fit, else (when run)
    ``InvalidArgumentError``.
    """
    pairs = shapes.items() if isinstance(shapes, Mapping) else shapes
    message = message or ""
    with name_scope(name, "assert_shapes"):
        wanted = [_wanted(convert_to_tensor(x), sizes, message)
                  for x, sizes in pairs if sizes is not None]
        checks = [_rank_check(w, data, summarize, message) for w in wanted]
        found: dict[Hashable, tuple[Any, str]] = {}
        for w in wanted:
            checks += _size_checks(w, found, data, summarize, message)
        checks = [c for c in checks if c is not None and c.type != "NoOp"]
        if not checks:
            return raw_ops.NoOp(name="static_checks_determined_all_ok")
        return group(*checks)


def _wanted(tensor: Tensor, sizes: Any, message: str) -> _Wanted:
    if not hasattr(sizes, "__iter__"):
        raise ValueError(f"{message}.  Tensor {tensor.name}.  Specified shape must be an iterable."
                         "  An iterable has the attribute `__iter__` or `__getitem__`.  Received "
                         f"specified shape: {sizes}")
    given = tuple(sizes)
    for place, size in enumerate(given):
        if size in _OUTER and place:
            raise ValueError(f"{message}.  Tensor {tensor.name} specified shape index {place}.  "
                             "Symbol `...` or `*` for a variable number of unspecified dimensions "
                             "is only allowed as the first entry")
    inner = bool(given) and given[0] in _OUTER
    rest = given[1:] if inner else given
    return _Wanted(tensor, rest or (() if inner else (1,)), inner)


def _rank_check(wanted: _Wanted, data: Any, summarize: int | None, message: str) -> Any:
    rank = len(wanted.sizes)
    given = {"data": data, "summarize": summarize, "message": message}
    if wanted.inner:
        return assert_rank_at_least(wanted.tensor, rank, **given) if rank > 1 else None
    if rank == 1:
        return assert_rank_in(wanted.tensor, [0, 1], **given)
    return assert_rank(wanted.tensor, rank, **given)


def _size_checks(wanted: _Wanted, found: dict, data: Any, summarize: int | None,
                 message: str) -> list[Operation]:
    """Checks of the sizes of one tensor; notes in `found` the sizes that names stand for."""
    checks = []
    for place, size in enumerate(wanted.sizes):
        axis = wanted.axis(place)
        if size in _ANY:
            continue
        number = _number(size)
        if number is None and size not in found:
            found[size] = (wanted.size(axis),
                           f"Specified by tensor {wanted.tensor.name} dimension {axis}")
            continue
        expected, why = (number, "Specified explicitly") if number is not None else found[size]
        actual, what = wanted.size(axis), f"Tensor {wanted.tensor.name} dimension"
        if isinstance(actual, int) and isinstance(expected, int):
            if actual != expected:
                raise ValueError(f"{message}.  {why}.  {what} {axis} must have size {expected}.  "
                                 f"Received size {actual}, shape {wanted.tensor.shape}")
            continue
        shown = data if data is not None else [
            message, why, what, axis, "must have size", expected, "Received shape: ",
            raw_ops.Shape(wanted.tensor)]
        checks.append(Assert(raw_ops.Equal(convert_to_tensor(actual), expected), shown, summarize))
    return checks


def _number(size: Any) -> int | None:
    """A size that is a number, or a text that reads as one; None for other names."""
    try:
        return int(size)
    except (TypeError, ValueError):
        return None
