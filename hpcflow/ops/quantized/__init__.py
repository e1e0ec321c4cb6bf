"""Ops on quantized numbers, and conversions to and from them.

May use `ops.nn`. Begin reading with `quantization`.
"""
