"""Kernels of the CPU by oneDNN, where its library is installed; the NumPy kernels serve elsewhere.

They may use every other room of the kernels and `host`; only `library` and `primitives` know the
library's C functions. Nothing of it is loaded before the first kernel is made. Begin reading with
`products`.
"""
