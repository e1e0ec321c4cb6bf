"""Sizes, counts and seconds that were tuned: the only place where such constants are given.

There is a module for every subject. A constant's name says whose it is, its comment the unit and
why it has this value. Modules import the subject ``as tuning`` and read ``tuning.NAME`` whenever
they need it, so that whoever sets one, as tests do, sets it for all. Every room may import this
one; it imports nothing. Begin with the subject of the room that you look at.
"""

from hpcflow.host.tuning import comm, compiler, files, host, kernels, loops, programs, runtime

__all__ = ["comm", "compiler", "files", "host", "kernels", "loops", "programs", "runtime"]
