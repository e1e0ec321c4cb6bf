"""Workers that train variables of their own, and now and then exchange with common ones.

The trainable variables are local to each worker; a custom getter makes common ones, *centers*,
beside them. Every so many steps of a worker its optimizer exchanges the two.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hpcflow import dtypes
from hpcflow.contrib.opt.center_getters import (
    AGNCustomGetter,
    ElasticAverageCustomGetter,
    ModelAverageCustomGetter,
)
from hpcflow.framework.session_run_hook import SessionRunHook
from hpcflow.graph.graph import (
    colocate_with,
    control_dependencies,
    device,
    get_collection_ref,
    name_scope,
)
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.operation import Operation
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.arrays.constants import fill, zeros_like
from hpcflow.ops.arrays.identities import no_op
from hpcflow.ops.common.grouping import group
from hpcflow.ops.flow.cond import cond
from hpcflow.ops.io.queues import FIFOQueue
from hpcflow.ops.math.sums import add_n
from hpcflow.ops.state.state import assign, assign_add, assign_sub
from hpcflow.ops.state.variable_lists import global_variables, trainable_variables
from hpcflow.ops.state.variable_scope import get_variable
from hpcflow.ops.state.variables import Variable
from hpcflow.ops.training.accumulators import ConditionalAccumulator
from hpcflow.optimizers.optimizer import Optimizer


class _ExchangingOptimizer(Optimizer):
    """Trains local variables by `opt`, and exchanges with the centers every `period` steps.

    `centers`: local variable -> center.
    """

    def __init__(self, opt: Optimizer, num_worker: int, centers: dict, period: int,
                 use_locking: bool, name: str) -> None:
        super().__init__(use_locking, name)
        self._opt = opt
        self._num_worker = num_worker
        self._centers = centers
        self._period = period
        self._local_step = get_variable("local_step", initializer=0, trainable=False,
                                        collections=[GraphKeys.LOCAL_VARIABLES])
        opt._prepare()

    def compute_gradients(self, *args: Any, **kwargs: Any) -> Any:
        """As of the optimizer inside."""
        return self._opt.compute_gradients(*args, **kwargs)

    def _exchange(self, local: list[Variable], global_step: Any) -> Any:
        """The exchange of the variables `local` with their centers."""
        raise NotImplementedError

    def _before_exchange(self, pairs: list) -> list[Any]:
        """What every step does besides the update of the local variables."""
        return []

    def _local_update(self, pairs: list) -> Operation:
        """The update of the local variables; its own variables are local, too."""
        before = set(global_variables())
        update = self._opt.apply_gradients(pairs)
        made = [v for v in global_variables() if v not in before]
        collection = get_collection_ref(GraphKeys.GLOBAL_VARIABLES)
        collection[:] = [v for v in collection if v not in made]
        get_collection_ref(GraphKeys.LOCAL_VARIABLES).extend(made)
        return update

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None,
                        name: str | None = None) -> Any:
        """Return an operation that updates the local variables, and exchanges if it is time to.

        Only exchanges increment `global_step`.
        """
        pairs = [(grad, var) for grad, var in grads_and_vars if grad is not None]
        local = [var for _, var in pairs]
        updates = [self._local_update(pairs), *self._before_exchange(pairs)]
        with control_dependencies(updates):
            counted = assign_add(self._local_step, 1, name="local_step_update")
        with control_dependencies([counted]):
            due = raw_ops.Equal(raw_ops.FloorMod(self._local_step.read_value(), self._period), 0)
            return cond(due, lambda: self._exchange(local, global_step), no_op)

    def _local_variables(self) -> list[Variable]:
        found = trainable_variables()
        if not found:
            raise ValueError("The list of local variables should not be empty")
        return found


class _InitializingHook(SessionRunHook):
    """Runs an operation that the optimizer makes, in each new session."""

    def __init__(self, make: Any) -> None:
        self._make = make

    def begin(self) -> None:
        """Make the operation."""
        self._initialize = self._make()

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Run it."""
        session.run(self._initialize)


def _counted(global_step: Any) -> list[Any]:
    if global_step is None:
        return []
    with colocate_with(global_step):
        return [assign_add(global_step, 1)]


