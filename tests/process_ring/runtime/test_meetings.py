"""Meetings of ranks that enter a collective operation together, and of those that give up."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from hpcflow.errors import CancelledError
from hpcflow.runtime.cluster.meeting import Meetings

RANKS = [0, 1, 2]


class Transport:
    """Delivers at once; ``heard`` is called with what every message says."""

    comms = None

    def __init__(self, rank, meetings):
        self.rank, self.meetings = rank, meetings

    def send_message(self, rank, payload):
        self.meetings[rank].on_message(self.rank, payload)


@pytest.fixture
def meetings():
    made: list[Meetings] = []
    made += [Meetings(Transport(rank, made)) for rank in RANKS]
    for one in made:
        one._comms[tuple(RANKS)] = "communicator"
    return made


def test_all_come(meetings):
    with ThreadPoolExecutor(3) as pool:
        for key in ("a", "b"):
            held = [pool.submit(m.hold, key, RANKS, lambda: False, lambda comm: (key, comm))
                    for m in meetings]
            assert [h.result(30) for h in held] == [(key, "communicator")] * 3


def test_who_gives_up_is_not_counted(meetings):
    with pytest.raises(CancelledError, match="before all ranks had come"):
        meetings[2].hold("a", RANKS, lambda: True, lambda comm: pytest.fail("entered"))
    give_up = threading.Event()
    with ThreadPoolExecutor(3) as pool:
        two = [pool.submit(m.hold, "a", RANKS, give_up.is_set, lambda comm: "entered")
               for m in meetings[:2]]
        give_up.set()
        for one in two:
            with pytest.raises(CancelledError):
                one.result(30)
        held = [pool.submit(m.hold, "a", RANKS, lambda: False, lambda comm: "entered")
                for m in meetings]
        assert [h.result(30) for h in held] == ["entered"] * 3


def test_who_is_cancelled_too_late_enters(meetings):
    """The others are in the operation already, or will be."""
    first, go_on = threading.Event(), threading.Event()

    def work(comm):
        first.set()
        assert go_on.wait(30)
        return "entered"

    with ThreadPoolExecutor(6) as pool:
        held = [pool.submit(m.hold, "a", RANKS, lambda: False, work) for m in meetings]
        assert first.wait(30)
        late = [pool.submit(m.hold, "b", RANKS, lambda: True, lambda comm: "entered")
                for m in meetings[:2]]
        for one in late:  # the third has not come to this one
            with pytest.raises(CancelledError):
                one.result(30)
        go_on.set()
        assert [h.result(30) for h in held] == ["entered"] * 3
