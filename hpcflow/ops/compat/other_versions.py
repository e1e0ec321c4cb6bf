"""Functions of 0.x and of later 1.x that are a few operations each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hpcflow import dtypes
from hpcflow.dtypes import DTypeLike
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import add_to_collection, name_scope
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.likes import Collections, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.arrays.shape_ops import rank, shape, size
from hpcflow.ops.state.variables import resources_by_default

__all__ = [
    "audio_summary",
    "control_flow_v2_enabled",
    "disable_control_flow_v2",
    "disable_eager_execution",
    "disable_resource_variables",
    "disable_tensor_equality",
    "disable_v2_behavior",
    "disable_v2_tensorshape",
    "enable_control_flow_v2",
    "enable_resource_variables",
    "executing_eagerly",
    "histogram_summary",
    "image_summary",
    "log_sigmoid",
    "polyval",
    "reciprocal_no_nan",
    "resource_variables_enabled",
    "scalar_summary",
]


def log_sigmoid(x: TensorLike, name: str | None = None) -> Tensor:
    """Return log(1 / (1 + exp(-x))), without overflow."""
    with name_scope(name, "LogSigmoid", [x]) as scope:
        return raw_ops.Neg(raw_ops.Softplus(raw_ops.Neg(convert_to_tensor(x))), name=scope)


def polyval(coeffs: list, x: Any, name: str | None = None) -> Tensor:
    """Return the polynomial with the coefficients `coeffs`, the highest power first, at `x`.

    Raises ``ValueError`` for what is no list.
    """
    if not isinstance(coeffs, list):
        raise ValueError(f"Argument coeffs must be list type, got {type(coeffs)}.")
    with name_scope(name, "polyval", [*coeffs, x]):
        x = convert_to_tensor(x, name="x")
        if not coeffs:
            return raw_ops.ZerosLike(x)
        value = convert_to_tensor(coeffs[0], x.dtype.base_dtype)
        for coefficient in coeffs[1:]:
            value = convert_to_tensor(coefficient, x.dtype.base_dtype) + value * x
        return value


def reciprocal_no_nan(x: TensorLike, name: str | None = None) -> Tensor:
    """Return 1 / x, and 0 where x is 0."""
    with name_scope(name, "reciprocal_no_nan", [x]) as scope:
        x = convert_to_tensor(x, name="x")
        return raw_ops.DivNoNan(raw_ops.OnesLike(x), x, name=scope)


# ---------------------------------------------------------------- execution


def disable_eager_execution() -> None:
    """Do nothing: there are graphs only."""


def disable_v2_behavior() -> None:
    """Do nothing: this is the behaviour of 1.x."""


def disable_control_flow_v2() -> None:
    """Do nothing: conditionals and loops are built of the nodes of 1.x."""


def enable_control_flow_v2() -> None:
    """Do nothing: conditionals and loops give the same values in either form."""


def control_flow_v2_enabled() -> bool:
    """Return False: conditionals and loops are built of the nodes of 1.x."""
    return False


def disable_tensor_equality() -> None:
    """Do nothing: ``==`` of tensors is true for the same tensor, as in 1.x."""


def disable_resource_variables() -> None:
    """Make variables resources only where that is asked for, as in the beginning."""
    resources_by_default.enabled = False


def disable_v2_tensorshape() -> None:
    """Do nothing: the dimensions of shapes are Dimensions."""


def enable_resource_variables() -> None:
    """Make variables resources unless ``use_resource`` says otherwise, from here on."""
    resources_by_default.enabled = True


def resource_variables_enabled() -> bool:
    """True if variables are resources by default: see :func:`enable_resource_variables`."""
    return resources_by_default.enabled


def executing_eagerly() -> bool:
    """Return False: there are graphs only."""
    return False


# ---------------------------------------------------------------- summaries of 0.x


def _collected(summary: Tensor, collections: Any) -> Tensor:
    for key in [GraphKeys.SUMMARIES] if collections is None else collections:
        add_to_collection(key, summary)
    return summary


def scalar_summary(tags: TensorLike, values: Sequence[TensorLike],
                   collections: Collections | None = None, name: str | None = None) -> Tensor:
    """Return a summary of real numbers, each with its tag; 1.0 has ``summary.scalar``."""
    return _collected(raw_ops.ScalarSummary(tags=tags, values=values, name=name), collections)


def histogram_summary(tag: TensorLike, values: Sequence[TensorLike],
                      collections: Collections | None = None, name: str | None = None) -> Tensor:
    """Return a summary of the distribution of numbers; 1.0 has ``summary.histogram``."""
    return _collected(raw_ops.HistogramSummary(tag=tag, values=values, name=name), collections)


def image_summary(tag: TensorLike, tensor: TensorLike, max_images: int = 3,
                  collections: Collections | None = None, name: str | None = None) -> Tensor:
    """Return a summary of up to `max_images` images; 1.0 has ``summary.image``."""
    return _collected(raw_ops.ImageSummary(tag=tag, tensor=tensor, max_images=max_images,
                                           name=name), collections)


def audio_summary(tag: TensorLike, tensor: TensorLike, sample_rate: TensorLike,
                  max_outputs: int = 3, collections: Collections | None = None,
                  name: str | None = None) -> Tensor:
    """Return a summary of pieces of audio; 1.0 has ``summary.audio``."""
    return _collected(raw_ops.AudioSummaryV2(
        tag=tag, tensor=tensor, sample_rate=convert_to_tensor(sample_rate, "float32"),
        max_outputs=max_outputs, name=name), collections)


# ---------------------------------------------------------------- sizes, constants or not


def shape_internal(input: TensorLike, name: str | None = None, optimize: bool = True,
                   out_type: DTypeLike = dtypes.int32) -> Tensor:
    """Return the shape of `input`; without `optimize`, by an operation though it be known."""
    return shape(input, name, out_type) if optimize else raw_ops.Shape(
        convert_to_tensor(input), out_type=out_type, name=name)


def size_internal(input: TensorLike, name: str | None = None, optimize: bool = True,
                  out_type: DTypeLike = dtypes.int32) -> Tensor:
    """Return the number of elements of `input`: see :func:`shape_internal`."""
    return size(input, name, out_type) if optimize else raw_ops.Size(
        convert_to_tensor(input), out_type=out_type, name=name)


def rank_internal(input: TensorLike, name: str | None = None, optimize: bool = True) -> Tensor:
    """Return the number of dimensions of `input`: see :func:`shape_internal`."""
    return rank(input, name) if optimize else raw_ops.Rank(convert_to_tensor(input), name=name)
