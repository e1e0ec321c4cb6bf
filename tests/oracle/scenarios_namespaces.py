"""Functions of the later modules of 1.x: signal, linalg, image, strings, random."""

from __future__ import annotations

from typing import Any

import numpy as np
from scenarios import scenario


def _numbers(*shape: int, seed: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


# ---------------------------------------------------------------- signals


@scenario
def windows(tf: Any, session: Any) -> list:
    made = []
    for size in (1, 2, 7, 16):
        for periodic in (True, False):
            made += [tf.signal.hann_window(size, periodic), tf.signal.hamming_window(
                size, periodic, tf.float64)]
        made += [tf.signal.vorbis_window(size), tf.signal.kaiser_window(size, 5.0)]
    made.append(tf.signal.kaiser_bessel_derived_window(16, dtype=tf.float64))
    return session.run(made)


@scenario
def frames_of_signals(tf: Any, session: Any) -> list:
    x = tf.constant(_numbers(2, 19, 3), tf.float32)
    made = [tf.signal.frame(x, 5, 3, axis=1), tf.signal.frame(x, 5, 3, True, 7.0, axis=-2),
            tf.signal.frame(x, 30, 3, axis=1), tf.signal.overlap_and_add(x, 2),
            tf.gradients(tf.signal.overlap_and_add(x, 2) ** 2, x)[0]]
    y = tf.placeholder(tf.float32, [2, None])
    made.append(tf.signal.frame(y, tf.constant(4), tf.constant(6), pad_end=True))
    return session.run(made, {y: _numbers(2, 11)})


@scenario
def spectrograms(tf: Any, session: Any) -> list:
    x = tf.constant(_numbers(2, 60), tf.float32)
    spectra = tf.signal.stft(x, 16, 4)
    window = tf.signal.inverse_stft_window_fn(4)
    back = tf.signal.inverse_stft(spectra, 16, 4, window_fn=window)
    plain = tf.signal.stft(x, 12, 5, 20, window_fn=None, pad_end=True)
    return session.run([spectra, back, plain, tf.signal.inverse_stft(plain, 24, 5, 20),
                        tf.signal.stft(x, 1, 5, 3),
                        tf.gradients(tf.abs(spectra) ** 2, x)[0]])


@scenario
def cosine_transforms(tf: Any, session: Any) -> list:
    made = []
    for dtype in (tf.float32, tf.float64):
        x = tf.constant(_numbers(2, 3, 8), dtype)
        for kind in (1, 2, 3, 4):
            for norm in (None, "ortho")[:1 if kind == 1 else 2]:
                y = tf.signal.dct(x, kind, norm=norm)
                made += [y, tf.signal.idct(y, kind, norm=norm), tf.gradients(y * y, x)[0]]
        made += [tf.signal.dct(x, n=5), tf.signal.dct(x, type=3, n=11)]
        for norm in (None, "ortho"):
            long = tf.constant(_numbers(2, 40), dtype)
            made += [tf.signal.mdct(long, 16, norm=norm),
                     tf.signal.inverse_mdct(tf.signal.mdct(long, 16, norm=norm), norm=norm)]
    return session.run(made)


@scenario
def mel_spectra(tf: Any, session: Any) -> list:
    return session.run([
        tf.signal.linear_to_mel_weight_matrix(dtype=tf.float64),
        tf.signal.linear_to_mel_weight_matrix(10, 33, 16000, 80.0, 7600.0, tf.float64),
        tf.signal.mfccs_from_log_mel_spectrograms(tf.constant(_numbers(2, 3, 16), tf.float32)),
        tf.signal.fftshift(tf.range(7)), tf.signal.ifftshift(tf.reshape(tf.range(12), [3, 4])),
        tf.signal.fftshift(tf.reshape(tf.range(12), [3, 4]), axes=[-1])])


# ---------------------------------------------------------------- special functions


@scenario
def derivatives_of_gamma_samples(tf: Any, session: Any) -> list:
    alpha = tf.constant([0.3, 1.0, 4.0, 30.0], tf.float64)
    x = tf.constant([0.2, 3.0, 3.5, 25.0], tf.float64)
    return session.run([*tf.gradients(tf.math.igamma(alpha, x), [alpha, x]),
                        *tf.gradients(tf.math.igammac(alpha, x), [alpha, x])])
