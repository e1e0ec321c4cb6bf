"""Hooks: when they stop, log, save, watch and feed."""

from __future__ import annotations

import glob
import logging
import os

import numpy as np
import pytest

import hpcflow as hf


@pytest.fixture(autouse=True)
def graph():
    with hf.Graph().as_default() as g:
        yield g
    hf.summary.FileWriterCache.clear()


@pytest.fixture
def step():
    return hf.train.get_or_create_global_step()


def run_steps(op, hooks, **options):
    """Run `op` until a hook stops; the number of steps."""
    count = 0
    with hf.train.SingularMonitoredSession(hooks=hooks, **options) as session:
        while not session.should_stop():
            session.run(op)
            count += 1
    return count


def events(directory):
    [path] = glob.glob(os.path.join(directory, "events*"))
    return list(hf.train.summary_iterator(path))


def test_stopping_at_a_step(step):
    add = hf.assign_add(step, 1)
    assert run_steps(add, [hf.train.StopAtStepHook(num_steps=7)]) == 7
    start = hf.train.Scaffold(init_op=hf.assign(step, np.int64(5)).op)
    assert run_steps(add, [hf.train.StopAtStepHook(last_step=8)], scaffold=start) == 3
    with pytest.raises(ValueError, match="One of"):
        hf.train.StopAtStepHook()
    with pytest.raises(ValueError, match="Only one"):
        hf.train.StopAtStepHook(1, 2)


def test_a_global_step_is_needed():
    with pytest.raises(RuntimeError, match="Global step should be created to use StopAtStepHook"):
        hf.train.SingularMonitoredSession([hf.train.StopAtStepHook(num_steps=1)])


def test_timer():
    timer = hf.train.SecondOrStepTimer(every_steps=3)
    assert timer.should_trigger_for_step(1)
    assert timer.update_last_triggered_step(1) == (None, None)
    assert [timer.should_trigger_for_step(i) for i in (1, 2, 3, 4)] == [False, False, False, True]
    assert timer.update_last_triggered_step(4)[1] == 3 and timer.last_triggered_step() == 4
    clock = hf.train.SecondOrStepTimer(every_secs=0.0)
    clock.update_last_triggered_step(1)
    assert not clock.should_trigger_for_step(1) and clock.should_trigger_for_step(2)
    for wrong in ({}, {"every_secs": 1, "every_steps": 1}):
        with pytest.raises(ValueError):
            hf.train.SecondOrStepTimer(**wrong)


def test_logging(step, caplog):
    x = hf.multiply(hf.assign_add(step, 1), 10, name="x")
    hook = hf.train.LoggingTensorHook({"ten": x}, every_n_iter=2)
    with caplog.at_level(logging.INFO, "hpcflow"):
        run_steps(x, [hook, hf.train.StopAtStepHook(num_steps=5)])
    lines = [r.getMessage() for r in caplog.records if r.getMessage().startswith("ten = ")]
    assert [line.split(" (")[0] for line in lines] == ["ten = 10", "ten = 30", "ten = 50"]
    caplog.clear()
    named = hf.train.LoggingTensorHook(["x:0"], every_n_iter=100,
                                       formatter=lambda values: f"<{values['x:0']}>")
    with caplog.at_level(logging.INFO, "hpcflow"):
        run_steps(x, [named, hf.train.StopAtStepHook(num_steps=3)])
    assert "<10>" in [r.getMessage() for r in caplog.records]
    with pytest.raises(ValueError, match="exactly one"):
        hf.train.LoggingTensorHook([x])


class MetricHook(hf.train.LoggingTensorHook):
    """A hook of a program's own, by the attributes of 1.x."""

    def __init__(self, seen, *args, **options):
        super().__init__(*args, **options)
        self._seen = seen

    def after_run(self, run_context, run_values):
        if self._should_trigger:
            self._timer.update_last_triggered_step(self._iter_count)
            self._seen.append([(tag, run_values.results[tag]) for tag in self._tag_order])
        self._iter_count += 1


class SpeedHook(hf.train.StepCounterHook):
    """As :class:`MetricHook`."""

    def __init__(self, seen, *args, **options):
        super().__init__(*args, **options)
        self._seen = seen

    def _log_and_record(self, elapsed_steps, elapsed_time, global_step):
        self._seen.append((elapsed_steps, elapsed_time > 0, global_step))


def test_derived_hooks(step):
    x = hf.assign_add(step, 1)
    seen: list = []
    hooks = [MetricHook(seen, {"b": x, "a": x * 2}, every_n_iter=2), SpeedHook(seen, 2),
             hf.train.StopAtStepHook(num_steps=3)]
    run_steps(x, hooks)
    assert seen == [[("a", 2), ("b", 1)], [("a", 6), ("b", 3)], (2, True, 3)]
    assert not hf.train.LoggingTensorHook([x], at_end=True)._timer.should_trigger_for_step(1)


def test_nan(step):
    loss = hf.placeholder_with_default(np.nan, [])
    with pytest.raises(hf.train.NanLossDuringTrainingError, match="NaN loss"):
        run_steps(loss, [hf.train.NanTensorHook(loss)])
    assert run_steps(loss, [hf.train.NanTensorHook(loss, fail_on_nan_loss=False)]) == 1


