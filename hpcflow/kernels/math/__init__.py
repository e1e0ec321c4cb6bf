"""Kernels of arithmetic: element-wise, reductions, running sums, segments, special functions.

May use `kernels.common` and `kernels.compiled`. Begin reading with `elementwise`.
"""
