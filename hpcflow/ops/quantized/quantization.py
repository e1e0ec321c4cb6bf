"""Quantization: floats as integers with a range, and fake quantization for training."""

from __future__ import annotations

from typing import Any

from hpcflow.base.keywords import also_ordered
from hpcflow.dtypes import DType
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.opdef import RegisterGradient, not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import merge_dims, unchanged, with_rank, with_rank_at_least

__all__ = [
    "dequantize",
    "fake_quant_with_min_max_args",
    "fake_quant_with_min_max_args_gradient",
    "fake_quant_with_min_max_vars",
    "fake_quant_with_min_max_vars_gradient",
    "fake_quant_with_min_max_vars_per_channel",
    "fake_quant_with_min_max_vars_per_channel_gradient",
    "quantize_v2",
]

#: The quantized types.
QUANTIZED = "{qint8, quint8, qint16, quint16, qint32}"
_MODE = "mode: {'MIN_COMBINED', 'MIN_FIRST'} = 'MIN_COMBINED'"


def check_scalars(op: Operation, *indices: int) -> None:
    """``ValueError`` unless the inputs at `indices` may be scalars."""
    for index in indices:
        with_rank(op.input_dims(index), 0, f"input {index}")


def _quantize_shape(op: Operation) -> list[Dims]:
    check_scalars(op, 1, 2)
    return [op.input_dims(0), (), ()]


def _dequantize_shape(op: Operation) -> list[Dims]:
    check_scalars(op, 1, 2)
    return [op.input_dims(0)]


register_op("QuantizeV2", "input: float; min_range: float; max_range: float",
            "output: T; output_min: float; output_max: float", f"T: {QUANTIZED}; {_MODE}",
            shape=_quantize_shape)
register_op("Dequantize", "input: T; min_range: float; max_range: float", "output: float",
            f"T: {QUANTIZED}; {_MODE}", shape=_dequantize_shape)
register_op("QuantizeAndDequantize", "input: T", "output: T",
            "signed_input: bool = true; num_bits: int = 8; range_given: bool = false; "
            "input_min: float = 0; input_max: float = 0; T: {float, double}", shape=unchanged)
not_differentiable("QuantizeV2", "Dequantize")


@RegisterGradient("QuantizeAndDequantize")
def _straight_through(op: Operation, grad: Tensor) -> Tensor:
    return grad


def quantize_v2(input: TensorLike, min_range: TensorLike, max_range: TensorLike, T: DType,
                mode: str | None = None, name: str | None = None) -> Any:
    """Quantize float `input` of any shape to the integers of `T`.

    `min_range` and `max_range` (scalars) are the floats that the lowest and the highest integer
    stand for; `mode` is "MIN_COMBINED" or "MIN_FIRST". Returns (output, output_min, output_max);
    the range is widened to one that is not empty. Raises ``InvalidArgumentError`` if `min_range`
    exceeds `max_range`.
    """
    return raw_ops.QuantizeV2(input=input, min_range=min_range, max_range=max_range, T=T,
                              mode=mode or "MIN_COMBINED", name=name)


def dequantize(input: TensorLike, min_range: TensorLike, max_range: TensorLike,
               mode: str | None = None, name: str | None = None) -> Tensor:
    """The float32 numbers that quantized `input`, with the range given, stands for."""
    return raw_ops.Dequantize(input=input, min_range=min_range, max_range=max_range,
                              mode=mode or "MIN_COMBINED", name=name)


# ---------------------------------------------------------------- fake quantization


def _same_pair(op: Operation) -> list[Dims]:
    return [merge_dims(op.input_dims(0), op.input_dims(1))]


def _scalar_range(op: Operation) -> list[Dims]:
    check_scalars(op, 1, 2)
    return [op.input_dims(0)]


def _scalar_range_gradient(op: Operation) -> list[Dims]:
    check_scalars(op, 2, 3)
    return [*_same_pair(op), (), ()]


