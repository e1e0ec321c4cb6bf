"""Helpers that kernels share: blocks of rows on all cores, indices, strings, windows, named
resources.

May use the registry, `host`, `loops` and `resources`. Begin reading with `parallel`.
"""
