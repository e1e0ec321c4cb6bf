"""Kernels of image files: Pillow reads and writes all but PNG files of 16-bit colours."""

from __future__ import annotations

import functools
import io
import struct
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.errors import UnimplementedError
from hpcflow.kernels.image import png
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown

_MAGIC = {b"\xff\xd8\xff": "JPEG", png.SIGNATURE[:4]: "PNG", b"GIF8": "GIF"}
_END_OF_JPEG = b"\xff\xd9"


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise UnimplementedError(
            None, None, "image files need Pillow: pip install pillow") from None
    return Image


def _format_of(data: bytes) -> str:
    for magic, name in _MAGIC.items():
        if data.startswith(magic):
            return name
    raise invalid(f"Expected image (JPEG, PNG, or GIF), got unknown format starting with "
                  f"{data[:16]!r}")


def _contents(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if np.ndim(value):
        raise invalid(f"contents must be scalar, got shape {shown(np.shape(value))}")
    return bytes(np.asarray(value)[()])


def _opened(data: bytes, kind: str, use: Callable) -> Any:
    """``use(image)`` of a Pillow image; whatever fails in there is a damaged file."""
    opened = _pillow().open
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with opened(io.BytesIO(data), formats=[kind]) as image:
                return use(image)
    except (OSError, ValueError, SyntaxError, EOFError, IndexError, KeyError, struct.error,
            TypeError, AttributeError, OverflowError, MemoryError, ZeroDivisionError) as e:
        raise invalid(f"Invalid {kind} data, size {len(data)}: {e}") from None
    except Exception as e:  # noqa: BLE001 - decompression bombs have a class of their own
        raise invalid(f"Invalid {kind} data, size {len(data)}: {e}") from None


# ---------------------------------------------------------------- reading


def _read_jpeg(data: bytes, channels: int, ratio: int = 1, recover: bool = False) -> np.ndarray:
    """[height, width, channels] of a JPEG file, in 1/ratio of its size."""
    if channels not in (0, 1, 3):
        raise invalid(f"channels must be 0, 1, or 3 for JPEG, got {channels}")

    def use(image: Any) -> np.ndarray:
        mode = "L" if channels == 1 or (channels == 0 and image.mode == "L") else "RGB"
        size = tuple(max(1, n // ratio) for n in image.size)
        image.draft(mode if mode == "L" or image.mode != "CMYK" else None, size)
        return _as_array(image.convert(mode))

    return _opened(data + _END_OF_JPEG if recover else data, "JPEG", use)


def _as_array(image: Any) -> np.ndarray:
    values = np.asarray(image)
    return (values if values.ndim == 3 else values[..., None]).copy()


def _read_png(data: bytes, channels: int, wide: bool) -> np.ndarray:
    """[height, width, channels] of a PNG file, in 8 bits or (`wide`) in 16."""
    if channels not in (0, 1, 3, 4):
        raise invalid(f"channels must be 0, 1, 3, or 4 for PNG, got {channels}")
    try:
        header = png.read_header(data)
        if header.depth == 16:
            values, transparent = png.decode16(data)
            hidden = None if transparent is None else (values == transparent).all(-1)
            values = _with_channels(values, channels, hidden)
            return values if wide else (values >> 8).astype(np.uint8)
        png.check(data)
    except ValueError as e:
        raise invalid(f"Invalid PNG data, size {len(data)}: {e}") from None
    values, hidden = _opened(data, "PNG", functools.partial(_png_samples, data))
    values = _with_channels(values, channels, hidden)
    return values.astype(np.uint16) * 257 if wide else values


def _png_samples(data: bytes, image: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """The samples of a file of up to 8 bits, and which pixels a colour makes transparent."""
    last = image.getpixel((image.width - 1, image.height - 1))
    if image.info.get("interlace") or not np.any(last):  # else Pillow has come to the end
        png.check_rows(data)
    transparent = image.info.get("transparency")
    if image.mode == "P":
        return _as_array(image.convert("RGB" if transparent is None else "RGBA")), None
    if image.mode == "1":
        image = image.convert("L")
    values = _as_array(image)
    if transparent is None or values.shape[-1] % 2 == 0:
        return values, None
    return values, (values == np.asarray(transparent)).all(-1)


def _with_channels(x: np.ndarray, channels: int, hidden: np.ndarray | None) -> np.ndarray:
    """`x` as grey (1), grey and alpha (2), RGB (3) or RGBA (4); 0: as it is."""
    if channels in (0, x.shape[-1]):
        return x
    alpha = x[..., -1:] if x.shape[-1] % 2 == 0 else None
    color = x if alpha is None else x[..., :-1]
    if channels >= 3 and color.shape[-1] == 1:
        color = np.repeat(color, 3, -1)
    elif channels < 3 and color.shape[-1] == 3:
        color = _grey(color)
    if channels % 2:
        return np.ascontiguousarray(color)
    if alpha is None:
        alpha = np.full((*x.shape[:-1], 1), np.iinfo(x.dtype).max, x.dtype)
        if hidden is not None:
            alpha[hidden] = 0
    return np.concatenate([color, alpha], -1)


# The luma of ITU-R BT.601 in parts of 2**15.
_GREY = np.array([9797, 19234, 3737])


def _grey(x: np.ndarray) -> np.ndarray:
    """RGB as grey: truncated for 8 bits, rounded for 16, as PNG decoders do."""
    half = 1 << 14 if x.dtype == np.uint16 else 0
    total = (x.astype(np.int64) * _GREY).sum(-1, keepdims=True)
    return ((total + half) >> 15).astype(x.dtype)


def _read_gif(data: bytes) -> np.ndarray:
    """[frames, height, width, 3]: each frame is drawn onto the one before, the first onto black."""

    def use(image: Any) -> np.ndarray:
        frames = []
        for number in range(image.n_frames):
            image.seek(number)
            _check_colours(image)
            values = np.asarray(image.convert("RGBA"))
            frames.append(values[..., :3] * (values[..., 3:] > 0))
        return np.stack(frames).astype(np.uint8)

    return _opened(data, "GIF", use)


def _check_colours(image: Any) -> None:
    """Refuse a frame of which a pixel has a number that its map of colours has not."""
    if image.mode != "P" or image.palette is None:
        return
    numbers, known = np.unique(np.asarray(image)), len(image.palette.palette) // 3
    wrong = numbers[(numbers >= known) & (numbers != image.info.get("transparency", -1))]
    if len(wrong):
        raise invalid(f"found color index {wrong[0]} outside of color map range {known}")


def _single(data: bytes, channels: int) -> np.ndarray:
    """The one frame of a GIF file."""
    frames = _checked_gif(data, channels)
    if len(frames) != 1:
        raise invalid(f"Got {len(frames)} frames, but animated gifs can only be decoded by "
                      "image.decode_gif or image.decode_image")
    return frames[0]


def _checked_gif(data: bytes, channels: int) -> np.ndarray:
    if channels not in (0, 3):
        raise invalid(f"channels must be 0 or 3 for GIF, got {channels}")
    return _read_gif(data)


def _decode(data: bytes, channels: int, wide: bool = False, ratio: int = 1,
            recover: bool = False) -> np.ndarray:
    """[height, width, channels] of a file of any of the formats."""
    kind = _format_of(data)
    if kind == "PNG":
        return _read_png(data, channels, wide)
    values = _read_jpeg(data, channels, ratio, recover) if kind == "JPEG" else (
        _single(data, channels))
    return values.astype(np.uint16) * 257 if wide else values


@kernel("DecodeJpeg", device="CPU", fresh=True)
def _decode_jpeg(node: KernelNode) -> Callable:
    channels, ratio = node.attr("channels"), node.attr("ratio")
    recover = node.attr("try_recover_truncated")
    if channels not in (0, 1, 3):
        raise invalid(f"channels must be 0, 1, or 3, got {channels}")
    if ratio not in (1, 2, 4, 8):
        raise invalid(f"ratio must be 1, 2, 4, or 8, got {ratio}")
    if node.attr("dct_method") not in (b"", b"INTEGER_FAST", b"INTEGER_ACCURATE"):
        raise invalid("dct_method must be one of ['', 'INTEGER_FAST', 'INTEGER_ACCURATE']")
    return lambda contents: _decode(_contents(contents), channels, ratio=ratio, recover=recover)


@kernel("DecodeAndCropJpeg", device="CPU", fresh=True)
def _decode_part(node: KernelNode) -> Callable:
    """The window is y, x, height, width of the image in the size that is read."""
    decode = _decode_jpeg(node)

    def run(contents: Any, window: Any) -> np.ndarray:
        if np.shape(window) != (4,):
            raise invalid(f"crop_window must have four elements, got shape {shown(window)}")
        y, x, height, width = (int(n) for n in window)
        image = decode(contents)
        if min(y, x) < 0 or min(height, width) <= 0 or (
                y + height > image.shape[0] or x + width > image.shape[1]):
            raise invalid(f"Invalid JPEG data or crop window: {[y, x, height, width]} of an image "
                          f"of {image.shape[0]} x {image.shape[1]}")
        return np.ascontiguousarray(image[y:y + height, x:x + width])

    return run


@kernel("ExtractJpegShape", device="CPU", fresh=True)
def _jpeg_shape(node: KernelNode) -> Callable:
    dtype = node.np_dtype()

    def run(contents: Any) -> np.ndarray:
        data = _contents(contents)
        width, height, mode = _opened(data, "JPEG", lambda image: (*image.size, image.mode))
        return np.array([height, width, 1 if mode == "L" else 3], dtype)

    return run


def _read_bmp(data: bytes) -> np.ndarray:
    """Pixels of 8 bits as they are, whatever the palette says, those of 24 or 32 bits as colours;
    others as the image library has them."""
    if len(data) < 32:
        raise invalid("Incomplete bmp content, requires at least 32 bytes to find the header size, "
                      f"width, height, and bpp, got {len(data)} bytes")
    start, width, height = (int.from_bytes(data[at:at + 4], "little", signed=True)
                            for at in (10, 18, 22))
    size = int.from_bytes(data[28:30], "little") // 8
    if size not in (1, 3, 4):
        return _opened(data, "BMP", lambda image: _as_array(image.convert("RGB")))
    if width <= 0 or not height or start < 0:
        raise invalid(f"a BMP image of {width} x {height} pixels from byte {start} on")
    pitch, rows = -(-size * width // 4) * 4, abs(height)
    needed = start + pitch * (rows - 1) + size * width
    if len(data) < needed:
        raise invalid(f"Incomplete bmp content, requires at least {needed} bytes, got {len(data)}")
    lines = np.frombuffer(data.ljust(start + pitch * rows, b"\0"), np.uint8, pitch * rows, start)
    pixels = lines.reshape(rows, pitch)[:, :size * width].reshape(rows, width, size)
    colours = pixels[..., [2, 1, 0, 3][:size] if size > 1 else [0]]
    return np.ascontiguousarray(colours[::-1] if height > 0 else colours)


@kernel("DecodeBmp", device="CPU", fresh=True)
def _decode_bmp(node: KernelNode) -> Callable:
    channels = node.attr("channels")
    if channels not in (0, 1, 3, 4):
        raise invalid(f"channels must be 0, 1, 3 or 4, got {channels}")

    def run(contents: Any) -> np.ndarray:
        data = _contents(contents)
        image = _read_bmp(data)
        if channels not in (0, image.shape[-1]):
            raise invalid(f"channels attribute {channels} does not match bits per pixel from "
                          f"file {image.shape[-1]}")
        return image

    return run


@kernel("DecodePng", device="CPU", fresh=True)
def _decode_png(node: KernelNode) -> Callable:
    channels, wide = node.attr("channels"), node.np_dtype() == np.uint16
    if channels not in (0, 1, 3, 4):
        raise invalid(f"channels must be 0, 1, 3, or 4, got {channels}")
    return lambda contents: _decode(_contents(contents), channels, wide)


@kernel("DecodeGif", device="CPU", fresh=True)
def _decode_gif(node: KernelNode) -> Callable:
    def run(contents: Any) -> np.ndarray:
        data = _contents(contents)
        return _read_gif(data) if _format_of(data) == "GIF" else _decode(data, 3)[None]

    return run


@kernel("DecodeImage", device="CPU", fresh=True)
def _decode_image(node: KernelNode) -> Callable:
    channels, dtype = node.attr("channels"), node.np_dtype()
    expand = node.attr("expand_animations")

    def run(contents: Any) -> np.ndarray:
        data = _contents(contents)
        if _format_of(data) == "GIF":
            frames = _checked_gif(data, channels)
            values = frames if expand else frames[0]
            values = values.astype(np.uint16) * 257 if dtype == np.uint16 else values
        else:
            values = _decode(data, channels, dtype == np.uint16)
        return values if dtype != np.float32 else values.astype(dtype) / dtype.type(255)

    return run


# ---------------------------------------------------------------- writing


def _check_image(image: Any, channels: tuple[int, ...]) -> None:
    if image.ndim != 3 or image.shape[2] not in channels:
        raise invalid(f"image must be 3-dimensional with {' or '.join(map(str, channels))} "
                      f"channels, got shape {shown(image)}")
    if not image.size:
        raise invalid(f"image must not be empty, got shape {shown(image)}")
    if max(image.shape) >= 1 << 27:
        raise invalid(f"image is too large: {shown(image)}")


def _written(image: np.ndarray, kind: str, **options: Any) -> bytes:
    """A file of uint8 samples [height, width, channels], by Pillow."""
    values = np.ascontiguousarray(image[..., 0] if image.shape[2] == 1 else image)
    target = io.BytesIO()
    _pillow().fromarray(values).save(target, kind, **options)
    return target.getvalue()


_JPEG_CHANNELS = {b"": (1, 3), b"grayscale": (1,), b"rgb": (3,)}
_XMP = b"http://ns.adobe.com/xap/1.0/\0"


@kernel("EncodeJpeg", device="CPU", fresh=True)
def _encode_jpeg(node: KernelNode) -> Callable:
    channels, quality = _JPEG_CHANNELS[node.attr("format")], node.attr("quality")
    if not 0 <= quality <= 100:
        raise invalid(f"quality must be in [0,100], got {quality}")
    options = {"quality": max(1, quality), "progressive": node.attr("progressive"),
               "optimize": node.attr("optimize_size"),
               "subsampling": 2 if node.attr("chroma_downsampling") else 0}
    unit = 1 if node.attr("density_unit") == b"in" else 2
    density = struct.pack(">BHH", unit, node.attr("x_density"), node.attr("y_density"))
    xmp = node.attr("xmp_metadata")
    if len(xmp) > 65500:
        raise invalid(f"xmp_metadata must fit into a segment of 64 KiB, got {len(xmp)} bytes")
    segment = b"\xff\xe1" + struct.pack(">H", 2 + len(_XMP) + len(xmp)) + _XMP + xmp

    def run(image: Any) -> bytes:
        _check_image(image, channels)
        if max(image.shape) > 65500:
            raise invalid(f"a JPEG image has 65500 rows and columns at most, got "
                          f"{shown(image)}")
        data = _written(image, "JPEG", **options)
        # The JFIF segment comes first: marker, length, name, version, then the density.
        return data[:13] + density + data[18:20] + (segment if xmp else b"") + data[20:]

    return run


@kernel("EncodeJpegVariableQuality", device="CPU", fresh=True)
def _encode_jpeg_of_quality(node: KernelNode) -> Callable:
    def run(image: Any, quality: Any) -> bytes:
        if np.ndim(quality) or not 0 <= quality <= 100:
            raise invalid(f"quality must be a scalar in [0,100], got {quality}")
        _check_image(image, (1, 3))
        return _written(image, "JPEG", quality=max(1, int(quality)), subsampling=2)

    return run


@kernel("EncodePng", device="CPU", fresh=True)
def _encode_png(node: KernelNode) -> Callable:
    level = node.attr("compression")
    if not -1 <= level <= 9:
        raise invalid(f"compression should be in [-1,9], got {level}")

    def run(image: Any) -> bytes:
        _check_image(image, (1, 2, 3, 4))
        if image.dtype == np.uint16:
            return png.encode16(image, level)
        return _written(image, "PNG", compress_level=level)

    return run
