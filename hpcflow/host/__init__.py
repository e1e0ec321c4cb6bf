"""Control of the machine under the process: memory, threads, the BLAS, the floating-point mode.

Knows arrays and the flags, nothing of graphs or steps. Begin reading with `threads`.
"""
