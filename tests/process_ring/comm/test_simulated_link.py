"""The link that takes time but no processor: when data arrive."""

from __future__ import annotations

import numpy as np
import pytest

from hpcflow.comm import simulated_link
from hpcflow.comm.reduction import MEAN, Reducer
from hpcflow.comm.simulated_link import SimulatedLink


class Wire:
    """A transport to oneself, whose messages arrive when `carry` is called."""

    shares_memory = True

    def __init__(self):
        self.sent, self.posted = [], []

    def post_send(self, buffer, dest, tag, done=None):
        self.sent.append(buffer)

    def post_recv(self, buffer, source, tag, done):
        self.posted.append((buffer, done))

    def carry(self):
        for data, (buffer, done) in zip(self.sent, self.posted, strict=True):
            buffer.view(np.uint8)[: data.nbytes] = data.view(np.uint8)
            done(data.nbytes)
        self.sent, self.posted = [], []


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        now = 100.0

        def monotonic(self):
            return self.now

    clock = Clock()
    monkeypatch.setattr(simulated_link, "time", clock)
    return clock


def test_data_are_on_their_way_before_anybody_polls(clock):
    link, came = SimulatedLink(Wire(), latency=0.5, bandwidth=100.0), []
    for _ in range(2):
        link.post_recv(np.zeros(200, np.uint8), 1, 7, came.append)
    clock.now = 101.0
    for _ in range(2):
        link.post_send(np.ones(200, np.uint8), 1, 7)
    clock.now = 103.2
    link._inner.carry()  # the receiver looks late: the first has come 2 s after it was sent, ...
    assert not link.poll() and link.pending() == 2
    clock.now = 103.5  # ... and the latency
    assert link.poll() and came == [200]
    clock.now = 105.4
    assert not link.poll()
    clock.now = 105.5
    assert link.poll() and came == [200, 200] and not link.pending()


def test_what_tells_of_shared_memory_takes_as_long_as_the_data(clock):
    link, came = SimulatedLink(Wire(), latency=0.5, bandwidth=100.0), []
    assert link.shares_memory
    for size in (1, 0):  # an empty message tells that there is nothing
        link.post_sign(np.zeros(1, np.uint8), 1, 7, came.append, 200)
        link.post_send(np.ones(size, np.uint8), 1, 7)
        link._inner.carry()
    clock.now = 102.4
    assert not link.poll()
    clock.now = 102.5
    assert link.poll() and came == [1, 0]


def test_a_message_waits_for_its_receive(clock):
    link, came = SimulatedLink(Wire(), bandwidth=100.0), []
    link.post_send(np.ones(100, np.uint8), 1, 7)
    clock.now = 102.0
    link.post_recv(np.zeros(100, np.uint8), 1, 7, came.append)
    link._inner.carry()
    clock.now = 102.9
    assert not link.poll()
    clock.now = 103.0
    assert link.poll() and came == [100]


def test_without_a_bandwidth_it_is_the_transport_itself():
    link, came = SimulatedLink(Wire()), []
    link.post_recv(np.zeros(4, np.uint8), 1, 7, came.append)
    link.post_send(np.ones(4, np.uint8), 1, 7)
    link._inner.carry()
    assert came == [4] and link.shares_memory


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("divisor", [2, 3, 8, 1 << 15])
def test_means_have_the_bits_of_divisions(dtype, divisor):
    rng = np.random.default_rng(3)
    tiny = np.finfo(dtype).tiny
    a, b = ((rng.normal(size=100_000) * s).astype(dtype) for s in (1.0, 10.0))
    a[:1000] *= tiny
    b[:1000] *= tiny
    out = np.empty_like(a)
    Reducer(MEAN, np.dtype(dtype), 2, divisor).reduce([a, b], out)
    np.testing.assert_array_equal(out, (a + b) / dtype(divisor))
