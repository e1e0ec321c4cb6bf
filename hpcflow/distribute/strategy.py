"""Strategy: how a model is replicated, and in which replica a thread builds.

While a strategy's scope is open, a graph is built for all replicas (in cross-replica context); a
function that the strategy calls is built for one of them (in replica context). Every rank builds
its own replica and the same operations between the replicas, in the same order.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from hpcflow.data import Dataset
from hpcflow.device_spec import DeviceSpec
from hpcflow.distribute import inputs
from hpcflow.distribute.inputs import InputContext, InputReplicationMode, StrategyIterator
from hpcflow.distribute.reductions import ReduceOp, reduced, reduced_along
from hpcflow.framework import nest
from hpcflow.graph.graph import Graph, control_dependencies, device, get_default_graph
from hpcflow.graph.operation import Operation
from hpcflow.graph.reentry import reentrant
from hpcflow.mpi import cluster
from hpcflow.mpi.broadcasting import BroadcastVariablesHook, broadcast_variables
from hpcflow.mpi.operations import barrier, broadcast
from hpcflow.mpi.optimizer import reduced_gradients
from hpcflow.ops.arrays.constants import constant
from hpcflow.ops.common import grouping
from hpcflow.ops.state.creators import variable_creator_scope
from hpcflow.platform.device_lib import list_local_devices
from hpcflow.runtime.session.session import Session

# What losses are added by in ``hf.losses`` and in ``hf.keras.losses``: those of all replicas are
# then added as they are.
_SUMS = ("weighted_sum", "sum")


class _Place:
    """Where a thread builds; see :class:`hpcflow.graph.replicas.Place`."""

    def __init__(self, strategy: Strategy, replica: ReplicaContext | None) -> None:
        self.strategy, self.replica = strategy, replica

    def scaled(self, loss: Any) -> Any:
        count = self.strategy.num_replicas_in_sync
        return loss / count if count > 1 and get_loss_reduction() is ReduceOp.MEAN else loss

    def reduced(self, pairs: Sequence[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        if self.replica is None:
            raise RuntimeError("Use `_distributed_apply()` instead of `apply_gradients()` in a "
                               "cross-replica context: call the function that trains by "
                               "strategy.experimental_run_v2")
        if self.strategy.num_replicas_in_sync == 1:
            return list(pairs)
        if get_default_graph().building_function:
            raise RuntimeError("gradients cannot be reduced over replicas within a function, such "
                               "as a Defun or that of Dataset.map: apply them outside of it")
        return reduced_gradients(pairs)


class _Replicas:
    """The ranks that have a replica each; see :class:`hpcflow.graph.replicas.Replicas`."""

    def with_equal_values(self, initialized: Operation, variables: Sequence[Any],
                          name: str) -> Operation:
        with control_dependencies([initialized]):
            return broadcast_variables(0, variables, name=name)

    def hook(self) -> BroadcastVariablesHook:
        return BroadcastVariablesHook(0)


class Strategy:
    """One replica of a model, and the base of the other strategies.

    Args:
        device: where a replica is built; if None where operations are placed anyway.
    """

    #: Whether each rank of the job has a replica, and they train in step.
    _over_ranks = False

    def __init__(self, device: str | None = None) -> None:
        self._device = device
        self._extended = StrategyExtended(self)
        self._scale_loss_for_estimator = False

    @property
    def extended(self) -> StrategyExtended:
        """Further methods."""
        return self._extended

    @property
    def num_replicas_in_sync(self) -> int:
        """The number of replicas whose gradients are added."""
        return cluster.size() if self._over_ranks else 1

    def _index(self) -> int:
        """The number of this rank's replica."""
        return cluster.rank() if self._over_ranks else 0

    def scope(self) -> contextlib.AbstractContextManager:
        """A context in which a model of this strategy is built, in cross-replica context.

        Variables are resource variables. With several replicas those that an initializer of
        ``hf.global_variables_initializer`` or a monitored session initializes begin, on all ranks,
        with the values of rank 0.
        """
        return _scope(self)

    @contextlib.contextmanager
    def _scale_loss_for_estimator_enabled(self) -> Iterator[None]:
        """A context in which losses that are means are divided by the number of replicas, as those
        of estimators are; programs with loops of their own do so themselves."""
        self._scale_loss_for_estimator = True
        try:
            yield
        finally:
            self._scale_loss_for_estimator = False

    # ------------------------------------------------------------ running

    def experimental_run_v2(self, fn: Callable, args: Sequence[Any] = (),
                            kwargs: Mapping[str, Any] | None = None) -> Any:
        """Return ``fn(*args, **kwargs)``, called in the context of this rank's replica.

        Within `fn` the gradients that an optimizer applies are those of all replicas: their mean,
        as that of a loss which is a mean over a replica's examples. With losses of
        ``Reduction.SUM`` they are added.
        """
        with self.scope():
            return self.extended.call_for_each_replica(fn, args, kwargs)

    def run(self, fn: Callable, args: Sequence[Any] = (),
            kwargs: Mapping[str, Any] | None = None) -> Any:
        """As :meth:`experimental_run_v2`."""
        return self.experimental_run_v2(fn, args, kwargs)

    def experimental_run(self, fn: Callable, input_iterator: Any = None) -> Any:
        """As :meth:`experimental_run_v2` for the next element of an iterator, if there is one."""
        args = () if input_iterator is None else (input_iterator.get_next(),)
        return self.experimental_run_v2(fn, args)

    def reduce(self, reduce_op: Any, value: Any, axis: int | None = None) -> Any:
        """Return the sum or mean (a :class:`ReduceOp`) of a value that each replica has.

        With an `axis` of the value it is reduced along that axis, too; a mean then counts all
        elements alike, also if the replicas have not equally many. Raises ``RuntimeError`` in a
        replica.
        """
        self._check_outside_replicas("reduce")
        count = self.num_replicas_in_sync
        if axis is None:
            return reduced(reduce_op, value, count)
        return nest.map_structure(lambda v: reduced_along(reduce_op, v, axis, count), value)

    def experimental_local_results(self, value: Any) -> tuple:
        """Return the values of the replicas of this rank: one."""
        return (value,)

    def unwrap(self, value: Any) -> tuple:
        """As :meth:`experimental_local_results`."""
        return self.experimental_local_results(value)

    def group(self, value: Any, name: str | None = None) -> Operation:
        """Return an operation that runs `value`, operations or tensors."""
        return grouping.group(*nest.flatten(value), name=name)

    # ------------------------------------------------------------ data

    def experimental_distribute_dataset(self, dataset: Dataset) -> Dataset:
        """Return this replica's part of `dataset`, whose elements are batches for all replicas.

        All ranks read the same elements, in the same order: give ``shuffle`` a seed.
        """
        return inputs.rows_of_replica(dataset, self.input_context)

    def experimental_distribute_datasets_from_function(self, dataset_fn: Callable) -> Dataset:
        """Return the data set of this replica, ``dataset_fn(InputContext)``."""
        return inputs.from_function(dataset_fn, self.input_context)

    def make_dataset_iterator(self, dataset: Dataset) -> StrategyIterator:
        """Return an iterator over :meth:`experimental_distribute_dataset`."""
        return StrategyIterator(self.experimental_distribute_dataset(dataset))

    def make_input_fn_iterator(
            self, input_fn: Callable,
            replication_mode: InputReplicationMode = InputReplicationMode.PER_WORKER,
    ) -> StrategyIterator:
        """Return an iterator over the data set ``input_fn(InputContext)``.

        Raises ``ValueError`` for a mode that there is not, ``TypeError`` if the function returns
        something else.
        """
        if replication_mode is not InputReplicationMode.PER_WORKER:
            raise ValueError(f"Input replication mode not supported: {replication_mode}")
        return StrategyIterator(
            self.experimental_distribute_datasets_from_function(input_fn))

    def experimental_make_numpy_dataset(self, numpy_input: Any, session: Any = None) -> Dataset:
        """Return a data set of the rows of an array, or of a structure of arrays."""
        return Dataset.from_tensor_slices(numpy_input)

    @property
    def input_context(self) -> InputContext:
        """What input functions are given."""
        return InputContext(self.num_replicas_in_sync, self._index(), self.num_replicas_in_sync)

    def wait_for_all(self) -> None:
        """Wait until all ranks with a replica are here."""
        if self.num_replicas_in_sync > 1:
            with Graph().as_default(), Session() as session:
                session.run(barrier())

    # ------------------------------------------------------------ accepted

    def update_config_proto(self, config_proto: Any) -> Any:
        """Return `config_proto`: ranks need no other configuration."""
        return config_proto

    def configure(self, session_config: Any = None, cluster_spec: Any = None,
                  task_type: Any = None, task_id: Any = None) -> None:
        """Do nothing: the ranks are those of the job."""

    def colocate_vars_with(self, colocate_with_variable: Any) -> Any:
        """See :meth:`StrategyExtended.colocate_vars_with`."""
        return self.extended.colocate_vars_with(colocate_with_variable)

    # ------------------------------------------------------------ contexts

    @contextlib.contextmanager
    def _in_replica(self) -> Iterator[None]:
        with _placed(_Place(self, ReplicaContext(self))), device(self._device):
            yield

    def _check_outside_replicas(self, what: str) -> None:
        place = get_default_graph()._place
        if place is not None and place.replica is not None and place.strategy is self:
            raise RuntimeError("Method requires being in cross-replica context, use "
                               "get_replica_context().merge_call(): "
                               f"{what} was called in the function of a replica")

    def __copy__(self) -> Strategy:
        return self

    def __deepcopy__(self, memo: dict) -> Strategy:
        return self


