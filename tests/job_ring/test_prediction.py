"""The simulator's predictions beside real ranks: not how exact, but that they are no fiction."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpcflow.tools.bench import prediction


@pytest.fixture(scope="module")
def machine():
    return prediction.one_thread(), prediction.measured_link(quick=True)


@pytest.mark.parametrize(("servers", "workers"), [(1, 1), (1, 2), (2, 2)])
def test_predicted_and_measured_steps(machine, servers, workers):
    """Machines of tests are shared and busy, so a factor of ten either way is allowed; a wrong
    unit, a forgotten message or a lost replica is more."""
    rates, link = machine
    measured = prediction.real_step(servers, workers, steps=20)
    predicted = prediction.predicted_step(servers, workers, rates, link)
    assert 0.1 < predicted / measured < 10, (predicted, measured)


@pytest.mark.parametrize("title", prediction.POINTS)
def test_predicted_and_measured_points(machine, title):
    """Synchronous and null steps, with the same allowance."""
    point = replace(prediction.POINTS[title][0], steps=60)  # loops are compiled by the first
    measured = min(prediction.real_steps(point))
    predicted = prediction.predicted_point(point, *machine)
    assert 0.1 < predicted / measured < 10, (predicted, measured)


def test_a_step_of_one_rank(machine):
    """Without servers the step is arithmetic alone."""
    rates, link = machine
    alone = prediction.predicted_step(1, 1, rates, link._replace(
        latency=0.0, bandwidth=1e15, overhead=0.0))
    assert alone < prediction.predicted_step(1, 1, rates, link)
