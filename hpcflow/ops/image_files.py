"""Image files: DecodeJpeg, DecodePng, DecodeGif, DecodeImage, EncodeJpeg, EncodePng."""

from __future__ import annotations

from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation
from hpcflow.graph.shape_inference import show, with_rank


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
not_differentiable("DecodeJpeg", "DecodePng", "DecodeGif", "DecodeImage", "EncodeJpeg", "EncodePng")
