"""Kernels of matrices: products, systems of equations, decompositions.

May use `kernels.compiled`. Begin reading with `matmul`.
"""
