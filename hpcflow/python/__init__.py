"""``hpcflow.python.*``: the module paths of 1.x programs, made when they are imported.

A program that imports ``ops`` from ``PACKAGE.python.framework`` keeps that import, with the name of
the package changed. The modules are views of hpcflow's own functions: `table` says what is behind
each path, `aliases` makes the modules.
"""

from types import ModuleType

from hpcflow.api import aliases

aliases.install()


def __getattr__(name: str) -> ModuleType:
    return aliases.submodule(__name__, name)
