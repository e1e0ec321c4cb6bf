"""SyncReplicasOptimizer: one update from the gradients of several replicas.

Every replica adds its gradients, with the number of the step they were computed in, to
accumulators beside the variables, and waits for a token. When enough gradients of a step have
come, the chief applies their averages, counts the step, and hands out tokens that carry the number
of the next one. With more replicas than gradients needed, those that come too late are dropped:
the backup workers of "Revisiting Distributed Synchronous SGD" (Chen et al., 2016).

Several groups of replicas may share the variables, each with accumulators, tokens and a chief of
its own: synchronous within a group, asynchronous between groups.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from typing import Any

from hpcflow import dtypes, errors
from hpcflow.device_spec import DeviceSpec
from hpcflow.dtypes import DType
from hpcflow.framework.session_run_hook import SessionRunHook
from hpcflow.graph.graph import colocate_with, control_dependencies, device, name_scope
from hpcflow.graph.indexed_slices import IndexedSlices
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.likes import SessionLike, TensorHandle
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.common.grouping import group
from hpcflow.ops.io.queues import FIFOQueue
from hpcflow.ops.state import state
from hpcflow.ops.state.variable_lists import global_variables, report_uninitialized_variables
from hpcflow.ops.state.variables import Variable
from hpcflow.ops.training.accumulators import ConditionalAccumulator, SparseConditionalAccumulator
from hpcflow.optimizers.optimizer import Optimizer
from hpcflow.train.coordinator import Coordinator
from hpcflow.train.queue_runner import QueueRunner
from hpcflow.train.session_manager import missing_by


class SyncReplicasOptimizer(Optimizer):
    """Averages the gradients of several replicas before each update::

        opt = hf.train.SyncReplicasOptimizer(opt, replicas_to_aggregate=n, total_num_replicas=n)
        train_op = opt.minimize(loss, global_step=global_step)
        hook = opt.make_session_run_hook(is_chief)
        with hf.train.MonitoredTrainingSession(target, is_chief, hooks=[hook]) as session: ...

    One replica, the chief, makes the updates. When it ends its training, the replicas that wait
    for it get an ``OutOfRangeError``, which ends theirs.

    Args:
        opt: the optimizer that makes the updates.
        replicas_to_aggregate: gradients per update.
        total_num_replicas: replicas that compute gradients; `replicas_to_aggregate` if None. With
            more, the slowest are not waited for; with fewer, replicas compute several per update.
        variable_averages: an ``ExponentialMovingAverage`` to update after each step.
        variables_to_average: what it averages.
        use_locking: accepted; updates always hold the variable's lock.
        name: name scope.
        group: (which group this replica is in, how many groups there are). The numbers of replicas
            are then those of its group, whose chief is the replica that makes the hook with
            ``is_chief=True``; the groups update the same variables without waiting for each other,
            and every update counts in the global step.

    Raises ``ValueError`` for a group that there is not.
    """

    def __init__(self, opt: Optimizer, replicas_to_aggregate: int,
                 total_num_replicas: int | None = None, variable_averages: Any = None,
                 variables_to_average: Any = None, use_locking: bool = False,
                 name: str = "sync_replicas", group: tuple[int, int] | None = None) -> None:
        super().__init__(use_locking, name)
        if group is not None and not 0 <= group[0] < group[1]:
            raise ValueError(f"group={group}: expected (index, number of groups)")
        self._group = group
        # In front of the names of what the replicas of a group share.
        self._prefix = "" if group is None else f"group_{group[0]}/"
        if total_num_replicas is None:
            total_num_replicas = replicas_to_aggregate
        self._opt = opt
        self._needed = replicas_to_aggregate
        self._total = total_num_replicas
        self._tokens_per_step = max(total_num_replicas, replicas_to_aggregate)
        self._variable_averages = variable_averages
        self._variables_to_average = variables_to_average
        self._gradients_applied = False
        self._accumulators: list[tuple[Any, str]] = []

    # ------------------------------------------------------------ the wrapped optimizer

    def compute_gradients(self, *args: Any, **kwargs: Any) -> list[tuple[Any, Variable]]:
        """As of the wrapped optimizer: the gradients of this replica alone."""
        return self._opt.compute_gradients(*args, **kwargs)

    def get_slot(self, *args: Any, **kwargs: Any) -> Variable | None:
        """As of the wrapped optimizer."""
        return self._opt.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> list[str]:
        """As of the wrapped optimizer."""
        return self._opt.get_slot_names(*args, **kwargs)

    def variables(self) -> list[Variable]:
        """As of the wrapped optimizer."""
        return self._opt.variables()

    # ------------------------------------------------------------ the graph

    def apply_gradients(self, grads_and_vars: Iterable[tuple[Any, Any]], global_step: Any = None,
                        name: str | None = None) -> Any:
        """Return the op of one step of this replica: hand in the gradients, wait for a token.

        Raises ``ValueError`` without gradients or a global step.
        """
        pairs = list(grads_and_vars or ())
        if not pairs:
            raise ValueError("Must supply at least one variable")
        if global_step is None:
            raise ValueError("Global step is required to check staleness")
        self._global_step = self._step_of_group(global_step)
        self._make_local_step(self._global_step)
        self.ready_for_local_init_op = report_uninitialized_variables(global_variables())
        here = global_step.device
        with name_scope(None, self._name):
            handed_in, averages = self._accumulate(pairs)
            with device(here):
                update = self._opt.apply_gradients(averages, self._global_step)
                if self._group is not None:  # an update that waits for gradients does not count yet
                    with control_dependencies([update]):
                        update = state.assign_add(global_step, 1).op
                self._token_queue = self._make_queue("sync_token_q", -1, global_step.dtype)
                # The runner gets a queue of its own: it would close that of the tokens for all.
                dummy = self._make_queue("dummy_queue", 1, dtypes.int32)
                with control_dependencies(handed_in):
                    token = self._token_queue.dequeue()
                train_op = state.assign(self._local_step, token)
                self._sync_op = self._hand_out_tokens(update)
                self._last_tokens = self._hand_out_last_tokens()
                self._runner = _UpdateRunner(dummy, [self._sync_op])
            self._make_chief_init()
            self._take_leave()
        self._gradients_applied = True
        return train_op

    def _step_of_group(self, global_step: TensorHandle) -> Any:
        """Return the step that stale gradients are told by: the global step, or the group's own."""
        if self._group is None:
            return global_step
        index, count = self._group
        # Those of all groups, because the chief of the cluster initializes them.
        with colocate_with(global_step):
            steps = [Variable(0, trainable=False, dtype=global_step.dtype.base_dtype,
                              name=f"{self._name}_group_{i}_step") for i in range(count)]
        return steps[index]

    def _make_local_step(self, global_step: TensorHandle) -> None:
        # The anchor keeps the variable on this worker where variables go to parameter servers.
        anchor = raw_ops.NoOp(name="local_step_anchor")
        dtype = global_step.dtype.base_dtype
        with colocate_with(anchor):
            self._local_step = Variable(0, trainable=False, dtype=dtype,
                                        collections=[GraphKeys.LOCAL_VARIABLES],
                                        name="sync_rep_local_step")
        self.local_step_init_op = state.assign(self._local_step, global_step).op

    def _accumulate(self, pairs: list) -> tuple[list[Operation], list[tuple]]:
        """The ops that hand gradients in, and the (average, variable) pairs."""
        handed_in: list[Operation] = []
        averages: list[tuple] = []
        for grad, var in pairs:
            if grad is None:
                averages.append((None, var))
                continue
            where = _task_of(var.device)
            with device(where):
                op, average = self._accumulate_one(grad, var, where)
            handed_in.append(op)
            averages.append((average, var))
        return handed_in, averages

    def _accumulate_one(self, grad: Tensor, var: Variable, where: str) -> tuple[Operation, Any]:
        dtype, shape = grad.dtype.base_dtype, var.get_shape()
        name = f"{self._prefix}{var.name}/grad_accum"
        if isinstance(grad, IndexedSlices):
            sparse = SparseConditionalAccumulator(dtype, shape, shared_name=name)
            self._accumulators.append((sparse, where))
            return (sparse.apply_indexed_slices_grad(grad, self._local_step.value()),
                    sparse.take_indexed_slices_grad(self._needed))
        if not isinstance(grad, Tensor):
            raise ValueError(f"Unknown grad type: {grad!r}")
        dense = ConditionalAccumulator(dtype, shape, shared_name=name)
        self._accumulators.append((dense, where))
        return dense.apply_grad(grad, self._local_step.value()), dense.take_grad(self._needed)

    def _make_queue(self, name: str, capacity: int, dtype: DType) -> FIFOQueue:
        return FIFOQueue(capacity, dtype.base_dtype, [[]], name=name,
                         shared_name=f"{self._prefix}{name}")

    def _hand_out_tokens(self, update: Operation) -> Operation:
        with control_dependencies([update]):
            done = self._token_queue.enqueue_many([self._tokens(self._tokens_per_step)])
        if self._variable_averages is not None:
            with control_dependencies([done]):
                done = self._variable_averages.apply(self._variables_to_average)
        return done

    def _hand_out_last_tokens(self) -> Operation:
        """When there will be no more updates: those who wait finish their step."""
        queue = self._token_queue
        last = queue.enqueue_many([self._tokens(self._tokens_per_step)], name="last_tokens")
        with control_dependencies([last]):
            return queue.close()

    def _take_leave(self) -> None:
        """Without its token the others could not fill the step that a replica leaves; and when the
        chief closes its session, there will be no more updates."""
        token = self._token_queue.enqueue(self._local_step.value(), name="last_token")
        graph = self._global_step.graph
        graph.add_parting(self.local_step_init_op, token)
        graph.add_parting(self._sync_op, self._last_tokens, only_if_closed=True)

    def _tokens(self, count: int) -> Tensor:
        return raw_ops.Fill([count], self._global_step.read_value())

    def _make_chief_init(self) -> None:
        ops = [self.local_step_init_op]
        for accumulator, where in self._accumulators:
            with device(where):
                ops.append(accumulator.set_global_step(self._global_step.value(),
                                                       name="SetGlobalStep"))
        self.chief_init_op = group(*ops)

    # ------------------------------------------------------------ for the chief

    def get_chief_queue_runner(self) -> QueueRunner:
        """Return the queue runner that makes the updates, for the chief to start.

        Raises ``ValueError`` before :meth:`apply_gradients`.
        """
        self._check_applied("get_chief_queue_runner")
        return self._runner

    def get_init_tokens_op(self, num_tokens: int = -1) -> Operation:
        """Return the op with which the chief hands out the first `num_tokens` tokens.

        The default is `replicas_to_aggregate`: replicas may start with gradients in advance. With
        fewer replicas than gradients per update it must be at least the difference; 0 makes every
        replica wait after its first gradient. Raises ``ValueError`` for too few, or before
        :meth:`apply_gradients`.
        """
        self._check_applied("get_init_tokens_op")
        least = self._needed - self._total
        if num_tokens == -1:
            num_tokens = self._needed
        elif num_tokens < least:
            raise ValueError("Too few tokens to finish the first step: "
                             f"{num_tokens} (given) vs {least} (needed)")
        with device(self._global_step.device), colocate_with(self._token_queue.queue_ref.op):
            opened = raw_ops._QueueReopen(handle=self._token_queue.queue_ref)
            if num_tokens <= 0:
                return opened
            with control_dependencies([opened]):
                return self._token_queue.enqueue_many([self._tokens(num_tokens)])

    def make_session_run_hook(self, is_chief: bool, num_tokens: int = -1) -> SessionRunHook:
        """Return the hook that a ``MonitoredSession`` of this replica needs.

        `num_tokens` as of :meth:`get_init_tokens_op`.
        """
        return _SyncReplicasHook(self, is_chief, num_tokens)

    def _check_applied(self, what: str) -> None:
        if not self._gradients_applied:
            raise ValueError(f"apply_gradient should be called first: {what}() should be called "
                             "after apply_gradients()")


