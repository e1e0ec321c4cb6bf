"""Networks on quantized integers: products, activations, pooling, and the care for ranges.

Every value comes with the two scalars of its range; results give the range of their own.
"""

from __future__ import annotations

from typing import Any

from hpcflow.dtypes import DType, qint32, quint8
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import broadcast_dims, merge_dim, with_rank
from hpcflow.ops.arrays.joining import joined_dims
from hpcflow.ops.arrays.shape_ops import reshaped_dims
from hpcflow.ops.common.window_shapes import PADDING
from hpcflow.ops.nn.convolution import conv_output
from hpcflow.ops.nn.pooling import pooled_dims
from hpcflow.ops.quantized.quantization import QUANTIZED, check_scalars

__all__ = ["quantized_concat"]

_OUT = "min_out: float; max_out: float"


def _with_range(dims: Dims) -> list[Dims]:
    return [dims, (), ()]


def _matmul_shape(op: Operation) -> list[Dims]:
    a, b = (with_rank(op.input_dims(i), 2, op.op_def.inputs[i].name) for i in (0, 1))
    check_scalars(op, 2, 3, 4, 5)
    if op.attr("transpose_a"):
        a = a[::-1]
    if op.attr("transpose_b"):
        b = b[::-1]
    merge_dim(a[1], b[0])
    return _with_range((a[0], b[1]))


def _conv_shape(op: Operation) -> list[Dims]:
    x, w = (with_rank(op.input_dims(i), 4, op.op_def.inputs[i].name) for i in (0, 1))
    check_scalars(op, 2, 3, 4, 5)
    return _with_range(conv_output(op, x, w))


def _bias_shape(op: Operation) -> list[Dims]:
    with_rank(op.input_dims(1), 1, "bias")
    check_scalars(op, 2, 3, 4, 5)
    return _with_range(op.input_dims(0))


def _elementwise_shape(op: Operation) -> list[Dims]:
    check_scalars(op, 2, 3, 4, 5)
    return _with_range(broadcast_dims(op.input_dims(0), op.input_dims(1)))


def _activation_shape(op: Operation) -> list[Dims]:
    check_scalars(op, *range(1, len(op.inputs)))
    return _with_range(op.input_dims(0))


def _pool_shape(op: Operation) -> list[Dims]:
    check_scalars(op, 1, 2)
    return _with_range(pooled_dims(op, with_rank(op.input_dims(0), 4, "input")))


def _batch_norm_shape(op: Operation) -> list[Dims]:
    dims: Any = with_rank(op.input_dims(0), 4, "t")
    channels = dims[3]
    for index in range(3, 15, 3):
        channels = merge_dim(channels, with_rank(op.input_dims(index), 1, "parameters")[0])
        check_scalars(op, index + 1, index + 2)
    return _with_range((*dims[:3], channels))


def _range_shape(op: Operation) -> list[Dims]:
    check_scalars(op, 1, 2)
    return [(), ()]


def _requantize_shape(op: Operation) -> list[Dims]:
    check_scalars(op, *range(1, len(op.inputs)))
    return _with_range(op.input_dims(0))


def _concat_shape(op: Operation) -> list[Dims]:
    count = op.attr("N")
    check_scalars(op, *range(count + 1, len(op.inputs)))
    return _with_range(joined_dims(op.inputs[0], op.input_arg("values")))


def _reshape_shape(op: Operation) -> list[Dims]:
    check_scalars(op, 2, 3)
    return _with_range(reshaped_dims(op))


register_op("QuantizedMatMul",
            "a: T1; b: T2; min_a: float; max_a: float; min_b: float; max_b: float",
            f"out: Toutput; {_OUT}",
            f"T1: {QUANTIZED}; T2: {QUANTIZED}; Toutput: {QUANTIZED} = qint32; "
            f"transpose_a: bool = false; transpose_b: bool = false; "
            f"Tactivation: {QUANTIZED} = quint8", shape=_matmul_shape)
register_op("QuantizedConv2D",
            "input: Tinput; filter: Tfilter; min_input: float; max_input: float; "
            "min_filter: float; max_filter: float",
            "output: out_type; min_output: float; max_output: float",
            f"Tinput: {QUANTIZED}; Tfilter: {QUANTIZED}; out_type: {QUANTIZED} = qint32; "
            f"strides: list(int); {PADDING}", shape=_conv_shape)
register_op("QuantizedBiasAdd",
            "input: T1; bias: T2; min_input: float; max_input: float; min_bias: float; "
            "max_bias: float", f"output: out_type; {_OUT}",
            f"T1: {QUANTIZED}; T2: {QUANTIZED}; out_type: {QUANTIZED}", shape=_bias_shape)
for _name in ("QuantizedAdd", "QuantizedMul"):
    register_op(_name, "x: T1; y: T2; min_x: float; max_x: float; min_y: float; max_y: float",
                "z: Toutput; min_z: float; max_z: float",
                f"T1: {QUANTIZED}; T2: {QUANTIZED}; Toutput: {QUANTIZED} = qint32",
                shape=_elementwise_shape)
for _name, _limit in (("QuantizedRelu", ""), ("QuantizedRelu6", ""),
                      ("QuantizedReluX", "max_value: float; ")):
    register_op(_name, f"features: Tinput; {_limit}min_features: float; max_features: float",
                "activations: out_type; min_activations: float; max_activations: float",
                f"Tinput: {QUANTIZED}; out_type: {QUANTIZED} = quint8", shape=_activation_shape)
