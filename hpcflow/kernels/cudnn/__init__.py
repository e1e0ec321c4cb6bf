"""Kernels of GPUs by cuDNN, where that is installed; elsewhere the plain ones serve.

Nothing is loaded before the first kernel is made.
"""

from hpcflow.kernels.cudnn import convolution, fused, recurrent
