"""Compiled steps of one task: parts, traces, functions that kernels call.

Begin reading with `compiled`.
"""
