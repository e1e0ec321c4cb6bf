"""Cases of audio: WAV files, spectrograms, cepstral coefficients."""

from __future__ import annotations

import io
import wave

import numpy as np
from arrays import strings
from table import Table, family


def _file(samples: np.ndarray, rate: int = 16000) -> np.ndarray:
    """A file of samples ``[frames, channels]`` of 8, 16 or 32 bits."""
    target = io.BytesIO()
    with wave.open(target, "wb") as file:
        file.setparams((samples.shape[1], samples.itemsize, rate, len(samples), "NONE", ""))
        file.writeframes(samples.tobytes())
    return strings([target.getvalue()]).reshape(())


@family
def wav_files(table: Table) -> None:
    samples = table.rng.integers(-(1 << 15), 1 << 15, (50, 2)).astype("<i2")
    for attrs in ({}, {"desired_channels": 1}, {"desired_channels": 3, "desired_samples": 60},
                  {"desired_samples": 20}):
        table.add("DecodeWav", {"contents": _file(samples)}, attrs)
    for label, contents in (
            ("bits", _file(samples.astype("<i4"))), ("rank", _file(samples).reshape(1)),
            ("short", strings([_file(samples).item()[:60]]).reshape(())),
            ("kind", strings([b"abc"]).reshape(())), ("empty", strings([b""]).reshape(()))):
        table.bad("DecodeWav", {"contents": contents}, label=label)
    audio = table.normal("float32", (40, 2), 0.5)
    audio[:3, 0] = 0.5 / 32768, -0.5 / 32768, 1.0
    for rate in (16000, 44100):
        table.add("EncodeWav", {"audio": audio, "sample_rate": np.int32(rate)})
    table.bad("EncodeWav", {"audio": audio[0], "sample_rate": np.int32(9)}, label="rank")
    table.bad("EncodeWav", {"audio": audio, "sample_rate": np.int32([9])}, label="rate")


@family
def spectra(table: Table) -> None:
    # The reference takes the windows of a second channel from elsewhere: it fails, or is wrong.
    audio = table.normal("float32", (700, 1), 0.3)
    for window, stride, squared in ((128, 64, True), (100, 30, False), (700, 9, True)):
        table.add("AudioSpectrogram", {"input": audio}, {
            "window_size": window, "stride": stride, "magnitude_squared": squared})
    table.bad("AudioSpectrogram", {"input": audio[0]}, {"window_size": 8, "stride": 8},
              label="rank")
    for name, value in (("window_size", 1), ("stride", 0)):
        table.bad("AudioSpectrogram", {"input": audio},
                  {"window_size": 8, "stride": 8, name: value}, label=name)
    spectrogram = np.square(table.normal("float32", (2, 5, 65), 3))
    spectrogram[0, 0] = 0
    for attrs in ({}, {"dct_coefficient_count": 20, "filterbank_channel_count": 20},
                  {"upper_frequency_limit": 7000.0, "lower_frequency_limit": 300.0}):
        table.add("Mfcc", {"spectrogram": spectrogram, "sample_rate": np.int32(16000)}, attrs)
    table.bad("Mfcc", {"spectrogram": spectrogram[0], "sample_rate": np.int32(16000)},
              label="rank")
    table.bad("Mfcc", {"spectrogram": spectrogram, "sample_rate": np.int32([16000])},
              label="rate")
