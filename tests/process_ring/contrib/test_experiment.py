"""Experiments: what ``contrib.learn.learn_runner`` runs, with an estimator inside."""

from __future__ import annotations

import pytest

import hpcflow as hf

learn = hf.contrib.learn
run = learn.learn_runner.run


def model(features, labels, mode):
    """Fit labels = w * x, from w = 0: a rate of 0.1 on mean (w x - 2 x)^2 halves the error."""
    w = hf.get_variable("w", [], initializer=hf.zeros_initializer())
    loss = hf.reduce_mean(hf.square(features["x"] * w - labels))
    step = hf.train.GradientDescentOptimizer(0.1).minimize(loss, hf.train.get_global_step())
    return hf.estimator.EstimatorSpec(mode, loss=loss, train_op=step)


def numbers():
    return {"x": hf.constant([1.0, 2.0])}, hf.constant([2.0, 4.0])


def error(steps):
    """The loss after `steps`: 2.5 (w - 2)^2, whose slope is 5 (w - 2)."""
    return 2.5 * (2.0 * (1 - 0.1 * 5.0) ** steps) ** 2


def experiment(run_config, hparams, **more):
    steps = 6 if hparams is None else hparams
    return learn.Experiment(hf.estimator.Estimator(model, config=run_config), numbers, numbers,
                            train_steps=steps, eval_steps=2, **more)


@pytest.fixture
def config(tmp_path):
    return learn.RunConfig(model_dir=str(tmp_path / "model"))


def test_training_and_evaluation_are_the_default_schedule(config):
    result, exports = run(experiment, run_config=config, hparams=4)
    assert result["global_step"] == 4 and exports == []
    assert result["loss"] == pytest.approx(error(4))
    assert run(experiment, run_config=config, schedule="evaluate") == result
    trained = run(experiment, run_config=config, schedule="train")
    assert trained.get_variable_value("w") == pytest.approx(2 - 2 * 0.5**6)


def test_a_test_is_one_step_and_one_batch(config):
    result = run(experiment, run_config=config, schedule="test")
    assert result["global_step"] == 1 and result["loss"] == pytest.approx(error(1))


def test_training_in_parts_ends_at_the_last_step_or_by_the_predicate(config, tmp_path):
    seen = []

    def in_parts(run_config, hparams):
        return experiment(run_config, hparams, train_steps_per_iteration=2)

    result, _ = run(in_parts, run_config=config, schedule="continuous_train_and_eval")
    assert result["global_step"] == 6 and result["loss"] == pytest.approx(error(6))
    other = in_parts(learn.RunConfig(model_dir=str(tmp_path / "other")), None)

    def below_three_steps(metrics):
        seen.append(metrics and metrics["global_step"])
        return metrics is None or metrics["global_step"] < 3

    assert other.continuous_train_and_eval(below_three_steps)[0]["global_step"] == 4
    assert seen == [None, 2, 4]


def test_continuous_evaluation_ends_with_the_last_checkpoint(config):
    run(experiment, run_config=config, schedule="train")
    seen = []
    experiment(config, 100).continuous_eval(
        0, 0, continuous_eval_predicate_fn=lambda metrics, checkpoint_path: seen.append(
            checkpoint_path) or len(seen) < 2)
    assert seen[0] is None and seen[1].endswith("model.ckpt-6")
    experiment(config, None).continuous_eval(0, 0)


def test_exporters_get_the_checkpoint_and_the_metrics(config):
    calls = []

    class Records(hf.estimator.Exporter):
        name = "records"

        def export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
            calls.append((export_path, eval_result["global_step"], is_the_final_export))
            return "there"

    made = experiment(config, None)
    assert made.reset_export_strategies([Records()]) == []
    assert made.train_and_evaluate()[1] == ["there"]
    assert calls == [(f"{config.model_dir}/export/records", 6, True)]


def test_evaluations_in_between_are_those_of_checkpoints(tmp_path):
    config = learn.RunConfig(model_dir=str(tmp_path), save_checkpoints_steps=2)
    made = experiment(config, None, min_eval_frequency=1)
    assert made.train_and_evaluate()[0]["global_step"] == 6
    steps = [event.step for path in (tmp_path / "eval").iterdir()
             for event in hf.train.summary_iterator(str(path)) if event.HasField("summary")]
    assert sorted(set(steps)) == [2, 4, 6]


def test_the_older_form_gives_a_directory(tmp_path):
    def of_directory(output_dir):
        return learn.Experiment(hf.estimator.Estimator(model, output_dir), numbers, numbers,
                                train_steps=2, eval_steps=1)

    assert run(of_directory, str(tmp_path))[0]["global_step"] == 2


def test_wrong_arguments_are_refused(config, tmp_path):
    for error_class, message, call in (
            (ValueError, "Must set value", lambda: run(experiment)),
            (ValueError, "both", lambda: run(experiment, str(tmp_path), run_config=config)),
            (TypeError, "not callable", lambda: run(3, str(tmp_path))),
            (TypeError, "did not return an Experiment", lambda: run(lambda output_dir: 3, "d")),
            (ValueError, "model directory",
             lambda: run(experiment, run_config=learn.RunConfig())),
            (ValueError, "`run_config` must be",
             lambda: run(experiment, run_config=hf.estimator.RunConfig("d"))),
            (ValueError, "non-existent task nope",
             lambda: run(experiment, run_config=config, schedule="nope")),
            (TypeError, "non-callable member eval_steps",
             lambda: run(experiment, run_config=config, schedule="eval_steps")),
            (RuntimeError, "is another",
             lambda: run(lambda run_config, hparams: experiment(
                 learn.RunConfig(model_dir=str(tmp_path)), None), run_config=config)),
            (ValueError, "must be a hf.estimator.Estimator",
             lambda: learn.Experiment(3, numbers, numbers))):
        with pytest.raises(error_class, match=message):
            call()


def test_the_older_configuration_has_the_defaults_of_checkpoints():
    assert learn.RunConfig().save_checkpoints_secs == 600
    by_steps = learn.RunConfig(save_checkpoints_steps=5)
    assert (by_steps.save_checkpoints_secs, by_steps.save_checkpoints_steps) == (None, 5)
    options = learn.RunConfig(num_cores=3, gpu_memory_fraction=0.5).tf_config
    assert options.intra_op_parallelism_threads == 3
    assert options.gpu_options.per_process_gpu_memory_fraction == 0.5
    assert learn.RunConfig().environment == "local"
