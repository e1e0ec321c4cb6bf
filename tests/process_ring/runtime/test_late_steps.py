"""Steps that compute beyond their timeout fail when they are done."""

from __future__ import annotations

import threading
from contextlib import contextmanager

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.runtime.executor import deadline


@pytest.fixture
def clock(monkeypatch):
    """A list of one number, the seconds that the deadlines of steps see beside the real time."""
    from time import monotonic

    ahead = [0.0]

    class Clock:
        @staticmethod
        def monotonic():
            return monotonic() + ahead[0]

    monkeypatch.setattr(deadline, "time", Clock)
    return ahead


@contextmanager
def session_of(kind):
    """A session of this process, or of a cluster of one server in it."""
    if kind == "local":
        with hf.Session() as session:
            yield session
        return
    server = hf.train.Server.create_local_server()
    try:
        with hf.Session(server.target) as session:
            yield session
    finally:
        server._server.close()


def slow(clock):
    """A tensor whose kernel takes an hour by the clock."""
    def compute(x):
        clock[0] += 3600
        return x + 1

    return hf.py_func(compute, [hf.constant(np.float32(1))], hf.float32) * 2


@pytest.mark.parametrize("kind", ["local", "server"])
@pytest.mark.parametrize("traced", [False, True])
def test_a_kernel_that_outlasts_the_timeout_fails_its_step(clock, kind, traced):
    value = slow(clock)
    options = hf.RunOptions(timeout_in_ms=600_000)
    more = {}
    if traced:
        options.trace_level = hf.RunOptions.FULL_TRACE
        more["run_metadata"] = hf.RunMetadata()
    with session_of(kind) as session:
        with pytest.raises(hf.errors.DeadlineExceededError, match="after its time was over"):
            session.run(value, options=options, **more)
        assert session.run(value) == 4  # without a timeout it may take as long as it likes
        options.timeout_in_ms = 7_200_000
        assert session.run(value, options=options, **more) == 4


def test_the_timeout_of_the_session_holds_for_what_computes(clock):
    value = slow(clock)
    config = hf.ConfigProto(operation_timeout_in_ms=600_000)
    with hf.Session(config=config) as session:
        with pytest.raises(hf.errors.DeadlineExceededError, match="after its time was over"):
            session.run(value)
        assert session.run(value, options=hf.RunOptions(timeout_in_ms=7_200_000)) == 4


def test_threads_have_deadlines_of_their_own(clock):
    """A step without a timeout and one with a long one run beside the step that is late."""
    value, quick, found = slow(clock), hf.constant(3.0) * 2, []
    with hf.Session() as session:
        thread = threading.Thread(target=lambda: found.append(session.run(quick)))
        thread.start()
        with pytest.raises(hf.errors.DeadlineExceededError):
            session.run(value, options=hf.RunOptions(timeout_in_ms=600_000))
        thread.join()
    assert found == [6]
