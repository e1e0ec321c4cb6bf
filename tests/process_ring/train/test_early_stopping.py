"""Hooks of ``estimator.experimental`` that stop training early."""

from __future__ import annotations

import pytest

import hpcflow as hf
from hpcflow.estimator import experimental

HOOKS = {
    "higher": (experimental.stop_if_higher_hook, 0.8),
    "lower": (experimental.stop_if_lower_hook, 0.3),
    "no increase": (experimental.stop_if_no_increase_hook, 4),
    "no decrease": (experimental.stop_if_no_decrease_hook, 4),
}


def model_fn(features, labels, mode):
    step = hf.train.get_or_create_global_step()
    weight = hf.get_variable("w", [], initializer=hf.zeros_initializer())
    return hf.estimator.EstimatorSpec(mode, loss=hf.square(weight - 1.0),
                                      train_op=hf.assign_add(step, 1))


def estimator(folder, **config):
    return hf.estimator.Estimator(model_fn, str(folder), hf.estimator.RunConfig(**config))


def write(folder, values):
    """Evaluations at steps 0, 2, 4, ..."""
    with hf.summary.FileWriter(str(folder)) as writer:
        for k, value in enumerate(values):
            writer.add_summary(hf.Summary(value=[
                hf.Summary.Value(tag="m", simple_value=value)]), 2 * k)


def steps_until(folder, hook):
    """How far training comes when asked for ten steps."""
    made = estimator(folder)
    made.train(lambda: (hf.constant([1.0]), hf.constant([1.0])), hooks=[hook(made)], max_steps=10)
    return made.get_variable_value("global_step")


@pytest.mark.parametrize(("kind", "values", "min_steps", "stops"), [
    ("higher", [0.5, 0.9], 0, True), ("higher", [0.9, 0.5], 1, False),
    ("lower", [0.5, 0.2], 0, True), ("lower", [0.2, 0.5], 1, False),
    ("no increase", [0.5, 0.6, 0.6, 0.5], 0, True), ("no increase", [0.5, 0.5, 0.6], 0, False),
    ("no increase", [0.5, 0.4, 0.4], 2, False),
    ("no decrease", [0.5, 0.4, 0.4, 0.5], 0, True), ("no decrease", [0.5, 0.5, 0.4], 0, False),
])
def test_when_training_stops(tmp_path, kind, values, min_steps, stops):
    make, number = HOOKS[kind]
    write(tmp_path / "eval", values)
    reached = steps_until(tmp_path, lambda made: make(
        made, "m", number, min_steps=min_steps, run_every_secs=None, run_every_steps=1))
    assert reached == (1 if stops else 10)


def test_evaluations_of_another_folder_and_of_none(tmp_path):
    write(tmp_path / "elsewhere", [1.0])
    assert dict(experimental.read_eval_metrics(str(tmp_path / "elsewhere"))) == {0: {"m": 1.0}}
    assert steps_until(tmp_path / "a", lambda made: experimental.stop_if_higher_hook(
        made, "m", 0.5, str(tmp_path / "elsewhere"), 0, None, 1)) == 1
    assert steps_until(tmp_path / "b", lambda made: experimental.stop_if_higher_hook(
        made, "m", 0.5, run_every_secs=None, run_every_steps=1)) == 10


def test_a_function_is_asked_every_few_steps(tmp_path):
    asked = []
    steps_until(tmp_path, lambda made: experimental.make_early_stopping_hook(
        made, lambda: asked.append(1) or len(asked) == 3, None, 3))
    assert len(asked) == 3
    assert estimator(tmp_path).get_variable_value("global_step") == 7
    assert estimator(tmp_path).get_variable_value("signal_early_stopping/STOP")


def test_other_workers_follow_the_chief():
    with hf.Graph().as_default():
        told, one = hf.assign(experimental._stop_variable(), True), hf.constant(1)
        with hf.train.MonitoredSession(hooks=[experimental._FollowingHook()]) as session:
            session.run(one)
            assert not session.should_stop()
            session.run_step_fn(lambda step_context: step_context.session.run(told))
            session.run(one)
            assert session.should_stop()


def test_what_is_refused(tmp_path):
    with pytest.raises(TypeError, match="must have type"):
        experimental.make_early_stopping_hook(object(), lambda: True)
    made = estimator(tmp_path)
    with pytest.raises(TypeError, match="callable"):
        experimental.make_early_stopping_hook(made, True)
    with pytest.raises(ValueError, match="Only one"):
        experimental.make_early_stopping_hook(made, lambda: True, 1, 1)


def test_a_model_is_evaluated_while_it_is_trained(tmp_path):
    def model_fn(features, labels, mode):
        weight = hf.get_variable("weight", initializer=0.0)
        step = hf.train.get_or_create_global_step()
        return hf.estimator.EstimatorSpec(
            mode, loss=hf.square(weight - 4.0) + 0.0 * hf.reduce_sum(features),
            train_op=hf.group(hf.assign_add(weight, 1.0), hf.assign_add(step, 1)))

    def input_fn():
        return hf.data.Dataset.from_tensors([1.0]).repeat(2)

    estimator = hf.estimator.Estimator(model_fn, str(tmp_path))
    hook = hf.estimator.experimental.InMemoryEvaluatorHook(
        estimator, input_fn, name="often", every_n_iter=2)
    estimator.train(lambda: hf.data.Dataset.from_tensors([1.0]).repeat(5), hooks=[hook])
    found = hf.estimator.experimental.read_eval_metrics(estimator.eval_dir("often"))
    assert {step: m["loss"] for step, m in found.items()} == {0: 16.0, 2: 4.0, 4: 0.0, 5: 1.0}
    for every in (0, None):
        with pytest.raises(ValueError, match="every_n_iter"):
            hf.contrib.estimator.InMemoryEvaluatorHook(estimator, input_fn, every_n_iter=every)
