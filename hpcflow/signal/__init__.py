"""``hpcflow.signal``: spectra, windows, frames of signals, and what is computed of them."""

from hpcflow.ops.math.fourier import fft, fft2d, fft3d, ifft, ifft2d, ifft3d
from hpcflow.signal.cosine import dct, idct, inverse_mdct, mdct
from hpcflow.signal.frames import frame, overlap_and_add
from hpcflow.signal.mel import linear_to_mel_weight_matrix, mfccs_from_log_mel_spectrograms
from hpcflow.signal.shifts import fftshift, ifftshift
from hpcflow.signal.spectral import irfft, irfft2d, irfft3d, rfft, rfft2d, rfft3d
from hpcflow.signal.spectrograms import inverse_stft, inverse_stft_window_fn, stft
from hpcflow.signal.windows import (
    hamming_window,
    hann_window,
    kaiser_bessel_derived_window,
    kaiser_window,
    vorbis_window,
)
