"""Kernels of the CPU by oneDNN, where the library is there; the NumPy kernels serve elsewhere.

Nothing is loaded before the first kernel is made.
"""

from hpcflow.kernels.onednn import (
    batch_norm,
    convolution,
    fused,
    integers,
    pooling,
    products,
    recurrent,
    response,
)
