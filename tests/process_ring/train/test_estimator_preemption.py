"""Estimators whose job is preempted: they save, end with the status, and go on when started again.
"""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest

import hpcflow as hf
from hpcflow import estimator as est
from hpcflow.runtime.cluster import preemption

X = np.random.RandomState(0).randn(120, 4).astype(np.float32)
TRAIN = est.inputs.numpy_input_fn({"x": X}, X[:, 0], 32, None, shuffle=True)
ONCE = est.inputs.numpy_input_fn({"x": X}, X[:, 0], 120, 1, shuffle=False)


def model(features, labels, mode):
    found = hf.layers.dense(features["x"], 1, name="out")[:, 0]
    loss = hf.losses.mean_squared_error(labels, found)
    train = hf.train.GradientDescentOptimizer(0.1).minimize(loss, hf.train.get_global_step())
    return est.EstimatorSpec(mode, loss=loss, train_op=train)


class Preempt(hf.train.SessionRunHook):
    """Sends a signal to this process once, after a step."""

    def __init__(self, at):
        self.at = at

    def before_run(self, run_context):
        return hf.train.SessionRunArgs(hf.train.get_global_step())

    def after_run(self, run_context, run_values):
        if run_values.results == self.at:
            os.kill(os.getpid(), signal.SIGTERM)


@pytest.fixture(autouse=True)
def watch():
    yield
    preemption.watch.reset()


def made(directory):
    return est.Estimator(model, str(directory), est.RunConfig(tf_random_seed=1,
                                                              save_checkpoints_steps=1000))


def train_and_evaluate(directory, *hooks):
    return est.train_and_evaluate(
        made(directory), est.TrainSpec(TRAIN, max_steps=60, hooks=hooks),
        est.EvalSpec(ONCE, steps=None, throttle_secs=0))


def test_train_and_evaluate_saves_and_goes_on(tmp_path):
    """Without an evaluation of what it saves last, for which there may be no time."""
    with pytest.raises(SystemExit) as stop:
        train_and_evaluate(tmp_path, Preempt(20))
    assert stop.value.code == 75
    assert not list(tmp_path.glob("eval"))
    step = made(tmp_path).get_variable_value("global_step")
    assert 20 <= step <= 23
    kernel = made(tmp_path).get_variable_value("out/kernel")
    assert np.abs(kernel).sum() > 0
    preemption.watch.reset()
    found, _ = train_and_evaluate(tmp_path)
    assert found["global_step"] == 60 and list(tmp_path.glob("eval"))
    assert found["loss"] < np.mean((X @ kernel[:, 0] - X[:, 0]) ** 2)


def test_a_preempted_training_without_periodic_checkpoints_saves(tmp_path):
    estimator = est.Estimator(model, str(tmp_path), est.RunConfig(
        save_checkpoints_secs=None, save_checkpoints_steps=None))
    with pytest.raises(SystemExit) as stop:
        estimator.train(TRAIN, max_steps=60, hooks=[Preempt(10)])
    assert stop.value.code == 75
    assert 10 <= estimator.get_variable_value("global_step") <= 13
