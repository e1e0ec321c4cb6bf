"""What a module path of 1.x holds."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class Entry(NamedTuple):
    """The contents of one path: the names of `sources` (module paths), the first that has a name
    winning, and before them `names`, each with the ``module:object`` that it stands for."""

    sources: tuple[str, ...]
    names: Mapping[str, str] = MappingProxyType({})


RAW = "raw"  # a source: the builders of all op types, by the names of generated functions


def members(module: str, *names: str) -> dict[str, str]:
    """The paths of objects of one module, by their names."""
    return {name: f"{module}:{name}" for name in names}
