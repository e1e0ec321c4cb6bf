"""Kernels of sparse and ragged tensors, sets, and distances of sequences.

May use `kernels.strings`. Begin reading with `sparse_places`.
"""
