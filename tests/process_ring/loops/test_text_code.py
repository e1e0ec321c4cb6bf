"""Loops of texts: what they compute is what Python does with the same text."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest

from hpcflow.loops import compiling

pytestmark = pytest.mark.skipif(not compiling.enabled(), reason="there is no compiler")
if compiling.enabled():
    from hpcflow.loops import objects, text_code

TEXTS = {
    "whole numbers, rounded down": """
        for i in range(x.size):
            y[i] = (x[i] // n) * 100 + x[i] % n - (x[i] // -3) + (x[i] & 6 | 1 ^ n) + (x[i] >> 1)
    """,
    "steps, branches and jumps": """
        total = 0
        for i in range(1, x.size, 2):
            if x[i] < -4:
                continue
            elif x[i] > 6:
                break
            total += x[i]
            y[i] = total
        i = 0
        while i < n and x[i] < 7:
            j = i
            while j > 0:
                j -= 1
                if j == 2:
                    break
                y[j] += i
            i += 1
    """,
    "tests, choices and extremes": """
        for i in range(x.size):
            inside = 0 <= i < n or x[i] == 3
            y[i] = (7 if inside and not x[i] > 2 else -x[i]) + min(x[i], n, 2) * max(i, 3)
    """,
    "what follows is not looked at": """
        for i in range(x.size):
            far = x[i] * 1000000000
            if -1 < x[i] < 1 and y[far] == 0 or i == 1:
                y[i] = i + 1
    """,
    "swaps and several at once": """
        for i in range(x.size - 1):
            y[i], y[i + 1] = y[i + 1] + 1, x[i]
        a, b = n, 2
        a, b = b, a
        y[0] = a - b
    """,
    "parts of arrays": """
        part = y[2:n]
        for i in range(part.size):
            part[i] = x[2:n][i] * part.size
        return part.size
    """,
    "a result": """
        for i in range(x.size):
            if x[i] == 3:
                return True
        return False
    """,
}


def both(source, arrays, numbers):
    """Run a text compiled and by Python, over copies of the arrays; what it returned."""
    source = "def loop({}):\n".format(", ".join([*"xyz"[: len(arrays)], "n"])) + textwrap.indent(
        textwrap.dedent(source), "    ")
    kinds = tuple([(a.dtype.name, a.ndim, True) for a in arrays])
    name = f"text{abs(hash((source, kinds)))}"
    call = objects.functions_of(text_code.code_of(name, source, kinds, len(numbers))).call
    scope = {"np": np, "flat": np.ravel}
    exec(source, scope)
    expected, made = ([a.copy() for a in arrays] for _ in range(2))
    with np.errstate(all="ignore"):
        results = scope["loop"](*expected, *numbers), call(*made, *numbers)
    for one, other in zip(expected, made, strict=True):
        np.testing.assert_array_equal(one, other)
    return results


@pytest.mark.parametrize("text", TEXTS)
def test_whole_numbers(text):
    x = np.array([5, -7, 3, 0, -5, 2, 8, 1])
    for n in (5, 7):
        one, other = both(TEXTS[text], [x, np.zeros_like(x)], [n])
        assert one == other


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "uint16", "int32", "uint32", "int64",
                                   "uint64", "float32", "float64"])
def test_elements_of_all_types(dtype):
    x = np.array([0, 1, 100, 3]).astype(dtype)
    both("""
        for i in range(x.size):
            value = x[i]
            y[x.size - 1 - i] = value
            z[i] = x[i] > x[1]
    """, [x, np.zeros_like(x), np.zeros(4, bool)], [0])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_real_numbers_have_the_bits_of_numpy(dtype):
    x = np.array([[0.1, 2.5, 1e30], [np.inf, np.nan, 7.0]], dtype)
    both("""
        values = flat(x)
        for i in range(np.uint64(values.size)):
            z[i] = (values[i] * values[i] + values[1]) / np.sqrt(values[2]) - (
                values[i] if values[i] != values[i] else values[0])
        for r in range(x.shape[0]):
            row = x[r]
            for c in range(row.size):
                y[r, c] = min(max(row[c], x[0, 0]), x[1, 2])
    """, [x, np.zeros_like(x), np.zeros(6, dtype)], [0])


def test_unsigned_numbers_wrap():
    keys = np.array([1, 2**63 + 5, 2**64 - 1], np.uint64)
    both("""
        for i in range(x.size):
            y[i] = np.int64((np.uint64(x[i]) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(60))
    """, [keys, np.zeros(3, np.int64)], [0])


def test_squares_are_turned():
    for dtype in ("uint8", "uint32", "uint64"):
        item, side = np.dtype(dtype).itemsize, 64 // max(np.dtype(dtype).itemsize, 4)
        source = ("def loop(x, y):\n    turned(y.ctypes.data, y.shape[1] * ITEM, x.ctypes.data, "
                  "x.shape[1] * ITEM, ITEM, SIDE)\n")
        source = source.replace("ITEM", str(item)).replace("SIDE", str(side))
        x = np.arange(side * 20).reshape(side, 20).astype(dtype)
        y = np.zeros((side, side + 3), dtype)
        code = text_code.code_of(f"square{dtype}", source, ((dtype, 2, False), (dtype, 2, True)), 0)
        objects.functions_of(code).call(x, y)
        np.testing.assert_array_equal(y[:, :side], x[:, :side].T)
        assert not y[:, side:].any()
