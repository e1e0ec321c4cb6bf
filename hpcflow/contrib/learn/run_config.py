"""The run configuration of ``contrib.learn``: that of estimators, by the older arguments."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from hpcflow.estimator import run_config

if TYPE_CHECKING:
    from google.protobuf.message import Message

_USE_DEFAULT = 0


class TaskType:
    """Names of the jobs of a cluster."""

    MASTER = "master"
    PS = "ps"
    WORKER = "worker"


class Environment:
    """Names of what a program runs in, as ``TF_CONFIG`` may say."""

    CLOUD = "cloud"
    GOOGLE = "google"
    LOCAL = "local"


class RunConfig(run_config.RunConfig):
    """Settings of an estimator, by the arguments of ``contrib.learn``.

    Args:
        master, evaluation_master: targets of the sessions; by default those of ``TF_CONFIG``.
        num_cores, log_device_placement, gpu_memory_fraction: make :attr:`tf_config`.
        save_checkpoints_secs: 0 for 600 seconds, unless `save_checkpoints_steps` is given.
        others: as of ``hf.estimator.RunConfig``.

    Raises ``ValueError`` as ``hf.estimator.RunConfig`` does.
    """

    def __init__(self, master: str | None = None, num_cores: int = 0,
                 log_device_placement: bool = False, gpu_memory_fraction: float = 1,
                 tf_random_seed: int | None = None, save_summary_steps: int | None = 100,
                 save_checkpoints_secs: int | None = _USE_DEFAULT,
                 save_checkpoints_steps: int | None = None, keep_checkpoint_max: int | None = 5,
                 keep_checkpoint_every_n_hours: float = 10000,
                 log_step_count_steps: int | None = 100, protocol: str | None = None,
                 evaluation_master: str = "", model_dir: str | None = None,
                 session_config: Message | None = None,
                 session_creation_timeout_secs: float = 7200) -> None:
        if save_checkpoints_secs == _USE_DEFAULT:
            save_checkpoints_secs = 600 if save_checkpoints_steps is None else None
        super().__init__(
            model_dir, tf_random_seed, save_summary_steps, save_checkpoints_steps,
            save_checkpoints_secs, session_config, keep_checkpoint_max,
            keep_checkpoint_every_n_hours, log_step_count_steps, protocol=protocol,
            session_creation_timeout_secs=session_creation_timeout_secs)
        self.master = self.master if master is None else master
        self.evaluation_master = evaluation_master or self.evaluation_master
        self._cores, self._fraction = num_cores, gpu_memory_fraction
        self._log_placement = log_device_placement

    @property
    def environment(self) -> str:
        """The value of ``environment`` in ``TF_CONFIG``; ``"local"`` without it."""
        return json.loads(os.environ.get("TF_CONFIG") or "{}").get("environment",
                                                                   Environment.LOCAL)

    @property
    def tf_config(self) -> Any:
        """A ``ConfigProto`` of the number of cores, the GPUs' memory and the log of devices."""
        from tensorboard.compat.proto.config_pb2 import ConfigProto, GPUOptions

        return ConfigProto(
            log_device_placement=self._log_placement,
            inter_op_parallelism_threads=self._cores, intra_op_parallelism_threads=self._cores,
            gpu_options=GPUOptions(per_process_gpu_memory_fraction=self._fraction))

    @staticmethod
    def get_task_id() -> int:
        """Return the number of this task in its job."""
        task = json.loads(os.environ.get("TF_CONFIG") or "{}").get("task") or {}
        return int(task.get("index", 0))
