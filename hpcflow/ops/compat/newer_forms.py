"""Op types of later versions, and of graphs that other tools optimized, built of older ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.common.type_sets import INDEX, ORDERED, SUMMED
from hpcflow.ops.compat.imported_forms import stands_for, stands_for_some

__all__: list[str] = []

# ---------------------------------------------------------------- segments


def _any_order(op_type: str) -> Callable[[dict[str, Any], list[Tensor]], Any]:
    return lambda attrs, inputs: getattr(raw_ops, op_type)(*inputs)


for _name, _types in (("Sum", SUMMED), ("Prod", SUMMED), ("Max", ORDERED), ("Min", ORDERED)):
    stands_for(f"Segment{_name}V2", "data: T; segment_ids: Tindices; num_segments: Tnumsegments",
               "output: T", f"T: {_types}; Tindices: {INDEX}; Tnumsegments: {INDEX} = int32",
               _any_order(f"UnsortedSegment{_name}"))

# ---------------------------------------------------------------- generators in variables


def _part(state: Tensor, start: int, size: int) -> Tensor:
    part = raw_ops.Slice(state, np.array([start], np.int32), np.array([size], np.int32))
    return raw_ops.Bitcast(part, type=dtypes.uint64)


def _drawn(op_type: str) -> Callable[[dict[str, Any], list[Tensor]], Any]:
    """Numbers of the part of a sequence that the state of a variable is moved over."""

    def build(attrs: dict[str, Any], inputs: list[Tensor]) -> Tensor:
        resource, algorithm, shape, *bounds = inputs
        algorithm = raw_ops.Cast(algorithm, DstT=dtypes.int32)
        count = raw_ops.Cast(raw_ops.Prod(shape, np.int32(0)), DstT=dtypes.uint64)
        state = raw_ops.RngReadAndSkip(resource, algorithm, count)
        kind = {} if bounds else {"dtype": attrs["dtype"]}
        return getattr(raw_ops, op_type)(shape, _part(state, 2, 1), _part(state, 0, 2), algorithm,
                                         *bounds, **kind)

    return build


_FLOATS = "{half, bfloat16, float, double} = float"
_WHOLE = "{int32, int64, uint32, uint64}"
for _op_type, _keyed, _bounds, _types in (
        ("StatefulUniform", "RandomUniform", "", _FLOATS),
        ("StatefulStandardNormalV2", "RandomNormal", "", _FLOATS),
        ("StatefulTruncatedNormal", "TruncatedNormal", "", _FLOATS),
        ("StatefulUniformFullInt", "RandomUniformFullInt", "", f"{_WHOLE} = uint64"),
        ("StatefulUniformInt", "RandomUniformInt", "; minval: dtype; maxval: dtype",
         f"{_WHOLE} = int64")):
    stands_for(_op_type, f"resource: resource; algorithm: int64; shape: shape_dtype{_bounds}",
               "output: dtype", f"dtype: {_types}; shape_dtype: {INDEX} = int64",
               _drawn(f"Stateless{_keyed}V2"), stateful=True)

# ---------------------------------------------------------------- products with what follows

_ACTIVATIONS: dict[bytes, Callable[[Tensor, dict[str, Any]], Tensor]] = {
    b"Identity": lambda x, attrs: x,
    b"Relu": lambda x, attrs: raw_ops.Relu(x),
    b"Relu6": lambda x, attrs: raw_ops.Relu6(x),
    b"Elu": lambda x, attrs: raw_ops.Elu(x),
    b"Tanh": lambda x, attrs: raw_ops.Tanh(x),
    b"Sigmoid": lambda x, attrs: raw_ops.Sigmoid(x),
    b"LeakyRelu": lambda x, attrs: raw_ops.LeakyRelu(x, alpha=attrs["leakyrelu_alpha"]),
    b"GeluExact": lambda x, attrs: _gelu(x, raw_ops.Erf(raw_ops.Mul(x, _of(x, 0.5 ** 0.5)))),
    b"GeluApproximate": lambda x, attrs: _gelu(x, raw_ops.Tanh(raw_ops.Mul(
        raw_ops.Add(x, raw_ops.Mul(raw_ops.Mul(x, raw_ops.Mul(x, x)), _of(x, 0.044715))),
        _of(x, (2 / np.pi) ** 0.5)))),
}


def _of(x: Tensor, number: float) -> np.ndarray:
    return np.array(number, x.dtype.base_dtype.np)


def _gelu(x: Tensor, part: Tensor) -> Tensor:
    return raw_ops.Mul(raw_ops.Mul(x, _of(x, 0.5)), raw_ops.Add(part, _of(x, 1.0)))


def _followed(attrs: dict[str, Any], x: Tensor, args: list[Tensor]) -> Tensor:
    """`x` after the ops of the attribute ``fused_ops``, whose other inputs are `args`."""
    layout = {"data_format": attrs["data_format"]} if "data_format" in attrs else {}
    args = list(args)
    for name in attrs["fused_ops"]:
        if name == b"BiasAdd":
            x = raw_ops.BiasAdd(x, args.pop(0), **layout)
        elif name == b"Add":
            x = raw_ops.Add(x, args.pop(0))
        elif name == b"FusedBatchNorm":
            x = raw_ops.FusedBatchNormV3(x, *args[:4], epsilon=attrs["epsilon"], is_training=False,
                                         **layout)[0]
            del args[:4]
        elif name in _ACTIVATIONS:
            x = _ACTIVATIONS[name](x, attrs)
        else:
            raise ValueError(f"Unknown op among fused_ops {attrs['fused_ops']}: {name.decode()}")
    if args:
        raise ValueError(f"fused_ops {attrs['fused_ops']} leave {len(args)} of num_args inputs")
    return x


def _fused(op_type: str, taken: tuple[str, ...]) -> Callable[[dict[str, Any], list[Tensor]], Any]:

    def build(attrs: dict[str, Any], inputs: list[Tensor]) -> Tensor:
        made = getattr(raw_ops, op_type)(*inputs[:2], **{name: attrs[name] for name in taken})
        return _followed(attrs, made, inputs[2 : 2 + attrs["num_args"]])

    return build


def _fused_batch_norm(attrs: dict[str, Any], inputs: list[Tensor]) -> list[Tensor]:
    names = ("epsilon", "data_format", "is_training")
    y, *others = raw_ops.FusedBatchNormV3(*inputs[:5], **{name: attrs[name] for name in names})
    for side in inputs[5:]:
        y = raw_ops.Add(y, side)
    return [_ACTIVATIONS[attrs["activation_mode"]](y, attrs), *others]


_ARGS = "args: num_args * T"
_FUSED = ("fused_ops: list(string) = []; epsilon: float = 0.0001; leakyrelu_alpha: float = 0.2; "
          "num_args: int >= 0; num_host_args: int = 0; TArgs: list(type) = []")
_GRID = ("strides: list(int); padding: {'SAME', 'VALID', 'EXPLICIT'}; "
         "explicit_paddings: list(int) = []; data_format: string = 'NHWC'; "
         "dilations: list(int) = [1, 1, 1, 1]; use_cudnn_on_gpu: bool = true; "
         "filter_format: string = 'HWIO'")
_FORMAT = ("strides", "padding", "data_format", "dilations", "explicit_paddings")
stands_for("_FusedConv2D", f"input: T; filter: T; {_ARGS}", "output: T",
           f"T: {{half, float, double}}; {_FUSED}; {_GRID}", _fused("Conv2D", _FORMAT))
stands_for("_FusedDepthwiseConv2dNative", f"input: T; filter: T; {_ARGS}", "output: T",
           f"T: {{half, float, double}}; {_FUSED}; {_GRID}",
           _fused("DepthwiseConv2dNative", _FORMAT[:4]))
stands_for("_FusedMatMul", f"a: T; b: T; {_ARGS}", "product: T",
           f"transpose_a: bool = false; transpose_b: bool = false; T: {{half, float, double}}; "
           f"{_FUSED}", _fused("MatMul", ("transpose_a", "transpose_b")))
stands_for("_FusedBatchNormEx", "x: T; scale: U; offset: U; mean: U; variance: U; "
           "side_input: num_side_inputs * T",
           "y: T; batch_mean: U; batch_variance: U; reserve_space_1: U; reserve_space_2: U; "
           "reserve_space_3: U", "T: {half, bfloat16, float}; U: {float}; epsilon: float = 0.0001; "
           "num_side_inputs: int = 0; activation_mode: string = 'Identity'; "
           "data_format: string = 'NHWC'; is_training: bool = true", _fused_batch_norm)

# ---------------------------------------------------------------- batch normalization

_VOLUMES = {b"NDHWC": (b"NHWC", [0, -1, 3, 4]), b"NCDHW": (b"NCHW", [0, 1, -1, 4])}
_NORM_ATTRS = ("epsilon", "data_format", "is_training")


def _as_images(x: Tensor, places: list[int]) -> Tensor:
    """A batch of volumes with depth and height as one dimension, which is not among `places`."""
    shape = raw_ops.Shape(x)
    sizes = [np.array([-1], np.int32) if i < 0 else raw_ops.Slice(
        shape, np.array([i], np.int32), np.array([1], np.int32)) for i in places]
    return raw_ops.Reshape(x, raw_ops.ConcatV2(sizes, np.int32(0)))


def _norm_of_volumes(op_type: str, images: int) -> Callable[[dict[str, Any], list[Tensor]], Any]:
    """The op of images, of which the first inputs are; the first output has their shape."""

    def build(attrs: dict[str, Any], inputs: list[Tensor]) -> list[Tensor]:
        layout, places = _VOLUMES[attrs["data_format"]]
        given = {name: attrs[name] for name in _NORM_ATTRS} | {"data_format": layout}
        merged = [_as_images(x, places) for x in inputs[:images]]
        first, *others = getattr(raw_ops, op_type)(*merged, *inputs[images:], **given)
        whole = raw_ops.Reshape(first, raw_ops.Shape(inputs[0]))
        whole.set_shape(inputs[0].get_shape())
        return [whole, *_averaged(attrs, inputs, others)]

    return build


def _averaged(attrs: dict[str, Any], inputs: list[Tensor], others: list[Tensor]) -> list[Tensor]:
    """The outputs behind the first, the statistics averaged with those that came in."""
    factor = np.float32(attrs.get("exponential_avg_factor", 1.0))
    if factor == 1 or not attrs["is_training"]:
        return others
    found = [raw_ops.Add(raw_ops.Mul(old, _of(old, 1 - factor)), raw_ops.Mul(new, _of(new, factor)))
             for old, new in zip(inputs[3:5], others, strict=False)]
    return [*found, *others[2:]]


def _norm(attrs: dict[str, Any], inputs: list[Tensor]) -> list[Tensor]:
    if attrs["data_format"] in _VOLUMES:
        return _norm_of_volumes("FusedBatchNormV3", 1)(attrs, inputs)
    first, *others = raw_ops.FusedBatchNormV3(*inputs, **{n: attrs[n] for n in _NORM_ATTRS})
    return [first, *_averaged(attrs, inputs, others)]


stands_for_some("FusedBatchNormV3", lambda attrs: attrs["data_format"] in _VOLUMES or (
    attrs["is_training"] and attrs["exponential_avg_factor"] != 1), _norm)
stands_for_some("FusedBatchNormGradV3", lambda attrs: attrs["data_format"] in _VOLUMES,
                _norm_of_volumes("FusedBatchNormGradV3", 2))

# ---------------------------------------------------------------- others


def _adjusted(op_type: str) -> Callable[[dict[str, Any], list[Tensor]], Any]:

    def build(attrs: dict[str, Any], inputs: list[Tensor]) -> Tensor:
        wide = raw_ops.Cast(inputs[0], DstT=dtypes.float32)
        return raw_ops.Cast(getattr(raw_ops, op_type)(wide, inputs[1]), DstT=dtypes.float16)

    return build


for _op_type in ("AdjustHue", "AdjustSaturation", "AdjustContrastv2"):
    stands_for_some(_op_type, lambda attrs: attrs["T"] is dtypes.float16, _adjusted(_op_type))


def _top_k(attrs: dict[str, Any], inputs: list[Tensor]) -> list[Tensor]:
    values, places = raw_ops.TopKV2(inputs[0], raw_ops.Cast(inputs[1], DstT=dtypes.int32),
                                    sorted=attrs["sorted"])
    return [values, raw_ops.Cast(places, DstT=attrs["index_type"])]


stands_for_some("TopKV2", lambda attrs: {attrs["Tk"], attrs["index_type"]} != {dtypes.int32},
                _top_k)
stands_for("CheckNumericsV2", "tensor: T", "output: T",
           "T: {half, bfloat16, float, double}; message: string",
           lambda attrs, inputs: raw_ops.CheckNumerics(inputs[0], message=attrs["message"]))


def _list_concat(attrs: dict[str, Any], inputs: list[Tensor]) -> Any:
    dims = attrs["element_shape"]._dims
    known = np.array(-1 if dims is None else [-1 if d is None else d for d in dims], np.int32)
    return raw_ops.TensorListConcatV2(inputs[0], known, np.zeros(0, np.int64),
                                      element_dtype=attrs["element_dtype"])


stands_for("TensorListConcat", "input_handle: variant", "tensor: element_dtype; lengths: int64",
           "element_dtype: type; element_shape: shape = unknown", _list_concat)
stands_for("TensorListScatter",
           "tensor: element_dtype; indices: int32; element_shape: shape_type",
           "output_handle: variant", f"element_dtype: type; shape_type: {INDEX}",
           lambda attrs, inputs: raw_ops.TensorListScatterV2(*inputs, np.int32(-1)))
