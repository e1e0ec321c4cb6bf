"""``hf.logging``: the library's logger, under the names of the 1.x module."""

from __future__ import annotations

import itertools
import logging as _logging
import sys
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from hpcflow.base import program_log
from hpcflow.base.late_names import named_otherwise

__all__ = ["DEBUG", "ERROR", "FATAL", "INFO", "WARN", "debug", "error", "fatal", "flush",
           "get_logger", "get_verbosity", "info", "log", "log_every_n", "log_first_n", "log_if",
           "set_verbosity", "vlog", "warn", "warning"]

DEBUG, INFO, WARN = _logging.DEBUG, _logging.INFO, _logging.WARNING
ERROR, FATAL = _logging.ERROR, _logging.CRITICAL

_logger = _logging.getLogger("hpcflow")
# Calls so far of a line of a program, by its file and number.
_counts: defaultdict[tuple[str, int], Iterator[int]] = defaultdict(itertools.count)


def _ready() -> _logging.Logger:
    """The logger; messages go to standard error unless the program says otherwise."""
    if not _logger.handlers and not _logging.getLogger().handlers:
        handler = _logging.StreamHandler()
        handler.setFormatter(_logging.Formatter("%(levelname)s:hpcflow:%(message)s"))
        _logger.addHandler(handler)
    return _logger


def get_logger() -> _logging.Logger:
    """Return the library's logger."""
    return _ready()


_get_logger = get_logger


def log(level: int, msg: str, *args: Any) -> None:
    """Log ``msg % args`` at `level`."""
    _ready().log(level, msg, *args)


def debug(msg: str, *args: Any) -> None:
    """Log at level DEBUG."""
    _ready().debug(msg, *args)


def info(msg: str, *args: Any) -> None:
    """Log at level INFO."""
    _ready().info(msg, *args)


def warning(msg: str, *args: Any) -> None:
    """Log at level WARN."""
    _ready().warning(msg, *args)


warn = warning


def error(msg: str, *args: Any) -> None:
    """Log at level ERROR."""
    _ready().error(msg, *args)


def fatal(msg: str, *args: Any) -> None:
    """Log at level FATAL."""
    _ready().critical(msg, *args)


def log_if(level: int, msg: str, condition: bool, *args: Any) -> None:
    """Log if `condition` holds."""
    if condition:
        log(level, msg, *args)


def _calls_before() -> int:
    """The number of calls before this one from the line that called the caller."""
    frame = sys._getframe(2)
    return next(_counts[frame.f_code.co_filename, frame.f_lineno])


def log_every_n(level: int, msg: str, n: int, *args: Any) -> None:
    """Log the first and then every n-th of the calls from this line of the program."""
    log_if(level, msg, not _calls_before() % n, *args)


def log_first_n(level: int, msg: str, n: int, *args: Any) -> None:
    """Log the first `n` of the calls from this line of the program."""
    log_if(level, msg, _calls_before() < n, *args)


def set_verbosity(v: int) -> None:
    """Log messages of level `v` and above: those of the library itself too."""
    _ready().setLevel(v)


def get_verbosity() -> int:
    """The level from which messages are logged."""
    return _logger.getEffectiveLevel()


def vlog(level: int, msg: str, *args: Any) -> None:
    """Log ``msg % args`` at `level`, as :func:`log` does."""
    log(level, msg, *args)


def flush() -> None:
    """Write out what handlers may still hold."""
    for handler in _ready().handlers:
        handler.flush()


program_log.go_through(sys.modules[__name__])

__getattr__ = named_otherwise(__name__)
