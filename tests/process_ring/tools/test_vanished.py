"""The look at ranks that the launcher does not notice: gone, or frozen."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time

import pytest

from hpcflow import config
from hpcflow.comm.processes import is_running, is_stopped, process_of
from hpcflow.host.tuning import programs as tuning
from hpcflow.tools.vanished import Vanished


@pytest.fixture
def ranks(monkeypatch):
    """Three processes that sleep, and what they have noted."""
    monkeypatch.setattr(tuning, "RUN_LOOK_SECONDS", 0.0)
    monkeypatch.setattr(tuning, "RUN_VANISHED_SECONDS", 0.0)
    monkeypatch.setattr(config.flags, "health_timeout", 1e-3)
    started = [subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
               for _ in range(3)]
    yield [{"host": socket.gethostname(), "process": process_of(p.pid)} for p in started]
    for process in started:
        process.kill()
        process.wait()


def stop(note):
    os.kill(note["process"].pid, signal.SIGSTOP)
    while not is_stopped(note["process"]):
        time.sleep(0.001)


def looks(vanished, until):
    while not until():
        vanished.look()
        time.sleep(0.001)


def test_one_that_is_gone_without_a_word(ranks):
    vanished = Vanished(3, ranks.__getitem__)
    os.kill(ranks[1]["process"].pid, signal.SIGKILL)
    looks(vanished, lambda: vanished.rank is not None)
    assert (vanished.rank, vanished.why) == (1, "is gone")


@pytest.mark.parametrize("ended", [False, True])
def test_one_that_is_frozen(ranks, ended):
    """Also when its program, or those of all ranks, have ended."""
    for note in ranks:
        note["ended"] = ended
    vanished = Vanished(3, ranks.__getitem__)
    stop(ranks[2])
    looks(vanished, lambda: vanished.rank is not None)
    assert (vanished.rank, vanished.why) == (2, "is frozen")


def test_a_job_that_is_suspended(ranks):
    vanished = Vanished(3, ranks.__getitem__)
    for note in ranks:
        stop(note)
    for _ in range(5):
        time.sleep(0.002)
        assert not vanished.look()


def test_one_without_which_the_others_go_on(ranks):
    vanished = Vanished(3, ranks.__getitem__, goes_on=True)
    stop(ranks[0])
    for note in ranks[1:]:
        note["ended"] = True
        os.kill(note["process"].pid, signal.SIGKILL)
    looks(vanished, lambda: not is_running(ranks[0]["process"]))
    assert vanished.rank is None and not vanished.look()
