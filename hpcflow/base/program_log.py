"""The library's messages to the user, through the functions that the program may have replaced.

Programs catch what hooks log by putting a function of their own in the place of ``logging.info``.
"""

from __future__ import annotations

import logging
from types import ModuleType
from typing import Any

_functions: logging.Logger | ModuleType = logging.getLogger("hpcflow")


def go_through(public: ModuleType) -> None:
    """Call the functions of the public module `public` from now on, as they are at each call."""
    global _functions
    _functions = public


def _log(level: str, message: str, arguments: tuple) -> None:
    getattr(_functions, level)(message, *arguments)


def info(message: str, *arguments: Any) -> None:
    """Log ``message % arguments`` at level INFO."""
    _log("info", message, arguments)


def warning(message: str, *arguments: Any) -> None:
    """Log ``message % arguments`` at level WARN."""
    _log("warning", message, arguments)


def error(message: str, *arguments: Any) -> None:
    """Log ``message % arguments`` at level ERROR."""
    _log("error", message, arguments)
