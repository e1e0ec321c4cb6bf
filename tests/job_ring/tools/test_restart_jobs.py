"""``python -m hpcflow run --restarts``: jobs go on from their last checkpoint, losing nothing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from counted_job import (
    AVERAGED,
    INTERVAL,
    STEPS,
    check_nothing_lost,
    check_total,
)
from speed import patience

from hpcflow.tools import run

SERVED = """
import os, signal, sys, threading
import hpcflow as hf

task = hf.mpi.task()
server = hf.train.Server(task.cluster, task.job, task.index)
count = int(os.environ["HPCFLOW_RESTART_COUNT"])
if task.job == "ps":
    server.join()
    sys.exit()
print("servers", task.cluster.num_tasks("ps"), "workers", task.cluster.num_tasks("worker"),
      "count", count, flush=True)
if count < 3 and (count or task.index == 1):
    if count and task.index == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    threading.Event().wait()  # the chief alone takes steps in the first start, nobody in the next
with hf.device(hf.train.replica_device_setter(
        cluster=task.cluster, worker_device=f"/job:worker/task:{task.index}")):
    step = hf.train.get_or_create_global_step()
    w = hf.Variable(hf.zeros([3]), name="w")
    with hf.control_dependencies([w.assign_add(hf.ones([3]), use_locking=True)]):
        train = hf.assign_add(step, 1, use_locking=True)
with hf.train.MonitoredTrainingSession(
        server.target, task.index == 0, "model", save_checkpoint_steps=5,
        hooks=[hf.train.StopAtStepHook(last_step=60)]) as session:
    if task.index == 0:
        print("begin", session.run(step), flush=True)
    while not session.should_stop():
        n = session.run(train)
        if n >= 20 and count == 0:
            os.kill(os.getpid(), signal.SIGKILL)
"""
SOON = {"HPCFLOW_HEALTH_SECONDS": "0.25", "HPCFLOW_HEALTH_TIMEOUT": "4"}


@pytest.fixture
def start(tmp_path):
    root = str(Path(run.__file__).parents[2])

    def begin(program, ranks, *arguments, options=(), **variables):
        """(status, standard error, what rank 0 of each start printed)."""
        (tmp_path / "program.py").write_text(program)
        command = [sys.executable, "-m", "hpcflow", "run", "-n", str(ranks), "--follow", "none",
                   "--logs", "logs", *options, "program.py", *map(str, arguments)]
        ended = subprocess.run(command, env=os.environ | {"PYTHONPATH": root} | variables,
                               capture_output=True, text=True, cwd=tmp_path, timeout=patience(200))
        folders = [tmp_path / "logs", *sorted((tmp_path / "logs").glob("restart*"))]
        logs = [[p.read_text() for p in sorted(f.glob("rank*.log"))] for f in folders]
        return ended.returncode, ended.stderr, logs

    return begin


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("how", "who"), [("SIGKILL", 0), ("SIGKILL", 2), ("SIGSTOP", 1)])
def test_a_lost_rank_costs_at_most_the_interval_of_checkpoints(start, how, who):
    status, errors, starts = start(AVERAGED, 3, how, 13, 1, who, options=("--restarts", "2"),
                                   **SOON)
    assert status == 0, errors
    assert "a rank is lost; restart 1 of 2 on 3 ranks" in errors
    assert [re.search(r"begin (\d+) of 3 count (\d)", logs[0]).groups() for logs in starts] == [
        ("0", "0"), ("10", "1")]
    assert check_nothing_lost(starts)[0] <= INTERVAL


@pytest.mark.timeout(300)
def test_other_numbers_of_ranks_go_on_with_the_next_example(start):
    """A preempted job goes on with one rank less, then with one more, to the same values."""
    starts = []
    for ranks, at in ((2, 7), (1, 13), (3, 99)):
        status, errors, logs = start(AVERAGED, ranks, "SIGTERM", at, 1, 0)
        assert status == (75 if at < STEPS else 0), errors
        starts.append(logs[0])
    repeated, total = check_nothing_lost(starts)
    assert repeated == 0
    check_total(starts, total)


@pytest.mark.timeout(200)
@pytest.mark.parametrize(("how", "expected"), [("raise", 1), ("_exit", 3)])
def test_what_the_program_decides_ends_the_job(start, how, expected):
    status, errors, starts = start(AVERAGED, 2, how, 3, 9, 1, options=("--restarts", "5"))
    assert status == expected and len(starts) == 1
    assert "the program failed by itself: not started again" in errors


@pytest.mark.timeout(300)
def test_servers_and_workers_follow_and_a_job_without_progress_takes_fewer_ranks(start):
    status, errors, starts = start(SERVED, 4, options=("--restarts", "3", "--ps", "2",
                                                       "--min-ranks", "3"))
    assert status == 0, errors
    begun = [re.search(r"servers (\d) workers (\d) count (\d)", "".join(logs)).groups()
             for logs in starts]
    assert begun == [("2", "2", "0"), ("2", "2", "1"), ("2", "2", "2"), ("1", "2", "3")]
    assert int(re.search(r"begin (\d+)", "".join(starts[3]))[1]) >= 5
