"""Kernels of strings.

May use `kernels.common`. Begin reading with `string_ops`.
"""
