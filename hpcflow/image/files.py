"""Files: images from and to JPEG and PNG, images from GIF.

Reading and writing needs Pillow (``pip install pillow``).
"""

from __future__ import annotations

import numpy as np

from hpcflow import dtypes
from hpcflow.base.keywords import also_ordered
from hpcflow.dtypes import DTypeLike
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.image.colors import convert_image_dtype
from hpcflow.ops.random.random_ops import random_uniform


def decode_jpeg(contents: TensorLike, channels: int | None = None, ratio: int | None = None,
                fancy_upscaling: bool | None = None, try_recover_truncated: bool | None = None,
                acceptable_fraction: float | None = None, dct_method: str | None = None,
                name: str | None = None) -> Tensor:
    """Return the image of a JPEG file: uint8 ``[height, width, channels]``.

    Args:
        contents: the bytes of the file, a scalar string.
        channels: 0 (default): as in the file; 1: grey; 3: RGB.
        ratio: 1, 2, 4 or 8: read the image in this part of its size.
        fancy_upscaling: kept in the graph; colours are always interpolated.
        try_recover_truncated: read what there is of a file that ends early.
        acceptable_fraction: kept in the graph.
        dct_method: kept in the graph; the accurate integer method is always used.
        name: name of the operation.

    Raises:
        InvalidArgumentError: in the step, for a damaged file.
    """
    return raw_ops.DecodeJpeg(
        contents=contents, channels=channels or 0, ratio=ratio or 1,
        fancy_upscaling=fancy_upscaling is not False,
        try_recover_truncated=bool(try_recover_truncated),
        acceptable_fraction=1.0 if acceptable_fraction is None else acceptable_fraction,
        dct_method=dct_method or "", name=name)


def decode_png(contents: TensorLike, channels: int | None = None, dtype: DTypeLike | None = None,
               name: str | None = None) -> Tensor:
    """Return the image of a PNG file: ``[height, width, channels]``.

    Args:
        contents: the bytes of the file, a scalar string.
        channels: 0 (default): as in the file; 1: grey; 3: RGB; 4: RGBA.
        dtype: uint8 (default) or uint16; samples of the other depth are scaled.
        name: name of the operation.

    Raises:
        InvalidArgumentError: in the step, for a damaged file.
    """
    return raw_ops.DecodePng(contents=contents, channels=channels or 0,
                             dtype=dtypes.uint8 if dtype is None else dtype, name=name)


def decode_gif(contents: TensorLike, name: str | None = None) -> Tensor:
    """Return all frames of a GIF file: uint8 ``[frames, height, width, 3]``.

    Raises:
        InvalidArgumentError: in the step, for a damaged file.
    """
    return raw_ops.DecodeGif(contents=contents, name=name)


@also_ordered("dtype", "name", "expand_animations")
def decode_image(contents: TensorLike, channels: int | None = None, name: str | None = None,
                 dtype: DTypeLike = dtypes.uint8, expand_animations: bool = True) -> Tensor:
    """Return the image of a JPEG, PNG or GIF file: of rank 3, or of rank 4 for GIF.

    Args:
        contents: the bytes of the file, a scalar string.
        channels: 0 (default): as in the file; 1: grey (not of GIF); 3: RGB; 4: RGBA, of PNG only.
        name: name of the operation.
        dtype: element type; others than uint8 as by ``convert_image_dtype``.
        expand_animations: whether all images of a GIF are wanted; without, the first one is, and
            the rank is known to be 3.

    Raises:
        ValueError: for other `channels`.
        InvalidArgumentError: in the step, for a damaged file or another format.
    """
    if channels not in (None, 0, 1, 3, 4):
        raise ValueError(f"channels must be in (None, 0, 1, 3, 4) but is {channels}")
    decoded = raw_ops.DecodeImage(contents=contents, channels=channels or 0,
                                  expand_animations=expand_animations,
                                  name=name or "decode_image")
    return convert_image_dtype(decoded, dtype)


def encode_jpeg(image: TensorLike, format: str | None = None, quality: int | None = None,
                progressive: bool | None = None, optimize_size: bool | None = None,
                chroma_downsampling: bool | None = None, density_unit: str | None = None,
                x_density: int | None = None, y_density: int | None = None,
                xmp_metadata: str | None = None, name: str | None = None) -> Tensor:
    """Return the bytes of a JPEG file, a scalar string.

    Args:
        image: uint8 ``[height, width, channels]`` with 1 or 3 channels.
        format: ``"grayscale"``, ``"rgb"`` or ``""`` (default): by the number of channels.
        quality: 0 to 100 (95 by default).
        progressive: let the image appear in several passes.
        optimize_size: a smaller file, at the cost of time.
        chroma_downsampling: keep a quarter of the colour values (default).
        density_unit: ``"in"`` (default) or ``"cm"``: the unit of the densities.
        x_density: pixels per unit across (300 by default).
        y_density: pixels per unit down (300 by default).
        xmp_metadata: embedded in the file if not empty.
        name: name of the operation.
    """
    return raw_ops.EncodeJpeg(
        image=image, format=format or "", quality=95 if quality is None else quality,
        progressive=bool(progressive), optimize_size=bool(optimize_size),
        chroma_downsampling=chroma_downsampling is not False, density_unit=density_unit or "in",
        x_density=300 if x_density is None else x_density,
        y_density=300 if y_density is None else y_density, xmp_metadata=xmp_metadata or "",
        name=name)


