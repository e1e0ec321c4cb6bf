"""Audio: WAV files, spectrograms and cepstral coefficients; ``hpcflow.audio`` and
``contrib.framework.python.ops.audio_ops``."""

from __future__ import annotations

from hpcflow.graph.likes import TensorLike
from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import with_rank

__all__: list[str] = []


def _decoded_shape(op: Operation) -> list[Dims]:
    with_rank(op.input_dims(0), 0, "contents")
    sizes = []
    for name in ("desired_samples", "desired_channels"):
        size = op._attrs[name]
        if size < -1:
            raise ValueError(f"{name} must be non-negative, or -1 for that of the file, got {size}")
        sizes.append(None if size == -1 else size)
    return [tuple(sizes), ()]


def _encoded_shape(op: Operation) -> list[Dims]:
    with_rank(op.input_dims(0), 2, "audio")
    with_rank(op.input_dims(1), 0, "sample_rate")
    return [()]


def _spectrogram_shape(op: Operation) -> list[Dims]:
    window, stride = op._attrs["window_size"], op._attrs["stride"]
    if window < 2 or stride < 1:
        raise ValueError("window_size must be at least 2 and stride at least 1, got "
                         f"{window} and {stride}")
    samples, channels = with_rank(op.input_dims(0), 2, "input")
    frames = None if samples is None else max(0, 1 + (samples - window) // stride)
    return [(channels, frames, 1 + _fft_length(window) // 2)]


def _coefficients_shape(op: Operation) -> list[Dims]:
    channels, frames, _ = with_rank(op.input_dims(0), 3, "spectrogram")
    with_rank(op.input_dims(1), 0, "sample_rate")
    return [(channels, frames, op._attrs["dct_coefficient_count"])]


def _fft_length(window: int) -> int:
    """The first power of 2 that is not smaller than a window."""
    return 1 << (window - 1).bit_length()


register_op("DecodeWav", "contents: string", "audio: float; sample_rate: int32",
            "desired_channels: int = -1; desired_samples: int = -1", shape=_decoded_shape)
register_op("EncodeWav", "audio: float; sample_rate: int32", "contents: string",
            shape=_encoded_shape)
register_op("AudioSpectrogram", "input: float", "spectrogram: float",
            "window_size: int; stride: int; magnitude_squared: bool = false",
            shape=_spectrogram_shape)
register_op("Mfcc", "spectrogram: float; sample_rate: int32", "output: float",
            "upper_frequency_limit: float = 4000.0; lower_frequency_limit: float = 20.0; "
            "filterbank_channel_count: int = 40; dct_coefficient_count: int = 13",
            shape=_coefficients_shape)
not_differentiable("DecodeWav", "EncodeWav", "AudioSpectrogram", "Mfcc")


def decode_wav(contents: TensorLike, desired_channels: int = -1, desired_samples: int = -1,
               name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return the samples of a WAV file and their rate.

    Args:
        contents: the bytes of a file of 16-bit PCM, a scalar string.
        desired_channels: the number of channels: more than the file has repeat its last one. -1
            for those of the file.
        desired_samples: the number of samples of each channel, the last ones cut off or zero.
            -1 for those of the file.
        name: name of the operation.

    Returns:
        ``audio``, float32 of shape ``[samples, channels]`` in [-1, 1), and ``sample_rate``, an
        int32 scalar. A step raises ``InvalidArgumentError`` for other contents.
    """
    return raw_ops.DecodeWav(contents=contents, desired_channels=desired_channels,
                             desired_samples=desired_samples, name=name)


def encode_wav(audio: TensorLike, sample_rate: TensorLike, name: str | None = None) -> Tensor:
    """Return the bytes of a WAV file of 16-bit PCM.

    Args:
        audio: float32 of shape ``[samples, channels]``; what is outside of [-1, 1] is clipped.
        sample_rate: samples per second, an int32 scalar.
        name: name of the operation.
    """
    return raw_ops.EncodeWav(audio=audio, sample_rate=sample_rate, name=name)


def audio_spectrogram(input: TensorLike, window_size: int, stride: int,
                      magnitude_squared: bool = False, name: str | None = None) -> Tensor:
    """Return the magnitudes of the short-time Fourier transform of audio.

    Args:
        input: float32 of shape ``[samples, channels]``.
        window_size: samples in a window, at least 2; it is weighted by a periodic Hann window and
            filled up with zeros to a power of 2, n.
        stride: samples from the beginning of a window to that of the next.
        magnitude_squared: whether to return the squares of the magnitudes.
        name: name of the operation.

    Returns float32 of shape ``[channels, windows, n / 2 + 1]``.
    """
    return raw_ops.AudioSpectrogram(input=input, window_size=window_size, stride=stride,
                                    magnitude_squared=magnitude_squared, name=name)


def mfcc(spectrogram: TensorLike, sample_rate: TensorLike, upper_frequency_limit: float = 4000,
         lower_frequency_limit: float = 20, filterbank_channel_count: int = 40,
         dct_coefficient_count: int = 13, name: str | None = None) -> Tensor:
    """Return mel-frequency cepstral coefficients (Davis and Mermelstein 1980).

    Args:
        spectrogram: squared magnitudes, float32 of shape ``[channels, windows, frequencies]``.
        sample_rate: samples per second, an int32 scalar.
        upper_frequency_limit: of the filters, in hertz.
        lower_frequency_limit: likewise.
        filterbank_channel_count: number of filters on the mel scale.
        dct_coefficient_count: number of coefficients, at most that of filters.
        name: name of the operation.

    Returns float32 of shape ``[channels, windows, dct_coefficient_count]``.
    """
    return raw_ops.Mfcc(
        spectrogram=spectrogram, sample_rate=sample_rate,
        upper_frequency_limit=upper_frequency_limit, lower_frequency_limit=lower_frequency_limit,
        filterbank_channel_count=filterbank_channel_count,
        dct_coefficient_count=dct_coefficient_count, name=name)
