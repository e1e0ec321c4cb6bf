"""Short-time spectra of signals, and signals of spectra."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.dtypes import DTypeLike
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import constant_value
from hpcflow.signal.frames import frame, overlap_and_add
from hpcflow.signal.spectral import irfft, rfft
from hpcflow.signal.unknown_sizes import over_last
from hpcflow.signal.windows import hann_window


def stft(signals: TensorLike, frame_length: TensorLike, frame_step: TensorLike,
         fft_length: TensorLike | None = None, window_fn: Callable | None = hann_window,
         pad_end: bool = False, name: str | None = None) -> Tensor:
    """Return the spectra of the frames of signals.

    Args:
        signals: ``[..., samples]``, real.
        frame_length: samples of a frame.
        frame_step: samples from one frame to the next.
        fft_length: of the transforms; the power of two that holds a frame by default.
        window_fn: ``window_fn(frame_length, dtype=dtype)`` gives the weights of a frame; None
            for equal ones.
        pad_end: see :func:`~hpcflow.signal.frame`.
        name: name of the scope.

    Returns:
        Complex ``[..., frames, fft_length // 2 + 1]``.
    """
    with name_scope(name, "stft", [signals, frame_length, frame_step]):
        signals = convert_to_tensor(signals, name="signals")
        signals.get_shape().with_rank_at_least(1)
        frame_length = _scalar(frame_length, "frame_length")
        frames = frame(signals, frame_length, frame_step, pad_end)
        if window_fn is not None:
            frames = raw_ops.Mul(frames, window_fn(frame_length, dtype=frames.dtype))
        return rfft(frames, [_fft_length(fft_length, frame_length)])


def inverse_stft(stfts: TensorLike, frame_length: TensorLike, frame_step: TensorLike,
                 fft_length: TensorLike | None = None, window_fn: Callable | None = hann_window,
                 name: str | None = None) -> Tensor:
    """Return the sum of the signals of spectra, frame by frame.

    The weights of :func:`inverse_stft_window_fn` make it the inverse of :func:`stft`.

    Args:
        stfts: complex ``[..., frames, fft_length // 2 + 1]``.
        frame_length: samples of a frame.
        frame_step: samples from one frame to the next.
        fft_length: of the transforms; the power of two that holds a frame by default.
        window_fn: gives the weights of a frame; None for equal ones.
        name: name of the scope.
    """
    with name_scope(name, "inverse_stft", [stfts]):
        stfts = convert_to_tensor(stfts, name="stfts")
        stfts.get_shape().with_rank_at_least(2)
        frame_length = _scalar(frame_length, "frame_length")
        size = _fft_length(fft_length, frame_length)
        frames = over_last(lambda x: _of_length(x, size, frame_length), irfft(stfts, [size]), 2)
        if window_fn is not None:
            frames = raw_ops.Mul(frames, window_fn(frame_length, dtype=frames.dtype))
        return overlap_and_add(frames, frame_step)


def inverse_stft_window_fn(frame_step: TensorLike, forward_window_fn: Callable = hann_window,
                           name: str | None = None) -> Callable:
    """Return the ``window_fn`` with which :func:`inverse_stft` undoes :func:`stft`.

    Args:
        frame_step: as given to both.
        forward_window_fn: the ``window_fn`` of :func:`stft`.
        name: name of the scope.
    """

    def window(frame_length: TensorLike, dtype: DTypeLike) -> Tensor:
        with name_scope(name, "inverse_stft_window_fn", [forward_window_fn]):
            length, step = _scalar(frame_length, "length"), _scalar(frame_step, "step")
            forward = forward_window_fn(length, dtype=dtype)
            over = raw_ops.Neg(raw_ops.FloorDiv(raw_ops.Neg(length), step))
            more = raw_ops.Sub(raw_ops.Mul(over, step), length)
            squares = raw_ops.Pad(raw_ops.Square(forward),
                                  raw_ops.Mul(more, np.array([[0, 1]], np.int32)))
            parts = raw_ops.Reshape(squares, raw_ops.Pack([over, step]))
            sums = raw_ops.Sum(parts, np.int32(0), True)
            weights = raw_ops.Reshape(raw_ops.Tile(sums, raw_ops.Pack([over, np.int32(1)])),
                                      np.array([-1], np.int32))
            return raw_ops.RealDiv(forward, weights[:length])

    return window


def _of_length(frames: Tensor, size: Tensor, length: Tensor) -> Tensor:
    """`frames` of `size` samples, cut or followed by zeros to `length`."""
    more = raw_ops.Maximum(raw_ops.Sub(length, size), np.int32(0))
    unit = np.zeros((len(frames.get_shape()), 2), np.int32)
    unit[-1, 1] = 1
    dims = frames.get_shape().as_list()[:-1]
    frames = raw_ops.Pad(frames, raw_ops.Mul(more, unit))[..., :length]
    frames.set_shape([*dims, constant_value(length)])
    return frames


def _fft_length(given: Any, frame_length: Tensor) -> Tensor:
    """The length given, or the power of two that holds a frame."""
    if given is not None:
        return _scalar(given, "fft_length")
    known = constant_value(frame_length)
    if known is not None:
        return convert_to_tensor(np.int32(1 << max(int(known) - 1, 0).bit_length()))
    bits = raw_ops.Ceil(raw_ops.RealDiv(raw_ops.Log(raw_ops.Cast(frame_length,
                                                                 DstT=dtypes.float64)),
                                        np.log(2.0)))
    return raw_ops.Cast(raw_ops.Rint(raw_ops.Pow(np.float64(2), bits)), DstT=dtypes.int32)


def _scalar(value: TensorLike, name: str) -> Tensor:
    value = convert_to_tensor(value, name=name)
    value.get_shape().assert_has_rank(0)
    return raw_ops.Cast(value, DstT=dtypes.int32)
