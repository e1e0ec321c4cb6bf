"""``hpcflow.core.*``: the protobuf modules of 1.x programs, such as ``protobuf.config_pb2``.

See :mod:`hpcflow.python`, which makes them.
"""

from types import ModuleType

from hpcflow.api import aliases

aliases.install()


def __getattr__(name: str) -> ModuleType:
    return aliases.submodule(__name__, name)
