"""Kernels that are compiled loops, each beside the NumPy form that serves until it is compiled.

May use `kernels.common` and `loops`. Begin reading with `array_loops`.
"""