class ElasticAverageOptimizer(_ExchangingOptimizer):
    """Elastic averaging (Zhang, Choromanska and LeCun, 2014, arXiv:1412.6651).

    An exchange moves local variables and centers towards each other, by `moving_rate` of their
    difference; a penalty on the distance joins the loss.

    Args:
        opt: the optimizer of the local variables.
        num_worker: the number of workers.
        ea_custom_getter: what made the variables.
        communication_period: steps between exchanges.
        moving_rate: 0.9 / (communication_period num_worker) if None.
        rho: factor of the penalty; moving_rate / learning rate if None.
        use_locking: accepted; updates always hold the variable's lock.
        synchronous: let workers wait for each other when they begin.
        name: of the optimizer.
    """

    BETA = 0.9

    def __init__(self, opt: Any, num_worker: int,
                 ea_custom_getter: ElasticAverageCustomGetter, communication_period: int = 10,
                 moving_rate: float | None = None, rho: float | None = None,
                 use_locking: bool = True, synchronous: bool = False,
                 name: str = "ElasticAverageOptimizer") -> None:
        super().__init__(opt, num_worker, ea_custom_getter._global_map, communication_period,
                         use_locking, name)
        self._seen = ea_custom_getter._local_map
        self._synchronous = synchronous
        self._moving_rate = (self.BETA / communication_period / num_worker
                             if moving_rate is None else moving_rate)
        self._rho = self._moving_rate / opt._learning_rate if rho is None else rho

    def compute_gradients(self, loss: Any, var_list: Any = None, *args: Any,
                          **kwargs: Any) -> Any:
        """As of the optimizer inside, of the loss with the penalty."""
        local = list(var_list or trainable_variables())
        distance: Any = add_n([raw_ops.L2Loss(raw_ops.Sub(var, self._seen[var]))
                               for var in local])
        return self._opt.compute_gradients(loss + self._rho * distance, local, *args, **kwargs)

    def _exchange(self, local: list[Variable], global_step: Any) -> Operation:
        seen = [assign(self._seen[var], self._centers[var].read_value()) for var in local]
        with control_dependencies(seen):
            steps: list[Any] = [
                self._moving_rate * raw_ops.Sub(var.read_value(), self._seen[var].read_value())
                for var in local]
        with control_dependencies(steps):
            return group(*(assign_sub(var, step) for var, step in zip(local, steps)),
                         *(assign_add(self._centers[var], step)
                           for var, step in zip(local, steps)),
                         *_counted(global_step))

    def get_init_op(self, task_index: int) -> Operation:
        """Return the operation that gives the local variables the values of the centers."""
        first = group(*(assign(target, self._centers[var].read_value())
                        for var in self._local_variables() for target in (var, self._seen[var])))
        return self._after_others(first, task_index) if self._synchronous else first

    def _after_others(self, first: Operation, task_index: int) -> Operation:
        """An operation that waits until all workers have run `first`."""
        queues = [FIFOQueue(self._num_worker, [dtypes.bool], [[]],
                            shared_name=f"variable_init_sync_queue{i}")
                  for i in range(self._num_worker)]
        with control_dependencies([first]):
            told = [queue.enqueue(False) for i, queue in enumerate(queues) if i != task_index]
        return group(*told, queues[task_index].dequeue_many(self._num_worker - 1))

    def make_session_run_hook(self, is_chief: bool, task_index: int) -> SessionRunHook:
        """Return the hook that initializes the local variables."""
        return _InitializingHook(lambda: self.get_init_op(task_index))

    def swapping_saver(self, var_list: Any = None, name: str = "swapping_saver",
                       **kwargs: Any) -> Any:
        """Return a ``train.Saver`` whose checkpoints have the centers under the variables' names.

        Raises ``RuntimeError`` where there are no centers.
        """
        from hpcflow.train.saver import Saver

        if not self._centers:
            raise RuntimeError("there are no centers: call this when the model is built under "
                               "ElasticAverageCustomGetter")
        saved = dict(var_list) if isinstance(var_list, dict) else {
            var.op.name: var for var in var_list or trainable_variables()}
        return Saver({key: self._centers.get(var, var) for key, var in saved.items()}, name=name,
                     **kwargs)


