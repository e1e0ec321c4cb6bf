"""Max pooling whose window sizes and strides are tensors: MaxPoolV2 and its gradients."""

from __future__ import annotations

from typing import Any

from hpcflow.base.geometry.windows import out_size
from hpcflow.graph.opdef import RegisterGradient, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import constant_value, merge_dims, show, with_rank
from hpcflow.ops.common.type_sets import ORDERED
from hpcflow.ops.common.window_shapes import FORMAT_2D, PADDING


def _sizes(op: Operation, index: int) -> list[int] | None:
    """The sizes that input `index` gives, where they are known."""
    what = op.op_def.inputs[index].name
    if with_rank(op.input_dims(index), 1, what)[0] not in (None, 4):
        raise ValueError(f"{what} must have 4 elements, but has shape "
                         f"{show(op.input_dims(index))}")
    value = constant_value(op.inputs[index])
    return None if value is None else [int(n) for n in value]


def _pooled(op: Operation) -> Dims:
    x = with_rank(op.input_dims(0), 4, op.op_def.inputs[0].name)
    first = len(op.inputs) - 2
    windows, strides = _sizes(op, first), _sizes(op, first + 1)
    if windows is None or strides is None:
        return (x[0], None, None, None)
    if min(windows + strides) < 1 or windows[0] != 1 or strides[0] != 1:
        raise ValueError(f"ksize {windows} and strides {strides} must be positive, and 1 along the "
                         "batch")
    return tuple(None if d is None else out_size(d, k, s, op.attr("padding"))
                 for d, k, s in zip(x, windows, strides, strict=True))


def _grad_shape(op: Operation) -> list[Dims]:
    _merged(op, 1, _pooled(op))
    if op.type == "MaxPoolGradV2":
        _merged(op, 2, _pooled(op))
        return [with_rank(op.input_dims(0), 4, "orig_input")]
    _merged(op, 2, op.input_dims(0))
    return [_pooled(op)]


def _merged(op: Operation, index: int, dims: Dims) -> None:
    try:
        merge_dims(op.input_dims(index), dims)
    except ValueError:
        raise ValueError(f"{op.op_def.inputs[index].name} must be {show(dims)} but is "
                         f"{show(op.input_dims(index))}") from None


_SIZED = f"{PADDING}; {FORMAT_2D}; T: {ORDERED} = float"
_ORIGINAL = "orig_input: T; orig_output: T; grad: T; ksize: int32; strides: int32"
register_op("MaxPoolV2", "input: T; ksize: int32; strides: int32", "output: T", _SIZED,
            shape=lambda op: [_pooled(op)])
register_op("MaxPoolGradV2", _ORIGINAL, "output: T", _SIZED, shape=_grad_shape)
register_op("MaxPoolGradGradV2", _ORIGINAL, "output: T", _SIZED, shape=_grad_shape)


def _attrs(op: Operation) -> dict[str, Any]:
    return {name: op.attr(name) for name in ("padding", "data_format")}


@RegisterGradient("MaxPoolV2")
def _max_grad(op: Operation, grad: Tensor) -> tuple:
    x, windows, strides = op.inputs
    return (raw_ops.MaxPoolGradV2(x, op.outputs[0], grad, windows, strides, **_attrs(op)), None,
            None)


@RegisterGradient("MaxPoolGradV2")
def _max_grad_grad(op: Operation, grad: Tensor) -> tuple:
    """Where the maxima are does not change with small changes of the input."""
    x, y, _, windows, strides = op.inputs
    through = raw_ops.MaxPoolGradGradV2(x, y, grad, windows, strides, **_attrs(op))
    return raw_ops.ZerosLike(x), raw_ops.ZerosLike(y), through, None, None
