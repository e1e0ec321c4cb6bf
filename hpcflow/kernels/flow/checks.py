"""Kernels of Assert and Print."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.common.text import escaped
from hpcflow.kernels.registry import KernelNode, invalid, kernel


@kernel("Assert")
def _assert(node: KernelNode) -> Callable:
    summarize, to_host = node.attr("summarize", 3), node.device.to_host

    def check(condition: Any, *data: Any) -> None:
        if condition:
            return
        shown = " ".join(f"[{summary(to_host(value), summarize)}]" for value in data)
        raise invalid(f"assertion failed: {shown}")

    return check


@kernel("Print")
def _print(node: KernelNode) -> Callable:
    summarize, first_n, to_host = node.attr("summarize", 3), node.attr("first_n", -1), (
        node.device.to_host)
    message = node.attr("message", b"").decode(errors="replace")
    counter = node.state(_Counter)

    def show(value: Any, *data: Any) -> Any:
        if first_n < 0 or counter.next() < first_n:
            shown = "".join(f"[{summary(to_host(d), summarize)}]" for d in data)
            # One call, so that the lines of several threads and ranks do not mix.
            sys.stderr.write(f"{message}{shown}\n")
            sys.stderr.flush()
        return value

    return show


class _Counter:
    """Counts from 0, for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0

    def next(self) -> int:
        with self._lock:
            self._count += 1
            return self._count - 1


def summary(value: Any, limit: int) -> str:
    """The first `limit` elements of `value` in row-major order (all of them if negative)."""
    flat = [value] if isinstance(value, bytes) else np.asarray(value).reshape(-1)
    count = len(flat) if limit < 0 else min(limit, len(flat))
    shown = " ".join(_element(x) for x in flat[:count])
    return shown + ("..." if count < len(flat) else "")


def _element(x: Any) -> str:
    if isinstance(x, bytes):
        return escaped(x).decode(errors="backslashreplace")
    if isinstance(x, (bool, np.bool_)):
        return str(int(x))
    return str(x).removesuffix(".0")
