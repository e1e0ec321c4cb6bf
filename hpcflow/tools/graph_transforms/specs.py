"""The notation of transforms: ``name(key=value, key="value, with a comma")``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

Parameters = dict[str, list[str]]

_SPEC = re.compile(r"\s*(\w+)\s*(?:\((.*?)\)\s*)?(?=\s\w|$)", re.DOTALL)
_PARAMETER = re.compile(r'\s*(\w+)\s*=\s*("[^"]*"|[^,"]*?)\s*(?:,|$)')


class Spec(NamedTuple):
    """A transform and its parameters, each with the values that it was given."""

    name: str
    parameters: Parameters


def read_specs(texts: Iterable[str]) -> list[Spec]:
    """Read transforms; one text may have several, with blanks between.

    Raises ``ValueError`` for what is no transform.
    """
    found = []
    for text in texts:
        place = 0
        while place < len(text.rstrip()):
            match = _SPEC.match(text, place)
            if match is None:
                raise ValueError(f"Looking for a transform name, but found '{text[place:]}'")
            found.append(Spec(match[1], _parameters(match[2] or "")))
            place = match.end()
    return found


def _parameters(text: str) -> Parameters:
    found: Parameters = {}
    place = 0
    while place < len(text.rstrip()):
        match = _PARAMETER.match(text, place)
        if match is None:
            raise ValueError(f"Looking for a parameter key=value, but found '{text[place:]}'")
        found.setdefault(match[1], []).append(match[2].strip('"'))
        place = match.end()
    return found


def one(parameters: Parameters, name: str, default: str | None = None) -> str:
    """Return the value of a parameter.

    Raises ``ValueError`` if it has none and there is no default, or has several.
    """
    values = parameters.get(name, [] if default is None else [default])
    if len(values) != 1:
        raise ValueError(f"The transform expects exactly one parameter '{name}', found "
                         f"{len(values)}")
    return values[0]
