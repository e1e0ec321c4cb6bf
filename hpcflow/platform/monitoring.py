"""Counters and gauges of a process (``python.eager.monitoring``): numbers that libraries keep."""

from __future__ import annotations

import threading
from typing import Any

from hpcflow.errors import AlreadyExistsError

__all__ = ["BoolGauge", "Counter", "IntGauge", "StringGauge"]

_names: set[str] = set()
_lock = threading.Lock()


class _Cell:
    """The value of a metric for one choice of labels."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def value(self) -> Any:
        """Return the value."""
        return self._value


class _CounterCell(_Cell):
    """A number that grows."""

    def increase_by(self, value: int) -> None:
        """Add `value`. Raises ``ValueError`` for a negative one."""
        if value < 0:
            raise ValueError(f"A counter only grows, but is to be increased by {value}")
        with _lock:
            self._value += value


class _GaugeCell(_Cell):
    """A value that is set."""

    def set(self, value: Any) -> None:
        """Keep `value`."""
        self._value = value


class _Metric:
    """Values by labels.

    Args:
        name: unique in the process; another metric of the name is an ``AlreadyExistsError``.
        description: for people.
        labels: the names of the labels.
    """

    _cell: type[_Cell] = _GaugeCell
    _first: Any = None

    def __init__(self, name: str, description: str, *labels: str) -> None:
        with _lock:
            if name in _names:
                raise AlreadyExistsError(
                    None, None, f"There is a metric of the name {name!r} already")
            _names.add(name)
        self._labels = labels
        self._cells: dict[tuple, Any] = {}

    def get_cell(self, *labels: str) -> Any:
        """Return the cell of these labels. Raises ``ValueError`` for another number of them."""
        if len(labels) != len(self._labels):
            raise ValueError(f"{type(self).__name__}: {len(labels)} labels instead of "
                             f"{len(self._labels)}: {', '.join(self._labels)}")
        with _lock:
            return self._cells.setdefault(labels, self._cell(self._first))


class Counter(_Metric):
    """Numbers that grow from zero."""

    _cell, _first = _CounterCell, 0


class IntGauge(_Metric):
    """Whole numbers, at first zero."""

    _first = 0


class StringGauge(_Metric):
    """Texts, at first empty."""

    _first = ""


class BoolGauge(_Metric):
    """Truth values, at first false."""

    _first = False
