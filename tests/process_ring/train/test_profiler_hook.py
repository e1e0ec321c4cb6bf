"""The hook that records steps, and the writer of summaries that keeps what it is given."""

from __future__ import annotations

import json
import unittest

import pytest

import hpcflow as hf
from hpcflow.contrib.testing import FakeSummaryWriter
from hpcflow.summary.writer import FileWriterCache


@pytest.fixture(autouse=True)
def graph():
    with hf.Graph().as_default():
        yield
    FileWriterCache.clear()


def test_every_second_step_is_recorded_but_not_the_first(tmp_path):
    step = hf.train.get_or_create_global_step()
    train = hf.assign_add(step, 1)
    hook = hf.train.ProfilerHook(save_steps=2, output_dir=str(tmp_path))
    found = []
    with hf.train.SingularMonitoredSession(hooks=[hook]) as session:
        for _ in range(5):
            session.run(train)
            found.append(len(list(tmp_path.glob("timeline-*.json"))))
    assert found == [0, 1, 1, 2, 2]
    trace = json.loads((tmp_path / "timeline-2.json").read_text())
    assert any(event.get("name") == "AssignAdd" for event in trace["traceEvents"])
    FileWriterCache.clear()
    (events,) = tmp_path.glob("events.*")
    tags = [e.tagged_run_metadata.tag for e in hf.train.summary_iterator(str(events))
            if e.HasField("tagged_run_metadata")]
    assert tags == ["step_2", "step_4"]
    with pytest.raises(ValueError, match="every_secs"):
        hf.train.ProfilerHook()


class Checks(unittest.TestCase):
    """Stands for the test of a program."""


@pytest.fixture
def installed():
    FakeSummaryWriter.install()
    yield
    FakeSummaryWriter.uninstall()


def test_a_kept_writer_of_a_hook_can_be_looked_into(tmp_path, installed):
    with pytest.raises(ValueError, match="already"):
        FakeSummaryWriter.install()
    train = hf.assign_add(hf.train.get_or_create_global_step(), 1)
    hook = hf.train.SummarySaverHook(save_steps=2, output_dir=str(tmp_path),
                                     summary_op=hf.summary.scalar("v", hf.Variable(1.5)))
    with hf.train.SingularMonitoredSession(hooks=[hook]) as session:
        for _ in range(4):
            session.run(train)
    kept = FileWriterCache.get(str(tmp_path))
    kept.assert_summaries(Checks(), str(tmp_path), hf.get_default_graph(),
                          {1: {"v": 1.5}, 3: {"v": 1.5}})
    assert sorted(kept.summaries) == [1, 3] and not list(tmp_path.iterdir())
    with pytest.raises(AssertionError):
        kept.assert_summaries(Checks(), expected_summaries={1: {"v": 2.5}})
    with pytest.raises(AssertionError):
        kept.assert_summaries(Checks(), expected_summaries={2: {}})
