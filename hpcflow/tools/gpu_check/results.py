"""Results of a check: one JSON line each, written at once, so that none is lost at a time limit."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Row = dict[str, Any]


class Results:
    """A file of JSON lines that several processes append to."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def put(self, stage: str, **facts: Any) -> None:
        """Append one result; ``failed`` says what went wrong, where something did."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"stage": stage, **facts}, default=str) + "\n")

    def rows(self) -> list[Row]:
        """All results so far."""
        if not self.path.exists():
            return []
        return [json.loads(line) for line in self.path.read_text(encoding="utf-8").splitlines()]


def failures(rows: Iterable[Row]) -> dict[str, list[str]]:
    """Stage -> what failed in it: op types of the cases, names of models; nothing of a stage that
    failed as a whole."""
    found: dict[str, list[str]] = {}
    for row in rows:
        if row.get("failed"):
            names = found.setdefault(row["stage"], [])
            if row.get("name") and row["name"] not in names:
                names.append(row["name"])
    return found


def counts(rows: Iterable[Row]) -> dict[str, dict[str, int]]:
    """Stage -> how many ``results`` it has, and how many of them ``failed``."""
    found: dict[str, dict[str, int]] = {}
    for row in rows:
        count = found.setdefault(row["stage"], {"results": 0, "failed": 0})
        count["results"] += 1
        count["failed"] += bool(row.get("failed"))
    return found


def summary(rows: Iterable[Row]) -> str:
    """One line per stage: how many results, and how many of them failed."""
    return "\n".join(f"{stage:8} {count['results']:5} results, {count['failed']} failed"
                     for stage, count in counts(rows).items())
