"""Run configurations of TPUEstimator."""

from __future__ import annotations

from typing import Any, NamedTuple

from hpcflow.estimator import run_config


class InputPipelineConfig:
    """Placements of input functions on a TPU; here they run in the process that trains."""

    PER_SHARD_V1 = 1
    PER_HOST_V1 = 2
    PER_HOST_V2 = 3
    BROADCAST = 4
    SLICED = 5


class TPUConfig(NamedTuple):
    """The settings of a TPU, accepted for compatibility; they change no computation."""

    iterations_per_loop: int = 2
    num_shards: int | None = None
    num_cores_per_replica: int | None = None
    per_host_input_for_training: Any = True
    tpu_job_name: str | None = None
    initial_infeed_sleep_secs: int | None = None
    input_partition_dims: Any = None
    eval_training_input_configuration: int = InputPipelineConfig.PER_HOST_V1
    experimental_host_call_every_n_steps: int = 1


class RunConfig(run_config.RunConfig):
    """An ``estimator.RunConfig`` with what a TPU is told.

    Args:
        tpu_config: a :class:`TPUConfig`.
        evaluation_master: where evaluations run; that of training if None.
        master: where training runs; what TF_CONFIG says if None.
        cluster: a cluster resolver, whose master is taken.
        **kwargs: of ``estimator.RunConfig``.
    """

    def __init__(self, tpu_config: TPUConfig | None = None, evaluation_master: str | None = None,
                 master: str | None = None, cluster: Any = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.tpu_config = tpu_config or TPUConfig()
        self.cluster = cluster
        if cluster is not None and master is None:
            master = cluster.master()
        if master is not None:
            self.master = master
        if evaluation_master is not None:
            self.evaluation_master = evaluation_master
