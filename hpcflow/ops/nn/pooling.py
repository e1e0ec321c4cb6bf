"""Pooling: MaxPool, AvgPool, their 3-D forms and MaxPoolWithArgmax, with their gradient ops."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow.base.geometry.windows import out_size
from hpcflow.graph.opdef import RegisterGradient, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import constant_value_as_dims, merge_dims, show, with_rank
from hpcflow.ops.common.type_sets import ANY_FLOAT, ORDERED, SUMMED
from hpcflow.ops.common.window_shapes import FORMAT_2D, FORMAT_3D, PADDING, in_space

# ---------------------------------------------------------------- shapes


def _rank(op: Operation) -> int:
    return 5 if "3D" in op.type else 4


def pooled_dims(op: Operation, dims: Any) -> Dims:
    """The shape of the output; windows may also reach over channels."""
    rank = _rank(op)
    in_space(op, "ksize", rank, depth=True)
    in_space(op, "strides", rank, depth=True)
    padding = op.attr("padding")
    try:
        return tuple(None if d is None else out_size(d, int(k), int(s), padding)
                     for d, k, s in zip(dims, op.attr("ksize"), op.attr("strides"), strict=True))
    except ValueError as e:
        raise ValueError(f"{e}: input {show(dims)}, ksize {list(op.attr('ksize'))}") from None


def _pool_shape(op: Operation) -> list[Dims]:
    dims = with_rank(op.input_dims(0), _rank(op), op.op_def.inputs[0].name)
    return [pooled_dims(op, dims)] * len(op.outputs)


def _merged(op: Operation, index: int, dims: Dims) -> Dims:
    try:
        return merge_dims(op.input_dims(index), dims)
    except ValueError:
        raise ValueError(f"{op.op_def.inputs[index].name} must be {show(dims)} but is "
                         f"{show(op.input_dims(index))}") from None


def _max_pool_grad_shape(op: Operation) -> list[Dims]:
    dims = with_rank(op.input_dims(0), _rank(op), op.op_def.inputs[0].name)
    pooled = pooled_dims(op, dims)
    for index in (1, 2):
        _merged(op, index, pooled)
    return [dims]


def _max_pool_grad_grad_shape(op: Operation) -> list[Dims]:
    rank = _rank(op)
    dims = _merged(op, 2, with_rank(op.input_dims(0), rank, "orig_input"))
    return [_merged(op, 1, pooled_dims(op, dims))]


def _argmax_grad_grad_shape(op: Operation) -> list[Dims]:
    dims = _merged(op, 1, with_rank(op.input_dims(0), 4, "input"))
    return [_merged(op, 2, pooled_dims(op, dims))]


def _avg_pool_grad_shape(op: Operation) -> list[Dims]:
    rank = _rank(op)
    dims = with_rank(constant_value_as_dims(op.inputs[0]), rank, "orig_input_shape")
    _merged(op, 1, pooled_dims(op, dims))
    return [dims]


# ---------------------------------------------------------------- declarations

_WINDOW_2D = f"ksize: list(int) >= 4; strides: list(int) >= 4; {PADDING}"
_WINDOW_3D = f"ksize: list(int) >= 5; strides: list(int) >= 5; {PADDING}; {FORMAT_3D}"
_ORIGINAL = "orig_input: T; orig_output: T; grad: T"
_ORIGINAL_3D = "orig_input: TInput; orig_output: TInput; grad: T"
_BATCH = "include_batch_in_index: bool = false"  # later versions have it
_ARGMAX = f"{_WINDOW_2D}; {_BATCH}; Targmax: {{int32, int64}}; T: {ORDERED} = float"

register_op("MaxPool", "input: T", "output: T", f"T: {ORDERED} = float; {_WINDOW_2D}; {FORMAT_2D}",
            shape=_pool_shape)
register_op("MaxPoolGrad", _ORIGINAL, "output: T",
            f"{_WINDOW_2D}; {FORMAT_2D}; T: {ORDERED} = float", shape=_max_pool_grad_shape)
register_op("MaxPoolGradGrad", _ORIGINAL, "output: T",
            f"{_WINDOW_2D}; {FORMAT_2D}; T: {ORDERED}", shape=_max_pool_grad_grad_shape)

register_op("AvgPool", "value: T", "output: T", f"{_WINDOW_2D}; {FORMAT_2D}; T: {ANY_FLOAT}",
            shape=_pool_shape)
register_op("AvgPoolGrad", "orig_input_shape: int32; grad: T", "output: T",
            f"{_WINDOW_2D}; {FORMAT_2D}; T: {ANY_FLOAT}", shape=_avg_pool_grad_shape)

register_op("MaxPool3D", "input: T", "output: T", f"{_WINDOW_3D}; T: {SUMMED}", shape=_pool_shape)
register_op("MaxPool3DGrad", _ORIGINAL_3D, "output: T",
            f"{_WINDOW_3D}; T: {SUMMED}; TInput: {SUMMED} = float", shape=_max_pool_grad_shape)
register_op("MaxPool3DGradGrad", _ORIGINAL, "output: T", f"{_WINDOW_3D}; T: {SUMMED}",
            shape=_max_pool_grad_grad_shape)

register_op("AvgPool3D", "input: T", "output: T", f"{_WINDOW_3D}; T: {SUMMED}", shape=_pool_shape)
register_op("AvgPool3DGrad", "orig_input_shape: int32; grad: T", "output: T",
            f"{_WINDOW_3D}; T: {SUMMED}", shape=_avg_pool_grad_shape)

register_op("MaxPoolWithArgmax", "input: T", "output: T; argmax: Targmax",
            "ksize: list(int) >= 4; strides: list(int) >= 4; Targmax: {int32, int64} = int64; "
            f"{PADDING}; {_BATCH}; T: {ORDERED} = float", shape=_pool_shape)
register_op("MaxPoolGradWithArgmax", "input: T; grad: T; argmax: Targmax", "output: T", _ARGMAX,
            shape=_max_pool_grad_shape)
register_op("MaxPoolGradGradWithArgmax", "input: T; grad: T; argmax: Targmax", "output: T",
            _ARGMAX, shape=_argmax_grad_grad_shape)


# ---------------------------------------------------------------- gradients


def _attrs(op: Operation) -> dict[str, Any]:
    names = ("ksize", "strides", "padding", "data_format", "include_batch_in_index")
    return {name: op.attr(name) for name in names if name in op.op_def.attr_map}


def _shape_of(tensor: Tensor) -> Any:
    dims = tensor._dims
    if dims is None or None in dims:
        return raw_ops.Shape(tensor)
    return np.array(dims, np.int32)


def _register_max(pool: str) -> None:
    """Where the maxima are does not change with small changes of the input."""

    @RegisterGradient(pool)
    def _max_grad(op: Operation, grad: Tensor) -> Tensor:
        build = getattr(raw_ops, f"{pool}Grad")
        return build(op.inputs[0], op.outputs[0], grad, **_attrs(op))

    @RegisterGradient(f"{pool}Grad")
    def _max_grad_grad(op: Operation, grad: Tensor) -> tuple:
        build = getattr(raw_ops, f"{pool}GradGrad")
        places = [raw_ops.ZerosLike(t) for t in op.inputs[:2]]
        return *places, build(op.inputs[0], op.inputs[1], grad, **_attrs(op))

    @RegisterGradient(f"{pool}GradGrad")
    def _max_third(op: Operation, grad: Tensor) -> tuple:
        build = getattr(raw_ops, f"{pool}Grad")
        places = [raw_ops.ZerosLike(t) for t in op.inputs[:2]]
        return *places, build(op.inputs[0], op.inputs[1], grad, **_attrs(op))


def _register_average(pool: str) -> None:
    @RegisterGradient(pool)
    def _average_grad(op: Operation, grad: Tensor) -> Tensor:
        return getattr(raw_ops, f"{pool}Grad")(_shape_of(op.inputs[0]), grad, **_attrs(op))

    @RegisterGradient(f"{pool}Grad")
    def _average_grad_grad(op: Operation, grad: Tensor) -> tuple:
        return None, getattr(raw_ops, pool)(grad, **_attrs(op))


for _dimensions in ("", "3D"):
    _register_max(f"MaxPool{_dimensions}")
    _register_average(f"AvgPool{_dimensions}")


@RegisterGradient("MaxPoolWithArgmax")
def _argmax_grad(op: Operation, grad: Tensor, _: object) -> Tensor:
    return raw_ops.MaxPoolGradWithArgmax(op.inputs[0], grad, op.outputs[1], **_attrs(op))


@RegisterGradient("MaxPoolGradWithArgmax")
def _argmax_grad_grad(op: Operation, grad: Tensor) -> tuple:
    x, _, argmax = op.inputs
    second = raw_ops.MaxPoolGradGradWithArgmax(x, grad, argmax, **_attrs(op))
    return raw_ops.ZerosLike(x), second, None


@RegisterGradient("MaxPoolGradGradWithArgmax")
def _argmax_third(op: Operation, grad: Tensor) -> tuple:
    x, _, argmax = op.inputs
    third = raw_ops.MaxPoolGradWithArgmax(x, grad, argmax, **_attrs(op))
    return raw_ops.ZerosLike(x), third, None
