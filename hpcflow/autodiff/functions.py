"""Gradients of calls of functions.

A call is one node of the backward walk: its gradient is a call too, of the function's gradient,
which the compiler makes of the function's body (or of the gradient function that it was given).
The gradient of such a gradient is built by putting the body into the graph.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow.autodiff.gradients import gradients
from hpcflow.autodiff.zeros import is_trainable, variable_type, zeros_like
from hpcflow.dtypes import DType
from hpcflow.graph.convert import constant_array, convert_to_tensor
from hpcflow.graph.graph import get_default_graph
from hpcflow.graph.opdef import RegisterGradient
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.ops.flow.functions import (
    CALL_TYPES,
    FORWARD_ATTR,
    GRADIENT_TYPE,
    WITHOUT_ATTR,
    as_func,
    callee,
    gradient_hooks,
    instantiate,
)


def call_gradient(op: Operation, *grads: Any) -> list:
    """The gradients of the inputs of a call."""
    found = callee(op.graph._library, op.type, op._attrs)
    if found is not None and found[0].python_gradient is not None:
        result = found[0].python_gradient(op, *grads)
        return list(result) if isinstance(result, (list, tuple)) else [result]
    without = [i for i, (y, g) in enumerate(zip(op.outputs, grads, strict=True))
               if g is None and y.dtype.base_dtype.name == "variant"]
    known = [y if i in without else zeros_like(y) if g is None else convert_to_tensor(g)
             for i, (y, g) in enumerate(zip(op.outputs, grads, strict=True))]
    types = [_gradient_type(t) for t in op.inputs]
    attrs = {"f": as_func(op), "Tout": types, FORWARD_ATTR: op.name.encode()}
    if without:
        attrs[WITHOUT_ATTR] = without
    made = get_default_graph().create_op(GRADIENT_TYPE, [*op.inputs, *known], attrs=attrs)
    return [g if is_trainable(_gradient_type(t)) else None
            for t, g in zip(op.inputs, made.outputs, strict=True)]


for _op_type in CALL_TYPES:
    RegisterGradient(_op_type)(call_gradient)


def _gradient_type(tensor: Tensor) -> DType:
    """The type of the gradient of a tensor: for a handle, of the variable behind it."""
    if tensor._handle_data is not None and tensor.dtype.base_dtype.name == "resource":
        return tensor._handle_data[0]
    return tensor.dtype.base_dtype


@RegisterGradient(GRADIENT_TYPE)
def _gradient_gradient(op: Operation, *grads: Any) -> list:
    """The gradient of a gradient: of the same, built here by the operations of the body."""
    graph = op.graph
    func = op.attr("f")
    found = graph._library.functions[func.name]
    inputs = list(op.inputs)
    count = len(op.outputs)
    if found.gradient_name is not None:
        results, _ = instantiate(graph._library.functions[found.gradient_name], func.attrs, inputs)
    else:
        outputs, _ = instantiate(found, func.attrs, inputs[:count])
        known = [i for i in range(len(outputs)) if i not in op.attr(WITHOUT_ATTR, ())]
        results = _differentiate([outputs[i] for i in known], inputs[:count],
                                 [inputs[count + i] for i in known])
    wanted = [(y, g) for y, g in zip(results, grads, strict=True)
              if g is not None and is_trainable(y.dtype)]
    return gradients([y for y, _ in wanted], inputs, [g for _, g in wanted])


def _differentiate(ys: list[Tensor], xs: list[Tensor], grad_ys: list[Tensor]) -> list[Tensor]:
    """Return the gradients by all of `xs`, zeros where there is none."""
    pairs = [(y, g) for y, g in zip(ys, grad_ys, strict=True) if is_trainable(y.dtype)]
    found = gradients([y for y, _ in pairs], xs, [g for _, g in pairs])
    return [_zero(x) if g is None else convert_to_tensor(g) for x, g in zip(xs, found,
                                                                           strict=True)]


def _zero(x: Tensor) -> Tensor:
    if x.dtype.base_dtype.name == "string" or (
            x.dtype.base_dtype.name == "resource" and variable_type(x) is None):
        return constant_array(np.zeros((), _gradient_type(x).np), name="zeros")
    return zeros_like(x)


gradient_hooks.differentiate = _differentiate
