"""``hpcflow.contrib.cluster_resolver``: objects that say which cluster a program runs on."""

from hpcflow.base.late_names import named_otherwise
from hpcflow.contrib.cluster_resolver.base import (
    ClusterResolver,
    SimpleClusterResolver,
    TPUClusterResolver,
)
from hpcflow.contrib.cluster_resolver.environment import (
    MPIClusterResolver,
    SlurmClusterResolver,
    TFConfigClusterResolver,
)

__all__ = ["ClusterResolver", "MPIClusterResolver", "SimpleClusterResolver",
           "SlurmClusterResolver", "TFConfigClusterResolver", "TPUClusterResolver"]

__getattr__ = named_otherwise(__name__)
