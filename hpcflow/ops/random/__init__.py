"""Random numbers, with and without state, and samplers of classes.

May use `ops.flow` for its checks. Begin reading with `random_ops`.
"""
