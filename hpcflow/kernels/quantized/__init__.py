"""Kernels on quantized numbers.

May use `kernels.nn`. Begin reading with `quantization`.
"""
