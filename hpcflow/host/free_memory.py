"""Memory that an array can still have, asked before a large one is made.

Linux grants more memory than there is, and kills a process when that is really used: then nobody
learns which operation it was. So what is asked for is compared with what the machine has left, and
with what the control groups of this process (of a batch job, a container) may use.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from hpcflow import config
from hpcflow.host.tuning import host as tuning

_PROC, _GROUPS = Path("/proc"), Path("/sys/fs/cgroup")
#: Files of a control group, of the second and of the first version: the limit, what is used, and
#: the line of ``memory.stat`` that says how much of that are files which can be dropped.
_FILES = (("memory.max", "memory.current", "inactive_file"),
          ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"))


def require(nbytes: int) -> None:
    """Raise ``MemoryError`` for a large array of so many bytes if there is no memory for it.

    Nothing is looked at for small ones, where the system does not tell, and with
    ``HPCFLOW_CHECK_MEMORY=0``.
    """
    if nbytes < tuning.MEMORY_LARGE_BYTES or not config.flags.check_memory:
        return
    left = available()
    if left is not None and nbytes > left:
        raise MemoryError(f"an array of {nbytes} bytes, of which {left} are available on this "
                          "machine or to this job (HPCFLOW_CHECK_MEMORY=0 tries it all the same)")


def available() -> int | None:
    """The bytes that this process can still use; None where the system does not tell."""
    found = [n for n in (_of_machine(), *_of_groups()) if n is not None]
    return min(found, default=None)


def _of_machine() -> int | None:
    lines = _lines(_PROC / "meminfo")
    parts = [lines.get(name) for name in ("MemAvailable:", "SwapFree:")]
    return None if parts[0] is None else sum([1024 * (n or 0) for n in parts])


def _of_groups() -> Iterator[int]:
    """What each control group around this process leaves."""
    for folder in _group_folders():
        for limit_name, used_name, droppable in _FILES:
            limit, used = _number(folder / limit_name), _number(folder / used_name)
            if limit is not None and used is not None:
                yield limit - used + _lines(folder / "memory.stat").get(droppable, 0)


def _group_folders() -> Iterator[Path]:
    """The folders of the groups, from the innermost one outwards; in a container the outer ones,
    or all but the root, may not be visible."""
    try:
        entries = [line.split(":", 2) for line in (_PROC / "self/cgroup").read_text().splitlines()]
    except OSError:
        return
    for _, controllers, path in entries:
        if controllers and "memory" not in controllers.split(","):
            continue
        root = _GROUPS / "memory" if controllers else _GROUPS
        parts = [part for part in path.split("/") if part]
        yield from (root.joinpath(*parts[:n]) for n in range(len(parts), -1, -1))


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # there is none, or it says "max"
        return None


def _lines(path: Path) -> dict[str, int]:
    """The first number behind each name of a file."""
    try:
        words = [line.split() for line in path.read_text().splitlines()]
        return {w[0]: int(w[1]) for w in words if len(w) > 1}
    except (OSError, ValueError):
        return {}
