"""Image files: DecodeJpeg, DecodePng, DecodeGif, DecodeImage, EncodeJpeg, EncodePng."""

from __future__ import annotations

from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation
from hpcflow.graph.shape_inference import constant_value, merge_dims, show, with_rank


def _check_contents(op: Operation) -> None:
    if op.input_dims(0):
        raise ValueError(f"contents must be a scalar but has shape {show(op.input_dims(0))}")


def _decoded_shape(op: Operation) -> list[Dims]:
    _check_contents(op)
    channels = op.attr("channels")
    if channels < 0:
        raise ValueError(f"channels must not be negative, got {channels}")
    return [(None, None, channels or None)]


def _animation_shape(op: Operation) -> list[Dims]:
    _check_contents(op)
    return [(None, None, None, 3)]


def _any_shape(op: Operation) -> list[Dims]:
    _check_contents(op)
    return [None if op.attr("expand_animations") else (None, None, op.attr("channels") or None)]


def _encoded_shape(op: Operation) -> list[Dims]:
    with_rank(op.input_dims(0), 3, "image")
    return [()]


def _cropped_shape(op: Operation) -> list[Dims]:
    merge_dims(with_rank(op.input_dims(1), 1, "crop_window"), (4,))
    window = constant_value(op.inputs[1])
    depth = _decoded_shape(op)[0][2]  # type: ignore[index]
    return [(None, None, depth) if window is None else (int(window[2]), int(window[3]), depth)]


def _size_shape(op: Operation) -> list[Dims]:
    _check_contents(op)
    return [(3,)]


register_op("DecodeJpeg", "contents: string", "image: uint8",
            "channels: int = 0; ratio: int = 1; fancy_upscaling: bool = true; "
            "try_recover_truncated: bool = false; acceptable_fraction: float = 1; "
            "dct_method: string = ''", shape=_decoded_shape)
register_op("DecodePng", "contents: string", "image: dtype",
            "channels: int = 0; dtype: {uint8, uint16} = uint8", shape=_decoded_shape)
register_op("DecodeGif", "contents: string", "image: uint8", shape=_animation_shape)
register_op("DecodeImage", "contents: string", "image: dtype",
            "channels: int = 0; dtype: {uint8, uint16, float} = uint8; "
            "expand_animations: bool = true", shape=_any_shape)
register_op("EncodeJpeg", "image: uint8", "contents: string",
            "format: {'', 'grayscale', 'rgb'} = ''; quality: int = 95; "
            "progressive: bool = false; optimize_size: bool = false; "
            "chroma_downsampling: bool = true; density_unit: {'in', 'cm'} = 'in'; "
            "x_density: int = 300; y_density: int = 300; xmp_metadata: string = ''",
            shape=_encoded_shape)
register_op("EncodePng", "image: T", "contents: string",
            "compression: int = -1; T: {uint8, uint16} = uint8", shape=_encoded_shape)
register_op("EncodeJpegVariableQuality", "images: uint8; quality: int32", "contents: string",
            shape=_encoded_shape)
register_op("DecodeAndCropJpeg", "contents: string; crop_window: int32", "image: uint8",
            "channels: int = 0; ratio: int = 1; fancy_upscaling: bool = true; "
            "try_recover_truncated: bool = false; acceptable_fraction: float = 1; "
            "dct_method: string = ''", shape=_cropped_shape)
register_op("DecodeBmp", "contents: string", "image: uint8", "channels: int = 0",
            shape=_decoded_shape)
register_op("ExtractJpegShape", "contents: string", "image_shape: output_type",
            "output_type: {int32, int64} = int32", shape=_size_shape)
not_differentiable("EncodeJpegVariableQuality", "DecodeAndCropJpeg", "DecodeBmp",
                   "ExtractJpegShape")
not_differentiable("DecodeJpeg", "DecodePng", "DecodeGif", "DecodeImage", "EncodeJpeg", "EncodePng")
