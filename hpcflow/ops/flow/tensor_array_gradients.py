"""Gradients of TensorArrays.

The gradients of the elements form an array of their own. The gradient of a read is a write to it,
which adds; the gradient of a write is a read from it. The flow, backwards, orders them: an element
of the gradient is read after everything was added to it. Every call of ``gradients`` has an array
of its own, told apart by the attribute `source`.
"""

from __future__ import annotations

from typing import Any

from hpcflow.graph.opdef import RegisterGradient
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.common.static_shape import shape_of
from hpcflow.ops.flow.tensor_array_ops import VERSIONS
from hpcflow.shapes import TensorShape

__all__: list[str] = []

_ARRAYS = [f"TensorArray{version}" for version in VERSIONS]


class _GradientArray:
    """The array of gradients for the array that `op` acts on, and the ops of its version."""

    def __init__(self, op: Operation, flow: Tensor) -> None:
        self._version = op.type[-2:] if op.type[-2:] in VERSIONS else ""
        source = op.graph._gradient_scope or "gradients"
        with op.graph.colocate_with(op.inputs[0].op):
            made = self._op("Grad")(handle=op.inputs[0], flow_in=flow, source=source)
        self._handle: Tensor = made[0] if self._version == "V3" else made
        # Not the flow that comes out: gradients of gradients have to pass here too.
        self._flow = flow

    def _op(self, name: str) -> Any:
        return getattr(raw_ops, f"TensorArray{name}{self._version}")

    def apply(self, name: str, **arguments: Any) -> Any:
        """Build the op TensorArray`name` on the array of gradients."""
        with self._handle.graph.colocate_with(self._handle.op):
            return self._op(name)(handle=self._handle, flow_in=self._flow, **arguments)


def _read_grad(op: Operation, grad: Tensor) -> list:
    array = _GradientArray(op, op.inputs[2])
    return [None, None, array.apply("Write", index=op.inputs[1], value=grad)]


def _write_grad(op: Operation, flow: Tensor) -> list:
    array = _GradientArray(op, flow)
    grad = array.apply("Read", index=op.inputs[1], dtype=op.attr("T"))
    return [None, None, grad, flow]


def _gather_grad(op: Operation, grad: Tensor) -> list:
    array = _GradientArray(op, op.inputs[2])
    return [None, None, array.apply("Scatter", indices=op.inputs[1], value=grad)]


def _scatter_grad(op: Operation, flow: Tensor) -> list:
    array = _GradientArray(op, flow)
    grad = array.apply("Gather", indices=op.inputs[1], dtype=op.attr("T"),
                       element_shape=_rows(op.inputs[2]))
    return [None, None, grad, flow]


def _concat_grad(op: Operation, grad: Tensor, lengths_grad: object) -> list:
    array = _GradientArray(op, op.inputs[1])
    return [None, array.apply("Split", value=grad, lengths=op.outputs[1])]


def _split_grad(op: Operation, flow: Tensor) -> list:
    array = _GradientArray(op, flow)
    value, rows = op.inputs[1], _rows(op.inputs[1])
    grad, _ = array.apply("Concat", dtype=op.attr("T"), element_shape_except0=rows)
    if not _cannot_grow(op.inputs[0].op):
        # Elements behind those of the split may have been written later.
        count = raw_ops.StridedSlice(shape_of(value), [0], [1], [1])
        grad = raw_ops.StridedSlice(grad, [0], count, [1])
    return [None, grad, None, flow]


def _cannot_grow(array: Operation) -> bool:
    return array.type in _ARRAYS and not array.attr("dynamic_size")


def _rows(tensor: Tensor) -> TensorShape:
    """The shape of one row."""
    return TensorShape(tensor._dims[1:] if tensor._dims else None)


for _version in VERSIONS:
    for _name, _function in (("Read", _read_grad), ("Write", _write_grad),
                             ("Gather", _gather_grad), ("Scatter", _scatter_grad),
                             ("Concat", _concat_grad), ("Split", _split_grad)):
        RegisterGradient(f"TensorArray{_name}{_version}")(_function)


@RegisterGradient("TensorArrayPack")
def _pack_grad(op: Operation, grad: Tensor) -> list:
    return [None, _GradientArray(op, op.inputs[1]).apply("Unpack", value=grad)]


@RegisterGradient("TensorArrayUnpack")
def _unpack_grad(op: Operation, flow: Tensor) -> list:
    grad = _GradientArray(op, flow).apply("Pack", dtype=op.attr("T"),
                                          element_shape=_rows(op.inputs[1]))
    return [None, grad, flow]
