"""Strings: joining, splitting, patterns, formats, Unicode.

May use `ops.common`. Begin reading with `strings`.
"""
