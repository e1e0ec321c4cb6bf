"""A CUDA GPU through CuPy: its streams, the pinned memory of transfers, its memory, its graphs.

All modules here take the array module as an argument: CuPy, or the stand-in of the tests.
"""
