"""Short-time spectra, cosine transforms and windows."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf

RNG = np.random.default_rng(2)


def run(x, feeds=None):
    with hf.Session() as session:
        return session.run(x, feeds)


def test_spectra_and_back():
    x = RNG.normal(size=(2, 64))
    spectra = hf.signal.stft(x, 16, 4)
    assert spectra.get_shape().as_list() == [2, 13, 9]
    back = hf.signal.inverse_stft(spectra, 16, 4,
                                  window_fn=hf.signal.inverse_stft_window_fn(4))
    np.testing.assert_allclose(run(back)[:, 12:-12], x[:, 12:-12], atol=1e-10)


@pytest.mark.parametrize("kind", [2, 3, 4])
def test_orthonormal_transforms(kind):
    x = RNG.normal(size=(3, 7))
    y = hf.signal.dct(x, kind, norm="ortho")
    there, back = run([y, hf.signal.idct(y, kind, norm="ortho")])
    np.testing.assert_allclose(back, x, atol=1e-12)
    np.testing.assert_allclose((there**2).sum(1), (x**2).sum(1))


def test_overlapping_transforms_add_up():
    x = RNG.normal(size=80)
    back = run(hf.signal.inverse_mdct(hf.signal.mdct(x, 16)))
    np.testing.assert_allclose(back[8:-8], x[8:-8], atol=1e-10)


def test_static_shapes_of_padded_frames():
    frames = hf.signal.frame(hf.zeros([2, 100]), 50, 5, pad_end=True)
    assert frames.get_shape().as_list() == [2, 20, 50]
    assert hf.signal.overlap_and_add(frames, 5).get_shape().as_list() == [2, 145]


def test_frames_of_unknown_length():
    x = hf.placeholder(hf.float32, [None])
    framed = hf.signal.frame(x, 4, 3, pad_end=True, pad_value=9)
    assert framed.get_shape().as_list() == [None, 4]
    np.testing.assert_array_equal(run(framed, {x: np.arange(5)}),
                                  [[0, 1, 2, 3], [3, 4, 9, 9]])


def test_what_is_refused():
    with pytest.raises(ValueError, match="out of range"):
        hf.signal.frame(np.zeros(4, np.float32), 2, 1, axis=1)
    with pytest.raises(ValueError, match="floating-point"):
        hf.signal.hann_window(4, dtype=hf.int32)
    with pytest.raises(ValueError, match="Types of cosine transforms"):
        hf.signal.dct(np.zeros(4, np.float32), type=5)
    with pytest.raises(ValueError, match="multiple of 4"):
        hf.signal.mdct(np.zeros(40, np.float32), 10)


@pytest.mark.parametrize("function", [
    *(lambda x, t=t, norm=norm: hf.signal.dct(x, t, norm=norm)
      for t, norm in ((1, None), (2, "ortho"), (3, "ortho"), (4, None))),
    hf.signal.mfccs_from_log_mel_spectrograms, lambda x: hf.signal.overlap_and_add(x, 2),
    lambda x: hf.signal.frame(x, 2, 1, True, 7.0), lambda x: hf.signal.frame(x, 2, 1, axis=-2),
    lambda x: hf.signal.inverse_stft(hf.signal.stft(x, 4, 2), 4, 2)])
def test_sizes_and_ranks_need_not_be_known(function):
    value = np.random.default_rng(3).standard_normal((2, 3, 5)).astype(np.float32)
    with hf.Graph().as_default(), hf.Session() as session:
        expected = session.run(function(hf.constant(value)))
        for shape in (None, [None] * 3):
            x = hf.placeholder(hf.float32, shape)
            found = session.run(function(x), {x: value})
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_frames_are_padded_by_a_scalar():
    with pytest.raises(ValueError, match="rank 0"):
        hf.signal.frame([1.0, 2.0], 2, 2, pad_end=True, pad_value=[1.0])
