"""Kernels of stacks, TensorArrays, checks, calls of Python and collective operations.

The executor itself runs Switch, Merge and the loops. Begin reading with `tensor_arrays`.
"""