class AGNOptimizer(_ExchangingOptimizer):
    """Accumulated gradient normalization (Hermans et al., 2017, arXiv:1710.02368).

    An exchange updates the centers by the mean of the gradients since the last one, and the local
    variables become the centers.

    Args:
        optimizer: the optimizer of both.
        num_worker: the number of workers.
        custom_getter: what made the variables.
        communication_period: steps between exchanges.
        use_locking: accepted; updates always hold the variable's lock.
        name: of the optimizer.
    """

    def __init__(self, optimizer: Optimizer, num_worker: int, custom_getter: AGNCustomGetter,
                 communication_period: int = 10, use_locking: bool = True,
                 name: str = "AGNOptimizer") -> None:
        super().__init__(optimizer, num_worker, custom_getter._global_map, communication_period,
                         use_locking, name)
        self._sums = custom_getter._grad_map

    def _before_exchange(self, pairs: list) -> list[Any]:
        self._opt._create_slots([self._centers[var] for _, var in pairs])
        return [assign_add(self._sums[var], grad) for grad, var in pairs]

    def _exchange(self, local: list[Variable], global_step: Any) -> Operation:
        means: list[Any] = [assign(self._sums[var], self._sums[var].read_value() / self._period)
                            for var in local]
        with control_dependencies(means):
            values = [self._sums[var].read_value() for var in local]
            update = self._opt.apply_gradients(list(zip(values,
                                                        [self._centers[var] for var in local])))
        with control_dependencies([update]):
            return group(*_counted(global_step),
                         *(assign(var, self._centers[var].read_value()) for var in local),
                         *(assign(self._sums[var], zeros_like(self._sums[var]))
                           for var in local))

    def get_init_op(self, task_index: int) -> Operation:
        """Return the operation that gives the local variables the values of the centers."""
        local = self._local_variables()
        return group(*(assign(var, self._centers[var].read_value()) for var in local),
                     *(assign(self._sums[var], zeros_like(self._sums[var])) for var in local))

    def make_session_run_hook(self, is_chief: bool, task_index: int) -> SessionRunHook:
        """Return the hook that initializes the local variables."""
        return _InitializingHook(lambda: self.get_init_op(task_index))


class ModelAverageOptimizer(_ExchangingOptimizer):
    """Averages of the workers' variables: an exchange waits for all workers, and gives the mean of
    their variables to the centers and to all of them.

    Args:
        opt: the optimizer of the local variables.
        num_worker: the number of workers.
        is_chief: is this worker the chief?
        ma_custom_getter: what made the variables.
        interval_steps: steps between exchanges.
        use_locking: accepted; updates always hold the variable's lock.
        name: of the optimizer.
    """

    def __init__(self, opt: Optimizer, num_worker: int, is_chief: bool,
                 ma_custom_getter: ModelAverageCustomGetter, interval_steps: int = 100,
                 use_locking: bool = True, name: str = "ModelAverageOptimizer") -> None:
        super().__init__(opt, num_worker, ma_custom_getter._local_2_global, interval_steps,
                         use_locking, name)
        self._is_chief = is_chief
        self._accumulators: list[ConditionalAccumulator] = []
        self._chief_init_op: Any = None

    def _local_update(self, pairs: list) -> Operation:
        return self._opt.apply_gradients(pairs)

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None,
                        name: str | None = None) -> Any:
        """Return an operation that updates the local variables, and exchanges if it is time to.

        Raises ``ValueError`` without variables or a global step.
        """
        pairs = list(grads_and_vars)
        if not pairs:
            raise ValueError("Must supply at least one variable")
        if global_step is None:
            raise ValueError("Global step is required")
        step = super().apply_gradients(pairs, global_step, name)
        self._chief_init_op = group(*(a.set_global_step(global_step, name="SetGlobalStep")
                                      for a in self._accumulators))
        return step

    def _exchange(self, local: list[Variable], global_step: Any) -> Operation:
        with colocate_with(global_step):
            tokens = FIFOQueue(-1, [dtypes.bool], [[]], shared_name="sync_queue")
        given, means = [], []
        with name_scope(None, f"{self._name}/global"):
            for var in local:
                center = self._centers[var]
                with device(center.device):
                    accumulator = ConditionalAccumulator(
                        var.dtype.base_dtype, var.get_shape(),
                        shared_name=f"{center.name}/var_accum")
                    given.append(accumulator.apply_grad(var.read_value(), global_step))
                    means.append(accumulator.take_grad(self._num_worker))
                self._accumulators.append(accumulator)
        with control_dependencies([self._synced(local, global_step, given, means, tokens)]):
            return self._taken_over(local)

    def _synced(self, local: list[Variable], global_step: Any, given: list, means: list,
                tokens: FIFOQueue) -> Any:
        """What ends when the centers have the means: the chief puts these there."""
        with control_dependencies(given):
            if not self._is_chief:
                return tokens.dequeue()
            updates = [assign(self._centers[var], mean) for var, mean in zip(local, means)]
            updates += _counted(global_step)
        with control_dependencies(updates), device(global_step.device):
            return tokens.enqueue_many([fill([self._num_worker - 1], False)])

    def _taken_over(self, local: Iterable[Variable]) -> Operation:
        return group(*(assign(var, self._centers[var].read_value()) for var in local))

    def get_init_op(self) -> Operation:
        """Return the operation that gives the local variables the values of the centers."""
        return self._taken_over(self._local_variables())

    def make_session_run_hook(self) -> SessionRunHook:
        """Return the hook that initializes the local variables."""
        return _InitializingHook(self.get_init_op)
