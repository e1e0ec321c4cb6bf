"""What the transports rest on: waiting, what launchers say, views of buffers."""

from __future__ import annotations

import threading
import time

import ml_dtypes
import numpy as np
import pytest

from hpcflow import config, errors
from hpcflow.comm import buffers, waiting
from hpcflow.comm.launch import launch, launched_under_mpi, without_launcher
from hpcflow.comm.waiting import Backoff
from hpcflow.host import tuning

LAUNCHERS = {
    "Open MPI": {
        "OMPI_COMM_WORLD_SIZE": "4",
        "OMPI_COMM_WORLD_RANK": "3",
        "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
        "PMIX_RANK": "3",
    },
    "MVAPICH": {
        "MV2_COMM_WORLD_SIZE": "4",
        "MV2_COMM_WORLD_RANK": "3",
        "MV2_COMM_WORLD_LOCAL_SIZE": "2",
        "PMI_SIZE": "4",
    },
    "MPICH": {"PMI_SIZE": "4", "PMI_RANK": "3", "MPI_LOCALNRANKS": "2"},
}


@pytest.mark.parametrize("name", LAUNCHERS)
def test_launchers(name: str) -> None:
    found = launch(LAUNCHERS[name])
    assert found is not None
    assert (found.launcher, found.rank, found.size, found.local_size) == (name, 3, 4, 2)


