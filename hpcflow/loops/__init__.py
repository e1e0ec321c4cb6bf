"""Compiled loops over arrays: what can be compiled, the machine code, its cache, and the calls.

May use `host`; only here is LLVM imported. Begin reading with `compiling`, which gives a
loop's function when there is one, then `programs`.
"""
