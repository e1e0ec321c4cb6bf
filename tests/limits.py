"""Limits of the time that a test may take, kept by signals that no native code holds up.

pytest-timeout reads the limits (``timeout`` in pyproject.toml, ``@pytest.mark.timeout(seconds)``,
``--timeout``); here they are processor seconds of the machine of :mod:`speed`, and the clock may
show eight times as many. At a limit the stacks of all threads are printed and the process ends: a
test that hangs in native code cannot be interrupted in any other way. pytest-xdist then names the
test, replaces the process and goes on with the others.
"""

from __future__ import annotations

import faulthandler
import os
import signal
from typing import Any, TextIO

import pytest
from speed import CLOCK_FACTOR, slowness

# What a report says about the processor seconds of a test, its child processes included.
PROCESSOR_SECONDS = "processor seconds"


class TimeLimits:
    """Ends the process, with the stacks of all its threads, when a test exceeds its limit."""

    def __init__(self, stderr: TextIO) -> None:
        self.stderr = stderr
        self.begun = 0.0
        # After the stacks comes the signal's default action, which ends the process.
        faulthandler.register(signal.SIGPROF, file=stderr, all_threads=True, chain=True)

    def pytest_timeout_set_timer(self, item: pytest.Item, settings: Any) -> bool | None:
        """Start both clocks of a test."""
        if item.config.getoption("usepdb"):
            return None
        seconds = settings.timeout * slowness()
        signal.setitimer(signal.ITIMER_PROF, seconds)
        faulthandler.dump_traceback_later(CLOCK_FACTOR * seconds, exit=True, file=self.stderr)
        return True

    def pytest_timeout_cancel_timer(self) -> bool:
        """Let the clocks go on after a failure: what is taken down after it may hang as well."""
        return True

    def pytest_runtest_logstart(self) -> None:
        """Remember what the process had used before the test."""
        self.begun = used_seconds()

    def pytest_runtest_logfinish(self) -> None:
        """Stop both clocks."""
        signal.setitimer(signal.ITIMER_PROF, 0)
        faulthandler.cancel_dump_traceback_later()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo) -> None:
        """Note what the test has used, for the list of the slowest."""
        if call.when == "teardown":
            used = used_seconds() - self.begun
            item.user_properties.append((PROCESSOR_SECONDS, used))


def used_seconds() -> float:
    """Processor seconds of this process and of its children that have ended."""
    return sum(os.times()[:4])
