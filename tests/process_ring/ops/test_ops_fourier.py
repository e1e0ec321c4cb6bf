"""Fourier transforms: values, shapes, lengths, gradients, errors."""

from __future__ import annotations

import numpy as np
import pytest
from gradcheck import check_gradient
from pairs import pairs

import hpcflow as hf
from hpcflow import raw_ops
from hpcflow.signal import spectral

RNG = np.random.default_rng(3)
SUFFIXES = {1: "", 2: "2d", 3: "3d"}


def complexes(*shape, dtype="complex128"):
    return (RNG.normal(size=shape) + 1j * RNG.normal(size=shape)).astype(dtype)


def axes(rank):
    return tuple(range(-rank, 0))


@pytest.mark.parametrize("rank", SUFFIXES)
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex(session, rank, dtype):
    x = complexes(2, 3, 4, 5, dtype=dtype)
    suffix = SUFFIXES[rank]
    forward, back = getattr(hf, f"fft{suffix}")(x), getattr(spectral, f"ifft{suffix}")(x)
    for tensor, reference in ((forward, np.fft.fftn), (back, np.fft.ifftn)):
        value = session.run(tensor)
        assert value.dtype == dtype and tensor.shape == x.shape
        np.testing.assert_allclose(value, reference(x, axes=axes(rank)), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rank", SUFFIXES)
def test_old_names(session, rank):
    x = complexes(2, 3, 4, 5, dtype="complex64")
    suffix = SUFFIXES[rank].upper()
    for name in ("FFT", "IFFT"):
        old, new = (getattr(raw_ops, f"{p}{name}{suffix}")(input=x) for p in ("Batch", ""))
        np.testing.assert_array_equal(*session.run([old, new]))


@pairs(
    ("rank", SUFFIXES),
    ("change", [None, -1, 0, 2]),
    ("known", [True, False]),
)
def test_real(session, rank, change, known):
    """Lengths below, at and above those of the input, which is cut or followed by zeros."""
    x = RNG.normal(size=(2, 3, 4, 5)).astype("float32")
    suffix = SUFFIXES[rank]
    lengths = None if change is None else [n + change for n in x.shape[4 - rank:]]
    fed = x if known else hf.placeholder(hf.float32)
    given = lengths if known or lengths is None else hf.placeholder(hf.int32)
    feeds = {} if known else {fed: x, **({} if given is None else {given: lengths})}
    half = getattr(spectral, f"rfft{suffix}")(fed, given)
    expected = np.fft.rfftn(x, lengths, axes(rank))
    value = session.run(half, feeds)
    assert value.dtype == np.complex64 and (not known or half.shape == expected.shape)
    np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-4)
    whole = getattr(spectral, f"irfft{suffix}")(half, given)
    sizes = lengths or [*x.shape[4 - rank:-1], 4]
    value = session.run(whole, feeds)
    assert value.dtype == np.float32
    np.testing.assert_allclose(value, np.fft.irfftn(expected, sizes, axes(rank)), rtol=1e-4,
                               atol=1e-4)


@pytest.mark.parametrize("shape", [(0,), (2, 0), (0, 3)])
def test_empty(session, shape):
    x = np.zeros(shape, "complex64")
    assert session.run(hf.fft(x)).shape == shape
    assert session.run(spectral.rfft(x.real)).shape[0] == shape[0]


def test_gradients_complex():
    check_gradient(hf.fft, complexes(2, 3))
    check_gradient(hf.ifft2d, complexes(3, 2))
    check_gradient(hf.fft3d, complexes(2, 1, 3))
    check_gradient(spectral.ifft3d, complexes(2, 1, 2), forms=["static"])
    check_gradient(hf.fft2d, complexes(2, 2), forms=["static"])
    check_gradient(hf.ifft, complexes(3), forms=["static"])


@pytest.mark.parametrize("length", [None, [4], [5], [7]])
def test_gradients_real(length):
    check_gradient(lambda x: spectral.rfft(x, length), RNG.normal(size=(2, 5)))
    check_gradient(lambda x: spectral.irfft(x, length), complexes(2, 3))


def test_gradients_real_in_more_dimensions():
    check_gradient(spectral.rfft2d, RNG.normal(size=(3, 4)))
    check_gradient(spectral.irfft2d, complexes(2, 3))
    check_gradient(spectral.rfft3d, RNG.normal(size=(2, 2, 3)))
    check_gradient(spectral.irfft3d, complexes(2, 2, 2))


def test_errors(session):
    with pytest.raises(ValueError, match="at least rank 2"):
        hf.fft2d(complexes(3))
    x = hf.placeholder(hf.complex64)
    with pytest.raises(hf.errors.InvalidArgumentError, match="rank of at least 3"):
        session.run(hf.fft3d(x), {x: complexes(2, 2, dtype="complex64")})
    short = raw_ops.RFFT(input=np.ones(3, "float32"), fft_length=hf.constant([4]))
    with pytest.raises(hf.errors.InvalidArgumentError, match="at least"):
        session.run(short)
    with pytest.raises(ValueError, match="fft_length"):
        spectral.rfft(np.ones(3, "float32"), [3, 3])
    with pytest.raises(ValueError, match="float64 goes with complex128, got complex64"):
        raw_ops.RFFT(input=np.ones(3), fft_length=[3], Tcomplex=hf.complex64)