def encode_png(image: TensorLike, compression: int | None = None,
               name: str | None = None) -> Tensor:
    """Return the bytes of a PNG file, a scalar string.

    Args:
        image: uint8 or uint16 ``[height, width, channels]``: grey (1), with alpha (2), RGB (3) or
            RGBA (4).
        compression: 0 (none) to 9 (smallest); -1 (default): the compressor's choice.
        name: name of the operation.
    """
    return raw_ops.EncodePng(image=image, compression=-1 if compression is None else compression,
                             name=name)


def is_jpeg(contents: TensorLike, name: str | None = None) -> Tensor:
    """Return whether the bytes `contents` begin like a JPEG file."""
    with name_scope(name, "is_jpeg", [contents]):
        return raw_ops.Equal(raw_ops.Substr(contents, np.int32(0), np.int32(3)), b"\xff\xd8\xff")


def extract_jpeg_shape(contents: TensorLike, output_type: DTypeLike = dtypes.int32,
                       name: str | None = None) -> Tensor:
    """Return ``[height, width, channels]`` of a JPEG file, of which only the head is read."""
    return raw_ops.ExtractJpegShape(contents=contents, output_type=output_type, name=name)


def decode_and_crop_jpeg(contents: TensorLike, crop_window: TensorLike, channels: int = 0,
                         ratio: int = 1, fancy_upscaling: bool = True,
                         try_recover_truncated: bool = False, acceptable_fraction: float = 1,
                         dct_method: str = "", name: str | None = None) -> Tensor:
    """Return a part of the image of a JPEG file; see :func:`decode_jpeg`.

    Args:
        contents: the bytes of the file, a scalar string.
        crop_window: ``[y, x, height, width]``, int32, of the image after `ratio`.
        channels, ratio, fancy_upscaling, try_recover_truncated, acceptable_fraction, dct_method:
            as of :func:`decode_jpeg`.
        name: name of the operation.
    """
    return raw_ops.DecodeAndCropJpeg(
        contents=contents, crop_window=crop_window, channels=channels, ratio=ratio,
        fancy_upscaling=fancy_upscaling, try_recover_truncated=try_recover_truncated,
        acceptable_fraction=acceptable_fraction, dct_method=dct_method, name=name)


def decode_bmp(contents: TensorLike, channels: int = 0, name: str | None = None) -> Tensor:
    """Return the image of a BMP file: uint8 ``[height, width, channels]``."""
    return raw_ops.DecodeBmp(contents=contents, channels=channels, name=name)


def adjust_jpeg_quality(image: TensorLike, jpeg_quality: TensorLike,
                        name: str | None = None) -> Tensor:
    """Return an image as it is after it was written as JPEG and read again.

    Args:
        image: ``[height, width, channels]``, of 1 or 3 channels.
        jpeg_quality: 0 to 100, a number or a tensor.
        name: name of the scope.
    """
    with name_scope(name, "adjust_jpeg_quality", [image]):
        image = convert_to_tensor(image, name="image")
        channels = image.get_shape().with_rank(3).as_list()[-1]
        bytes_of = convert_image_dtype(image, dtypes.uint8, saturate=True)
        quality = convert_to_tensor(jpeg_quality, dtypes.int32)
        written = raw_ops.EncodeJpegVariableQuality(bytes_of, quality)
        read = decode_jpeg(written, channels=channels)
        return convert_image_dtype(read, image.dtype.base_dtype, saturate=True)


def random_jpeg_quality(image: TensorLike, min_jpeg_quality: int, max_jpeg_quality: int,
                        seed: int | None = None) -> Tensor:
    """Return :func:`adjust_jpeg_quality` by a random quality in
    ``[min_jpeg_quality, max_jpeg_quality)``."""
    if min_jpeg_quality < 0 or max_jpeg_quality < 0 or max(min_jpeg_quality,
                                                           max_jpeg_quality) > 100:
        raise ValueError("jpeg encoding range must be between 0 and 100.")
    if min_jpeg_quality >= max_jpeg_quality:
        raise ValueError("`min_jpeg_quality` must be less than `max_jpeg_quality`.")
    quality = random_uniform([], min_jpeg_quality, max_jpeg_quality, dtypes.int32, seed)
    return adjust_jpeg_quality(image, quality)
