"""How values of several replicas become one."""

from __future__ import annotations

import enum
from typing import Any

from hpcflow.framework import nest
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.mpi.operations import allreduce
from hpcflow.ops.math.reductions import reduce_sum
from hpcflow.ops.state.replication import VariableAggregation


class ReduceOp(enum.Enum):
    """The sum of values, or their mean."""

    SUM = "SUM"
    MEAN = "MEAN"

    @staticmethod
    def from_variable_aggregation(aggregation: VariableAggregation) -> ReduceOp:
        """The reduction of a variable's updates; ``ValueError`` for one that is neither."""
        found = {VariableAggregation.SUM: ReduceOp.SUM, VariableAggregation.MEAN: ReduceOp.MEAN}
        if aggregation not in found:
            raise ValueError(f"Could not convert from `hf.VariableAggregation` {aggregation} to "
                             "`hf.distribute.ReduceOp` type")
        return found[aggregation]


def reduction_of(given: Any) -> ReduceOp:
    """The :class:`ReduceOp` that `given` is or names; ``ValueError`` for another one."""
    return ReduceOp(given.upper()) if isinstance(given, str) else ReduceOp(given)


def reduced(reduction: Any, value: Any, replicas: int) -> Any:
    """`value`, a tensor or a structure of them, reduced over the replicas."""
    kind = reduction_of(reduction)
    if replicas == 1:
        return value
    return nest.map_structure(lambda v: allreduce(v, kind.value.lower()), value)


def reduced_along(reduction: Any, value: Any, axis: int, replicas: int) -> Any:
    """`value` reduced along one of its axes, and over the replicas, whose sizes may differ."""
    kind = reduction_of(reduction)
    value = convert_to_tensor(value)
    total = reduced(ReduceOp.SUM, reduce_sum(value, axis), replicas)
    if kind is ReduceOp.SUM:
        return total
    return total / reduced(ReduceOp.SUM, reduce_sum(raw_ops.OnesLike(value), axis), replicas)


class CrossDeviceOps:
    """How devices reduce values. Ranks do so by MPI, whichever a strategy is given."""


class ReductionToOneDevice(CrossDeviceOps):
    """Reduction on one device, `reduce_to_device`, by `accumulation_fn`; see the base class."""

    def __init__(self, reduce_to_device: Any = None, accumulation_fn: Any = None) -> None:
        self.reduce_to_device, self.accumulation_fn = reduce_to_device, accumulation_fn


class NcclAllReduce(CrossDeviceOps):
    """Reduction of packs of tensors; see the base class."""

    def __init__(self, num_packs: int = 1) -> None:
        if num_packs < 0:
            raise ValueError(f"NCCL all-reduce requires num_packs >= 0, but {num_packs} is "
                             "specified")
        self.num_packs = num_packs


class HierarchicalCopyAllReduce(NcclAllReduce):
    """Reduction among near devices first; see the base class."""
