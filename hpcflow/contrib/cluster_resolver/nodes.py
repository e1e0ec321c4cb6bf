"""The lists of nodes and numbers that Slurm writes in short forms."""

from __future__ import annotations

import re
from collections.abc import Iterator

_ITEM = re.compile(r"(?:[^,\[\]]|\[[^\]]*\])+")  # what stands between commas outside of brackets
_RANGES = re.compile(r"\[([^\]]*)\]")


def expanded(listed: str) -> list[str]:
    """Return the names of nodes of a list such as ``"a[01-03,7]b,c"``.

    Raises ``ValueError`` for a range that is none.
    """
    return [name for item in _ITEM.findall(listed) for name in _names(item.strip())]


def _names(item: str) -> Iterator[str]:
    found = _RANGES.search(item)
    if found is None:
        yield item
        return
    before, after = item[:found.start()], item[found.end():]
    for part in found[1].split(","):
        first, _, last = part.strip().partition("-")
        last = last or first
        if not first.isdigit() or not last.isdigit() or int(last) < int(first):
            raise ValueError(f"{item!r} is not a list of nodes: there is no range {part!r}")
        for number in range(int(first), int(last) + 1):
            for rest in _names(after):
                yield f"{before}{number:0{len(first)}d}{rest}"


def tasks_on_nodes(said: str, nodes: int) -> list[int]:
    """Return the numbers of ``"2(x3),1"``, one for each node; a single one holds for all.

    Raises ``ValueError`` for another number of numbers.
    """
    counts: list[int] = []
    for part in said.split(","):
        found = re.fullmatch(r"\s*(\d+)(?:\(x(\d+)\))?\s*", part)
        if found is None:
            raise ValueError(f"{said!r} are not numbers of tasks: expected the form 2(x3),1")
        counts += [int(found[1])] * int(found[2] or 1)
    if len(counts) == 1:
        counts *= nodes
    if len(counts) != nodes:
        raise ValueError(f"{said!r} has numbers for {len(counts)} nodes, expected {nodes}")
    return counts
