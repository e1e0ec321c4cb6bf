"""Messages that are logged, and are written to event files too (``training.tensorboard_logging``).

What is less severe than the verbosity of this module is logged only.
"""

from __future__ import annotations

import time
from typing import Any, Protocol

from hpcflow.platform import logging

DEBUG, INFO, WARN, ERROR, FATAL = "DEBUG", "INFO", "WARN", "ERROR", "FATAL"

_LEVELS = {DEBUG: "DEBUGGING", INFO: "INFO", WARN: "WARN", ERROR: "ERROR", FATAL: "FATAL"}


class EventWriter(Protocol):
    """A writer of event files, such as ``hf.summary.FileWriter``."""

    def add_event(self, event: Any) -> None:
        """Write an event."""


class _Settings:
    """What programs set: the verbosity, and the writer, None for none."""

    verbosity = WARN
    has_writer = False
    writer: EventWriter | None = None


_settings = _Settings()


def get_verbosity() -> str:
    """The least severe level that is written."""
    return _settings.verbosity


def set_verbosity(verbosity: str) -> None:
    """Set the least severe level that is written; ``ValueError`` for what is no level."""
    _number(verbosity)
    _settings.verbosity = verbosity


def set_summary_writer(summary_writer: EventWriter | None) -> None:
    """Write to `summary_writer`; None: log only."""
    _settings.has_writer, _settings.writer = True, summary_writer


def clear_summary_writer() -> None:
    """Be as before :func:`set_summary_writer`, for tests."""
    _settings.has_writer, _settings.writer = False, None


def log(level: str, message: str, *args: Any) -> None:
    """Log ``message % args``, and write it unless it is less severe than the verbosity.

    Raises ``RuntimeError`` before :func:`set_summary_writer`, ``ValueError`` for what is no level.
    """
    if not _settings.has_writer:
        raise RuntimeError("Must call set_summary_writer before doing any logging from "
                           "tensorboard_logging")
    number = _number(level)
    if _settings.writer is not None and number >= _number(_settings.verbosity):
        from tensorboard.compat.proto.event_pb2 import Event, LogMessage

        text = LogMessage(level=number, message=message % args if args else message)
        _settings.writer.add_event(Event(wall_time=time.time(), log_message=text))
    logging.log(getattr(logging, level), message, *args)


def _number(level: str) -> int:
    if level not in _LEVELS:
        raise ValueError(f"Level {level} is not a valid tensorboard_logging level")
    from tensorboard.compat.proto.event_pb2 import LogMessage

    return LogMessage.Level.Value(_LEVELS[level])


def debug(message: str, *args: Any) -> None:
    """Log a message for those who look for a fault."""
    log(DEBUG, message, *args)


def info(message: str, *args: Any) -> None:
    """Log what happens."""
    log(INFO, message, *args)


def warn(message: str, *args: Any) -> None:
    """Log what may be wrong."""
    log(WARN, message, *args)


def error(message: str, *args: Any) -> None:
    """Log what is wrong."""
    log(ERROR, message, *args)


def fatal(message: str, *args: Any) -> None:
    """Log what the program cannot go on after."""
    log(FATAL, message, *args)
