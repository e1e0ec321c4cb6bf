"""``hpcflow.contrib.compiler``: what asks for compilation. Steps are compiled in any case."""

from hpcflow.contrib.compiler import jit, xla

__all__ = ["jit", "xla"]