def test_slurm_steps() -> None:
    batch_script = {"SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_NTASKS": "4"}
    assert not launched_under_mpi(batch_script)
    interactive = {**batch_script, "SLURM_STEP_NUM_TASKS": "1"}
    assert not launched_under_mpi(interactive)
    assert launched_under_mpi({**interactive, "PMIX_RANK": "0"})
    step = launch({**batch_script, "SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "2"})
    assert step is not None
    assert (step.launcher, step.rank, step.size) == ("Slurm", 2, 4)


def test_pmix_alone_tells_no_size() -> None:
    found = launch({"PMIX_RANK": "5"})
    assert found is not None
    assert (found.launcher, found.rank, found.size) == ("PMIx", 5, None)


def test_no_launcher() -> None:
    assert launch({"PATH": "/bin", "OMPI_MCA_btl": "self", "SLURM_JOB_ID": "1"}) is None


def test_environment_for_children() -> None:
    settings = {
        "PATH": "/bin",
        "OMPI_MCA_btl": "^ofi",
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "SLURM_JOB_ID": "7",
        "HPCFLOW_COMPILE": "0",
    }
    of_rank = {"OMPI_MCA_num_procs": "4", "SLURM_STEP_ID": "0", "PMI_FD": "9"}
    for variables in LAUNCHERS.values():
        of_rank |= variables
    assert without_launcher(settings | of_rank) == settings


def test_backoff_spins_then_yields_then_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    backoff = Backoff()
    yields: list[None] = []
    monkeypatch.setattr(waiting, "_yield_core", lambda: yields.append(None))
    for _ in range(tuning.comm.WAIT_SPINS):
        backoff.wait()
    assert not yields
    backoff.wait()
    assert yields
    time.sleep(2 * tuning.comm.WAIT_MIN_YIELD_SECONDS)
    for _ in range(20):
        backoff.wait()
    before = len(yields)
    start = time.monotonic()
    for _ in range(20):
        backoff.wait()
    assert len(yields) == before
    assert time.monotonic() - start >= 20 * tuning.comm.WAIT_MIN_SLEEP_SECONDS


@pytest.mark.parametrize("yield_seconds, spins", [(1e-6, tuning.comm.WAIT_MOST_SPINS), (3e-5, 0)])
def test_backoff_spins_as_long_as_it_has_the_core_alone(
    monkeypatch: pytest.MonkeyPatch, yield_seconds: float, spins: int
) -> None:
    now = 0.0

    def yield_core() -> None:
        nonlocal now
        now += yield_seconds

    monkeypatch.setattr(waiting, "_yield_core", yield_core)
    monkeypatch.setattr(waiting.time, "monotonic", lambda: now)
    for oversubscribed in (False, True):
        backoff = Backoff(oversubscribed)
        for _ in range(60):  # what comes after three yields
            while backoff._misses < backoff._spins + 3:
                assert not backoff.wait()
            backoff.reset()
        assert backoff._spins == (0 if oversubscribed else spins)


def test_backoff_leaves_yielding_to_polls_that_do(monkeypatch: pytest.MonkeyPatch) -> None:
    yields: list[None] = []
    monkeypatch.setattr(waiting, "_yield_core", lambda: yields.append(None))
    slept = {}
    for polls_yield in (False, True):
        backoff = Backoff(oversubscribed=True, polls_yield=polls_yield)
        yields.clear()
        backoff.wait()
        assert len(yields) == (not polls_yield)
        time.sleep(2 * tuning.comm.WAIT_MIN_SHARED_SECONDS)
        slept[polls_yield] = [backoff.wait() for _ in range(20)]
    assert slept[False] == slept[True]
    assert slept[True][-1]


def test_backoff_without_spinning() -> None:
    backoff = Backoff(oversubscribed=True)
    start = time.process_time()
    deadline = time.monotonic() + 0.3
    while time.monotonic() < deadline:
        backoff.wait()
    assert time.process_time() - start < 0.1


def test_sleeps_are_bounded() -> None:
    backoff = Backoff(oversubscribed=True)
    deadline = time.monotonic() + tuning.comm.WAIT_IDLE_SECONDS + 0.3
    longest = 0.0
    while time.monotonic() < deadline:
        start = time.monotonic()
        backoff.wait()
        longest = max(longest, time.monotonic() - start)
    assert longest >= tuning.comm.WAIT_IDLE_SLEEP_SECONDS
    backoff._sleep = 1e6
    for _ in range(20):
        backoff.wait(limit=0.0)


def test_backoff_learns_from_traffic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where something came every few milliseconds, it yields that long before it sleeps."""
    clock = [0.0]
    monkeypatch.setattr(waiting.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(waiting, "_yield_core", lambda: None)

    def yielding_for(backoff: Backoff) -> float:
        start = clock[0]
        while backoff._sleep == 0 or clock[0] == start:
            clock[0] += 10e-6
            backoff.wait()
        return clock[0] - start

    backoff = Backoff()
    assert yielding_for(backoff) == pytest.approx(tuning.comm.WAIT_MIN_YIELD_SECONDS, abs=2e-3)
    for _ in range(3):
        backoff.reset()
        for _ in range(tuning.comm.WAIT_SPINS + 1):
            backoff.wait()
        clock[0] += 4e-3
    backoff.reset()
    assert yielding_for(backoff) == pytest.approx(8e-3, abs=2e-3)
    # A long silence is forgotten: the next wait sleeps sooner again.
    for _ in range(20):
        backoff.reset()
        for _ in range(tuning.comm.WAIT_SPINS + 1):
            backoff.wait()
        clock[0] += 1.0
    backoff.reset()
    assert yielding_for(backoff) == pytest.approx(tuning.comm.WAIT_MIN_YIELD_SECONDS, abs=2e-3)


def test_wake_ends_a_sleep() -> None:
    backoff = Backoff(oversubscribed=True)
    backoff._misses, backoff._sleep = 10, 1e6
    threading.Timer(0.05, backoff.wake).start()
    backoff._sleep_once(None)
    backoff.wake()
    backoff.wake()
    backoff._sleep = 1e6
    backoff._sleep_once(None)


def test_byte_views_share_memory() -> None:
    for array in (
        np.zeros((2, 3)),
        np.zeros(4, ml_dtypes.bfloat16),
        np.zeros((), np.int32),
        np.zeros((0, 5)),
    ):
        view = buffers.byte_view(array)
        assert view.dtype == np.uint8
        assert view.shape == (array.nbytes,)
        view[:] = 1
        assert (array.reshape(-1).view(np.uint8) == 1).all()
    assert buffers.byte_view(b"").shape == (0,)
    assert bytes(buffers.byte_view(memoryview(b"abc"))) == b"abc"


def test_chunk_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    for flag, expected in ((1000, 1000), (0, 2**31 - 1), (2**40, 2**31 - 1)):
        monkeypatch.setattr(config.flags, "chunk_bytes", flag)
        assert buffers.chunk_bytes() == expected


@pytest.mark.parametrize(
    ("sent", "room", "allowed"),
    [(0, 0, True), (0, 50, True), (9, 50, True), (50, 50, True), (5, 8, True)]
    + [(10, 50, False), (49, 50, False), (51, 50, False), (9, 8, False)],
)
def test_chunk_rule(sent: int, room: int, allowed: bool) -> None:
    if allowed:
        buffers.check_received(sent, room, 10, "here")
    else:
        with pytest.raises(errors.InternalError, match=f"here: message of {sent} bytes: expected"):
            buffers.check_received(sent, room, 10, "here")
