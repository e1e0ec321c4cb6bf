"""Kernels of GPUs by cuDNN, where ``HPCFLOW_CUDNN`` asks for it; elsewhere the plain ones serve.

Nothing is loaded before the first kernel is made.
"""

from hpcflow.kernels.cudnn import batch_norm, convolution, pooling, response, softmax