for _name in ("QuantizedMaxPool", "QuantizedAvgPool"):
    register_op(_name, "input: T; min_input: float; max_input: float",
                "output: T; min_output: float; max_output: float",
                f"T: {QUANTIZED}; ksize: list(int); strides: list(int); {PADDING}",
                shape=_pool_shape)
register_op("QuantizedBatchNormWithGlobalNormalization",
            "; ".join(f"{n}: Tinput; {n}_min: float; {n}_max: float"
                      for n in ("t", "m", "v", "beta", "gamma")),
            "result: out_type; result_min: float; result_max: float",
            f"Tinput: {QUANTIZED}; out_type: {QUANTIZED}; variance_epsilon: float; "
            "scale_after_normalization: bool", shape=_batch_norm_shape)
register_op("QuantizedInstanceNorm", "x: T; x_min: float; x_max: float",
            "y: T; y_min: float; y_max: float",
            f"T: {QUANTIZED}; output_range_given: bool = false; given_y_min: float = 0; "
            "given_y_max: float = 0; variance_epsilon: float = 1e-05; "
            "min_separation: float = 0.001", shape=_activation_shape)
register_op("RequantizationRange", "input: Tinput; input_min: float; input_max: float",
            "output_min: float; output_max: float", f"Tinput: {QUANTIZED}", shape=_range_shape)
register_op("QuantizeDownAndShrinkRange", "input: Tinput; input_min: float; input_max: float",
            "output: out_type; output_min: float; output_max: float",
            f"Tinput: {QUANTIZED}; out_type: {QUANTIZED}", shape=_requantize_shape)
register_op("Requantize",
            "input: Tinput; input_min: float; input_max: float; requested_output_min: float; "
            "requested_output_max: float",
            "output: out_type; output_min: float; output_max: float",
            f"Tinput: {QUANTIZED}; out_type: {QUANTIZED}", shape=_requantize_shape)
register_op("QuantizedConcat",
            "concat_dim: int32; values: N * T; input_mins: N * float; input_maxes: N * float",
            "output: T; output_min: float; output_max: float", "N: int >= 2; T: type",
            shape=_concat_shape)
register_op("QuantizedReshape",
            "tensor: T; shape: Tshape; input_min: float; input_max: float",
            "output: T; output_min: float; output_max: float",
            "T: type; Tshape: {int32, int64} = int32", shape=_reshape_shape)
not_differentiable(
    "QuantizedMatMul", "QuantizedConv2D", "QuantizedBiasAdd", "QuantizedAdd", "QuantizedMul",
    "QuantizedRelu", "QuantizedRelu6",
    "QuantizedReluX", "QuantizedMaxPool", "QuantizedAvgPool",
    "QuantizedBatchNormWithGlobalNormalization", "QuantizedInstanceNorm", "RequantizationRange",
    "QuantizeDownAndShrinkRange", "Requantize", "QuantizedConcat", "QuantizedReshape")


def quantized_concat(concat_dim: TensorLike, values: list, input_mins: list, input_maxes: list,
                     name: str | None = None) -> Any:
    """Join quantized `values`, each with its range, along `concat_dim`.

    Returns (output, output_min, output_max); values of smaller ranges are quantized again to the
    common one.
    """
    return raw_ops.QuantizedConcat(concat_dim=concat_dim, values=values, input_mins=input_mins,
                                   input_maxes=input_maxes, name=name)


def quantized_conv2d(input: TensorLike, filter: TensorLike, min_input: TensorLike,
                     max_input: TensorLike, min_filter: TensorLike, max_filter: TensorLike,
                     strides: list[int], padding: str, out_type: DType | None = None,
                     name: str | None = None) -> Any:
    """Convolve quantized `input` [batch, height, width, in] with `filter` [h, w, in, out].

    Returns (output, min_output, max_output), 32-bit integers by default.
    """
    return raw_ops.QuantizedConv2D(
        input=input, filter=filter, min_input=min_input, max_input=max_input,
        min_filter=min_filter, max_filter=max_filter, strides=strides, padding=padding,
        out_type=qint32 if out_type is None else out_type, name=name)


def quantized_max_pool(input: TensorLike, min_input: TensorLike, max_input: TensorLike,
                       ksize: list[int], strides: list[int], padding: str,
                       name: str | None = None) -> Any:
    """The largest quantized value of each window; (output, min_output, max_output)."""
    return raw_ops.QuantizedMaxPool(input=input, min_input=min_input, max_input=max_input,
                                    ksize=ksize, strides=strides, padding=padding, name=name)


def quantized_avg_pool(input: TensorLike, min_input: TensorLike, max_input: TensorLike,
                       ksize: list[int], strides: list[int], padding: str,
                       name: str | None = None) -> Any:
    """The mean quantized value of each window; (output, min_output, max_output)."""
    return raw_ops.QuantizedAvgPool(input=input, min_input=min_input, max_input=max_input,
                                    ksize=ksize, strides=strides, padding=padding, name=name)


def quantized_relu_x(features: TensorLike, max_value: TensorLike, min_features: TensorLike,
                     max_features: TensorLike, out_type: DType | None = None,
                     name: str | None = None) -> tuple[Tensor, ...]:
    """Quantized ``min(max(features, 0), max_value)``; (activations, min, max)."""
    return raw_ops.QuantizedReluX(
        features=features, max_value=max_value, min_features=min_features,
        max_features=max_features, out_type=quint8 if out_type is None else out_type, name=name)
