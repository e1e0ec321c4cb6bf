"""What programs put in the place of the library's functions, and what they find beside a step."""

import time

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.python.platform import tf_logging
from hpcflow.python.summary import plugin_asset


@pytest.fixture(autouse=True)
def graph():
    with hf.Graph().as_default():
        yield


def test_hooks_log_through_the_function_of_the_program(monkeypatch):
    lines = []
    assert tf_logging is hf.logging
    monkeypatch.setattr(hf.logging, "info", lambda message, *args: lines.append(message % args))
    hook = hf.train.LoggingTensorHook({"loss": hf.constant(1.5)}, every_n_iter=1,
                                      formatter=lambda values: f"loss is {values['loss']}")
    with hf.train.MonitoredSession(hooks=[hook]) as session:
        session.run(hf.get_default_graph().get_operations()[0])
    assert "loss is 1.5" in lines


def test_seconds_are_those_of_the_clock_that_programs_replace(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    timer = hf.train.SecondOrStepTimer(every_secs=1.0)
    assert timer.should_trigger_for_step(1)
    timer.update_last_triggered_step(1)
    assert not timer.should_trigger_for_step(2)
    now[0] += 1.0
    assert timer.should_trigger_for_step(2)
    assert timer.update_last_triggered_step(2) == (1.0, 1)


def test_summaries_are_written_at_the_step_that_is_due():
    class Writer:
        def __init__(self):
            self.steps = []

        def add_summary(self, summary, step):
            self.steps.append(step)

        def add_session_log(self, log, step):
            pass

        def flush(self):
            pass

    writer = Writer()
    train = hf.assign_add(hf.train.get_or_create_global_step(), 1)
    hook = hf.train.SummarySaverHook(save_steps=8, summary_writer=writer,
                                     summary_op=hf.summary.scalar("one", 1.0))
    with hf.train.MonitoredSession(hooks=[hook]) as session:
        for _ in range(18):
            session.run(train)
    assert writer.steps == [1, 9, 17]


def test_a_session_goes_on_when_a_thread_reports_a_lost_task():
    class Lost(hf.train.SessionRunHook):
        sessions = 0

        def after_create_session(self, session, coord):
            self.sessions += 1
            if self.sessions == 1:
                coord.request_stop(hf.errors.AbortedError(None, None, "a task was lost"))

    hook = Lost()
    value = hf.constant(3)
    with hf.train.MonitoredSession(hooks=[hook]) as session:
        assert not session.should_stop()
        assert hook.sessions == 2
        assert session.run(value) == 3


def test_files_of_plugins_stand_beside_the_events(tmp_path):
    class Asset(plugin_asset.PluginAsset):
        plugin_name = "points"

        def assets(self):
            return {"names.txt": "a\nb\n"}

    class Other(Asset):
        pass

    graph = hf.get_default_graph()
    asset = plugin_asset.get_plugin_asset(Asset)
    assert plugin_asset.get_plugin_asset(Asset, graph) is asset
    assert plugin_asset.get_all_plugin_assets() == [asset]
    with pytest.raises(ValueError, match="same plugin_name"):
        plugin_asset.get_plugin_asset(Other)
    with hf.summary.FileWriter(str(tmp_path), graph):
        pass
    assert (tmp_path / "plugins" / "points" / "names.txt").read_text() == "a\nb\n"


def test_a_weighted_average_counts_values_by_their_weights():
    from hpcflow.python.training.moving_averages import weighted_moving_average

    value, weight = hf.placeholder(hf.float32, []), hf.placeholder(hf.float32, [])
    average = weighted_moving_average(value, 0.5, weight)
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        found = [session.run(average, {value: v, weight: w}) for v, w in ((2.0, 1.0), (4.0, 3.0))]
    np.testing.assert_allclose(found, [2.0, (0.25 * 2 + 1.5 * 4) / 1.75], rtol=1e-6)
