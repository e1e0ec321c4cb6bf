"""Kernels that draw random numbers and sample classes.

May use nothing but the registry. Begin reading with `random`.
"""
