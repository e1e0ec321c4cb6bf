"""``hpcflow.contrib.tpu``: what programs written for TPUs need to run without one.

Models and input functions are those of a ``TPUEstimator`` with ``use_tpu=False``, which an
``Estimator`` trains. There is no TPU: whatever would use one is refused.
"""

from hpcflow.base.late_names import named_otherwise
from hpcflow.contrib.tpu.config import InputPipelineConfig, RunConfig, TPUConfig
from hpcflow.contrib.tpu.estimator import TPUEstimator
from hpcflow.contrib.tpu.optimizer import CrossShardOptimizer
from hpcflow.contrib.tpu.shards import (
    bfloat16_scope,
    cross_replica_sum,
    get_tpu_context,
    initialize_system,
    outside_compilation,
    replicate,
    rewrite,
    shutdown_system,
)
from hpcflow.contrib.tpu.spec import TPUEstimatorSpec

__all__ = [
    "CrossShardOptimizer", "InputPipelineConfig", "RunConfig", "TPUConfig", "TPUEstimator",
    "TPUEstimatorSpec", "bfloat16_scope", "cross_replica_sum", "get_tpu_context",
    "initialize_system", "outside_compilation", "replicate", "rewrite", "shutdown_system",
]  # fmt: skip

__getattr__ = named_otherwise(__name__)
