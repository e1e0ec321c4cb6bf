"""Lengths and cases of strings, and what patterns find in them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.registry import KernelNode, invalid, kernel


def _each(function: Callable[[bytes], Any], text: Any, dtype: Any = object) -> Any:
    """`function` of every string."""
    if not isinstance(text, np.ndarray):
        value = function(text)
        return value if dtype is object else dtype(value)
    out = np.empty(text.shape, dtype)
    for at, item in np.ndenumerate(text):
        out[at] = function(item)
    return out


_CONTINUING = bytes(range(0x80, 0xC0))  # bytes that do not begin a character in UTF-8


@kernel("StringLength", device="CPU", fresh=True)
def _string_length(node: KernelNode) -> Any:
    in_bytes = node.attr("unit") == b"BYTE"
    count = len if in_bytes else lambda s: len(s.translate(None, _CONTINUING))
    return lambda text: _each(count, text, np.int32)


@kernel("StringStrip", device="CPU")
def _string_strip(node: KernelNode) -> Any:
    return lambda text: _each(bytes.strip, text)


@kernel("StringLower", "StringUpper", device="CPU")
def _string_case(node: KernelNode) -> Any:
    name = "lower" if node.op_type == "StringLower" else "upper"
    if node.attr("encoding") == b"utf-8":
        change = getattr(str, name)
        return lambda text: _each(lambda s: change(s.decode(errors="replace")).encode(), text)
    return lambda text: _each(lambda s: getattr(s, name)(), text)


def _pattern(text: bytes) -> re.Pattern:
    try:
        return re.compile(text)
    except re.error as e:
        raise invalid(f"Invalid pattern: {text.decode(errors='replace')}, error: {e}") from None


def _replacement(rewrite: bytes) -> bytes:
    """With the whole match as group 0, which Python's `re` writes otherwise."""
    return re.sub(rb"(?<!\\)((?:\\\\)*)\\0", rb"\1\\g<0>", rewrite)


@kernel("StaticRegexReplace", "RegexReplace", device="CPU")
def _regex_replace(node: KernelNode) -> Any:
    count = 0 if node.attr("replace_global") else 1

    def run(text: Any, pattern: bytes, rewrite: bytes) -> Any:
        compiled, target = _pattern(pattern), _replacement(rewrite)
        try:
            return _each(lambda s: compiled.sub(target, s, count=count), text)
        except (re.error, IndexError) as e:
            raise invalid(f"Invalid rewrite pattern: {rewrite.decode(errors='replace')}, "
                          f"error: {e}") from None

    if node.op_type == "RegexReplace":
        return run
    pattern, rewrite = node.attr("pattern"), node.attr("rewrite")
    return lambda text: run(text, pattern, rewrite)


@kernel("StaticRegexFullMatch", "RegexFullMatch", device="CPU", fresh=True)
def _regex_full_match(node: KernelNode) -> Any:
    def matches(text: Any, pattern: re.Pattern) -> Any:
        return _each(lambda s: pattern.fullmatch(s) is not None, text, np.bool_)

    if node.op_type == "RegexFullMatch":
        return lambda text, pattern: matches(text, _pattern(pattern))
    known = _pattern(node.attr("pattern"))
    return lambda text: matches(text, known)