def _channel_range(op: Operation, first: int, x: Dims) -> tuple[Dims, Dims]:
    """(shape of the inputs, shape of the range) once they agree."""
    dims: Any = with_rank_at_least(x, 1, "inputs")
    channels: Any = (None if dims is None else dims[-1],)
    for index in (first, first + 1):
        channels = merge_dims(channels, with_rank(op.input_dims(index), 1, "min and max"))
    return (dims if dims is None else (*dims[:-1], channels[0])), channels


def _channels(op: Operation) -> list[Dims]:
    return [_channel_range(op, 1, op.input_dims(0))[0]]


def _channels_gradient(op: Operation) -> list[Dims]:
    dims, channels = _channel_range(op, 2, _same_pair(op)[0])
    return [dims, channels, channels]


_X = "inputs: float"
_RANGE = "min: float; max: float"
_LEVELS = "num_bits: int = 8; narrow_range: bool = false"
_FIXED = f"min: float = -6; max: float = 6; {_LEVELS}"
_BACK = "backprops_wrt_input: float; backprop_wrt_min: float; backprop_wrt_max: float"
register_op("FakeQuantWithMinMaxArgs", _X, "outputs: float", _FIXED, shape=unchanged)
register_op("FakeQuantWithMinMaxArgsGradient", f"gradients: float; {_X}", "backprops: float",
            _FIXED, shape=_same_pair)
register_op("FakeQuantWithMinMaxVars", f"{_X}; {_RANGE}", "outputs: float", _LEVELS,
            shape=_scalar_range)
register_op("FakeQuantWithMinMaxVarsGradient", f"gradients: float; {_X}; {_RANGE}", _BACK, _LEVELS,
            shape=_scalar_range_gradient)
register_op("FakeQuantWithMinMaxVarsPerChannel", f"{_X}; {_RANGE}", "outputs: float", _LEVELS,
            shape=_channels)
register_op("FakeQuantWithMinMaxVarsPerChannelGradient", f"gradients: float; {_X}; {_RANGE}",
            _BACK, _LEVELS, shape=_channels_gradient)
not_differentiable("FakeQuantWithMinMaxArgsGradient", "FakeQuantWithMinMaxVarsGradient",
                   "FakeQuantWithMinMaxVarsPerChannelGradient")


def _levels(op: Operation) -> dict[str, Any]:
    return {"num_bits": op.attr("num_bits"), "narrow_range": op.attr("narrow_range")}


@RegisterGradient("FakeQuantWithMinMaxArgs")
def _args_grad(op: Operation, grad: Tensor) -> Tensor:
    return fake_quant_with_min_max_args_gradient(grad, op.inputs[0], op.attr("min"),
                                                 op.attr("max"), **_levels(op))


@RegisterGradient("FakeQuantWithMinMaxVars")
def _vars_grad(op: Operation, grad: Tensor) -> Any:
    x, low, high = op.inputs
    return fake_quant_with_min_max_vars_gradient(grad, x, low, high, **_levels(op))


@RegisterGradient("FakeQuantWithMinMaxVarsPerChannel")
def _channels_grad(op: Operation, grad: Tensor) -> Any:
    x, low, high = op.inputs
    return fake_quant_with_min_max_vars_per_channel_gradient(grad, x, low, high, **_levels(op))


def _options(name: Any, num_bits: Any, narrow_range: Any) -> dict[str, Any]:
    """The keywords; by position, later versions have the name behind the other two."""
    if isinstance(name, int):
        is_narrow = num_bits is True or narrow_range is True
        name, num_bits, narrow_range = (
            narrow_range if isinstance(narrow_range, str) else None, name, is_narrow)
    return {"name": name, "num_bits": num_bits, "narrow_range": narrow_range}


def _given(min: float | None, max: float | None) -> dict[str, float]:
    return {"min": -6.0 if min is None else min, "max": 6.0 if max is None else max}


