"""``python -m hpcflow run`` when it gets a signal, or is killed: no rank stays behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from speed import patience

from hpcflow.comm.processes import Process, is_running
from hpcflow.tools import run

RANKS = 2
LIMIT_SECONDS = patience()
PROGRAM = """
import os, signal, sys, time
import hpcflow as hf
how = sys.argv[1]
task = hf.mpi.task()
server = hf.train.Server(task.cluster, task.job, task.index)
came = []
if how == "ignores":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
elif how == "chooses":
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(17))
elif how == "is told":
    signal.signal(signal.SIGUSR1, lambda number, frame: came.append(number))
print("here", flush=True)
while not came:
    time.sleep(0.01)
print("told", flush=True)
"""


class Started:
    """A job whose ranks have all begun to wait."""

    def __init__(self, folder: Path, how: str, options: tuple[str, ...]) -> None:
        (folder / "program.py").write_text(PROGRAM)
        env = os.environ | {"PYTHONPATH": str(Path(run.__file__).parents[2])}
        self.logs = folder / "logs"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "hpcflow", "run", "-n", str(RANKS), "--logs", str(self.logs),
             *options, str(folder / "program.py"), how],
            env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder)
        wait_until(lambda: all("here" in self.log(rank) for rank in range(RANKS)))
        notes = [json.loads((self.logs / f"rank{r}.json").read_text()) for r in range(RANKS)]
        self.ranks = [Process(*note["process"]) for note in notes]

    def log(self, rank: int) -> str:
        """What a rank has printed."""
        path = self.logs / f"rank{rank}.log"
        return path.read_text() if path.exists() else ""

    def end(self) -> tuple[int, str]:
        """(status, standard error) of the command; no rank runs any more."""
        _, errors = self.process.communicate(timeout=LIMIT_SECONDS)
        self.check_gone()
        return self.process.returncode, errors

    def check_gone(self) -> None:
        """All ranks end."""
        wait_until(lambda: not any(map(is_running, self.ranks)))


def wait_until(holds):
    deadline = time.monotonic() + LIMIT_SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def job(tmp_path):
    for number in (signal.SIGINT, signal.SIGHUP):  # what a shell in the background sets
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT
                      else signal.SIG_DFL)
    started = []

    def start(how, *options):
        started.append(Started(tmp_path, how, options))
        return started[-1]

    yield start
    for one in started:
        one.process.kill()
        for rank in one.ranks:
            if is_running(rank):
                os.kill(rank.pid, signal.SIGKILL)


@pytest.mark.timeout(150)
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT"])
def test_a_signal_ends_the_ranks(job, name):
    started = job("waits")
    number = signal.Signals[name]
    started.process.send_signal(number)
    status, errors = started.end()
    assert status == 128 + number, errors
    assert errors.startswith(f"hpcflow run: ended by {name}") and errors.count("\n") == 1


@pytest.mark.timeout(150)
def test_ranks_that_do_not_end_are_ended(job):
    started = job("ignores", "--grace", "1")
    started.process.send_signal(signal.SIGTERM)
    status, errors = started.end()
    assert status == 128 + signal.SIGTERM
    assert "ranks have not ended 1 s after SIGTERM" in errors


@pytest.mark.timeout(150)
def test_a_second_signal_does_not_wait(job):
    started = job("ignores", "--grace", "1000")
    started.process.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    started.process.send_signal(signal.SIGINT)
    status, _ = started.end()
    assert status in (128 + signal.SIGTERM, 128 + signal.SIGINT)  # both may be taken at once


@pytest.mark.timeout(150)
def test_the_status_is_what_the_program_chose(job):
    started = job("chooses")
    started.process.send_signal(signal.SIGTERM)
    status, errors = started.end()
    assert status == 17, errors


@pytest.mark.timeout(150)
def test_other_signals_go_on_to_the_ranks(job):
    started = job("is told")
    started.process.send_signal(signal.SIGUSR1)
    status, errors = started.end()
    assert status == 0 and all("told" in started.log(r) for r in range(RANKS)), errors


@pytest.mark.timeout(150)
def test_ranks_show_where_they_stand_and_go_on(job):
    started = job("waits")
    started.process.send_signal(signal.SIGUSR2)
    wait_until(lambda: all('program.py", line' in started.log(r) for r in range(RANKS)))
    assert all(map(is_running, started.ranks))
    started.process.send_signal(signal.SIGTERM)
    assert started.end()[0] == 128 + signal.SIGTERM


@pytest.mark.timeout(150)
def test_ranks_end_when_the_command_is_killed(job):
    started = job("ignores")
    started.process.kill()
    started.check_gone()


@pytest.mark.timeout(150)
def test_ranks_end_when_the_launcher_is_killed(job):
    started = job("ignores")
    children = Path(f"/proc/{started.process.pid}/task/{started.process.pid}/children")
    for launcher in children.read_text().split():
        os.kill(int(launcher), signal.SIGKILL)
    status, _ = started.end()
    assert status != 0
