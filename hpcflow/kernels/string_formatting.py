"""Text with values put in, and its output."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.registry import KernelNode, invalid, kernel
from hpcflow.kernels.strings import box
from hpcflow.kernels.text import as_bytes


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
    if not array.size and most < 0:
        return b""
    if not array.ndim:
        return _number(array[()])
    if array.ndim == 1:
        entries = [_number(x) for x in array]
        return b"[" + b" ".join(_summarized(entries, len(array), most)) + b"]"
    rows = [_shown(row, most).replace(b"\n", b"\n ") for row in array]
    gap = b"\n" * (array.ndim - 1) + b" "
    return b"[" + gap.join(_summarized(rows, len(array), most)) + b"]"


def _summarized(entries: list[bytes], count: int, most: int) -> list[bytes]:
    if most < 0 or count <= 2 * most:
        return entries
    return [*entries[:most], b"...", *(entries[-most:] if most else [])]


def _number(value: Any) -> bytes:
    if isinstance(value, bytes):
        return b'"' + value + b'"'
    if isinstance(value, (bool, np.bool_)):
        return b"1" if value else b"0"
    if isinstance(value, (int, np.integer)):
        return str(int(value)).encode()
    if isinstance(value, (complex, np.complexfloating)):
        return f"({value.real:g},{value.imag:g})".encode()
    digits = 17 if isinstance(value, np.float64) else 9
    short = next((t for t in (f"{float(value):.{n}g}" for n in range(6, digits + 1))
                  if type(value)(t) == value), f"{float(value):g}")
    return short.encode()


@kernel("PrintV2", device="CPU")
def _print(node: KernelNode) -> Callable:
    """To a stream of the process, or at the end of a file (``file://PATH``)."""
    target, end = node.attr("output_stream").decode(), node.attr("end").decode()

    def run(text: Any) -> None:
        line = as_bytes(text).decode(errors="replace") + end
        if target.startswith("file://"):
            with open(target[len("file://"):], "a", encoding="utf-8") as file:
                file.write(line)
        else:
            stream = sys.stdout if target == "stdout" else sys.stderr
            stream.write(line)
            stream.flush()

    return run
