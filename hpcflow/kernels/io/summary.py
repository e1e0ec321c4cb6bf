"""Kernels of summaries: values as serialized ``Summary`` protobufs."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from hpcflow.kernels.common.text import as_bytes, as_text, texts
from hpcflow.kernels.io import encoding
from hpcflow.kernels.registry import KernelNode, invalid, kernel
from hpcflow.shapes import format_shape


@cache
def _summary_class() -> Any:
    from tensorboard.compat.proto.summary_pb2 import Summary

    return Summary


# ---------------------------------------------------------------- numbers


@kernel("ScalarSummary", device="CPU", fresh=True)
def _scalar(node: KernelNode) -> Callable:
    summary_class = _summary_class()
    if node.static_dims(0) == () and node.static_dims(1) == ():
        return one_scalar

    def scalars(tags: Any, values: Any) -> bytes:
        labels, numbers = texts(tags), np.asarray(values)
        if getattr(tags, "shape", ()) != numbers.shape:
            raise invalid(f"tags and values not the same shape: "
                          f"{format_shape(getattr(tags, 'shape', ()))} != "
                          f"{format_shape(numbers.shape)}")
        summary = summary_class()
        for tag, number in zip(labels, numbers.reshape(-1), strict=True):
            summary.value.add(tag=tag, simple_value=float(number))
        return summary.SerializeToString()

    return scalars


def one_scalar(tag: Any, value: Any) -> bytes:
    """The summary of one number."""
    summary = _summary_class()()
    summary.value.add(tag=as_text(tag), simple_value=float(value))
    return summary.SerializeToString()


def _label(tag: Any) -> str:
    if getattr(tag, "shape", ()):
        raise invalid(f"tags must be scalar, got shape {format_shape(tag.shape)}")
    return as_text(tag)


@kernel("HistogramSummary", device="CPU", fresh=True)
def histogram_of(node: KernelNode) -> Callable:
    """A function of a tag and numbers that returns their summary."""
    summary_class = _summary_class()

    def histogram(tag: Any, values: Any) -> bytes:
        label = _label(tag)
        numbers = np.asarray(values, dtype=np.float64).reshape(-1)
        _check_finite(label, numbers)
        summary = summary_class()
        _fill_histogram(summary.value.add(tag=label).histo, numbers)
        return summary.SerializeToString()

    return histogram


def _check_finite(tag: str, numbers: np.ndarray) -> None:
    if np.isfinite(numbers).all():
        return
    if np.isnan(numbers).any():
        raise invalid(f"Nan in summary histogram for: {tag}")
    raise invalid(f"Infinity in summary histogram for: {tag}")


@cache
def _bucket_limits() -> np.ndarray:
    """Upper ends of the buckets: each 10% wider than the last, from 1e-12 to 1e20, both signs."""
    limits = [1e-12]
    while limits[-1] * 1.1 < 1e20:
        limits.append(limits[-1] * 1.1)
    limits.append(np.finfo(np.float64).max)
    return np.array([-x for x in reversed(limits)] + [0.0] + limits)


def _fill_histogram(histo: Any, numbers: np.ndarray) -> None:
    """Fill a ``HistogramProto``; a run of empty buckets is one."""
    limits = _bucket_limits()
    largest = limits[-1]
    histo.min = numbers.min(initial=largest)
    histo.max = numbers.max(initial=-largest)
    histo.num = numbers.size
    histo.sum = numbers.sum()
    histo.sum_squares = np.dot(numbers, numbers)
    buckets = np.searchsorted(limits, numbers, side="right")
    counts = np.bincount(np.minimum(buckets, limits.size - 1), minlength=limits.size)
    followed_by_empty = (counts == 0) & np.append(counts[1:] == 0, False)
    histo.bucket_limit.extend(limits[~followed_by_empty].tolist())
    histo.bucket.extend(counts[~followed_by_empty].tolist())


# ---------------------------------------------------------------- images and audio


@kernel("ImageSummary", device="CPU", fresh=True)
def _image(node: KernelNode) -> Callable:
    images, bad = images_of(node), node.attr("bad_color")
    return lambda tag, tensor: images(tag, tensor, bad)


def images_of(node: KernelNode) -> Callable:
    """A function of a tag, images and the colour of bad pixels that returns their summary."""
    summary_class, limit = _summary_class(), node.attr("max_images")

    def image(tag: Any, tensor: np.ndarray, bad: np.ndarray) -> bytes:
        label = _label(tag)
        if tensor.ndim != 4 or tensor.shape[3] not in (1, 3, 4):
            raise invalid("Tensor must be 4-D with last dim 1, 3, or 4, not "
                          f"{format_shape(tensor.shape)}")
        if len(bad) < tensor.shape[3]:
            raise invalid(f"bad_color has {len(bad)} channels, the image {tensor.shape[3]}")
        summary = summary_class()
        for i, pixels in enumerate(tensor[:limit]):
            value = summary.value.add(tag=_numbered(label, "image", i, limit)).image
            value.height, value.width, value.colorspace = pixels.shape
            value.encoded_image_string = encoding.png(_as_bytes_per_pixel(pixels, bad))
        return summary.SerializeToString()

    return image


def _numbered(tag: str, kind: str, index: int, limit: int) -> str:
    return f"{tag}/{kind}" if limit == 1 else f"{tag}/{kind}/{index}"


def _as_bytes_per_pixel(pixels: np.ndarray, bad: np.ndarray) -> np.ndarray:
    """Scale a float image to 0..255, ignoring pixels that are not finite: they get a colour."""
    if pixels.dtype == np.uint8:
        return pixels
    values = pixels.astype(np.float32)
    finite = np.isfinite(values).all(axis=2)
    good = values[finite]
    lowest, highest = good.min(initial=np.inf), good.max(initial=-np.inf)
    if lowest < 0:
        largest, span, offset = max(abs(lowest), abs(highest)), 127.0, 128.0
    else:
        largest, span, offset = highest, 255.0, 0.0
    scale = np.float32(0.0 if largest < 1e-6 else span / largest)
    result = np.empty(values.shape, np.uint8)
    result[finite] = (good * scale + np.float32(offset)).astype(np.uint8)
    result[~finite] = bad[: values.shape[2]]
    return result


@kernel("AudioSummary", "AudioSummaryV2", device="CPU", fresh=True)
def audio_of(node: KernelNode) -> Callable:
    """A function of a tag, samples and their rate that returns the summary of the sound."""
    summary_class, limit = _summary_class(), node.attr("max_outputs")
    fixed_rate = node.attr("sample_rate")

    def audio(tag: Any, tensor: np.ndarray, rate: Any = fixed_rate) -> bytes:
        label = _label(tag)
        if tensor.ndim not in (2, 3):
            raise invalid(f"Tensor must be 3-D or 2-D, got: {format_shape(tensor.shape)}")
        summary = summary_class()
        for i, samples in enumerate(tensor[:limit]):
            samples = samples.reshape(samples.shape[0], -1)
            value = summary.value.add(tag=_numbered(label, "audio", i, limit)).audio
            value.sample_rate = float(rate)
            value.length_frames, value.num_channels = samples.shape
            value.content_type = "audio/wav"
            value.encoded_audio_string = encoding.wav(samples, int(rate))
        return summary.SerializeToString()

    return audio


# ---------------------------------------------------------------- tensors


@kernel("TensorSummary", device="CPU", fresh=True)
def _tensor(node: KernelNode) -> Callable:
    name, to_proto = node.name, _tensor_proto_of(node.attr("T"))
    summary_class = _summary_class()

    def tensor(value: Any) -> bytes:
        summary = summary_class()
        added = summary.value.add(node_name=name, tag=name)
        to_proto(value, added.tensor)
        return summary.SerializeToString()

    return tensor


@kernel("TensorSummaryV2", device="CPU", fresh=True)
def tensor_of(node: KernelNode) -> Callable:
    """A function of a tag, a tensor and metadata that returns their summary."""
    to_proto, summary_class = _tensor_proto_of(node.attr("T")), _summary_class()

    def tensor(tag: Any, value: Any, metadata: Any) -> bytes:
        summary = summary_class()
        added = summary.value.add(tag=_label(tag))
        added.metadata.ParseFromString(as_bytes(metadata))
        to_proto(value, added.tensor)
        return summary.SerializeToString()

    return tensor


def _tensor_proto_of(dtype: Any) -> Callable[[Any, Any], None]:
    """A function that fills a TensorProto with a value."""

    def fill(value: Any, proto: Any) -> None:
        array = np.asarray(value, dtype=object if isinstance(value, bytes) else None)
        proto.dtype = dtype.enum
        proto.tensor_shape.SetInParent()
        for size in array.shape:
            proto.tensor_shape.dim.add(size=size)
        if array.dtype == object:
            proto.string_val.extend(array.reshape(-1).tolist())
        else:
            proto.tensor_content = np.ascontiguousarray(array).tobytes()

    return fill


# ---------------------------------------------------------------- merging


@kernel("MergeSummary", device="CPU", fresh=True)
def _merge(node: KernelNode) -> Callable:
    from google.protobuf.message import DecodeError

    summary_class = _summary_class()

    def merge(*inputs: Any) -> bytes:
        merged = summary_class()
        seen: set[str] = set()
        for serialized in inputs:
            for item in np.atleast_1d(np.asarray(serialized, dtype=object)).reshape(-1):
                try:
                    part = summary_class.FromString(item)
                except DecodeError as error:
                    raise invalid(f"Could not parse one of the summary inputs: {error}") from None
                for value in part.value:
                    if value.tag and value.tag in seen:
                        raise invalid(f"Duplicate tag {value.tag} found in summary inputs")
                    seen.add(value.tag)
                merged.MergeFrom(part)
        return merged.SerializeToString()

    return merge
