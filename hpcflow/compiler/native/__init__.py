"""Lines of a region that become calls of compiled loops: groups of lines, and whole loops.

May use `loops` and `host`. Begin reading with `launcher`, then `native_loops`.
"""
