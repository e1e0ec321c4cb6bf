"""Ops that pass a value through, and ops without values: Identity, StopGradient, NoOp, ..."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hpcflow.base.keywords import also_called
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import colocate_with, control_dependencies, name_scope
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.opdef import RegisterGradient, not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import (
    constant_value_as_dims,
    each_passed_on,
    no_outputs,
    passed_on,
    register_constant_shape,
    unchanged,
)
from hpcflow.graph.sparse_tensor import SparseTensor
from hpcflow.ops.common.type_sets import ANY_FLOAT

if TYPE_CHECKING:
    from hpcflow.graph.indexed_slices import IndexedSlices

__all__ = ["check_numerics", "identity", "no_op", "stop_gradient", "verify_tensor_all_finite"]

# ---------------------------------------------------------------- no values

register_op("NoOp", shape=no_outputs)
register_op("ControlTrigger", shape=no_outputs)
not_differentiable("NoOp", "ControlTrigger")


def no_op(name: str | None = None) -> Operation:
    """Return an operation that does nothing: a point for control dependencies."""
    return raw_ops.NoOp(name=name)


# ---------------------------------------------------------------- values unchanged

register_op("Identity", "input: T", "output: T", "T: type", shape=passed_on)
register_op("IdentityN", "input: T", "output: T", "T: list(type) >= 1",
            shape=each_passed_on)
register_op("StopGradient", "input: T", "output: T", "T: type", shape=unchanged)
register_op("PreventGradient", "input: T", "output: T", 'T: type; message: string = ""',
            shape=unchanged)
register_op("CheckNumerics", "tensor: T", "output: T", f"T: {ANY_FLOAT}; message: string",
            shape=unchanged)
register_op("Copy", "input: T", "output: T", 'T: type; tensor_name: string = ""', shape=unchanged)
register_op("CopyHost", "input: T", "output: T", 'T: type; tensor_name: string = ""',
            shape=unchanged)
register_op("DebugIdentity", "input: T", "output: T",
            'T: type; tensor_name: string = ""; debug_urls: list(string) = []', shape=unchanged)
not_differentiable("StopGradient")


@register_constant_shape("Identity")
def _dims_passed_on(op: Operation) -> Dims:
    return constant_value_as_dims(op.inputs[0])


def _same(op: Operation, grad: Tensor | IndexedSlices) -> Any:
    return grad


for _op_type in ("Identity", "RefIdentity", "Copy", "CopyHost", "DebugIdentity"):
    RegisterGradient(_op_type)(_same)


@RegisterGradient("IdentityN")
def _same_each(op: Operation, *grads: Any) -> list:
    return list(grads)


@RegisterGradient("PreventGradient")
def _prevent_gradient_grad(op: Operation, grad: Tensor) -> Any:
    message = op.attr("message", b"").decode()
    raise LookupError(f"Gradient explicitly disabled at op '{op.name}'"
                      + (f". Reason: {message}" if message else ""))


@RegisterGradient("CheckNumerics")
def _check_numerics_grad(op: Operation, grad: Tensor) -> Tensor:
    return raw_ops.CheckNumerics(grad, message="Not a number (NaN) or infinity (Inf) values "
                                               "detected in gradient.")


def identity(input: TensorLike, name: str | None = None) -> Any:
    """Return a tensor with the value of `input`; a sparse one for a sparse one."""
    if isinstance(input, SparseTensor):
        with name_scope(name, "Identity", [input]):
            return SparseTensor(raw_ops.Identity(input.indices), raw_ops.Identity(input.values),
                                raw_ops.Identity(input.dense_shape))
    return raw_ops.Identity(input=input, name=name)


def stop_gradient(input: TensorLike, name: str | None = None) -> Tensor:
    """Return a tensor with the value of `input` through which no gradient flows."""
    return raw_ops.StopGradient(input=input, name=name)


def check_numerics(tensor: TensorLike, message: str, name: str | None = None) -> Tensor:
    """Return `tensor` unchanged; when run, raise if an element is NaN or infinite.

    Raises ``InvalidArgumentError`` whose text starts with `message`.
    """
    return raw_ops.CheckNumerics(tensor=tensor, message=message, name=name)


@also_called(x="t", message="msg")
def verify_tensor_all_finite(t: TensorLike, msg: str, name: str | None = None) -> Tensor:
    """Return `t`; when run, raise ``InvalidArgumentError`` with `msg` if it is not all finite."""
    with name_scope(name, "VerifyFinite", [t]):
        t = convert_to_tensor(t, name="t")
        with colocate_with(t), control_dependencies([raw_ops.CheckNumerics(t, message=msg)]):
            return raw_ops.Identity(t)