def _task_of(where: str) -> str:
    """The task of a device: accumulators live in host memory."""
    spec = DeviceSpec.from_string(where or "")
    return DeviceSpec(job=spec.job, replica=spec.replica, task=spec.task).to_string()


class _UpdateRunner(QueueRunner):
    """Makes the updates in a thread that ends with the session, or with the program.

    No stop ends it, and nobody waits for it: other replicas may go on, and the thread may wait for
    gradients that nobody computes any more.
    """

    def create_threads(self, sess: SessionLike, coord: Coordinator | None = None,
                       daemon: bool = False, start: bool = False) -> list[threading.Thread]:
        """As of ``QueueRunner``; one thread, always a daemon."""
        thread = threading.Thread(target=self._run, args=(sess, self.enqueue_ops[0], coord),
                                  daemon=True, name=f"QueueRunnerThread-{self.name}")
        if start:
            thread.start()
        return [thread]

    def _run(self, sess: SessionLike, enqueue_op: Operation,
             coord: Coordinator | None = None) -> None:
        try:
            while True:
                sess.run(enqueue_op)
        except errors.CancelledError as e:
            logging.getLogger("hpcflow").debug("The updates have ended: %s", e)
        except Exception as e:
            if coord is None:
                raise
            if not coord.joined:
                coord.request_stop(e)


