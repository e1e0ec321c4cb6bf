"""Audio of several channels, and files that are not what they should be."""

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.contrib.framework.python.ops import audio_ops

RATE = 8000
TONE = np.float32([np.sin(np.arange(600) * np.pi / 2), np.zeros(600)]).T  # 2 kHz, silence


def test_files_keep_what_fits_16_bits(session):
    contents = hf.audio.encode_wav(TONE * 2, RATE)
    audio, rate = hf.audio.decode_wav(contents, desired_channels=3, desired_samples=601)
    assert audio.shape.as_list() == [601, 3]
    found, found_rate = session.run([audio, rate])
    assert found_rate == RATE and found.dtype == np.float32
    clipped = np.clip(TONE * 2, -1, 32767 / 32768)
    np.testing.assert_allclose(found[:600], clipped[:, [0, 1, 1]], atol=1 / 32768)
    assert not found[600].any()


def test_each_channel_has_its_spectrum(session):
    spectrogram = audio_ops.audio_spectrogram(TONE, 100, 50, magnitude_squared=True)
    assert spectrogram.shape.as_list() == [2, 11, 65]
    tone, silence = session.run(spectrogram)
    assert (tone.argmax(1) == 32).all() and not silence.any()  # 2000 / (8000 / 128)
    coefficients = session.run(audio_ops.mfcc(spectrogram, RATE, upper_frequency_limit=3800))
    assert coefficients.shape == (2, 11, 13) and np.isfinite(coefficients).all()
    np.testing.assert_allclose(coefficients[1, :, 1:], 0, atol=1e-10)  # silence is flat


@pytest.mark.parametrize(("damage", "message"), [
    (lambda text: b"", "too early"), (lambda text: b"RIFX" + text[4:], "RIFF"),
    (lambda text: text[:-9], "ends before"),
    (lambda text: text[:16] + b"\x11" + text[17:], "not a WAV file of PCM"),  # an odd size
    (lambda text: text[:34] + b"\x08" + text[35:], "16 bits a sample"),
    (lambda text: text[:20] + b"\x03" + text[21:], "not a WAV file of PCM")])
def test_other_files_are_refused(session, damage, message):
    text = session.run(hf.audio.encode_wav(TONE, RATE))
    with pytest.raises(hf.errors.InvalidArgumentError, match=message):
        session.run(hf.audio.decode_wav(damage(text)))


def test_frequencies_must_be_in_order(session):
    with pytest.raises(hf.errors.InvalidArgumentError, match="0 <= lower < upper"):
        session.run(audio_ops.mfcc(np.ones([1, 2, 9], np.float32), RATE, 20, 30))
