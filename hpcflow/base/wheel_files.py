"""Files of installed packages: where a wheel has put a library."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Collection, Iterator
from pathlib import Path


def paths_in(packages: Collection[str], names: Collection[str]) -> Iterator[str]:
    """The paths of the files with one of `names` in those of `packages` that are installed."""
    for package in packages:
        try:
            files = importlib.metadata.files(package) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        yield from (str(Path(str(f.locate())).resolve()) for f in files if f.name in names)
