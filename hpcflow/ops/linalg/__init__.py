"""Matrices: products, systems of equations, decompositions, functions of matrices.

May use the rooms of arrays, math and flow. Begin reading with `matmul`.
"""
