"""The cost model: measured once, kept in a file, and measured anew where the file is of no use."""

import json

import pytest

from hpcflow import config
from hpcflow.host import costs
from hpcflow.host.costs import Costs


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """An empty cache of the user's."""
    monkeypatch.setattr(config.flags, "loop_cache", str(tmp_path))
    yield tmp_path
    costs.costs.cache_clear()


def found():
    """What a new process finds."""
    costs.costs.cache_clear()
    return costs.costs()


def test_what_is_measured_is_possible():
    call, element, operations = costs.measure()
    assert 1e-8 < call < 1e-2 and 1e-13 <= element < 1e-6 and 1e7 < operations < 1e14


def test_later_processes_read_what_the_first_measured(folder, monkeypatch):
    first = found()
    (path,) = folder.iterdir()
    assert json.loads(path.read_text()) == first._asdict()
    monkeypatch.setattr(costs, "measure", lambda: pytest.fail("it is known"))
    assert found() == first


@pytest.mark.parametrize("text", ["", "{", "[]", '{"call_seconds": 1.0}', json.dumps(
    Costs(float("nan"), 1.0, 1.0)._asdict()), json.dumps(Costs(-1.0, 1.0, 1.0)._asdict())])
def test_a_damaged_file_is_written_again(folder, monkeypatch, text):
    made = Costs(1e-6, 1e-10, 1e10)
    monkeypatch.setattr(costs, "measure", lambda: made)
    found()
    (path,) = folder.iterdir()
    path.write_text(text)
    assert found() == made and json.loads(path.read_text()) == made._asdict()


def test_without_a_cache_nothing_is_kept(folder, monkeypatch):
    monkeypatch.setattr(config.flags, "loop_cache", "0")
    monkeypatch.setattr(costs, "measure", lambda: Costs(1e-6, 1e-10, 1e10))
    assert found() == Costs(1e-6, 1e-10, 1e10) and not [*folder.iterdir()]


def test_sizes_are_those_at_which_seconds_are_equal(monkeypatch):
    monkeypatch.setattr(costs, "costs", lambda: Costs(1e-6, 1e-9, 1e10))
    assert costs.least_size(4, 10) == 1500
    assert costs.seconds(4, 1500) == pytest.approx(costs.seconds(10, 0))
    assert costs.least_size(20, 10) == costs.least_size(1, 0) == 0
