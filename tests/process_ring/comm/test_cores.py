"""The core that a thread keeps to for the time of short steps."""

from __future__ import annotations

import os

import pytest

from hpcflow import config
from hpcflow.comm import cores
from hpcflow.comm.cores import Core, own_core
from hpcflow.host import tuning

ALL = frozenset(os.sched_getaffinity(0))


@pytest.fixture(autouse=True)
def affinity():
    yield
    os.sched_setaffinity(0, ALL)


@pytest.fixture
def clock(monkeypatch):
    """The time, which a test sets."""
    times = [100.0]
    monkeypatch.setattr(cores.time, "monotonic", lambda: times[0])
    return times


def steps(core, clock, count, seconds):
    """Whether the last of so many steps was kept on the core."""
    for _ in range(count):
        clock[0] += seconds
        kept = core.keep()
        assert os.sched_getaffinity(0) == (core.core if kept else ALL)
        if kept:
            core.leave()
        assert os.sched_getaffinity(0) == ALL
    return kept


def test_many_short_steps_keep_to_the_core_until_a_long_one(clock):
    core = Core(min(ALL), ALL)
    assert not steps(core, clock, 1 + tuning.comm.STEPS_TO_SETTLE, 1e-3)
    assert steps(core, clock, 1, 1e-3)
    assert not steps(core, clock, 1, 1.0)
    assert not steps(core, clock, tuning.comm.STEPS_TO_SETTLE, 1e-3)
    assert steps(core, clock, 1, 1e-3)


def test_long_steps_are_left_to_the_system(clock):
    assert not steps(Core(min(ALL), ALL), clock, 3 * tuning.comm.STEPS_TO_SETTLE, 0.05)


@pytest.mark.skipif(len(ALL) < 2, reason="needs two cores")
def test_a_thread_that_the_program_has_put_elsewhere_stays(clock):
    core = Core(min(ALL), ALL)
    assert steps(core, clock, 2 + tuning.comm.STEPS_TO_SETTLE, 1e-3)
    os.sched_setaffinity(0, {max(ALL)})
    assert not core.keep() and os.sched_getaffinity(0) == {max(ALL)}


def test_ranks_share_the_cores_out(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3, 1})
    found = [own_core(rank, [4, 5, 7]) for rank in (4, 5, 7)]
    assert [c.core for c in found] == [{1}, {3}, {1}] and found[0].cores == {1, 3}
    monkeypatch.setattr(config.flags, "keep_core", False)
    assert own_core(4, [4, 5, 7]) is None


def test_one_core_is_nothing_to_choose_from(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3})
    assert own_core(0, [0, 1]) is None
