"""Ops that make, cut, join, permute and index tensors.

May use `ops.common`. Begin reading with `constants` and `shape_ops`.
"""
