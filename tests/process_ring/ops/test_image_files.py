"""Image files: formats, channels, 16-bit samples, damage."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np
import pytest
from pairs import pairs

import hpcflow as hf
from hpcflow import image, raw_ops
from hpcflow.kernels.image import png

Image = pytest.importorskip("PIL.Image")
RNG = np.random.default_rng(2)


def pixels(dtype, *shape):
    return RNG.integers(0, np.iinfo(dtype).max + 1, shape).astype(dtype)


def smooth(height, width):
    y, x = np.mgrid[:height, :width]
    return np.stack([4 * y + x, 2 * x, 255 - 3 * y], -1).astype("uint8")


def file_of(array, kind, **options):
    target = io.BytesIO()
    Image.fromarray(array).save(target, kind, **options)
    return target.getvalue()


def png16(shape, color, interlaced, rows):
    header = struct.pack(">IIBBBBB", shape[1], shape[0], 16, color, 0, 0, interlaced)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return png.SIGNATURE + b"".join(png._chunk(*c) for c in chunks)


def png8(shape, interlaced, sizes, value):
    """A grey file of this shape, whose passes have these rows and columns of one value."""
    header = struct.pack(">IIBBBBB", shape[1], shape[0], 8, 0, 0, 0, interlaced)
    rows = b"".join((b"\0" + bytes([value]) * w) * h for h, w in sizes)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return png.SIGNATURE + b"".join(png._chunk(*c) for c in chunks)


# ---------------------------------------------------------------- PNG


@pairs(
    ("dtype", ["uint8", "uint16"]),
    ("channels", [1, 2, 3, 4]),
    ("shape", [(7, 5), (1, 1), (1, 9), (9, 1)]),
)
def test_png_without_losses(session, dtype, channels, shape):
    x = pixels(dtype, *shape, channels)
    for compression in (-1, 0, 9):
        y = image.decode_png(image.encode_png(x, compression), dtype=dtype)
        np.testing.assert_array_equal(session.run(y), x)


def test_png_16_is_read_by_others(session):
    """Pillow reads the high bytes of colours, and single channels whole."""
    x = np.add.outer(np.arange(40) * 1500, np.arange(30) * 99)[..., None].astype("uint16")
    data = session.run(image.encode_png(x))
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(data))), x[..., 0])
    color = pixels("uint16", 6, 7, 3)
    data = session.run(image.encode_png(color))
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(data))), color >> 8)


@pytest.mark.parametrize("color, channels", [(0, 1), (2, 3), (4, 2), (6, 4)])
def test_png_filters(session, color, channels):
    """Rows of every filter against the definition, byte by byte."""
    height, width, step = 15, 6, 2 * channels
    raw = pixels("uint8", height, width * step)
    rows = b"".join(bytes([i % 5]) + raw[i].tobytes() for i in range(height))
    expected = np.zeros((height + 1, width * step + step), int)
    for i in range(height):
        for j in range(width * step):
            a, b, c = expected[i + 1, j], expected[i, j + step], expected[i, j]
            nearest = min((abs(b - c), 0, a), (abs(a - c), 1, b), (abs(a + b - 2 * c), 2, c))[2]
            predicted = (0, a, b, (a + b) // 2, nearest)[i % 5]
            expected[i + 1, j + step] = (int(raw[i, j]) + predicted) % 256
    samples = expected[1:, step:].astype("uint8").reshape(-1).view(">u2")
    data = png16((height, width), color, 0, rows)
    y = session.run(image.decode_png(data, dtype=hf.uint16))
    np.testing.assert_array_equal(y, samples.reshape(height, width, channels))


@pytest.mark.parametrize("shape", [(9, 11), (1, 1), (3, 2)])
def test_png_interlaced(session, shape):
    x = pixels("uint16", *shape, 3)
    rows = b"".join(b"\0" + line.astype(">u2").tobytes()
                    for part in png._passes(x, True) for line in part)
    np.testing.assert_array_equal(
        session.run(image.decode_png(png16(shape, 2, 1, rows), dtype=hf.uint16)), x)


@pytest.mark.parametrize("value", [0, 7])
@pytest.mark.parametrize(("interlaced", "sizes"), [
    (0, [(3, 9)]), (1, [(1, 2), (1, 1), (1, 2), (1, 5), (2, 4), (1, 9)])])
def test_png_of_which_rows_are_missing(session, interlaced, sizes, value):
    """They are no black ones, and as many as the file cannot have are not even begun."""
    whole = png8((3, 9), interlaced, sizes, value)
    np.testing.assert_array_equal(session.run(image.decode_png(whole)), np.full((3, 9, 1), value))
    *others, (height, width) = sizes
    cut = png8((3, 9), interlaced, [*others, (height - 1, width)], value)
    with pytest.raises(hf.errors.InvalidArgumentError, match="too few rows"):
        session.run(image.decode_png(cut))
    with pytest.raises(hf.errors.InvalidArgumentError, match="too short for 1048576 x 9 pixels"):
        session.run(image.decode_png(png8((1 << 20, 9), interlaced, sizes, value)))


def test_png_channels(session):
    grey, color = pixels("uint8", 4, 5), pixels("uint8", 4, 5, 3)
    decode = lambda data, channels, **options: session.run(
        image.decode_png(data, channels, **options))
    data = file_of(grey, "PNG")
    np.testing.assert_array_equal(decode(data, 3), np.repeat(grey[..., None], 3, -1))
    np.testing.assert_array_equal(decode(data, 4)[..., 3], np.full((4, 5), 255))
    np.testing.assert_array_equal(decode(data, 1, dtype=hf.uint16)[..., 0], grey * np.uint16(257))
    data = file_of(color, "PNG")
    luma = color @ [0.299, 0.587, 0.114]
    assert np.abs(decode(data, 1)[..., 0] - luma).max() <= 1.01
    np.testing.assert_array_equal(decode(data, 4)[..., :3], color)
    seen = tuple(int(n) for n in color[1, 2])
    hidden = decode(file_of(color, "PNG", transparency=seen), 4)[..., 3] == 0
    np.testing.assert_array_equal(hidden, (color == seen).all(-1))
    wide = pixels("uint16", 3, 4, 3)
    data = session.run(image.encode_png(wide))
    np.testing.assert_array_equal(decode(data, 3), wide >> 8)
    assert decode(data, 4, dtype=hf.uint16)[..., 3].min() == 65535


def test_png_palette(session):
    picture = Image.fromarray(smooth(8, 8)).quantize(16)
    target = io.BytesIO()
    picture.save(target, "PNG")
    np.testing.assert_array_equal(session.run(image.decode_png(target.getvalue())),
                                  np.asarray(picture.convert("RGB")))


# ---------------------------------------------------------------- JPEG, GIF


def test_jpeg(session):
    x = smooth(40, 50)
    data = session.run(image.encode_jpeg(x))
    y, grey, half = session.run([image.decode_jpeg(data), image.decode_jpeg(data, channels=1),
                                 image.decode_jpeg(data, ratio=2)])
    assert np.abs(y.astype(int) - x).mean() < 3
    assert y.shape == x.shape and grey.shape == (40, 50, 1) and half.shape == (20, 25, 3)
    smaller = session.run(image.encode_jpeg(x, quality=20))
    assert len(smaller) < len(data)
    one = session.run(image.encode_jpeg(x[..., :1], "grayscale"))
    assert session.run(image.decode_jpeg(one)).shape == (40, 50, 1)
    assert session.run(image.decode_jpeg(one, channels=3)).shape == (40, 50, 3)


def test_jpeg_metadata(session):
    data = session.run(image.encode_jpeg(smooth(9, 8), density_unit="cm", x_density=7, y_density=9,
                                         xmp_metadata="<x/>", progressive=True,
                                         chroma_downsampling=False))
    info = Image.open(io.BytesIO(data)).info
    assert (info["jfif_unit"], info["jfif_density"]) == (2, (7, 9))
    assert b"<x/>" in data and info["progressive"]


def test_gif(session):
    frames = [Image.fromarray(smooth(6, 7) + np.uint8(40 * i)).quantize(8) for i in range(3)]
    target = io.BytesIO()
    frames[0].save(target, "GIF", save_all=True, append_images=frames[1:])
    data = target.getvalue()
    y = session.run(image.decode_gif(data))
    np.testing.assert_array_equal(y, [np.asarray(f.convert("RGB")) for f in frames])
    assert session.run(image.decode_image(data)).shape == (3, 6, 7, 3)
    first = image.decode_image(data, channels=3, expand_animations=False)
    assert first.shape.as_list() == [None, None, 3]
    np.testing.assert_array_equal(session.run(first), y[0])
    with pytest.raises(hf.errors.InvalidArgumentError, match="3 frames"):
        session.run(image.decode_png(data))


def test_decode_image(session):
    x = smooth(6, 7)
    contents = hf.placeholder(hf.string)
    y = image.decode_image(contents)
    np.testing.assert_array_equal(session.run(y, {contents: file_of(x, "PNG")}), x)
    assert session.run(y, {contents: file_of(x, "JPEG")}).shape == (6, 7, 3)
    with pytest.raises(ValueError, match="channels"):
        image.decode_image(contents, channels=2)
    with pytest.raises(hf.errors.InvalidArgumentError, match="JPEG, PNG, or GIF"):
        session.run(y, {contents: b"BM something else"})


# ---------------------------------------------------------------- damage

_FILES = {
    "DecodeJpeg": file_of(smooth(30, 30), "JPEG"),
    "DecodePng": file_of(smooth(30, 30), "PNG"),
    "DecodeGif": file_of(smooth(30, 30), "GIF"),
    "DecodeImage": png16((4, 4), 2, 0, bytes(4 * 25)),
}  # fmt: skip


@pytest.mark.parametrize("op", _FILES)
def test_files_that_end_early(session, op):
    contents = hf.placeholder(hf.string)
    y = getattr(raw_ops, op)(contents=contents)
    data = _FILES[op]
    session.run(y, {contents: data})
    for size in {0, 1, 4, 11, 20, 40, len(data) // 2, len(data) - 20}:
        with pytest.raises(hf.errors.InvalidArgumentError):
            session.run(y, {contents: data[:size]})


@pytest.mark.parametrize("op", _FILES)
def test_damaged_bytes(session, op):
    """Another byte anywhere gives some image or the right error, nothing else."""
    contents = hf.placeholder(hf.string)
    y = getattr(raw_ops, op)(contents=contents)
    data, rng = _FILES[op], np.random.default_rng(8)
    for at in rng.integers(0, len(data), 60):
        damaged = bytearray(data)
        damaged[at] ^= int(rng.integers(1, 256))
        try:
            assert session.run(y, {contents: bytes(damaged)}).dtype == np.uint8
        except hf.errors.InvalidArgumentError:
            pass


def test_recovery(session):
    data = _FILES["DecodeJpeg"]
    x = image.decode_jpeg(data[:-20], try_recover_truncated=True)
    assert session.run(x).shape == (30, 30, 3)


@pytest.mark.parametrize("build, message", [
    (lambda: image.decode_png([b"a"]), "scalar"),
    (lambda: image.encode_png(np.zeros((2, 2), "uint8")), "rank 3"),
])  # fmt: skip
def test_shapes_that_cannot_be(graph, build, message):
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.parametrize("build, message", [
    (lambda: image.decode_jpeg(b"", ratio=3), "ratio"),
    (lambda: image.decode_jpeg(b"", channels=4), "channels"),
    (lambda: image.decode_png(b"", channels=2), "channels"),
    (lambda: image.encode_jpeg(np.zeros((2, 2, 2), "uint8")), "1 or 3"),
    (lambda: image.encode_jpeg(np.zeros((2, 2, 3), "uint8"), "grayscale"), "1 channels"),
    (lambda: image.encode_jpeg(np.zeros((2, 2, 3), "uint8"), quality=101), "quality"),
    (lambda: image.encode_png(np.zeros((2, 2, 5), "uint8")), "channels"),
    (lambda: image.encode_png(np.zeros((0, 2, 3), "uint8")), "empty"),
    (lambda: image.encode_png(np.zeros((2, 2, 3), "uint8"), 10), "compression"),
])  # fmt: skip
def test_arguments(session, build, message):
    with pytest.raises(hf.errors.InvalidArgumentError, match=message):
        session.run(build())


def test_any_file_with_four_channels():
    x = pixels("uint8", 3, 5, 4)
    with hf.Graph().as_default(), hf.Session() as session:
        read = image.decode_image(file_of(x, "PNG"), channels=4)
        np.testing.assert_array_equal(session.run(read), x)
        with pytest.raises(hf.errors.InvalidArgumentError):
            session.run(image.decode_image(file_of(x[..., :3], "JPEG"), channels=4))
    with pytest.raises(ValueError, match="channels"):
        image.decode_image(b"", channels=2)


# ---------------------------------------------------------------- BMP


@pytest.mark.parametrize("shape", [(2, 3, 1), (3, 5, 3), (1, 1, 4), (4, 2, 4)])
@pytest.mark.parametrize("upwards", [True, False])
def test_bmp(session, shape, upwards):
    value = pixels("uint8", *shape)
    height, width, channels = shape
    order = [2, 1, 0, 3][:channels] if channels > 1 else [0]
    rows = np.zeros((height, -(-width * channels // 4) * 4), np.uint8)
    rows[:, :width * channels] = value[..., order].reshape(height, -1)
    header = struct.pack("<2sIIIIiiHH", b"BM", 0, 0, 54, 40, width, height if upwards else -height,
                         1, 8 * channels).ljust(54, b"\0")
    data = header + (rows[::-1] if upwards else rows).tobytes()
    np.testing.assert_array_equal(session.run(image.decode_bmp(data)), value)
    with pytest.raises(hf.errors.InvalidArgumentError, match="Incomplete bmp content, requires"):
        session.run(image.decode_bmp(data[:54 + width * channels - 1]))
    with pytest.raises(hf.errors.InvalidArgumentError, match="does not match bits per pixel"):
        session.run(image.decode_bmp(data, channels=3 if channels == 1 else 1))


def test_gif_with_colours_that_its_map_has_not(session):
    image_of = Image.fromarray(np.arange(16, dtype=np.uint8).reshape(4, 4), "P")
    image_of.putpalette(list(range(48)))
    target = io.BytesIO()
    image_of.save(target, "GIF", optimize=False)
    data = bytearray(target.getvalue())
    assert session.run(image.decode_gif(bytes(data)))[0, 0, 1].tolist() == [3, 4, 5]
    assert data[10] & 7 == 3  # a map of 16 colours, of which 2 are left
    fewer = bytes([*data[:10], data[10] & 0xF8, *data[11:13 + 6], *data[13 + 48:]])
    with pytest.raises(hf.errors.InvalidArgumentError, match="found color index 2 outside of"):
        session.run(image.decode_gif(fewer))
