"""Kernels of queues, readers, data sets, tables, parsing, files, checkpoints and summaries.

May use `resources` and `storage`. Begin reading with `queues`.
"""
