"""Rules common to all test rings: time limits, a record of outcomes, and the abort of MPI jobs.

- Every test has a time limit, see limits.py.
- ``--record FILE`` appends one JSON line when a test starts and one when it ends, so that the
  runner knows what was running when a process died.
- In a world of several ranks a failure ends the whole job: the other ranks may be waiting for
  this one, and no test after it can be trusted to find them in step.
"""

from __future__ import annotations

import faulthandler
import gc
import itertools
import os
import signal
import sys
import time
from pathlib import Path
from typing import TextIO

import pytest
from limits import TimeLimits
from processes import SESSION_FOLDER
from rank import launched_world_size
from records import Recorder

# Before hpcflow is imported, which reads them: which loops are compiled when is up to each test,
# and so is for how long ranks wait for each other. A rank that comes late on a busy machine is not
# lost, and a job that only a timeout ends has hung.
os.environ["HPCFLOW_LOOP_CACHE"] = "0"
for name in ("CONNECT", "HEALTH", "COLLECTIVE"):
    os.environ.setdefault(f"HPCFLOW_{name}_TIMEOUT", "100000")

ABORT_GRACE_SECONDS = 0.5
_PLACES = itertools.count()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("hpcflow")
    group.addoption("--record", metavar="FILE", help="append the outcome of each test as JSON")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: left out by the runner's --fast")
    config.addinivalue_line("markers", "gpu: needs a GPU; skipped where there is none")
    # Capturing is suspended here, so descriptor 2 is still the real one.
    stderr = os.fdopen(os.dup(2), "w")
    faulthandler.register(signal.SIGUSR1, file=stderr, all_threads=True)
    config.pluginmanager.register(TimeLimits(stderr))
    # The workers of pytest-xdist report to the process that started them.
    if config.getoption("--record") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(Path(config.getoption("--record"))))
    if launched_world_size() > 1:
        config.pluginmanager.register(AbortOnFailure(stderr))
    _make_examples_repeatable()


@pytest.fixture(autouse=True)
def _launchers_apart(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Let the launchers that a test starts, itself or by a command, make their folders in a place
    of its own, which they make if they need it."""
    os.environ[SESSION_FOLDER] = str(tmp_path_factory.getbasetemp() / f"session{next(_PLACES)}")


def pytest_collection_finish() -> None:
    """Spare the garbage collector the thousands of tests, which live as long as the process."""
    gc.collect()
    gc.freeze()


def _make_examples_repeatable() -> None:
    """Let hypothesis draw the same examples on every rank and on every run."""
    try:
        import hypothesis
    except ImportError:
        return
    hypothesis.settings.register_profile(
        "hpcflow", derandomize=True, deadline=None, max_examples=50, database=None
    )
    hypothesis.settings.load_profile("hpcflow")


class AbortOnFailure:
    """Prints a failure and ends the job of all ranks."""

    def __init__(self, stderr: TextIO) -> None:
        self.stderr = stderr

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._abort_if_failed(report)

    @pytest.hookimpl(trylast=True)
    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._abort_if_failed(report)

    def _abort_if_failed(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if not report.failed:
            return
        print(f"\nFAILED {report.nodeid}\n{report.longreprtext}", file=self.stderr)
        for title, text in report.sections:
            print(f"--- {title} ---\n{text}", file=self.stderr)
        self.stderr.flush()
        # Other ranks that fail on the same test get the time to say so.
        time.sleep(ABORT_GRACE_SECONDS)
        abort_job()


def abort_job() -> None:
    """End all ranks with a non-zero status; never returns."""
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is not None and mpi.Is_initialized() and not mpi.Is_finalized():
        mpi.COMM_WORLD.Abort(1)
    # Without MPI the launcher ends the job when one rank exits with an error.
    os._exit(1)
