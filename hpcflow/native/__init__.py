"""What is near to the machine: memory, threads, the arithmetic of processors, loops without the
interpreter.

Nothing here knows graphs or steps. `hpcflow.jit` makes machine code of the loops; the kernels and
the generated code of steps call them.
"""
