"""``bench gpu`` between ranks: an edge and a reduction of 64 MB, with the way that values take.

Two ranks on the GPUs that there are, started by ``mpirun``; PyTorch has no such program here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from hpcflow.tools import facts
from hpcflow.tools.bench.registry import Options
from hpcflow.tools.gpu_check import exchange
from hpcflow.tools.table import Row

_FLOATS, _REHEARSED = 1 << 24, 1 << 18
_PATIENCE = 60.0  # seconds for both
_TITLES = {"edge": "edge between two ranks", "all-reduce": "all-reduce over two ranks"}


def chosen(options: Options) -> list[str]:
    """Which of the two are asked for."""
    return [name for name, title in _TITLES.items() if options.case in title]


def rows(options: Options) -> Iterator[Row]:
    """A row for the edge and one for the reduction, of those that are asked for."""
    names = chosen(options)
    if not names:
        return
    try:
        found = _measured(options)
    except (OSError, subprocess.SubprocessError, ValueError) as e:
        yield from ({"case": _TITLES[name], "precision": "float32", "failed": str(e)[-300:]}
                    for name in names)
        return
    for name in names:
        yield _row(name, found)


def _measured(options: Options) -> list[dict[str, Any]]:
    """The lines of all ranks; ValueError with the end of what was said if there are none."""
    mpirun = facts.launchers()["mpirun"]
    if not mpirun:
        raise ValueError("there is no mpirun")
    size = _REHEARSED if options.stand_in else _FLOATS
    folder = [str(options.stand_in), "2"] if options.stand_in else []
    done = subprocess.run(
        [mpirun, "--oversubscribe", "--bind-to", "none", "-n", "2", sys.executable,
         exchange.__file__, str(size), *folder], capture_output=True, text=True,
        timeout=_PATIENCE, check=False, env={**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1",
                                             "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not found:
        raise ValueError((done.stdout + done.stderr)[-300:])
    return found


def _row(name: str, found: list[dict[str, Any]]) -> Row:
    """The figures of the slowest rank, and the way that the values took."""
    figures = [r for r in found if r.get("name") == name and "ms" in r]
    ways = {way for r in found for way in r.get("sent" if name == "edge" else "reduced", {})}
    slowest = max(figures, key=lambda r: float(r["ms"]))
    return {"case": f"{_TITLES[name]}: {slowest['MB']:.3g} MB, {' and '.join(sorted(ways))}",
            "precision": "float32", "hpcflow ms": slowest["ms"], "GB/s": slowest["GB_per_s"],
            "failed": slowest["failed"]}
