"""Batch normalization as one op: FusedBatchNorm, BatchNormWithGlobalNormalization, gradients.

Source: Ioffe and Szegedy, Batch Normalization (arXiv:1502.03167).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hpcflow import dtypes
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.opdef import RegisterGradient, not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import merge_dim, merge_dims, show, with_rank
from hpcflow.ops.arrays.casting import cast
from hpcflow.ops.common.type_sets import SUMMED
from hpcflow.ops.common.window_shapes import FORMAT_2D, axes

if TYPE_CHECKING:
    from hpcflow.ops.state.variables import Variable

# ---------------------------------------------------------------- FusedBatchNorm


def _channels(op: Operation, x: Any, vectors: tuple[int, ...]) -> int | None:
    """The number of channels that the input and the vectors agree on."""
    channels = x[axes(op, 4).channel]
    for index in vectors:
        what = op.op_def.inputs[index].name
        size = with_rank(op.input_dims(index), 1, what)[0]
        # Statistics of the batch itself replace the empty vectors of a training step.
        if size == 0 and what in ("mean", "variance"):
            continue
        try:
            channels = merge_dim(channels, size)
        except ValueError:
            raise ValueError(f"{what} {show((size,))} does not fit the channels of "
                             f"{show(x)}") from None
    return channels


def _with_channels(op: Operation, x: Any, channels: int | None) -> Dims:
    axis = axes(op, 4).channel
    return (*x[:axis], channels, *x[axis + 1 :])


def _fused_shape(op: Operation) -> list[Dims]:
    x = with_rank(op.input_dims(0), 4, "x")
    for index in (3, 4):  # in training they may be empty, but are vectors
        with_rank(op.input_dims(index), 1, op.op_def.inputs[index].name)
    channels = _channels(op, x, (1, 2) if op.attr("is_training") else (1, 2, 3, 4))
    shapes = [_with_channels(op, x, channels), *[(channels,)] * 4]
    return [*shapes, None][: len(op.outputs)]


def _fused_grad_shape(op: Operation) -> list[Dims]:
    x = merge_dims(with_rank(op.input_dims(0), 4, "y_backprop"),
                   with_rank(op.input_dims(1), 4, "x"))
    channels = _channels(op, x, (2, 3, 4))
    # Outside of training 1.15 declares that its writers' last two outputs have all channels.
    reserved = (0,) if op.attr("is_training") else (None,)
    return [_with_channels(op, x, channels), (channels,), (channels,), reserved, reserved]


_FUSED = f"epsilon: float = 0.0001; {FORMAT_2D}; is_training: bool = true"
# Of five dimensions it is made of that of four.
_FUSED_3D = _FUSED.replace("'NCHW'", "'NCHW', 'NDHWC', 'NCDHW'")
_NEWER = "T: {half, bfloat16, float, double}; U: {float, double}"

register_op("FusedBatchNorm", "x: T; scale: T; offset: T; mean: T; variance: T",
            "y: T; batch_mean: T; batch_variance: T; reserve_space_1: T; reserve_space_2: T",
            f"T: {SUMMED}; {_FUSED}", shape=_fused_shape)
register_op("FusedBatchNormGrad",
            "y_backprop: T; x: T; scale: T; reserve_space_1: T; reserve_space_2: T",
            "x_backprop: T; scale_backprop: T; offset_backprop: T; reserve_space_3: T; "
            "reserve_space_4: T", f"T: {SUMMED}; {_FUSED}", shape=_fused_grad_shape)
for _version, _more in (("V2", ""), ("V3", "; reserve_space_3: U")):
    _attrs = f"{_FUSED_3D}; exponential_avg_factor: float = 1" if _more else _FUSED
    register_op(f"FusedBatchNorm{_version}", "x: T; scale: U; offset: U; mean: U; variance: U",
                "y: T; batch_mean: U; batch_variance: U; reserve_space_1: U; "
                f"reserve_space_2: U{_more}", f"{_NEWER}; {_attrs}", shape=_fused_shape)
    register_op(f"FusedBatchNormGrad{_version}",
                "y_backprop: T; x: T; scale: float; reserve_space_1: U; reserve_space_2: U"
                f"{_more}",
                "x_backprop: T; scale_backprop: U; offset_backprop: U; "
                f"reserve_space_{3 + bool(_more)}: U; reserve_space_{4 + bool(_more)}: U",
                f"{_NEWER}; {_FUSED_3D if _more else _FUSED}", shape=_fused_grad_shape)


def _fused_attrs(op: Operation) -> dict[str, Any]:
    return {name: op.attr(name) for name in ("epsilon", "data_format", "is_training")}


def _fused_grad(op: Operation, grad: Tensor, *_: Any) -> tuple:
    """In training by the statistics of the batch, else by those given, which are constants."""
    x, scale, _offset, mean, variance = op.inputs
    reserved = op.outputs[3:] if op.attr("is_training") else [mean, variance, *op.outputs[5:]]
    build = getattr(raw_ops, op.type.replace("Norm", "NormGrad"))
    if op.type != "FusedBatchNorm":
        scale = cast(scale, dtypes.float32)  # which theirs is, whatever U is
    found = build(grad, x, scale, *reserved, **_fused_attrs(op))
    return (*found[:3], None, None)


for _version in ("", "V2", "V3"):
    RegisterGradient(f"FusedBatchNorm{_version}")(_fused_grad)


class _Normalized:
    """The parts of a gradient of batch normalization, for its derivatives: channels last."""

    def __init__(self, op: Operation) -> None:
        self.op = op
        self.first = axes(op, 4).channel == 1
        dy, x, scale, mean, variance = op.inputs[:5]
        self.wide = mean.dtype.base_dtype  # T, or the type of the newer types' statistics
        self.scale = cast(scale, self.wide)
        self.grad = self.last(dy)
        epsilon = self.wide.np.type(op.attr("epsilon"))
        self.inverse = raw_ops.Rsqrt(raw_ops.Add(variance, epsilon))
        self.unit = raw_ops.Mul(raw_ops.Sub(self.last(x), mean), self.inverse)

    def last(self, x: TensorLike) -> Any:
        x = cast(x, self.wide)
        return raw_ops.Transpose(x, np.array([0, 2, 3, 1], np.int32)) if self.first else x

    def back(self, x: TensorLike) -> Any:
        x = raw_ops.Transpose(x, np.array([0, 3, 1, 2], np.int32)) if self.first else x
        return cast(x, self.op.inputs[1].dtype)

    def grads(self, dy: Tensor, x: TensorLike, scale: TensorLike) -> list:
        """Those of the inputs of these names; none flow to the statistics."""
        found = [self.back(dy), self.back(x), cast(scale, self.op.inputs[2].dtype)]
        return found + [None] * (len(self.op.inputs) - 3)

    def product_mean(self, a: TensorLike, b: TensorLike) -> Tensor:
        return raw_ops.Mean(raw_ops.Mul(a, b), _SPACE)

    def project(self, v: Tensor | Variable) -> Tensor:
        """v - mean(v) - unit · mean(v · unit): what normalization leaves of a change v."""
        along = raw_ops.Mul(self.unit, self.product_mean(v, self.unit))
        return raw_ops.Sub(raw_ops.Sub(v, raw_ops.Mean(v, _SPACE)), along)


_SPACE = np.array([0, 1, 2], np.int32)


@RegisterGradient("FusedBatchNormGrad")
@RegisterGradient("FusedBatchNormGradV2")
@RegisterGradient("FusedBatchNormGradV3")
def _fused_grad_grad(op: Operation, ddx: Tensor, dds: Tensor, ddb: Tensor, *_: Any) -> list:
    """The op gives dx = scale · inverse · project(dy), Σ dy · unit and Σ dy, per channel."""
    parts = _Normalized(op)
    ddx = parts.last(ddx)
    project = parts.project if op.attr("is_training") else (lambda v: v)
    slope = raw_ops.Mul(parts.scale, parts.inverse)
    by_dy = raw_ops.Add(raw_ops.Add(raw_ops.Mul(project(ddx), slope),
                                    raw_ops.Mul(parts.unit, dds)), ddb)
    seen = raw_ops.Sum(raw_ops.Mul(ddx, project(parts.grad)), _SPACE)
    by_scale = raw_ops.Mul(seen, parts.inverse)
    by_unit = raw_ops.Mul(parts.grad, dds)
    if not op.attr("is_training"):
        by_x = raw_ops.Mul(by_unit, parts.inverse)
        return parts.grads(by_dy, by_x, by_scale)
    crossed = raw_ops.Add(
        raw_ops.Mul(ddx, parts.product_mean(parts.grad, parts.unit)),
        raw_ops.Mul(parts.grad, parts.product_mean(ddx, parts.unit)))
    by_unit = raw_ops.Sub(by_unit, raw_ops.Mul(crossed, slope))
    # The inverse deviation depends on x too: its derivative is -inverse² · unit / count.
    share = raw_ops.Mul(raw_ops.Mean(raw_ops.Mul(ddx, project(parts.grad)), _SPACE), slope)
    through = raw_ops.Sub(project(by_unit), raw_ops.Mul(parts.unit, share))
    by_x = raw_ops.Mul(through, parts.inverse)
    return parts.grads(by_dy, by_x, by_scale)


# ---------------------------------------------------------------- with global normalization


def _global_shape(op: Operation) -> list[Dims]:
    t: Any = with_rank(op.input_dims(0), 4, "t")
    depth = t[3]
    for index in range(1, 5):
        if op.op_def.inputs[index].name == "backprop":
            t = merge_dims(t, with_rank(op.input_dims(index), 4, "backprop"))
        else:
            what = op.op_def.inputs[index].name
            depth = merge_dim(depth, with_rank(op.input_dims(index), 1, what)[0])
    shapes: list[Dims] = [(*t[:3], depth), *[(depth,)] * 4]
    return shapes[: len(op.outputs)]


_GLOBAL = f"T: {SUMMED}; variance_epsilon: float; scale_after_normalization: bool"

register_op("BatchNormWithGlobalNormalization", "t: T; m: T; v: T; beta: T; gamma: T",
            "result: T", _GLOBAL, shape=_global_shape, deprecated="use nn.batch_normalization()")
register_op("BatchNormWithGlobalNormalizationGrad", "t: T; m: T; v: T; gamma: T; backprop: T",
            "dx: T; dm: T; dv: T; db: T; dg: T", _GLOBAL, shape=_global_shape,
            deprecated="use nn.batch_normalization()")


@RegisterGradient("BatchNormWithGlobalNormalization")
def _global_grad(op: Operation, grad: Tensor) -> tuple:
    t, m, v, _, gamma = op.inputs
    names = ("variance_epsilon", "scale_after_normalization")
    return tuple(raw_ops.BatchNormWithGlobalNormalizationGrad(
        t, m, v, gamma, grad, **{name: op.attr(name) for name in names}))


not_differentiable("BatchNormWithGlobalNormalizationGrad")
