"""The simulator's predictions beside real ranks: not how exact, but that they are no fiction.

A factor of ten either way is allowed; a wrong unit, a forgotten message or a lost replica is more.
Machines of tests are shared and busy: what other work delays is measured again, the shortest time
counts, and a step may take as many times longer as a busy loop beside it does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from speed import OtherWork

from hpcflow.tools.bench import prediction

TRIES = 5


class Machine:
    """The rates of a core here, and the links that were measured between two ranks."""

    def __init__(self) -> None:
        self.rates, self.links = prediction.one_thread(), [prediction.measured_link(quick=True)]

    @property
    def link(self) -> prediction.Link:
        """The best that they have shown."""
        return self.links[0]._replace(latency=min(one.latency for one in self.links),
                                      bandwidth=max(one.bandwidth for one in self.links),
                                      overhead=min(one.overhead for one in self.links))

    def look_again(self) -> None:
        """Measure the link once more."""
        self.links.append(prediction.measured_link(quick=True))


@pytest.fixture(scope="module")
def machine():
    return Machine()


def compare(machine: Machine, ranks: int, predict: Callable, measure: Callable[[], float]) -> None:
    """Raise unless ``predict(rates, link)`` is near the shortest step."""
    seen = []
    for attempt in range(TRIES):
        if attempt:
            machine.look_again()
        with OtherWork(ranks) as other:
            measured = measure()
        seen.append((measured, measured / other.slowed))
        shortest, undelayed = map(min, zip(*seen, strict=True))
        predicted = predict(machine.rates, machine.link)
        slowest = max(predict(machine.rates, link) for link in machine.links)
        if predicted < 10 * shortest and undelayed < 10 * slowest:
            return
    pytest.fail(f"predicted {predicted} to {slowest} s, measured {shortest} s, or {undelayed} s "
                "without other work")


@pytest.mark.timeout(150)
@pytest.mark.parametrize(("servers", "workers"), [(1, 1), (1, 2), (2, 2)])
def test_predicted_and_measured_steps(machine, servers, workers):
    compare(machine, servers + workers,
            lambda *known: prediction.predicted_step(servers, workers, *known),
            lambda: prediction.real_step(servers, workers, steps=20))


@pytest.mark.timeout(150)
@pytest.mark.parametrize("title", prediction.POINTS)
def test_predicted_and_measured_points(machine, title):
    """Synchronous and null steps."""
    point = replace(prediction.POINTS[title][0], steps=60)  # loops are compiled by the first
    compare(machine, point.servers + point.workers,
            lambda *known: prediction.predicted_point(point, *known),
            lambda: min(prediction.real_steps(point)))


def test_a_step_of_one_rank(machine):
    """Without servers the step is arithmetic alone."""
    rates, link = machine.rates, machine.link
    alone = prediction.predicted_step(1, 1, rates, link._replace(
        latency=0.0, bandwidth=1e15, overhead=0.0))
    assert alone < prediction.predicted_step(1, 1, rates, link)
