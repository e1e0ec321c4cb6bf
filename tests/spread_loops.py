"""Programs with loops whose parts are on several places, and what they must give.

A program is ``build(x, w, at) -> tensors``; ``at(k)`` is the scope of place k, or of no place.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np

import hpcflow as hf

X = np.array([[0.3, -0.2, 0.1], [0.5, 0.1, -0.4], [0.2, 0.6, -0.1]], np.float32)
W = np.array([[0.5, 0.4, -0.3], [-0.3, 0.8, 0.2], [0.1, -0.6, 0.7]], np.float32)


def places(devices: list[str]) -> Callable[[int], Any]:
    """The scopes of a program: place k is a device of the list, or nowhere if it is empty."""
    if not devices:
        return lambda k: contextlib.nullcontext()
    return lambda k: hf.device(devices[k % len(devices)])


def chain(x, w, at, parallel=10, count=5):
    """A value that goes round over two places."""
    def body(i, a):
        with at(1):
            a = hf.tanh(hf.matmul(a, w))
        with at(2):
            a = a + x * 0.5
        return i + 1, a

    return [hf.while_loop(lambda i, a: i < count, body, [0, x], parallel_iterations=parallel)[1]]


def several(x, w, at, parallel=10):
    """Variables that live on different places; one of them decides."""
    def body(i, a, b):
        with at(1):
            a = hf.matmul(a, w)
        with at(2):
            b = b + hf.reduce_sum(a)
        return i + 1, a, b

    def goes_on(i, a, b):
        with at(2):
            return hf.logical_and(i < 7, b < 100.0)

    i, a, b = hf.while_loop(goes_on, body, [0, x, 0.0], parallel_iterations=parallel)
    return [a, b, hf.to_float(i)]


def nested(x, w, at, parallel=10):
    """Three loops, one inside the other, whose counts depend on those around."""
    def body(i, a):
        def inner(j, b):
            def innermost(k, c):
                with at(0):
                    return k + 1, hf.tanh(hf.matmul(c, w))

            with at(2):
                b = b * 0.9
                b = hf.while_loop(lambda k, _: k < j, innermost, [0, b],
                                  parallel_iterations=parallel)[1]
            return j + 1, b + x

        with at(1):
            a = hf.while_loop(lambda j, _: j < i, inner, [0, a], parallel_iterations=parallel)[1]
        return i + 1, a

    return [hf.while_loop(lambda i, _: i < 4, body, [0, x], parallel_iterations=parallel)[1]]


def branches(x, w, at, parallel=10):
    """A conditional in the loop, whose branches are on different places."""
    def body(i, a):
        def product():
            with at(1):
                return hf.matmul(a, w)

        def power():
            with at(2):
                return a * a + x

        return i + 1, hf.cond(hf.equal(i % 2, 0), product, power)

    return [hf.while_loop(lambda i, a: i < 5, body, [0, x], parallel_iterations=parallel)[1]]


def inner_branch(x, w, at, parallel=10):
    """A loop in a conditional in a loop: it runs in every other iteration only."""
    def body(i, a):
        def looped():
            def inner(j, b):
                with at(2):
                    return j + 1, hf.tanh(b * w)

            return hf.while_loop(lambda j, b: j < 3, inner, [0, a],
                                 parallel_iterations=parallel)[1]

        a = hf.cond(hf.equal(i % 2, 0), looped, lambda: a + x)
        with at(1):
            return i + 1, a * 1.5

    return [hf.while_loop(lambda i, a: i < 4, body, [0, x], parallel_iterations=parallel)[1]]


def in_branches(x, w, at, parallel=10):
    """Loops in conditionals, one of them in the branch that is not taken."""
    def other():
        with at(2):
            return x * 3.0

    total = hf.reduce_sum(x)
    return [hf.cond(total > 0.0, lambda: chain(x, w, at, parallel)[0], other),
            hf.cond(total < 0.0, lambda: chain(x, w, at, parallel)[0], other)]


def arrays(x, w, at, parallel=10):
    """TensorArrays that are read and written in the loop."""
    rows = hf.TensorArray(hf.float32, 3).unstack(x)

    def body(i, a, out):
        row = rows.read(i)
        with at(1):
            a = hf.tanh(hf.matmul(a, w) + row)
        return i + 1, a, out.write(i, a)

    _, a, out = hf.while_loop(lambda i, *_: i < 3, body, [0, x, hf.TensorArray(hf.float32, 3)],
                              parallel_iterations=parallel)
    return [a, out.stack()]


def no_iteration(x, w, at, parallel=10):
    """The loop ends before it begins."""
    return chain(x, w, at, parallel, count=0)


PROGRAMS = (chain, several, nested, branches, inner_branch, in_branches, arrays, no_iteration)


def build(program: Callable, devices: list[str], parallel: int = 10,
          colocate: bool = False) -> tuple[list, dict]:
    """Values and gradients of `program` on `devices`, and what to feed."""
    with hf.device(devices[0] if devices else None):
        x, w = hf.placeholder(hf.float32, [3, 3]), hf.placeholder(hf.float32, [3, 3])
    values = program(x, w, places(devices), parallel)
    grads = hf.gradients(values, [x, w], colocate_gradients_with_ops=colocate)
    return values + [g for g in grads if g is not None], {x: X, w: W}


def expected(program: Callable) -> list:
    """What `program` gives on one device."""
    with hf.Graph().as_default(), hf.Session() as session:
        return session.run(*build(program, []))
