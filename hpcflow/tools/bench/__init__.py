"""Benchmarks: ``python -m hpcflow bench NAME`` measures one thing and prints one table.

A benchmark is a module here, named in `registry.BENCHMARKS`, with ``run(options) -> rows``. What
it measures runs in alternation, block by block, with the programs it is compared with, so that
slow changes of the machine's speed cancel in their ratio. ``programs/`` holds the measured
programs: files that need nothing of hpcflow, because a peer runs the very same file in a Python of
its own.
"""
