"""Frames: overlapping pieces of a signal, and their sum."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import constant_value
from hpcflow.ops.arrays.casting import cast
from hpcflow.signal.unknown_sizes import over_last


def frame(signal: TensorLike, frame_length: TensorLike, frame_step: TensorLike,
          pad_end: Any = False, pad_value: Any = 0, axis: int = -1,
          name: str | None = None) -> Tensor:
    """Return pieces of `signal` along a dimension, which becomes two: the frames, their samples.

    Args:
        signal: ``[..., samples, ...]`` of rank 1 at least.
        frame_length: samples of a frame, a scalar integer.
        frame_step: samples from the beginning of a frame to that of the next.
        pad_end: begin a frame at every step within the signal, followed by `pad_value`; else only
            whole frames are returned.
        pad_value: what follows the signal.
        axis: the dimension.
        name: name of the scope.

    Raises:
        ValueError: for an `axis` that is out of range, and for lengths and a `pad_value` that are
            no scalars.
    """
    with name_scope(name, "frame", [signal, frame_length, frame_step, pad_value]):
        signal = convert_to_tensor(signal, name="signal")
        length, step = _scalar(frame_length, "frame_length"), _scalar(frame_step, "frame_step")
        rank = signal.get_shape().ndims
        if rank is None:
            return _frames_of_any(signal, length, step, pad_end, pad_value, axis)
        if not -rank <= axis < rank:
            raise ValueError(f"axis {axis} is out of range for a signal of rank {rank}")
        axis %= rank
        size = _size(signal, axis)
        known = _known_count(signal.get_shape().as_list()[axis], length, step, pad_end)
        if pad_end:
            count = raw_ops.Neg(raw_ops.FloorDiv(raw_ops.Neg(size), step))
            signal = _padded(signal, axis, size, _end(count, length, step), pad_value)
            # With the values that follow, all of them are whole.
        else:
            count = raw_ops.Add(raw_ops.FloorDiv(raw_ops.Sub(size, length), step), np.int32(1))
        count = raw_ops.Maximum(count, np.int32(0))
        starts = raw_ops.ExpandDims(raw_ops.Mul(_range(count), step), np.int32(1))
        places = raw_ops.Add(starts, raw_ops.ExpandDims(_range(length), np.int32(0)))
        places.set_shape([known, constant_value(length)])
        return raw_ops.GatherV2(signal, places, np.int32(axis))


def _frames_of_any(signal: Tensor, length: Tensor, step: Tensor, pad_end: Any, pad_value: Any,
                   axis: int) -> Tensor:
    """Return the frames of a signal of unknown rank: with one dimension before, and one behind."""
    dims: Any = raw_ops.Shape(signal)
    before, after = dims[:axis], dims[:0] if axis == -1 else dims[axis + 1:]
    sides = [raw_ops.Prod(part, np.int32(0)) for part in (before, after)]
    flat = raw_ops.Reshape(signal, raw_ops.Pack([sides[0], dims[axis], sides[1]]))
    made = frame(flat, length, step, pad_end, pad_value, axis=1)
    count: Any = raw_ops.Shape(made)
    return raw_ops.Reshape(made, raw_ops.ConcatV2([before, count[1:3], after], np.int32(0)))


def _known_count(size: int | None, length: Tensor, step: Tensor, pad_end: bool) -> int | None:
    """Return the number of frames in a signal of `size` samples; None if it is not constant."""
    each, every = constant_value(length), constant_value(step)
    if size is None or each is None or every is None:
        return None
    if pad_end:
        return -(-size // int(every))
    return max(0, 1 + (size - int(each)) // int(every))


def overlap_and_add(signal: TensorLike, frame_step: TensorLike, name: str | None = None) -> Tensor:
    """Return the sum of frames, each `frame_step` samples after the one before.

    Args:
        signal: ``[..., frames, frame_length]``.
        frame_step: a scalar integer.
        name: name of the scope.

    Returns:
        ``[..., (frames - 1) * frame_step + frame_length]``.
    """
    with name_scope(name, "overlap_and_add", [signal, frame_step]):
        signal = convert_to_tensor(signal, name="signal")
        signal.get_shape().with_rank_at_least(2)
        step = convert_to_tensor(frame_step, name="frame_step")
        step.get_shape().assert_has_rank(0)
        if not step.dtype.is_integer:
            raise ValueError(f"frame_step must be an integer but is of {step.dtype.name}")
        whole = cast(step, dtypes.int32)
        return over_last(lambda x: _summed(x, whole), signal, 2)


def _summed(signal: Tensor, step: Tensor) -> Tensor:
    """The sum of frames of known rank."""
    rank = len(signal.get_shape())
    frames, length = _size(signal, rank - 2), _size(signal, rank - 1)
    starts = raw_ops.ExpandDims(raw_ops.Mul(_range(frames), step), np.int32(1))
    places = raw_ops.Add(starts, raw_ops.ExpandDims(_range(length), np.int32(0)))
    first = [rank - 2, rank - 1, *range(rank - 2)]
    rows = raw_ops.Transpose(signal, np.array(first, np.int32))
    end = raw_ops.Add(length, raw_ops.Mul(step, raw_ops.Sub(frames, np.int32(1))))
    summed = raw_ops.UnsortedSegmentSum(rows, places, end)
    summed.set_shape([_known_end(signal, step), *signal.get_shape().as_list()[:-2]])
    return raw_ops.Transpose(summed, np.array([*range(1, rank - 1), 0], np.int32))


def _known_end(signal: Tensor, step: Tensor) -> int | None:
    frames, length = signal.get_shape().as_list()[-2:]
    known = constant_value(step)
    if frames is None or length is None or known is None:
        return None
    return (frames - 1) * int(known) + length


def _end(count: Tensor, length: Tensor, step: Tensor) -> Tensor:
    """Where the last of `count` frames ends."""
    return raw_ops.Add(length, raw_ops.Mul(step, raw_ops.Sub(count, np.int32(1))))


def _padded(signal: Tensor, axis: int, size: Tensor, end: Tensor, value: TensorLike) -> Tensor:
    more = raw_ops.Maximum(raw_ops.Sub(end, size), np.int32(0))
    rank = len(signal.get_shape())
    unit = np.zeros((rank, 2), np.int32)
    unit[axis, 1] = 1
    value = convert_to_tensor(value, signal.dtype.base_dtype)
    value.get_shape().assert_has_rank(0)
    padded = raw_ops.PadV2(signal, raw_ops.Mul(more, unit), value)
    shape = signal.get_shape().as_list()
    shape[axis] = None  # How much is added is computed; the other dimensions stay.
    padded.set_shape(shape)
    return padded


def _size(x: Tensor, axis: int) -> Tensor:
    known = x.get_shape().as_list()[axis]
    if known is not None:
        return convert_to_tensor(np.int32(known))
    return raw_ops.Shape(x)[axis]


def _scalar(value: Any, name: str) -> Tensor:
    value = cast(convert_to_tensor(value, name=name), dtypes.int32)
    value.get_shape().assert_has_rank(0)
    return value


def _range(count: Tensor) -> Tensor:
    return raw_ops.Range(np.int32(0), count, np.int32(1))
