"""Two ways to do what recurs: that which makes the whole program faster is taken."""

from types import SimpleNamespace

import pytest

from hpcflow.host import trials, tuning

TRIAL = 2 * tuning.host.TRIAL_PERIODS * tuning.host.TRIAL_TURNS


class Program:
    """Things to do in one of two ways, on a clock that they move on, with other work between."""

    def __init__(self, monkeypatch):
        self.now = 100.0
        self.first, self.second, self.between = 1.0, 0.6, 0.0
        self.used = []  # 1 or 2, the ways
        self.trials = trials.Trials()
        monkeypatch.setattr(trials, "time", SimpleNamespace(perf_counter=lambda: self.now))
        monkeypatch.setattr(tuning.host, "TRIAL_WAIT_SECONDS", 1000.0)
        monkeypatch.setattr(tuning.host, "TRIAL_LONGEST_WAIT_SECONDS", 4000.0)
        monkeypatch.setattr(trials.Trial, "running", None)

    def run(self, count, key="key"):
        """The ways in which so many things were done."""
        del self.used[:]
        for _ in range(count):
            way = 1 + self.trials.take_second(key)
            self.used.append(way)
            self.now += (self.first if way == 1 else self.second) + self.between
        return self.used


@pytest.fixture
def program(monkeypatch):
    """How long things take is up to the test."""
    return Program(monkeypatch)


def test_the_way_is_taken_that_makes_the_program_faster(program):
    assert set(program.run(tuning.host.TRIAL_WARM)) == {1}
    assert program.run(TRIAL + 1).count(2) == TRIAL // 2
    assert set(program.run(100)) == {2}


def test_a_gain_that_other_work_pays_for_is_none(program):
    program.second += 0.5
    program.run(tuning.host.TRIAL_WARM + TRIAL + 1)
    assert set(program.run(100)) == {1}


def test_a_busy_machine_holds_up_few(program):
    program.second = 200.0
    assert program.run(500).count(2) == 1


def test_the_second_way_is_left_at_once_when_it_is_slow(program):
    program.run(tuning.host.TRIAL_WARM + TRIAL + 1)
    program.second = 200.0
    assert program.run(100).count(2) <= 5


def test_pauses_between_many_are_no_faults(program):
    program.run(tuning.host.TRIAL_WARM + TRIAL + 1)
    for _ in range(20):
        assert set(program.run(10)) == {2}
        program.now += 20


def test_a_pause_of_the_client_ends_a_trial_at_most(program):
    program.run(tuning.host.TRIAL_WARM + 5)
    program.now += 1e6
    program.run(TRIAL)
    assert set(program.run(100)) == {2}
    program.run(6000)
    program.now += 1e6
    program.run(4 * TRIAL)
    assert 2 in program.run(2 * TRIAL)


def test_what_was_chosen_is_tried_again_later_and_later(program):
    program.second = 1.2
    program.run(tuning.host.TRIAL_WARM + TRIAL + 1)
    assert set(program.run(1900)) == {1}
    assert set(program.run(200 + TRIAL)) == {1, 2}
    assert set(program.run(3700)) == {1}
    program.second = 0.6
    program.run(400 + TRIAL)
    assert set(program.run(100)) == {2}


def test_one_thing_is_tried_at_a_time(program):
    program.run(tuning.host.TRIAL_WARM, "a")
    program.run(tuning.host.TRIAL_WARM, "b")
    program.first = program.second = 0.001
    program.run(2, "a")
    assert set(program.run(10, "b")) == {1}
    program.now += 10  # nobody does the first any more
    assert 2 in program.run(TRIAL + 1, "b")
