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
