"""Kernels that make, cut, join, permute and index arrays.

May use `kernels.math`. Begin reading with `shape_ops`.
"""
