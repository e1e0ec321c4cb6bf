"""Checkpoints on the storage of the nodes, in one process; and who is whose partner."""

from __future__ import annotations

import pytest

import hpcflow as hf
from hpcflow import config
from hpcflow.train import local_checkpoints


@pytest.fixture
def nodes(tmp_path, monkeypatch):
    monkeypatch.setattr(config.flags, "local_checkpoints", str(tmp_path / "nodes"))
    monkeypatch.setattr(config.flags, "shared_checkpoint_every", 3)
    return tmp_path


def train(directory, last, fail_at=None):
    """The step with which a session begins that trains to the step `last`."""
    with hf.Graph().as_default():
        step = hf.train.get_or_create_global_step()
        w = hf.get_variable("w", initializer=1.0)
        with hf.control_dependencies([w.assign_add(0.5)]):
            add = hf.assign_add(step, 1)
        with hf.train.MonitoredTrainingSession(
                checkpoint_dir=directory, save_checkpoint_steps=2,
                hooks=[hf.train.StopAtStepHook(last_step=last)]) as session:
            first, value = session.run([step, w])
            assert value == 1 + 0.5 * first
            while not session.should_stop():
                if session.run(add) == fail_at:
                    raise KeyError("lost")
        return first


def test_a_session_goes_on_from_the_local_one(nodes):
    directory = str(nodes / "shared")
    with pytest.raises(KeyError):
        train(directory, 99, fail_at=11)
    assert hf.train.latest_checkpoint(directory).endswith("-6")
    assert len(list(nodes.glob("nodes/*/rank-0/*.complete"))) == 2  # the last and one before
    assert train(directory, 13) == 10
    assert hf.train.latest_checkpoint(directory).endswith("-13")  # the last one is shared
    state = hf.train.get_checkpoint_state(directory)
    assert [p.rpartition("-")[2] for p in state.all_model_checkpoint_paths][:3] == ["0", "6", "10"]


def test_an_older_local_one_is_passed_over(nodes):
    directory = str(nodes / "shared")
    train(directory, 9)
    assert train(directory, 10) == 9


def test_partners_are_on_other_nodes():
    tasks = ["a", "b", "c", "d"]
    partner = local_checkpoints._partner
    assert [partner(t, tasks, {"a": 0, "b": 0, "c": 1, "d": 1}) for t in tasks] == list("ccaa")
    assert [partner(t, tasks, dict.fromkeys(tasks, 0)) for t in tasks] == list("bcda")
    assert partner("a", ["a"], {"a": 0}) is None and partner("", [], {}) is None
