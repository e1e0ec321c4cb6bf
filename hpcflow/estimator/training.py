"""Training of estimators."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hpcflow import summary
from hpcflow.estimator.spec import EstimatorSpec, ModeKeys
from hpcflow.graph.graph import Graph, add_to_collection, get_collection, set_random_seed
from hpcflow.graph.keys import GraphKeys
from hpcflow.optimizers.global_step import get_global_step
from hpcflow.train.device_setter import replica_device_setter
from hpcflow.train.hooks import LoggingTensorHook, NanTensorHook, StopAtStepHook
from hpcflow.train.monitored_session import MonitoredTrainingSession
from hpcflow.train.saver import Saver
from hpcflow.train.saving_hooks import CheckpointSaverHook
from hpcflow.train.warm_starting import warm_start

if TYPE_CHECKING:
    from hpcflow.estimator.base import Estimator
    from hpcflow.estimator.run_config import RunConfig


def train(estimator: Estimator, input_fn: Callable, hooks: list, steps: int | None,
          max_steps: int | None, listeners: list) -> Any:
    """Train; returns the loss of the last step, or None if there was none."""
    config = estimator.config
    with Graph().as_default() as graph, graph.device(_placement(config)):
        set_random_seed(config.tf_random_seed)
        spec, input_hooks = estimator.build_with(input_fn, ModeKeys.TRAIN)
        if estimator.warm_start_settings and estimator.latest_checkpoint() is None:
            warm_start(*estimator.warm_start_settings)
        if not any(t.op.name == "loss" for t in get_collection(GraphKeys.SUMMARIES)):
            summary.scalar("loss", spec.loss)
        hooks = [*input_hooks, *hooks, *spec.training_hooks, NanTensorHook(spec.loss)]
        if steps is not None or max_steps is not None:
            hooks.append(StopAtStepHook(steps, max_steps))
        if config.log_step_count_steps:
            hooks.append(LoggingTensorHook({"loss": spec.loss, "step": get_global_step()},
                                           every_n_iter=config.log_step_count_steps))
        return _run(estimator, spec, hooks, listeners)


def _run(estimator: Estimator, spec: EstimatorSpec, hooks: list, listeners: list) -> Any:
    config, scaffold, loss = estimator.config, spec.scaffold, None
    if scaffold.saver is None and not get_collection(GraphKeys.SAVERS):
        add_to_collection(GraphKeys.SAVERS, Saver(
            max_to_keep=config.keep_checkpoint_max,
            keep_checkpoint_every_n_hours=config.keep_checkpoint_every_n_hours, defer_build=True,
            save_relative_paths=True))
    chief_hooks = list(spec.training_chief_hooks)
    chief_hooks += _saving(estimator, spec, [*hooks, *chief_hooks], listeners)
    with MonitoredTrainingSession(
            config.master, config.is_chief, estimator.model_dir, scaffold, hooks, chief_hooks,
            save_checkpoint_secs=0, save_summaries_steps=config.save_summary_steps,
            config=config.session_config, log_step_count_steps=config.log_step_count_steps,
            max_wait_secs=config.session_creation_timeout_secs) as session:
        while not session.should_stop():
            _, loss = session.run([spec.train_op, spec.loss])
    if config.train_distribute is not None:
        config.train_distribute.wait_for_all()  # the last checkpoint is written
    return loss


def _saving(estimator: Estimator, spec: EstimatorSpec, hooks: list, listeners: list) -> list:
    """A hook that saves, unless one of the `hooks` does; `listeners` are told."""
    config = estimator.config
    own = [h for h in hooks if isinstance(h, CheckpointSaverHook)]
    if own:
        own[0].add_listeners(listeners)
        return []
    if not (config.save_checkpoints_secs or config.save_checkpoints_steps):
        if listeners:
            raise ValueError("There should be a CheckpointSaverHook to use saving_listeners. "
                             "Please set one of the RunConfig.save_checkpoints_steps or "
                             "RunConfig.save_checkpoints_secs.")
        return []
    return [CheckpointSaverHook(estimator.model_dir, config.save_checkpoints_secs,
                                config.save_checkpoints_steps, scaffold=spec.scaffold,
                                listeners=listeners)]


def _placement(config: RunConfig) -> Any:
    """The device function of the graph."""
    if config.device_fn is not None or not config.num_ps_replicas:
        return config.device_fn
    return replica_device_setter(
        config.num_ps_replicas, worker_device=f"/job:{config.task_type}/task:{config.task_id}",
        merge_devices=True, cluster=config.cluster_spec)
