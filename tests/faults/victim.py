"""One rank of a job of the matrix (`matrix.py`): one of them fails in some phase, in some way.

Usage: ``python victim.py ROLE PHASE WAY FOLDER``. The one that fails makes the file ``failed`` in
the folder before it does.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import hpcflow as hf

ROLE, PHASE, WAY, FOLDER = sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4])
STATUS = 3
PREFIX = str(FOLDER / "model")
BEGUN, CLOSING, FAILED = FOLDER / "begun", FOLDER / "closing", FOLDER / "failed"


def fail(*_: Any) -> None:
    """Fail in this process's way, on the main thread."""
    FAILED.touch()
    WAYS[WAY]()


def _raise() -> None:
    raise RuntimeError("deliberate failure")


def _abort() -> None:
    from mpi4py import MPI

    MPI.COMM_WORLD.Abort(STATUS)


def _take_all_memory() -> None:
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20), resource.RLIM_INFINITY))
    taken = []
    while True:
        taken.append(np.zeros(1 << 20))


WAYS: dict[str, Callable[[], Any]] = {
    "SIGKILL": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "SIGTERM": lambda: os.kill(os.getpid(), signal.SIGTERM),
    "SIGSTOP": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "sys.exit": lambda: sys.exit(STATUS),
    "exception": _raise,
    "os._exit": lambda: os._exit(STATUS),
    "SIGSEGV": lambda: ctypes.string_at(8),
    "MPI_Abort": _abort,
    "memory": _take_all_memory,
}


def fails_in(phase: str, seconds: float = 0.0) -> None:
    """Let this rank fail so soon, if it is the one and this is the phase; other threads, and what
    the main thread does, go on meanwhile."""
    if phase != PHASE or role != ROLE:
        return
    if not seconds:
        fail()
    signal.signal(signal.SIGALRM, fail)
    signal.setitimer(signal.ITIMER_REAL, seconds)


# ---------------------------------------------------------------- with a parameter server


def build_model() -> dict[str, Any]:
    """The graph of all ranks of a job with a parameter server."""
    with hf.device("/job:ps/task:0"):
        ready = hf.Variable(False, name="ready")
        v = hf.Variable(hf.zeros([100_000]), name="v")
        gradient = hf.placeholder(hf.float32, [100_000])
        push = hf.assign_add(v, gradient).op
    fails_in("building")
    with hf.Graph().as_default() as apart:
        reduced = hf.mpi.allreduce(hf.ones([100_000]), name="reduced")
    return {"ready": ready, "v": v, "gradient": gradient, "push": push, "apart": apart,
            "reduced": reduced, "saver": hf.train.Saver([v]),
            "init": [ready.initializer, v.initializer], "set": hf.assign(ready, True).op,
            "missing": hf.report_uninitialized_variables([ready, v])}


def with_server() -> None:
    """The chief makes a checkpoint first; then all do what the phase says until the job ends."""
    server = hf.train.Server(task.cluster, task.job, task.index)
    model = build_model()
    alone, session = hf.Session(graph=model["apart"]), hf.Session(server.target)
    fails_in("first step", 0.01)
    if role == "chief":
        session.run(model["init"])
        model["saver"].save(session, PREFIX, 0)
        session.run(model["set"])
    elif role == "worker":
        while session.run(model["missing"]).size or not session.run(model["ready"]):
            time.sleep(0.02)
    if role == "ps" and PHASE not in ("collective", "first step"):
        if role == ROLE:
            signal.signal(signal.SIGALRM, fail)
            threading.Thread(target=_fail_as_the_others_go_on, daemon=True).start()
        server.join()
        return
    fails_in(PHASE if PHASE != "closing" else "", 0.3)
    step = 0
    BEGUN.touch()
    while PHASE != "closing" or step < 3:
        step += 1
        _one_step(model, alone, session, step)
    CLOSING.touch()
    session.close()
    fails_in("closing")


def _fail_as_the_others_go_on() -> None:
    """The server fails a while after the others begin, or in the moment in which they close."""
    while not (CLOSING if PHASE == "closing" else BEGUN).exists():
        time.sleep(0.001)
    time.sleep(0.0 if PHASE == "closing" else 0.3)
    os.kill(os.getpid(), signal.SIGALRM)


def _one_step(model: dict[str, Any], alone: Any, session: Any, step: int) -> None:
    if PHASE in ("collective", "first step"):
        alone.run(model["reduced"])
    elif PHASE == "saving" and role == "chief":
        model["saver"].save(session, PREFIX, step, write_meta_graph=False)
    elif PHASE == "restoring" and role == "chief":
        model["saver"].restore(session, f"{PREFIX}-0")
    else:
        session.run(model["push"], {model["gradient"]: np.ones(100_000, np.float32)})


# ---------------------------------------------------------------- without


def replicated() -> None:
    """All ranks train the same model; the first one saves."""
    server = hf.train.Server(task.cluster, task.job, task.index)
    with hf.Graph().as_default() as across:
        with hf.device(f"/job:worker/task:{1 - task.rank}"):
            there = hf.ones([100_000]) * 2.0
        with hf.device(f"/job:worker/task:{task.rank}"):
            sent = hf.reduce_sum(there)
    v = hf.Variable(hf.zeros([100_000]), name="v")
    fails_in("building")
    reduced = hf.mpi.allreduce(hf.ones([100_000]), name="reduced")
    update = hf.assign_add(v, reduced).op
    saver, session = hf.train.Saver([v]), hf.Session()
    other = hf.Session(server.target, graph=across)
    session.run(v.initializer)
    fails_in("first step", 0.01)
    if task.rank == 0:
        saver.save(session, PREFIX, 0)
        BEGUN.touch()
    while not BEGUN.exists():
        time.sleep(0.01)
    fails_in(PHASE if PHASE != "closing" else "", 0.3)
    step = 0
    while PHASE != "closing" or step < 3:
        step += 1
        other.run(sent) if PHASE == "send" else session.run(update)
        if PHASE == "saving" and task.rank == 0:
            saver.save(session, PREFIX, step, write_meta_graph=False)
        elif PHASE == "restoring":
            saver.restore(session, f"{PREFIX}-0")
    session.close()
    fails_in("closing")


if __name__ == "__main__":
    task = hf.mpi.task(jobs=None if ROLE == "allreduce" else {"ps": 1})
    if ROLE == "allreduce":
        role = ("other", "allreduce")[task.rank]
    else:
        role = "ps" if task.job == "ps" else ("chief", "worker")[task.index]
    fails_in("start")
    replicated() if ROLE == "allreduce" else with_server()
