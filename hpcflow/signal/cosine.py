"""Discrete cosine transforms, and the modified one of overlapping frames.

All but the first type come from one real Fourier transform of twice the length (Makhoul, 1980).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.signal.frames import frame, overlap_and_add
from hpcflow.signal.spectral import irfft, rfft
from hpcflow.signal.unknown_sizes import last_size, over_last
from hpcflow.signal.windows import vorbis_window

_INVERSE = {1: 1, 2: 3, 3: 2, 4: 4}


def dct(input: TensorLike, type: int = 2, n: int | None = None, axis: int = -1,
        norm: str | None = None, name: str | None = None) -> Tensor:
    """Return cosine transforms over the last dimension.

    Args:
        input: float32 or float64 ``[..., samples]``.
        type: 1 to 4, as numbered by Wang (1984).
        n: cut the input, or let zeros follow it, to this length; its own must then be known.
        axis: -1.
        norm: None, or ``"ortho"``: scaled so that the transform is orthonormal (types 2 to 4).
        name: name of the scope.

    Raises:
        ValueError: for another type or norm.
        NotImplementedError: for another axis.
    """
    _check(type, n, axis, norm)
    with name_scope(name, "dct", [input]):
        x: Any = convert_to_tensor(input, dtype=_dtype_of(input), name="input")
        if n is not None:
            x = _resized(x, n)
        size = last_size(x)
        if type == 1 and isinstance(size, int) and size < 2:
            raise ValueError("a transform of type 1 needs two samples at least")
        transform = {1: _first, 2: _second, 3: _third, 4: _fourth}[type]
        return over_last(lambda rows: transform(rows, size, norm), x, 1)


def idct(input: TensorLike, type: int = 2, n: int | None = None, axis: int = -1,
         norm: str | None = None, name: str | None = None) -> Tensor:
    """Return the transform that undoes :func:`dct` of `type`.

    Without `norm` the result is larger, by ``2 * samples`` (type 1: ``2 * (samples - 1)``).
    """
    _check(type, n, axis, norm)
    return dct(input, _INVERSE[type], n, axis, norm, name)


def _check(type: int, n: int | None, axis: int, norm: str | None) -> None:
    if type not in _INVERSE:
        raise ValueError(f"Types of cosine transforms are 1 to 4, not {type}")
    if n is not None and n < 1:
        raise ValueError(f"n should be a positive integer but is {n}")
    if axis != -1:
        raise NotImplementedError(f"axis must be -1, got {axis}")
    if norm not in (None, "ortho"):
        raise ValueError(f"Unknown normalization {norm!r}: expected None or 'ortho'")
    if type == 1 and norm == "ortho":
        raise ValueError("Normalization is not supported for transforms of type 1")


def _dtype_of(value: TensorLike) -> Any:
    return None if isinstance(value, Tensor) or getattr(value, "dtype", None) else dtypes.float32


def _resized(x: Any, n: int) -> Tensor:
    size = last_size(x)
    if not isinstance(size, int):
        raise ValueError("the last dimension of the input must be known")
    return x[..., :n] if n <= size else _lengthened(x, n - size)


def _lengthened(x: Tensor, more: Any) -> Tensor:
    """`x` followed by so many zeros."""
    pads = np.zeros((len(x.get_shape()), 2), np.int32)
    pads[-1, 1] = 1
    return raw_ops.Pad(x, raw_ops.Mul(more, pads) if isinstance(more, Tensor) else more * pads)


def _reversed(x: TensorLike) -> Tensor:
    return raw_ops.ReverseV2(x, np.array([-1], np.int32))


def _first(x: Any, size: Any, norm: str | None) -> Tensor:
    """The spectrum of the signal and its mirror image, which is real."""
    both = raw_ops.ConcatV2([x, _reversed(x[..., 1:-1])], np.int32(-1))
    return raw_ops.Real(rfft(both), Tout=x.dtype.base_dtype)


def _second(x: Tensor, size: Any, norm: str | None) -> Tensor:
    spectrum: Any = rfft(x, [2 * size])
    spectrum = spectrum[..., :size]
    result = raw_ops.Real(raw_ops.Mul(spectrum, _turns(x, size, -math.pi, 2)),
                          Tout=x.dtype.base_dtype)
    return result if norm is None else raw_ops.Mul(result, _scales(x, size, 0.25))


def _third(x: Tensor, size: Any, norm: str | None) -> Tensor:
    if norm is not None:
        x = raw_ops.Mul(x, _scales(x, size, 1.0))
    spectrum = raw_ops.Mul(_complex(x), _turns(x, size, math.pi, 2 * size))
    result: Any = irfft(spectrum, [2 * size])
    return result[..., :size]


def _fourth(x: Tensor, size: Any, norm: str | None) -> Tensor:
    """Every second number of a transform of twice the length."""
    both: Any = _second(_lengthened(x, size), 2 * size, None)
    result = both[..., 1::2]
    if norm is None:
        return result
    kind = x.dtype.base_dtype
    if isinstance(size, int):
        return raw_ops.Mul(result, np.asarray(math.sqrt(0.5 / size), kind.np))
    return raw_ops.Mul(result, raw_ops.Cast(_root(0.5, size), DstT=kind))


def _turns(x: Tensor, size: Any, angle: float, scale: Any) -> Any:
    """The complex numbers ``scale * exp(1j * angle * i / (2 * size))`` for i below `size`."""
    wide = x.dtype.base_dtype == dtypes.float64
    if isinstance(size, int):
        kind = np.complex128 if wide else np.complex64
        return (scale * np.exp(1j * (angle / (2 * size)) * np.arange(size))).astype(kind)
    step = raw_ops.RealDiv(np.float64(angle / 2), raw_ops.Cast(size, DstT=dtypes.float64))
    angles = raw_ops.Mul(raw_ops.Cast(_places(size), DstT=dtypes.float64), step)
    turns = raw_ops.Complex(raw_ops.Cos(angles), raw_ops.Sin(angles), Tout=dtypes.complex128)
    turns = raw_ops.Mul(turns, raw_ops.Cast(scale, DstT=dtypes.complex128))
    return turns if wide else raw_ops.Cast(turns, DstT=dtypes.complex64)


def _scales(x: Tensor, size: Any, first: float) -> Any:
    """The numbers ``sqrt(0.5 / size)``, but ``sqrt(first / size)`` at the beginning."""
    kind = x.dtype.base_dtype
    if isinstance(size, int):
        scale = np.full(size, math.sqrt(1 / (2 * size)))
        scale[0] = math.sqrt(first / size)
        return scale.astype(kind.np)
    at_first = raw_ops.Equal(_places(size), np.int32(0))
    parts = [raw_ops.Mul(raw_ops.Cast(where, DstT=dtypes.float64), _root(value, size))
             for where, value in ((at_first, first), (raw_ops.LogicalNot(at_first), 0.5))]
    return raw_ops.Cast(raw_ops.AddN(parts), DstT=kind)


def _places(size: Tensor) -> Tensor:
    return raw_ops.Range(np.int32(0), size, np.int32(1))


def _root(value: float, size: Tensor) -> Tensor:
    return raw_ops.Sqrt(raw_ops.RealDiv(np.float64(value), raw_ops.Cast(size, DstT=dtypes.float64)))


def _complex(x: Tensor) -> Tensor:
    wide = x.dtype.base_dtype == dtypes.float64
    return raw_ops.Cast(x, DstT=dtypes.complex128 if wide else dtypes.complex64)


# ---------------------------------------------------------------- of frames


def mdct(signals: TensorLike, frame_length: TensorLike, window_fn: Callable | None = vorbis_window,
         pad_end: bool = False, norm: str | None = None, name: str | None = None) -> Tensor:
    """Return the modified cosine transforms of frames that overlap by half.

    Args:
        signals: ``[..., samples]``, float32 or float64.
        frame_length: samples of a frame, a constant multiple of four.
        window_fn: ``window_fn(frame_length, dtype=dtype)`` gives the weights; None for equal ones.
        pad_end: see :func:`~hpcflow.signal.frame`.
        norm: see :func:`dct`.
        name: name of the scope.

    Returns:
        ``[..., frames, frame_length // 2]``.
    """
    with name_scope(name, "mdct", [signals]):
        signals = convert_to_tensor(signals, name="signals")
        length = _multiple_of_four(frame_length)
        frames: Any = frame(signals, length, length // 2, pad_end)
        if window_fn is not None:
            frames = raw_ops.Mul(frames, window_fn(length, dtype=frames.dtype))
        q = length // 4
        a, b, c, d = (frames[..., i * q:(i + 1) * q] for i in range(4))
        first = raw_ops.Sub(raw_ops.Neg(_reversed(c)), d)
        folded = raw_ops.ConcatV2([first, raw_ops.Sub(a, _reversed(b))], np.int32(-1))
        return dct(folded, type=4, norm=norm)


def inverse_mdct(mdcts: TensorLike, window_fn: Callable | None = vorbis_window,
                 norm: str | None = None, name: str | None = None) -> Tensor:
    """Return the signal of modified cosine transforms: frames that are added, by half over each
    other.

    Args:
        mdcts: ``[..., frames, half]``, where ``2 * half`` is the length of a frame.
        window_fn: gives the weights, as for :func:`mdct`.
        norm: as given to :func:`mdct`.
        name: name of the scope.
    """
    with name_scope(name, "inverse_mdct", [mdcts]):
        mdcts = convert_to_tensor(mdcts, name="mdcts")
        half = mdcts.get_shape().as_list()[-1]
        if half is None:
            raise ValueError("the last dimension of mdcts must be known")
        folded: Any = idct(mdcts, type=4, norm=norm)
        if norm is None:
            scale = np.asarray(0.5 / half, mdcts.dtype.base_dtype.np)
            folded = raw_ops.Mul(folded, scale)
        one, two = folded[..., :half // 2], folded[..., half // 2:]
        parts = [two, raw_ops.Neg(_reversed(two)), raw_ops.Neg(_reversed(one)), raw_ops.Neg(one)]
        frames = raw_ops.ConcatV2(parts, np.int32(-1))
        if window_fn is not None:
            frames = raw_ops.Mul(frames, window_fn(2 * half, dtype=frames.dtype))
        return overlap_and_add(frames, half)


def _multiple_of_four(frame_length: TensorLike) -> int:
    from hpcflow.graph.shape_inference import constant_value

    known = constant_value(convert_to_tensor(frame_length, name="frame_length"))
    if known is None:
        raise ValueError("frame_length must be a constant")
    if int(known) % 4:
        raise ValueError(f"frame_length must be a multiple of 4 but is {int(known)}")
    return int(known)
