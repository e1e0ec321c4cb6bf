"""Kernels of variables: reading, assigning, scattered updates; and mutexes.

May use `resources`. Begin reading with `variables`.
"""
