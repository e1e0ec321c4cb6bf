"""``hpcflow.distribute``: strategies, which say how a model is replicated.

A replica is an MPI rank: ``mpirun -n 4 python train.py`` makes four of each mirrored model, and a
program that is started by itself makes one. So the strategies of 1.x need no list of devices::

    strategy = hf.distribute.MirroredStrategy()
    config = hf.estimator.RunConfig(model_dir, train_distribute=strategy)
    hf.estimator.Estimator(model_fn, config=config).train(input_fn)

Within a replica optimizers add the gradients of all; estimators average them. Begin reading with
`strategy`.
"""

from hpcflow.distribute import experimental
from hpcflow.distribute.inputs import InputContext, InputReplicationMode
from hpcflow.distribute.reductions import (
    CrossDeviceOps,
    HierarchicalCopyAllReduce,
    NcclAllReduce,
    ReduceOp,
    ReductionToOneDevice,
)
from hpcflow.distribute.settings import DistributeConfig
from hpcflow.distribute.strategies import MirroredStrategy, OneDeviceStrategy
from hpcflow.distribute.strategy import (
    ReplicaContext,
    Strategy,
    StrategyExtended,
    experimental_set_strategy,
    get_loss_reduction,
    get_replica_context,
    get_strategy,
    has_strategy,
    in_cross_replica_context,
)
from hpcflow.train.server import Server

__all__ = [
    "CrossDeviceOps", "DistributeConfig", "HierarchicalCopyAllReduce", "InputContext",
    "InputReplicationMode", "MirroredStrategy", "NcclAllReduce", "OneDeviceStrategy", "ReduceOp",
    "ReductionToOneDevice", "ReplicaContext", "Server", "Strategy", "StrategyExtended",
    "experimental", "experimental_set_strategy", "get_loss_reduction", "get_replica_context",
    "get_strategy", "has_strategy", "in_cross_replica_context",
]
