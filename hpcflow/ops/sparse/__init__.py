"""Sparse and ragged tensors, sets, and distances of sequences.

May use `ops.common` and `ops.flow`. Begin reading with `sparse_layout`.
"""
