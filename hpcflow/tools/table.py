"""Rows as a table of text."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

#: A line of a table: column -> text, number or None.
Row = dict[str, Any]


def render(title: str, rows: Sequence[Row], notes: Sequence[str] = ()) -> str:
    """A title, a heading, one line per row, and notes; columns in order of first appearance.

    A text equal to the one above it is left blank in the first column.
    """
    columns = list(dict.fromkeys(name for row in rows for name in row))
    cells = [[show(row.get(name)) for name in columns] for row in rows]
    for above, below in zip(reversed(cells[:-1]), reversed(cells[1:])):
        if above[0] == below[0]:
            below[0] = ""
    numeric = [any(isinstance(row.get(name), (int, float)) for row in rows) for name in columns]
    heading = [name.replace("_us", " us").replace("_", " ") for name in columns]
    widths = [max(map(len, column)) for column in zip(heading, *cells)]
    lines = [
        "  ".join(_aligned(*part) for part in zip(line, widths, numeric)).rstrip()
        for line in [heading, ["-" * width for width in widths], *cells]
    ]
    return "\n".join([title, "", *lines, *([""] if notes else []), *notes])


def tell(rows: Sequence[Row]) -> None:
    """Show rows on the standard error as soon as they are measured: the table comes at the end, and
    not at all if the benchmark is interrupted."""
    for row in rows:
        cells = [f"{name} {show(value)}" for name, value in row.items() if value is not None]
        print("  ".join(cells), file=sys.stderr, flush=True)


def show(value: Any) -> str:
    """One cell: numbers with three digits or more, None as a dash."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _aligned(text: str, width: int, numeric: bool) -> str:
    return text.rjust(width) if numeric else text.ljust(width)
