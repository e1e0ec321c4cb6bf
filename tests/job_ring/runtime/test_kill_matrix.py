"""Every role fails in every phase of a job: the job ends, not well, says who it was, and leaves no
process behind. Half of the ranks are killed, half end with an exception."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from jobs import run_job

ROLES = ("ps", "chief", "worker")
PHASES = ("start", "send", "collective", "checkpoint", "idle")
MATRIX = {(role, phase): ("kill", "raise")[number % 2]
          for number, (role, phase) in enumerate(itertools.product(ROLES, PHASES))}
SOON_SECONDS = 40.0  # of the whole job, on a busy machine

PROGRAM = """
    import os, signal, sys, threading, time
    import numpy as np
    import hpcflow as hf
    victim, phase, how, folder = {victim!r}, {phase!r}, {how!r}, {folder!r}
    task = hf.mpi.task(jobs={{"ps": 1}})
    server = hf.train.Server(task.cluster, task.job, task.index)
    role = "ps" if task.job == "ps" else ("chief", "worker")[task.index]

    def fail():
        print(f"[rank {{task.rank}}] fails now", flush=True)
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise RuntimeError(f"deliberate failure of the {{role}}")

    if role == victim and phase == "start":
        fail()
    with hf.Graph().as_default() as apart:
        reduced = hf.mpi.allreduce(hf.ones([100000]), name="reduced")
    with hf.device("/job:ps/task:0"):
        ready = hf.Variable(False, name="ready")
        v = hf.Variable(hf.zeros([1000000]), name="v")
        gradient = hf.placeholder(hf.float32, [1000000])
        push = hf.assign_add(v, gradient).op
    saver = hf.train.Saver([v])
    alone, session = hf.Session(graph=apart), hf.Session(server.target)
    if phase == "collective":
        alone.run(reduced)
    elif role == "chief":
        session.run([ready.initializer, v.initializer])
        session.run(hf.assign(ready, True).op)
    elif role == "worker":
        while session.run(hf.report_uninitialized_variables([ready, v])).size:
            time.sleep(0.05)
    if role == victim:  # what the main thread does goes on meanwhile
        threading.Timer(0.5 if role != "ps" else 2.0, fail).start()
    print(f"[rank {{task.rank}}] goes on", flush=True)
    if phase == "collective":
        while True:
            alone.run(reduced)
    if role == "ps":
        server.join()
        sys.exit()
    ones = np.ones(1000000, np.float32)
    while True:
        if phase == "send":
            session.run(push, {{gradient: ones}})
        elif phase == "checkpoint" and role == "chief":
            saver.save(session, os.path.join(folder, "model"), write_meta_graph=False)
        else:
            time.sleep(0.05)
"""


@pytest.fixture(scope="module")
def ends(tmp_path_factory):
    """(role, phase) -> how the job ended: three jobs at a time."""

    def run(case):
        (role, phase), how = case
        folder = tmp_path_factory.mktemp(f"{role}-{phase}", numbered=False)
        program = PROGRAM.format(victim=role, phase=phase, how=how, folder=str(folder))
        try:
            return run_job(folder, [program], 3, OMP_NUM_THREADS="1"), left_over(folder)
        except BaseException as error:  # noqa: BLE001  (the test of this case fails with it)
            return error, []

    with ThreadPoolExecutor(3) as pool:
        return dict(zip(MATRIX, pool.map(run, MATRIX.items()), strict=True))


def left_over(folder):
    """The processes that still run the program in `folder`."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(folder).encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:  # it has ended meanwhile
            pass
    return found


@pytest.mark.timeout(100)
@pytest.mark.parametrize(("role", "phase"), MATRIX)
def test_a_rank_that_fails_ends_the_job(ends, role, phase):
    ended, processes = ends[role, phase]
    if isinstance(ended, BaseException):
        raise ended
    rank, how = ROLES.index(role), MATRIX[role, phase]
    assert ended.status != 0, ended.output
    assert ended.seconds < SOON_SECONDS, ended.output
    assert not processes
    said = ended.lines_of(rank)
    assert "fails now" in said and ("goes on" in said) == (phase != "start"), ended.output
    if how == "raise":
        assert f"RuntimeError: deliberate failure of the {role}" in said, ended.output
    else:  # the launcher says it, or the rank that looks after this one
        assert f"rank {rank} " in ended.output and "signal 9" in ended.output or (
            f"Rank {rank} is lost" in ended.output), ended.output