def test_feeding_and_final_ops(step):
    x = hf.placeholder(hf.float32, [])
    total = hf.Variable(0.0)
    add = [hf.assign_add(total, x), hf.assign_add(step, 1)]
    values = iter([1.0, 2.0, 3.0])
    final = hf.train.FinalOpsHook([total, x], {x: 9.0})
    hooks = [hf.train.FeedFnHook(lambda: {x: next(values)}), final,
             hf.train.StopAtStepHook(num_steps=3)]
    assert run_steps(add, hooks) == 3
    assert final.final_ops_values == [6.0, 9.0]


def test_feeding_the_same_tensor_twice():
    x = hf.placeholder(hf.float32, [])
    hook = hf.train.FeedFnHook(lambda: {x: 1.0})
    with hf.train.SingularMonitoredSession([hook]) as session:
        with pytest.raises(RuntimeError, match="fed by a SessionRunHook and user"):
            session.run(x, {x: 2.0})
    with pytest.raises(RuntimeError, match="fed by two hooks"):
        run_steps(x, [hook, hf.train.FeedFnHook(lambda: {x: 2.0})])


def test_checkpoints(step, tmp_path):
    add = hf.assign_add(step, 1)
    hf.train.Saver()
    seen = []

    class Listener(hf.train.CheckpointSaverListener):
        def before_save(self, session, global_step_value):
            seen.append(("before", global_step_value))

        def after_save(self, session, global_step_value):
            seen.append(("after", global_step_value))

        def end(self, session, global_step_value):
            seen.append(("end", global_step_value))

    scaffold = hf.train.Scaffold()
    hook = hf.train.CheckpointSaverHook(str(tmp_path), save_steps=4, scaffold=scaffold,
                                        listeners=[Listener()])
    run_steps(add, [hook, hf.train.StopAtStepHook(num_steps=7)], scaffold=scaffold)
    assert [s for s in seen if s[0] != "before"] == [
        ("after", 0), ("after", 4), ("after", 7), ("end", 7)]
    assert hf.train.latest_checkpoint(str(tmp_path)).endswith("model.ckpt-7")
    assert (tmp_path / "graph.pbtxt").exists()
    hf.summary.FileWriterCache.clear()
    logs = [e.step for e in events(tmp_path) if e.HasField("session_log")]
    assert logs == [0, 4, 7]
    assert any(e.HasField("meta_graph_def") for e in events(tmp_path))


def test_the_saver_of_a_checkpoint_hook(step, tmp_path):
    with pytest.raises(ValueError, match="both"):
        hf.train.CheckpointSaverHook(str(tmp_path), save_steps=1, saver=1, scaffold=2)
    own = hf.train.Saver()
    hook = hf.train.CheckpointSaverHook(str(tmp_path), save_steps=1, saver=own)
    run_steps(hf.assign_add(step, 1), [hook, hf.train.StopAtStepHook(num_steps=2)])
    assert len(own.last_checkpoints) == 3


def test_summaries_and_speed(step, tmp_path):
    add = hf.assign_add(step, 1)
    with hf.control_dependencies([add]):
        hf.summary.scalar("twice", step.read_value() * 2)
    scaffold = hf.train.Scaffold()
    hooks = [hf.train.SummarySaverHook(save_steps=2, output_dir=str(tmp_path), scaffold=scaffold),
             hf.train.StepCounterHook(every_n_steps=3, output_dir=str(tmp_path)),
             hf.train.StopAtStepHook(num_steps=7)]
    run_steps(add, hooks, scaffold=scaffold)
    hf.summary.FileWriterCache.clear()
    values = {}
    for event in events(tmp_path):
        for value in event.summary.value:
            values.setdefault(value.tag, []).append((event.step, value.simple_value))
    assert values["twice"] == [(1, 2.0), (3, 6.0), (5, 10.0), (7, 14.0)]
    assert [s for s, _ in values["global_step/sec"]] == [4, 7]
    assert all(v > 0 for _, v in values["global_step/sec"])
    with pytest.raises(ValueError, match="Exactly one"):
        hf.train.SummarySaverHook(save_steps=1)
    with pytest.raises(ValueError, match="exactly one"):
        hf.train.StepCounterHook(every_n_steps=None)


def test_waiting_for_a_step(step):
    hook = hf.train.GlobalStepWaiterHook(3)
    hook.begin()
    looks = []

    class Session:
        def run(self, fetch):
            looks.append(fetch)
            return len(looks)

    context = hf.train.SessionRunContext(hf.train.SessionRunArgs(None), Session())
    for _ in range(2):
        hook.before_run(context)
        assert looks == [step] * 3


def test_a_listener_ends_training(step, tmp_path):
    class Enough(hf.train.CheckpointSaverListener):
        def after_save(self, session, global_step_value):
            return global_step_value >= 3

    hook = hf.train.CheckpointSaverHook(str(tmp_path), save_steps=2, saver=hf.train.Saver(),
                                        listeners=[Enough(), hf.train.CheckpointSaverListener()])
    assert run_steps(hf.assign_add(step, 1), [hook]) == 4
