"""Many ranks: which one this is, what they compute together, and clusters of them.

Every rank runs the same program (``mpirun -n 4 python train.py``)::

    optimizer = hf.mpi.DistributedOptimizer(hf.train.AdamOptimizer(1e-3))
    train_op = optimizer.minimize(loss)                 # gradients are averaged over the ranks
    hooks = [hf.mpi.BroadcastVariablesHook(0)]          # all begin with the variables of rank 0
    with hf.train.MonitoredTrainingSession(checkpoint_dir=path, hooks=hooks) as session:
        while not session.should_stop():
            session.run(train_op)

or is a task of a cluster with parameter servers::

    task = hf.mpi.task(jobs={"ps": 2})
    server = hf.train.Server(task.cluster, task.job, task.index)
"""

from hpcflow.mpi.broadcasting import BroadcastVariablesHook, broadcast_variables
from hpcflow.mpi.cluster import (
    Task,
    layout_of,
    local_rank,
    local_size,
    network,
    rank,
    recover,
    size,
    task,
)
from hpcflow.mpi.compression import compress
from hpcflow.mpi.operations import (
    allgather,
    allreduce,
    alltoall,
    barrier,
    broadcast,
    reduce_scatter,
)
from hpcflow.mpi.optimizer import DistributedOptimizer
from hpcflow.ops.flow.collectives import rank_and_size

__all__ = [
    "BroadcastVariablesHook",
    "DistributedOptimizer",
    "Task",
    "allgather",
    "allreduce",
    "alltoall",
    "barrier",
    "broadcast",
    "broadcast_variables",
    "compress",
    "layout_of",
    "local_rank",
    "local_size",
    "network",
    "rank",
    "rank_and_size",
    "recover",
    "reduce_scatter",
    "size",
    "task",
]