@also_ordered("num_bits", "narrow_range", "name")
def fake_quant_with_min_max_args(inputs: TensorLike, min: float | None = None,
                                 max: float | None = None, name: str | None = None,
                                 num_bits: int = 8, narrow_range: bool = False) -> Tensor:
    """Round float32 `inputs` to the 2^`num_bits` levels from `min` to `max` (-6 to 6 by default).

    The range is nudged so that 0 is a level. With `narrow_range` the lowest level is not used. The
    gradient passes inside the range only. Raises ``InvalidArgumentError`` unless `min` is below
    `max` and the number of bits from 2 to 16.
    """
    return raw_ops.FakeQuantWithMinMaxArgs(inputs=inputs, **_given(min, max),
                                           **_options(name, num_bits, narrow_range))


@also_ordered("num_bits", "narrow_range", "name")
def fake_quant_with_min_max_args_gradient(gradients: TensorLike, inputs: TensorLike,
                                          min: float | None = None, max: float | None = None,
                                          name: str | None = None, num_bits: int = 8,
                                          narrow_range: bool = False) -> Tensor:
    """The gradient of ``fake_quant_with_min_max_args`` by its inputs."""
    return raw_ops.FakeQuantWithMinMaxArgsGradient(gradients=gradients, inputs=inputs,
                                                   **_given(min, max),
                                                   **_options(name, num_bits, narrow_range))


@also_ordered("num_bits", "narrow_range", "name")
def fake_quant_with_min_max_vars(inputs: TensorLike, min: TensorLike, max: TensorLike,
                                 name: str | None = None, num_bits: int = 8,
                                 narrow_range: bool = False) -> Tensor:
    """Round float32 `inputs` to the levels of a range given by the scalars `min` and `max`.

    Their gradients are the sums of the gradients below and above the range. The other arguments
    are those of ``fake_quant_with_min_max_args``.
    """
    return raw_ops.FakeQuantWithMinMaxVars(inputs=inputs, min=min, max=max,
                                           **_options(name, num_bits, narrow_range))


@also_ordered("num_bits", "narrow_range", "name")
def fake_quant_with_min_max_vars_gradient(gradients: TensorLike, inputs: TensorLike,
                                          min: TensorLike, max: TensorLike, name: str | None = None,
                                          num_bits: int = 8, narrow_range: bool = False) -> Any:
    """The gradients of ``fake_quant_with_min_max_vars`` by inputs, min and max."""
    return raw_ops.FakeQuantWithMinMaxVarsGradient(gradients=gradients, inputs=inputs, min=min,
                                                   max=max,
                                                   **_options(name, num_bits, narrow_range))


@also_ordered("num_bits", "narrow_range", "name")
def fake_quant_with_min_max_vars_per_channel(inputs: TensorLike, min: TensorLike, max: TensorLike,
                                             name: str | None = None, num_bits: int = 8,
                                             narrow_range: bool = False) -> Tensor:
    """The same with a range per index of the last dimension: `min` and `max` are [channels]."""
    return raw_ops.FakeQuantWithMinMaxVarsPerChannel(inputs=inputs, min=min, max=max,
                                                     **_options(name, num_bits, narrow_range))


@also_ordered("num_bits", "narrow_range", "name")
def fake_quant_with_min_max_vars_per_channel_gradient(gradients: TensorLike, inputs: TensorLike,
                                                      min: TensorLike, max: TensorLike,
                                                      name: str | None = None, num_bits: int = 8,
                                                      narrow_range: bool = False) -> Any:
    """The gradients of ``fake_quant_with_min_max_vars_per_channel`` by inputs, min and max."""
    return raw_ops.FakeQuantWithMinMaxVarsPerChannelGradient(
        gradients=gradients, inputs=inputs, min=min, max=max,
        **_options(name, num_bits, narrow_range))