class _SyncReplicasHook(SessionRunHook):
    """Initializes a replica; the chief's makes the updates too, in a thread."""

    def __init__(self, optimizer: SyncReplicasOptimizer, is_chief: bool, num_tokens: int) -> None:
        self._sync_optimizer = optimizer
        self._is_chief = is_chief
        self._num_tokens = num_tokens

    def begin(self) -> None:
        """Add what the hook needs to the graph; ``ValueError`` before ``apply_gradients``."""
        optimizer = self._sync_optimizer
        optimizer._check_applied("begin")
        self._init = optimizer.chief_init_op if self._is_chief else optimizer.local_step_init_op
        if self._is_chief:
            self._first_tokens = optimizer.get_init_tokens_op(self._num_tokens)

    def after_create_session(self, session: SessionLike, coord: Coordinator) -> None:
        """Initialize; the chief begins to make updates. ``RuntimeError`` if it cannot."""
        missing = missing_by(self._sync_optimizer.ready_for_local_init_op, session)
        if missing is not None:
            raise RuntimeError("Init operations did not make model ready for SyncReplicasOptimizer "
                               f"local_init. Init op: {self._init.name}, error: {missing}")
        session.run(self._init)
        if self._is_chief:
            session.run(self._first_tokens)
            self._sync_optimizer.get_chief_queue_runner().create_threads(session, coord, start=True)