class StrategyExtended:
    """What programs rarely ask of a :class:`Strategy`."""

    def __init__(self, container_strategy: Strategy) -> None:
        self._strategy = container_strategy

    def call_for_each_replica(self, fn: Callable, args: Sequence[Any] = (),
                              kwargs: Mapping[str, Any] | None = None) -> Any:
        """Return ``fn(*args, **kwargs)``, called in the context of this rank's replica."""
        with self._strategy._in_replica():
            return fn(*args, **(kwargs or {}))

    def reduce_to(self, reduce_op: Any, value: Any, destinations: Any) -> Any:
        """Return the sum or mean of a value of each replica; it is on every rank."""
        self._strategy._check_outside_replicas("reduce_to")
        return reduced(reduce_op, value, self._strategy.num_replicas_in_sync)

    def batch_reduce_to(self, reduce_op: Any,
                        value_destination_pairs: Sequence[tuple[Any, Any]]) -> list:
        """As :meth:`reduce_to` for several (value, destination)."""
        return [self.reduce_to(reduce_op, value, to) for value, to in value_destination_pairs]

    def broadcast_to(self, tensor: Any, destinations: Any) -> Any:
        """Return the value that `tensor` has in the first replica."""
        self._strategy._check_outside_replicas("broadcast_to")
        return broadcast(tensor) if self._strategy.num_replicas_in_sync > 1 else tensor

    def update(self, var: Any, fn: Callable, args: Sequence[Any] = (),
               kwargs: Mapping[str, Any] | None = None, group: bool = True) -> Any:
        """Return ``fn(var, *args, **kwargs)``; all ranks make the same update of their copies.

        With `group` it is an operation, otherwise a tuple of what the copies of this rank return.
        """
        with get_default_graph().colocate_with(getattr(var, "op", var)):
            found = fn(var, *args, **(kwargs or {}))
        return self._strategy.group(found) if group else (found,)

    def update_non_slot(self, colocate_with: Any, fn: Callable, args: Sequence[Any] = (),
                        kwargs: Mapping[str, Any] | None = None, group: bool = True) -> Any:
        """As :meth:`update` for variables that belong to none, ``fn(*args, **kwargs)``."""
        found = fn(*args, **(kwargs or {}))
        return self._strategy.group(found) if group else (found,)

    def colocate_vars_with(self, colocate_with_variable: Any) -> contextlib.AbstractContextManager:
        """A context in which variables are made where another one is."""
        return get_default_graph().colocate_with(colocate_with_variable.op)

    def variable_created_in_scope(self, v: Any) -> bool:
        """Whether a variable was made in the scope of this strategy, in the default graph."""
        return v in get_default_graph()._variables_of_strategies.get(self._strategy, ())

    def non_slot_devices(self, var_list: Sequence[Any]) -> Any:
        """Return a variable of the list, beside which those that belong to none are made."""
        return min(var_list, key=lambda v: v.name) if var_list else None

    def read_var(self, v: Any) -> Any:
        """Return the value of a variable."""
        return v.value()

    def value_container(self, value: Any) -> Any:
        """Return the variable that a copy of it belongs to: itself."""
        return value

    @property
    def worker_devices(self) -> tuple[str, ...]:
        """The devices of the replicas of this rank: its GPU, or else its CPU, if the strategy
        names none."""
        named = self._strategy._device or max(
            (d.name for d in list_local_devices()), key=lambda name: "GPU" in name)
        spec = DeviceSpec(replica=0, task=0, device_type="CPU", device_index=0)
        spec.merge_from(DeviceSpec.from_string(named))
        return (spec.to_string(),)

    #: The devices of the variables of this rank.
    parameter_devices = worker_devices
    #: Whether this rank initializes variables: each does.
    experimental_should_init = True
    #: Whether shapes must be known as the graph is built.
    experimental_require_static_shapes = False

    @property
    def experimental_between_graph(self) -> bool:
        """Whether every rank builds a graph of its own."""
        return self._strategy.num_replicas_in_sync > 1

    @property
    def should_checkpoint(self) -> bool:
        """Whether this rank saves checkpoints and writes summaries."""
        return self._strategy._index() == 0

    should_save_summary = should_checkpoint


