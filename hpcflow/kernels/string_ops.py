"""Kernels on strings: arrays of bytes objects."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.registry import KernelNode, invalid, kernel
from hpcflow.kernels.text import as_bytes
from hpcflow.shapes import format_shape


@kernel("StringJoin", device="CPU", fresh=True)
def _join(node: KernelNode) -> Callable:
    separator = node.attr("separator")

    def join(*inputs: Any) -> Any:
        shapes = {s for s in (getattr(x, "shape", ()) for x in inputs) if s}
        if not shapes:
            return separator.join([as_bytes(x) for x in inputs])
        if len(shapes) > 1:
            raise invalid("Input shapes do not match: "
                          + ", ".join(format_shape(getattr(x, "shape", ())) for x in inputs))
        (shape,) = shapes
        columns = [np.broadcast_to(np.asarray(x, object), shape).reshape(-1) for x in inputs]
        result = np.empty(columns[0].size, object)
        result[:] = [separator.join(items) for items in zip(*columns, strict=True)]
        return result.reshape(shape)

    return join


@kernel("StaticRegexFullMatch", device="CPU", fresh=True)
def _full_match(node: KernelNode) -> Callable:
    pattern = re.compile(node.attr("pattern"))

    def match(texts: Any) -> Any:
        if not getattr(texts, "shape", ()):
            return np.bool_(pattern.fullmatch(as_bytes(texts)) is not None)
        found = [pattern.fullmatch(text) is not None for text in texts.reshape(-1)]
        return np.array(found, np.bool_).reshape(texts.shape)

    return match
