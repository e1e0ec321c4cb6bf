"""Arithmetic: element-wise ops, reductions, running sums, segments, special functions.

May use `ops.common` and `ops.flow`. Begin reading with `elementwise`.
"""