class ReplicaContext:
    """The replica in which a function is built."""

    def __init__(self, strategy: Strategy) -> None:
        self._strategy = strategy

    @property
    def strategy(self) -> Strategy:
        """The strategy of the replica."""
        return self._strategy

    @property
    def num_replicas_in_sync(self) -> int:
        """The number of replicas."""
        return self._strategy.num_replicas_in_sync

    @property
    def replica_id_in_sync_group(self) -> Any:
        """The number of this replica, an int32 scalar."""
        return constant(self._strategy._index(), name="replica_id_in_sync_group")

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices of the replica."""
        return self._strategy.extended.worker_devices

    def merge_call(self, merge_fn: Callable, args: Sequence[Any] = (),
                   kwargs: Mapping[str, Any] | None = None) -> Any:
        """Return ``merge_fn(strategy, *args, **kwargs)``, called in cross-replica context.

        Outside of every strategy, the strategy is the one that :func:`get_strategy` returns.
        """
        with _placed(_Place(self._strategy, None)):
            return merge_fn(self._strategy, *args, **(kwargs or {}))

    def all_reduce(self, reduce_op: Any, value: Any) -> Any:
        """Return the sum or mean of a value, or of each of a structure, over the replicas."""
        return reduced(reduce_op, value, self.num_replicas_in_sync)


# ---------------------------------------------------------------- contexts


@reentrant
def _scope(strategy: Strategy) -> Iterator[Strategy]:
    graph = get_default_graph()
    if strategy.num_replicas_in_sync > 1:
        graph._replicas = graph._replicas or _Replicas()
    made = graph._variables_of_strategies.setdefault(strategy, [])

    def creator(next_creator: Callable, **arguments: Any) -> Any:
        made.append(next_creator(**{**arguments, "use_resource": True}))
        return made[-1]

    with (_placed(_Place(strategy, None)), variable_creator_scope(creator),
          device(strategy._device)):
        yield strategy


@contextlib.contextmanager
def _placed(place: _Place) -> Iterator[None]:
    graph = get_default_graph()
    before, graph._place = graph._place, place
    try:
        yield
    finally:
        graph._place = before


class _DefaultStrategy(Strategy):
    """That of a graph outside of every scope."""

    def scope(self) -> contextlib.AbstractContextManager:
        """A context that changes nothing."""
        return contextlib.nullcontext(self)


_DEFAULT = _DefaultStrategy()
_DEFAULT_REPLICA = ReplicaContext(_DEFAULT)


def get_strategy() -> Strategy:
    """Return the strategy whose scope is open; outside of all one with a single replica."""
    place = get_default_graph()._place
    return _DEFAULT if place is None else place.strategy


def has_strategy() -> bool:
    """Return whether the scope of a strategy is open."""
    return get_strategy() is not _DEFAULT


def in_cross_replica_context() -> bool:
    """Return whether the graph is built for all replicas of a strategy."""
    place = get_default_graph()._place
    return place is not None and place.replica is None


def get_replica_context() -> ReplicaContext | None:
    """Return the replica for which the graph is built, None in cross-replica context."""
    place = get_default_graph()._place
    return _DEFAULT_REPLICA if place is None else place.replica


def experimental_set_strategy(strategy: Strategy | None) -> None:
    """Open the scope of `strategy` in the default graph, in place of the one that this function
    has opened before; None opens none. ``RuntimeError`` within another scope."""
    graph = get_default_graph()
    opened = graph._strategy_scope
    if graph._place is not None and opened is None:
        raise RuntimeError("Must not be called inside a `hf.distribute.Strategy` scope.")
    if opened is not None:
        opened.__exit__(None, None, None)
    graph._strategy_scope = None if strategy is None else strategy.scope()
    if graph._strategy_scope is not None:
        graph._strategy_scope.__enter__()


def get_loss_reduction() -> ReduceOp:
    """Return how the losses of replicas become one: ``SUM``; in estimators ``MEAN``, but after a
    loss of ``Reduction.SUM``."""
    is_sum = get_default_graph()._last_loss_reduction in _SUMS
    scales = get_strategy()._scale_loss_for_estimator
    return ReduceOp.MEAN if scales and not is_sum else ReduceOp.SUM
