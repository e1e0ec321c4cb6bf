"""One op under the forms in which a program may build it, with one expected result.

`evaluate(build, *inputs)` builds the op on constants, on placeholders of known shape and on
placeholders of which nothing is known, runs each, and checks that they agree with each other, with
the declared dtype and with the static shape.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import hpcflow as hf
from hpcflow.graph.shape_inference import constant_value

FORMS = ("constant", "static", "unknown")


def evaluate(build: Callable, *inputs: Any, forms: tuple[str, ...] = FORMS) -> Any:
    """The value of ``build(*tensors)`` (an array, or a list for a list of tensors)."""
    results = [_run_form(build, [np.asarray(_encoded(v)) for v in inputs], f) for f in forms]
    for form, result in zip(forms[1:], results[1:]):
        for a, b in zip(_flat(results[0]), _flat(result)):
            np.testing.assert_array_equal(a, b, err_msg=f"{forms[0]} against {form}")
    return results[0]


def _encoded(value: Any) -> Any:
    if isinstance(value, bytes):
        boxed = np.empty((), object)
        boxed[()] = value
        return boxed
    array = np.asarray(value)
    return array.astype(object) if array.dtype.kind == "S" else array


def _run_form(build: Callable, inputs: list[np.ndarray], form: str) -> Any:
    with hf.Graph().as_default() as graph:
        tensors, feeds = [], {}
        for value in inputs:
            dtype = hf.string if value.dtype == object else hf.as_dtype(value.dtype)
            if form == "constant":
                tensors.append(hf.constant(value, dtype))
            else:
                shape = value.shape if form == "static" else None
                tensors.append(hf.placeholder(dtype, shape))
                feeds[tensors[-1]] = value
        fetched = build(*tensors)
        with hf.Session(graph=graph) as session:
            result = session.run(fetched, feeds)
    for tensor, value in zip(_flat(fetched), _flat(result)):
        _check(tensor, value)
    return result


def _flat(nest: Any) -> list:
    if isinstance(nest, (list, tuple)):
        return [leaf for item in nest for leaf in _flat(item)]
    return [nest]


def _check(tensor: Any, value: Any) -> None:
    """The run-time value keeps what was declared while the graph was built."""
    array = np.asarray(_encoded(value))
    assert tensor.shape.is_compatible_with(array.shape), (tensor, array.shape)
    if tensor.dtype.base_dtype is not hf.string:
        assert array.dtype == tensor.dtype.base_dtype.np, (tensor, array.dtype)
    known = constant_value(tensor) if len(tensor.op.outputs) == 1 else None
    if known is not None:
        np.testing.assert_array_equal(known, array, err_msg=f"known value of {tensor}")


def failing(build: Callable, *inputs: Any, error: Any = hf.errors.InvalidArgumentError,
            forms: tuple[str, ...] = FORMS) -> list[str]:
    """Check that every form fails (with ValueError where the graph already knows); the messages."""
    messages = []
    for form in forms:
        try:
            _run_form(build, [np.asarray(_encoded(v)) for v in inputs], form)
        except (error, ValueError) as e:
            messages.append(str(e))
        else:
            raise AssertionError(f"{form}: nothing was raised")
    return messages


def check_gradient(build: Callable, *inputs: Any, forms: tuple[str, ...] = ("static", "unknown"),
                   second: bool = True) -> None:
    """Check the gradient of a linear op against central differences, in float64.

    The float64 inputs are differentiated, the others are constants. With `second` the gradient is
    differentiated too: that of a linear map, transposed twice, is the map itself.
    """
    arrays = [np.asarray(v) for v in inputs]
    for form in forms:
        _check_gradient(build, arrays, form, second)


def _check_gradient(build: Callable, inputs: list[np.ndarray], form: str, second: bool) -> None:
    rng = np.random.default_rng(0)
    wrt = [i for i, v in enumerate(inputs) if v.dtype == np.float64]
    with hf.Graph().as_default() as graph, hf.Session(graph=graph) as session:
        xs = [hf.placeholder(hf.as_dtype(v.dtype), v.shape if form == "static" else None)
              if i in wrt or form == "unknown" else hf.constant(v) for i, v in enumerate(inputs)]
        ys = _flat(build(*xs))
        feeds = {x: v for x, v in zip(xs, inputs) if x.op.type == "Placeholder"}
        values = session.run(ys, feeds)
        ws = [hf.placeholder(hf.float64, y.shape) for y in ys]
        feeds |= {w: rng.normal(size=v.shape) for w, v in zip(ws, values)}
        grads = hf.gradients(ys, [xs[i] for i in wrt], ws)
        assert all(g is not None for g in grads)
        for i, grad in zip(wrt, session.run(grads, feeds)):
            numeric = _difference_quotients(session, ys, xs[i], ws, feeds)
            np.testing.assert_allclose(_dense(grad), numeric, rtol=1e-6, atol=1e-8, err_msg=form)
        if second:
            _check_second(session, grads, [xs[i] for i in wrt], ys, ws, feeds)


def _dense(grad: Any) -> np.ndarray:
    if not hasattr(grad, "indices"):
        return grad
    out = np.zeros(grad.dense_shape)
    np.add.at(out, grad.indices, grad.values)
    return out


def _difference_quotients(session: Any, ys: list, x: Any, ws: list, feeds: dict) -> np.ndarray:
    step = 1e-4
    quotients = np.zeros(feeds[x].shape)
    for place in np.ndindex(feeds[x].shape):
        sums = []
        for sign in (1, -1):
            moved = feeds[x].copy()
            moved[place] += sign * step
            values = session.run(ys, {**feeds, x: moved})
            sums.append(sum((feeds[w] * v).sum() for w, v in zip(ws, values)))
        quotients[place] = (sums[0] - sums[1]) / (2 * step)
    return quotients


def _check_second(session: Any, grads: list, xs: list, ys: list, ws: list, feeds: dict) -> None:
    """The gradients as a map of `ws`, differentiated there along us, are ys at us."""
    grads = [hf.convert_to_tensor(g) for g in grads]
    us = [hf.placeholder(hf.float64, g.shape) for g in grads]
    along = {u: np.random.default_rng(1).normal(size=feeds[x].shape) for u, x in zip(us, xs)}
    back = hf.gradients(grads, ws, us)
    at_us = session.run(ys, {**feeds, **{x: along[u] for x, u in zip(xs, us)}})
    for got, expected in zip(session.run(back, {**feeds, **along}), at_us):
        np.testing.assert_allclose(_dense(got), expected, rtol=1e-9, atol=1e-12)
