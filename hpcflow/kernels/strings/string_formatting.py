"""Text with values put in, and its output."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.common.strings import box
from hpcflow.kernels.common.text import as_bytes, escaped
from hpcflow.kernels.registry import KernelNode, invalid, kernel


@kernel("StringFormat", device="CPU", fresh=True)
def _format(node: KernelNode) -> Callable:
    template, placeholder = node.attr("template"), node.attr("placeholder")
    most = node.attr("summarize")
    pieces = template.split(placeholder)
    if len(pieces) - 1 != len(node.input_dtypes):
        raise invalid(f"num placeholders in template and num inputs must match: "
                      f"{len(pieces) - 1} vs. {len(node.input_dtypes)}")

    def run(*inputs: Any) -> bytes:
        found = [pieces[0]]
        for value, piece in zip(inputs, pieces[1:], strict=True):
            found += [_shown(np.asarray(box(value)), most), piece]
        return b"".join(found)

    return run


def _shown(array: np.ndarray, most: int) -> bytes:
    """An array in brackets, of each dimension the first and last `most` entries."""
    limit = array.size if most < 0 else min(most, array.size)
    if not limit and array.dtype == bool:
        return b""
    if not array.ndim:
        return _number(array[()]) if limit else b"..."
    return _rows(array, 0, limit)


def _rows(array: np.ndarray, depth: int, limit: int) -> bytes:
    """Format the rows of dimension `depth`; those of deeper dimensions have lines of their own."""
    inner = array.ndim - 1
    gap = b"\n" * inner + b" " * (depth + 1) if inner else b" "
    count = len(array)
    ends = [*range(min(limit, count)), *range(max(limit, count - limit), count)]
    entries = [_rows(array[i], depth + 1, limit) if inner else _number(array[i]) for i in ends]
    if count <= 2 * limit:
        return b"[" + gap.join(entries) + b"]"
    first, last = entries[:limit], entries[limit:]
    # The gap is before the dots also where nothing is before the gap.
    return b"[" + gap.join([*(first or [b""]), b"...", *last]) + b"]"


def _number(value: Any) -> bytes:
    if isinstance(value, bytes):
        return b'"' + escaped(value) + b'"'
    if isinstance(value, (bool, np.bool_)):
        return b"1" if value else b"0"
    if isinstance(value, (int, np.integer)):
        return str(int(value)).encode()
    if isinstance(value, (complex, np.complexfloating)):
        return f"({value.real:g},{value.imag:g})".encode()
    return _fraction(value)


def _fraction(value: Any) -> bytes:
    """A number with the digits that its type has in any case, or where these are another number
    with as many as tell all numbers apart; the narrow types are written as float32."""
    kind, few, many = (np.float64, 15, 17) if isinstance(value, np.float64) else (np.float32, 6, 9)
    number = float(kind(value))
    short = f"{number:.{few}g}"
    is_same = number != number or float(kind(short)) == number
    return (short if is_same else f"{number:.{many}g}").encode()


@kernel("PrintV2", device="CPU")
def _print(node: KernelNode) -> Callable:
    """To a stream of the process, or at the end of a file (``file://PATH``).

    What is for the log (``log(info)``) goes to stderr, behind the letter of its level.
    """
    target, end = node.attr("output_stream").decode(), node.attr("end").decode()
    level = f"{target[4].upper()} " if target.startswith("log(") else ""

    def run(text: Any) -> None:
        line = as_bytes(text).decode(errors="replace") + end
        if target.startswith("file://"):
            with open(target[len("file://"):], "a", encoding="utf-8") as file:
                file.write(line)
        else:
            stream = sys.stdout if target == "stdout" else sys.stderr
            stream.write(level + line)
            stream.flush()

    return run
