"""Lines of a region that become calls of compiled loops: element-wise runs, rows, whole loops.

May use `loops` and `host`. Begin reading with `fusion`, then `native_loops`.
"""
