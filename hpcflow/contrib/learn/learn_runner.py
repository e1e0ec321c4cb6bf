"""``hpcflow.contrib.learn.learn_runner``: runs what a function makes an experiment of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcflow.contrib.learn.experiment import Experiment
from hpcflow.contrib.learn.run_config import RunConfig, TaskType
from hpcflow.estimator import run_config as estimators

_SCHEDULES = {TaskType.MASTER: "train_and_evaluate", "chief": "train_and_evaluate",
              TaskType.PS: "run_std_server", TaskType.WORKER: "train"}
# Settings by which two configurations are told apart.
_COMPARED = ("model_dir", "tf_random_seed", "save_summary_steps", "save_checkpoints_steps",
             "save_checkpoints_secs", "keep_checkpoint_max", "task_type", "task_id")


def run(experiment_fn: Callable[..., Experiment], output_dir: str | None = None,
        schedule: str | None = None, run_config: RunConfig | None = None,
        hparams: Any = None) -> Any:
    """Make an experiment and return what its method `schedule` returns.

    Args:
        experiment_fn: ``experiment_fn(run_config, hparams)``, or with `output_dir`
            ``experiment_fn(output_dir)``, returns an Experiment.
        output_dir: the directory of the model; the older form.
        schedule: the name of the method; by default ``train_and_evaluate``, or what the task of
            ``TF_CONFIG`` is for.
        run_config: a ``RunConfig`` with a ``model_dir``.
        hparams: given to `experiment_fn`.

    Raises ``ValueError`` unless one of `output_dir` and `run_config` is given, ``TypeError`` for
    what is no function or no experiment, ``RuntimeError`` for an estimator of another config.
    """
    if (output_dir is None) == (run_config is None):
        raise ValueError("Cannot provide both `output_dir` and `run_config`" if output_dir
                         else "Must set value for `output_dir` or `run_config`")
    if not callable(experiment_fn):
        raise TypeError(f'Experiment builder "{experiment_fn}" is not callable.')
    experiment = (_of_directory(experiment_fn, output_dir, hparams) if run_config is None
                  else _of_config(experiment_fn, run_config, hparams))
    config = run_config or experiment.estimator.config
    return _method(experiment, schedule or _default_schedule(config))()


def _of_directory(experiment_fn: Callable, directory: str | None, hparams: Any) -> Experiment:
    if not directory:
        raise ValueError("Must specify an output directory")
    if hparams is not None:
        raise ValueError("Must set `hparams` as None for `experiment_fn` with `output_dir`.")
    return _checked(experiment_fn(output_dir=directory))


def _of_config(experiment_fn: Callable, config: RunConfig, hparams: Any) -> Experiment:
    if not isinstance(config, RunConfig):
        raise ValueError("`run_config` must be `hf.contrib.learn.RunConfig` instance")
    if not config.model_dir:
        raise ValueError("Must specify a model directory `model_dir` in `run_config`.")
    experiment = _checked(experiment_fn(run_config=config, hparams=hparams))
    used = experiment.estimator.config
    if not isinstance(used, RunConfig) or _facts(used) != _facts(config):
        raise RuntimeError("Pass `run_config` argument of the `experiment_fn` to the Estimator in "
                           "Experiment: that of its estimator is another.")
    return experiment


def _facts(config: estimators.RunConfig) -> list:
    return [getattr(config, name) for name in _COMPARED]


def _checked(made: Any) -> Experiment:
    if not isinstance(made, Experiment):
        raise TypeError("Experiment builder did not return an Experiment instance, got "
                        f"{type(made)} instead.")
    return made


def _default_schedule(config: estimators.RunConfig) -> str:
    if not config.cluster_spec.jobs:
        return "train_and_evaluate"
    if not config.task_type:
        raise ValueError("Must specify a schedule")
    if config.task_type not in _SCHEDULES:
        raise ValueError(f"No default schedule for task type: {config.task_type}")
    return _SCHEDULES[config.task_type]


def _method(experiment: Experiment, schedule: str) -> Callable[[], Any]:
    if not hasattr(experiment, schedule):
        raise ValueError(f"Schedule references non-existent task {schedule}")
    method = getattr(experiment, schedule)
    if not callable(method):
        raise TypeError(f"Schedule references non-callable member {schedule}")
    return method
