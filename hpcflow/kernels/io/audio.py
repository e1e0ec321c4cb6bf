"""Kernels of audio: WAV files, spectrograms and cepstral coefficients."""

from __future__ import annotations

import io
import wave
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.io import encoding
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown

_F = np.float32
#: What is taken the logarithm of is at least this.
_FLOOR = 1e-12


@kernel("DecodeWav", device="CPU")
def _decode(node: KernelNode) -> Callable:
    channels, samples = node.attr("desired_channels"), node.attr("desired_samples")

    def run(contents: Any) -> tuple:
        if np.ndim(contents):
            raise invalid(f"contents must be a scalar, got shape {shown(contents)}")
        read, rate = _samples(contents if isinstance(contents, bytes) else contents.item())
        audio = read.astype(_F) / _F(32768)
        if channels >= 0:
            audio = audio[:, np.minimum(np.arange(channels), audio.shape[1] - 1)]
        if samples >= 0:
            missing = max(0, samples - len(audio))
            audio = np.pad(audio[:samples], ((0, missing), (0, 0)))
        return np.ascontiguousarray(audio), np.int32(rate)

    return run


def _samples(contents: bytes) -> tuple[np.ndarray, int]:
    """The samples of a file, ``[samples, channels]``, and their rate."""
    try:
        with wave.open(io.BytesIO(contents)) as file:
            form = file.getparams()
            data = file.readframes(form.nframes)
    except (wave.Error, EOFError, RuntimeError) as e:  # of chunks that do not fit, the last
        raise invalid(f"not a WAV file of PCM: {str(e) or 'it ends too early'}") from None
    if form.sampwidth != 2:
        raise invalid(f"WAV files must have 16 bits a sample, got {8 * form.sampwidth}")
    if len(data) != form.nframes * form.nchannels * 2:
        raise invalid(f"the WAV file declares {form.nframes} samples, but ends before")
    return np.frombuffer(data, "<i2").reshape(-1, form.nchannels), form.framerate


@kernel("EncodeWav", device="CPU")
def _encode(node: KernelNode) -> Callable:
    def run(audio: Any, rate: Any) -> Any:
        if audio.ndim != 2 or not audio.shape[1]:
            raise invalid("audio must be 2-dimensional with at least one channel, got shape "
                          f"{shown(audio)}")
        if np.ndim(rate) or rate < 0:
            raise invalid(f"sample_rate must be a scalar of at least 0, got {rate}")
        return encoding.wav(audio, int(rate))

    return run


@kernel("AudioSpectrogram", fresh=True, device="CPU")
def _spectrogram(node: KernelNode) -> Callable:
    window, stride = node.attr("window_size"), node.attr("stride")
    squared = node.attr("magnitude_squared")
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(window) / window)
    length = 1 << (window - 1).bit_length()

    def run(audio: Any) -> Any:
        if audio.ndim != 2:
            raise invalid(f"input must be 2-dimensional, got shape {shown(audio)}")
        if len(audio) < window:
            return np.zeros((audio.shape[1], 0, 1 + length // 2), _F)
        frames = np.lib.stride_tricks.sliding_window_view(audio.T, window, axis=1)[:, ::stride]
        found = np.fft.rfft(frames * hann, length)
        energy = (found.real**2 + found.imag**2).astype(_F)
        return energy if squared else np.sqrt(energy)

    return run


@kernel("Mfcc", fresh=True, device="CPU")
def _mfcc(node: KernelNode) -> Callable:
    low, high = node.attr("lower_frequency_limit"), node.attr("upper_frequency_limit")
    filters, count = node.attr("filterbank_channel_count"), node.attr("dct_coefficient_count")
    if not 0 <= low < high:
        raise invalid(f"the frequencies must be 0 <= lower < upper, got {low} and {high}")
    if not 1 <= count <= filters:
        raise invalid("dct_coefficient_count must be at least 1 and at most "
                      f"filterbank_channel_count, got {count} and {filters}")
    rows = np.pi / filters * (np.arange(filters)[:, None] + 0.5)
    transform = np.sqrt(2 / filters) * np.cos(np.arange(count) * rows)

    def run(spectrogram: Any, rate: Any) -> Any:
        if spectrogram.ndim != 3 or spectrogram.shape[2] < 2:
            raise invalid("spectrogram must be 3-dimensional with at least 2 frequencies, got "
                          f"shape {shown(spectrogram)}")
        if np.ndim(rate) or rate <= 0:
            raise invalid(f"sample_rate must be a positive scalar, got {rate}")
        bank = _mel_filters(spectrogram.shape[2], int(rate), low, high, filters)
        energies = np.sqrt(spectrogram.astype(np.float64)) @ bank
        return (np.log(np.maximum(energies, _FLOOR)) @ transform).astype(_F)

    return run


def _mel(frequency: Any) -> Any:
    return 1127.0 * np.log1p(frequency / 700.0)


def _mel_filters(bins: int, rate: int, low: float, high: float, count: int) -> np.ndarray:
    """Triangles, ``[bins, count]``: each begins and ends at the centers of its neighbours, which
    are evenly spaced in mel from `low` to `high` hertz. The constant part is left out."""
    width = 0.5 * rate / (bins - 1)
    edges = _mel(low) + (_mel(high) - _mel(low)) / (count + 1) * np.arange(count + 2)
    place = np.arange(bins)
    used = (place >= int(1.5 + low / width)) & (place <= int(high / width))
    mel = _mel(place * width)[:, None]
    rising = (mel - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - mel) / (edges[2:] - edges[1:-1])
    return np.where(used[:, None], np.maximum(np.minimum(rising, falling), 0), 0)
