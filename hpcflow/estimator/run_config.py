"""The run configuration of an estimator, and its task in the cluster."""

from __future__ import annotations

import copy
import json
import os
from typing import TYPE_CHECKING, Any

from hpcflow.distribute import MirroredStrategy, Strategy
from hpcflow.framework.cluster_spec import ClusterSpec
from hpcflow.platform import logging

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from hpcflow.distribute import DistributeConfig

_UNSET = object()
_EVALUATOR, _CHIEFS = "evaluator", ("chief", "master")
_REPLACEABLE = (
    "model_dir", "tf_random_seed", "save_summary_steps", "save_checkpoints_steps",
    "save_checkpoints_secs", "session_config", "keep_checkpoint_max",
    "keep_checkpoint_every_n_hours", "log_step_count_steps", "device_fn", "protocol",
    "session_creation_timeout_secs",
)  # fmt: skip


class RunConfig:
    """Settings of an estimator.

    The task comes from the environment's ``TF_CONFIG``, a JSON object with ``cluster`` (job ->
    addresses) and ``task`` (``type`` and ``index``); without it there is one task. With a strategy
    in `train_distribute` the cluster may have workers alone, of which the first is the chief.

    Args:
        model_dir: where checkpoints and summaries go.
        tf_random_seed: the graphs' seed.
        save_summary_steps: steps between two summaries.
        save_checkpoints_steps, save_checkpoints_secs: interval of checkpoints (600 s if nothing
            is said); None for none.
        session_config: a ``ConfigProto``.
        keep_checkpoint_max, keep_checkpoint_every_n_hours: as of ``hf.train.Saver``.
        log_step_count_steps: steps between two lines about loss and speed.
        device_fn: places ops; by default variables go to parameter servers, if there are some.
        train_distribute, eval_distribute: strategies (``hf.distribute``): those with several
            replicas, one on each rank, need a `model_dir` that all ranks see.
        experimental_distribute: a ``hf.distribute.DistributeConfig`` with both.
        protocol, experimental_max_worker_delay_secs: for the 1.x API.
        session_creation_timeout_secs: how long workers wait for the chief.

    Raises ``ValueError`` for both intervals of checkpoints, numbers that are not positive, a
    cluster without a chief, or a worker of a strategy over ranks that is no rank.
    """

    def __init__(self, model_dir: str | None = None, tf_random_seed: int | None = None,
                 save_summary_steps: int | None = 100, save_checkpoints_steps: Any = _UNSET,
                 save_checkpoints_secs: Any = _UNSET, session_config: Message | None = None,
                 keep_checkpoint_max: int | None = 5,
                 keep_checkpoint_every_n_hours: float = 10000,
                 log_step_count_steps: int | None = 100, train_distribute: Any = None,
                 device_fn: Any = None, protocol: str | None = None, eval_distribute: Any = None,
                 experimental_distribute: Any = None,
                 experimental_max_worker_delay_secs: float | None = None,
                 session_creation_timeout_secs: float = 7200) -> None:
        steps_given = save_checkpoints_steps not in (_UNSET, None)
        if steps_given and save_checkpoints_secs not in (_UNSET, None):
            raise ValueError("`save_checkpoints_steps` and `save_checkpoints_secs` cannot be both "
                             "set.")
        said = save_checkpoints_steps is not _UNSET or save_checkpoints_secs is not _UNSET
        self.train_distribute, self.eval_distribute = _strategies(
            train_distribute, eval_distribute, experimental_distribute)
        task = _Task.of_environment(self.train_distribute)
        self.cluster_spec = task.cluster
        self.task_type, self.task_id, self.is_chief = task.job, task.index, task.is_chief
        self.master, self.evaluation_master = task.master, task.evaluation_master
        self.service = task.service
        self.model_dir = _model_dir(model_dir, task.model_dir)
        self.tf_random_seed = tf_random_seed
        self.save_summary_steps = save_summary_steps
        self.save_checkpoints_steps = save_checkpoints_steps if steps_given else None
        self.save_checkpoints_secs = (
            (None if save_checkpoints_secs is _UNSET else save_checkpoints_secs) if said else 600)
        self.session_config = session_config
        self.keep_checkpoint_max = keep_checkpoint_max
        self.keep_checkpoint_every_n_hours = keep_checkpoint_every_n_hours
        self.log_step_count_steps = log_step_count_steps
        self.device_fn, self.protocol = device_fn, protocol
        self.experimental_max_worker_delay_secs = experimental_max_worker_delay_secs
        self.session_creation_timeout_secs = session_creation_timeout_secs
        self._check()

    @property
    def num_ps_replicas(self) -> int:
        """Tasks that hold variables."""
        return _count(self.cluster_spec, "ps")

    @property
    def num_worker_replicas(self) -> int:
        """Tasks that train, the chief among them."""
        return sum(_count(self.cluster_spec, job) for job in ("worker", *_CHIEFS)) or 1

    @property
    def global_id_in_cluster(self) -> int:
        """Number of this task among those that are not evaluators: the chief is the first."""
        before = 0
        for job in (*_CHIEFS, "worker", "ps"):
            if job == self.task_type:
                return before + self.task_id
            before += _count(self.cluster_spec, job)
        return self.task_id

    def replace(self, **kwargs: Any) -> RunConfig:
        """Return a copy with other settings; ``ValueError`` for one that cannot be replaced."""
        for name in kwargs:
            if name not in _REPLACEABLE:
                raise ValueError(f"Replacing {name} is not supported. Allowed properties are "
                                 f"{sorted(_REPLACEABLE)}.")
        if kwargs.get("save_checkpoints_steps") and "save_checkpoints_secs" not in kwargs:
            kwargs["save_checkpoints_secs"] = None
        if kwargs.get("save_checkpoints_secs") and "save_checkpoints_steps" not in kwargs:
            kwargs["save_checkpoints_steps"] = None
        return self._with(**kwargs)

    def _with(self, **kwargs: Any) -> RunConfig:
        other = copy.copy(self)
        other.__dict__.update(kwargs)
        other._check()
        return other

    def _check(self) -> None:
        if self.save_checkpoints_steps and self.save_checkpoints_secs:
            raise ValueError("`save_checkpoints_steps` and `save_checkpoints_secs` cannot be both "
                             "set.")
        for name in ("save_summary_steps", "save_checkpoints_steps", "save_checkpoints_secs",
                     "keep_checkpoint_max", "keep_checkpoint_every_n_hours"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise ValueError(f"{name} should be >= 0; got {value}")
        if self.device_fn is not None and not callable(self.device_fn):
            raise ValueError(f"device_fn must be a function; got {self.device_fn!r}")


class _Task:
    """The cluster and this process's task in it, as ``TF_CONFIG`` describes them.

    The chief is the task of that job; with a `strategy` it may be the first worker. The replicas of
    a strategy over ranks have sessions of their own: then the ranks take the place of a cluster
    without parameter servers.
    """

    def __init__(self, found: dict, strategy: Strategy | None) -> None:
        jobs, task = ClusterSpec(found.get("cluster") or {}).as_dict(), found.get("task") or {}
        self.service, self.model_dir = found.get("service"), found.get("model_dir")
        self.job, self.index = task.get("type"), int(task.get("index", 0))
        if _are_ranks(strategy, jobs) and self.job != _EVALUATOR and "ps" not in jobs:
            jobs, self.job, self.index = {}, None, 0
        self.cluster = ClusterSpec(jobs)
        if not jobs:
            self.job = self.job or "worker"
            if self.job != "worker" or self.index:
                raise ValueError("If \"cluster\" is not set in TF_CONFIG, task type must be worker "
                                 f"and its index 0; got {self.job} {self.index}")
            self.is_chief, self.master = True, found.get("session_master") or ""
            self.evaluation_master = found.get("eval_session_master") or ""
            return
        chiefs = [job for job in (*_CHIEFS, "worker") if job in jobs][:1]
        if not chiefs or (chiefs[0] == "worker" and strategy is None):
            raise ValueError("If \"cluster\" is set in TF_CONFIG, it must have one \"chief\" node.")
        if self.job != _EVALUATOR and not 0 <= self.index < _count(self.cluster, self.job):
            raise ValueError(f"TF_CONFIG says that this is task {self.index} of the job "
                             f"{self.job!r}, but the cluster is {jobs}")
        self.is_chief = self.job in chiefs and self.index == 0
        if isinstance(strategy, MirroredStrategy) and self.job == "worker" and not (
                self.is_chief or "ps" in jobs):
            raise ValueError(f"This worker {self.index} of TF_CONFIG is a process by itself, but a "
                             "replica is an MPI rank: start all workers by mpirun or srun")
        self.master = "" if self.job == _EVALUATOR else f"grpc://{jobs[str(self.job)][self.index]}"
        self.evaluation_master = "" if self.job == _EVALUATOR else self.master

    @classmethod
    def of_environment(cls, strategy: Strategy | None) -> _Task:
        """The task of this process, which trains by `strategy`."""
        return cls(json.loads(os.environ.get("TF_CONFIG") or "{}"), strategy)


def _are_ranks(strategy: Strategy | None, jobs: dict) -> bool:
    """Whether the workers of a cluster are the ranks of this job, each with a replica."""
    if not isinstance(strategy, MirroredStrategy):
        return False
    workers = sum(len(jobs.get(job, ())) for job in ("worker", *_CHIEFS))
    if workers > 1 and strategy.num_replicas_in_sync == 1:
        logging.warning("A replica is an MPI rank, and this job has one for the %d workers of "
                        "TF_CONFIG. Start them by mpirun or srun.", workers)
    return strategy.num_replicas_in_sync > 1


def _strategies(train: Any, evaluation: Any, both: DistributeConfig | None) -> tuple[Any, Any]:
    """The strategies of training and of evaluations."""
    if both is not None:
        if train is not None or evaluation is not None:
            raise ValueError("Either `train_distribute` and `eval_distribute`, or "
                             "`experimental_distribute` can be set.")
        if both.remote_cluster is not None:
            raise ValueError("remote_cluster must be None, as a replica is a rank of this job; got "
                             f"{both.remote_cluster!r}")
        train, evaluation = both.train_distribute, both.eval_distribute
    for name, strategy in (("train_distribute", train), ("eval_distribute", evaluation)):
        if not (strategy is None or isinstance(strategy, Strategy)):
            raise ValueError(f"{name} must be a hf.distribute.Strategy; got {strategy!r}")
    return train, evaluation


def _count(cluster: ClusterSpec, job: str | None) -> int:
    return len(cluster.as_dict().get(str(job)) or ())


def _model_dir(given: str | None, of_environment: str | None) -> str | None:
    if given is not None and of_environment is not None and given != of_environment:
        raise ValueError(f"model_dir is {given} in the program, but {of_environment} in TF_CONFIG")
    return given if given is not None else of_environment
