"""The directory of what later processes of the same user may load instead of making it again."""

from __future__ import annotations

import functools
import os
import stat
from pathlib import Path

from hpcflow import config


def directory() -> Path | None:
    """Where the files are, as HPCFLOW_LOOP_CACHE says; None if there is no place that only the user
    may write to. It is made if need be."""
    return _directory(config.flags.loop_cache)


@functools.lru_cache(maxsize=4)
def _directory(setting: str) -> Path | None:
    if setting == "0" or not hasattr(os, "getuid"):
        return None
    try:
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        path = Path(setting or Path(home) / "hpcflow" / "loops")
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.stat()
    except (OSError, RuntimeError):
        return None
    is_own = found.st_uid == os.getuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return path if is_own and os.access(path, os.W_OK) else None
