"""Passes that make one node of several that a library or a kernel computes at once.

Begin reading with `fuse_layers`.
"""
