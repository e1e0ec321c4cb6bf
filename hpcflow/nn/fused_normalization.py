"""Normalizations that are one op: fused batch normalization, local response normalization."""

from __future__ import annotations

import numpy as np

from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops

__all__ = ["fused_batch_norm", "local_response_normalization", "lrn"]

# A smaller epsilon is raised to this: kernels of some devices refuse one.
_LEAST_EPSILON = 1.001e-5


def fused_batch_norm(x: TensorLike, scale: TensorLike, offset: TensorLike,
                     mean: TensorLike | None = None, variance: TensorLike | None = None,
                     epsilon: float = 0.001, data_format: str = "NHWC", is_training: bool = True,
                     name: str | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Return (y, mean, variance): ``(x - mean) / √(variance + epsilon) * scale + offset``.

    Args:
        x: images, NHWC or NCHW, float32 or float16.
        scale: [channels], of the type of `x` or float32.
        offset: [channels].
        mean: [channels], only without `is_training`; else the batch's own is used.
        variance: likewise.
        epsilon: added to the variance; at least 1.001e-5.
        data_format: ``"NHWC"`` or ``"NCHW"``.
        is_training: whether to normalize by the statistics of the batch.
        name: of the op.

    Returns:
        y, and the mean and the (unbiased) variance of the batch, to average over steps.

    Raises:
        ValueError: if mean and variance are given in training, or missing otherwise.
    """
    if is_training and (mean is not None or variance is not None):
        raise ValueError("Both 'mean' and 'variance' must be None if is_training is True.")
    if not is_training and (mean is None or variance is None):
        raise ValueError("Both 'mean' and 'variance' must be given if is_training is False.")
    x = convert_to_tensor(x, name="input")
    scale = convert_to_tensor(scale, name="scale")
    empty = np.zeros(0, scale.dtype.base_dtype.np)
    # The first op type cannot say that halves have statistics in single precision.
    alike = x.dtype.base_dtype is scale.dtype.base_dtype
    build = raw_ops.FusedBatchNorm if alike else raw_ops.FusedBatchNormV2
    y, batch_mean, batch_variance, *_ = build(
        x=x, scale=scale, offset=offset,
        mean=empty if mean is None else mean, variance=empty if variance is None else variance,
        epsilon=max(epsilon, _LEAST_EPSILON), data_format=data_format, is_training=is_training,
        name=name)
    return y, batch_mean, batch_variance


def local_response_normalization(input: TensorLike, depth_radius: int | None = None,
                                 bias: float | None = None, alpha: float | None = None,
                                 beta: float | None = None, name: str | None = None) -> Tensor:
    """Return input / (bias + alpha · Σ input²)^beta, the sum over channels that are near.

    Args:
        input: [batch, height, width, channels], float32 or float16.
        depth_radius: how far away a channel counts; 5 by default.
        bias: 1 by default.
        alpha: 1 by default.
        beta: 0.5 by default.
        name: of the op.
    """
    given = {"depth_radius": depth_radius, "bias": bias, "alpha": alpha, "beta": beta}
    return raw_ops.LRN(input=input, name=name,
                       **{key: value for key, value in given.items() if value is not None})


lrn = local_response_normalization
