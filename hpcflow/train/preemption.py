"""Training that saves and ends when its job is preempted, to go on in the next one.

A job is preempted when any of its ranks gets SIGTERM or SIGUSR1, or finds the file that
HPCFLOW_PREEMPTION_FILE names. All ranks then stop at a step that they agree on, the chief saves,
and the job ends with the status HPCFLOW_PREEMPTED_STATUS (75).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NoReturn

from hpcflow import config
from hpcflow.base import program_log
from hpcflow.framework.session_run_hook import SessionRunHook
from hpcflow.graph.defaults import get_default_session
from hpcflow.graph.graph import Graph, get_default_graph
from hpcflow.graph.likes import SessionLike, TensorLike
from hpcflow.train.hooks import global_step_for

if TYPE_CHECKING:
    from hpcflow.train.coordinator import Coordinator


class PreemptionHook(SessionRunHook):
    """Ends training at a step that all ranks agree on when the job is preempted.

    ``MonitoredTrainingSession`` has one by default (HPCFLOW_PREEMPTION=0: none). Other hooks save
    at the end as ever; the ``with`` block, or ``close``, ends with a ``SystemExit`` whose status is
    HPCFLOW_PREEMPTED_STATUS.

    Args:
        save_path: where this rank saves, before the step; None: other hooks do, or another rank.
        saver: the Saver; that of the scaffold, or a new one, by default.
        scaffold: a Scaffold to take the saver from.
    """

    def __init__(self, save_path: str | None = None, saver: Any = None,
                 scaffold: Any = None) -> None:
        self._path, self._saver, self._scaffold = save_path, saver, scaffold
        self._steps: Any = None
        self._watches = False

    def begin(self) -> None:
        """Take notice from now on; find the global step and the saver, if this rank saves
        (``RuntimeError`` without one)."""
        from hpcflow.runtime.cluster.preemption import watch

        if not self._watches:
            self._watches = True
            watch.begin()
        if self._path is not None:
            self._global_step = global_step_for(self)
            if self._saver is None and self._scaffold is None:
                from hpcflow.train.saver import Saver

                self._saver = Saver(allow_empty=True)

    def save_at(self, path: str) -> None:
        """Save on this rank, to `path`: it is the chief now."""
        self._path = path
        self.begin()

    def after_create_session(self, session: SessionLike, coord: Coordinator) -> None:
        """Begin to count steps."""
        if self._steps is None:
            self._steps = make_steps(session, get_default_graph())

    def step_ended(self) -> bool:
        """Called after every step: True if it is the last."""
        return self._steps.passed()

    @property
    def preempted(self) -> bool:
        """True when training has come to the step at which all ranks stop."""
        return self._steps is not None and self._steps.over

    def end(self, session: SessionLike) -> None:
        """Wait until all ranks have stopped; save, where a path was given."""
        if not self.preempted:
            return
        leave(session)
        self._steps.wait_for_others()
        if self._path is not None:
            saver = self._saver or self._scaffold.saver
            saver.save(session, self._path, global_step=self._global_step)

    def close(self) -> bool:
        """The session is closed, or was not made; returns whether the program is to end with the
        status."""
        if self._watches:
            from hpcflow.runtime.cluster.preemption import watch

            self._watches = False
            watch.end()
        if self._steps is None:
            return False
        steps, self._steps = self._steps, None
        steps.close()
        return steps.over


def preemption_hooks(hooks: list[SessionRunHook]) -> list[PreemptionHook]:
    """Those of the hooks that are about preemption."""
    return [h for h in hooks if isinstance(h, PreemptionHook)]


def make_steps(session: SessionLike, graph: Graph) -> Any:
    """The steps of a training loop with `session`, for the agreement on the last one."""
    from hpcflow.runtime.cluster.preemption import Steps
    from hpcflow.runtime.cluster.server import world_collectives

    together = any(op.type.startswith("Mpi") for op in graph.get_operations())
    endpoint = getattr(getattr(session, "_engine", None), "endpoint", None)
    if endpoint is None and together and (collectives := world_collectives()) is not None:
        endpoint = collectives.endpoint
    if endpoint is not None and not hasattr(endpoint.transport, "comms"):
        endpoint = None  # tasks of one process get its signals together
    return Steps(endpoint, together)


def is_noticed() -> bool:
    """True once this process knows that the job is preempted: time is short."""
    from hpcflow.runtime.cluster.preemption import watch

    return watch.noticed is not None


def leave(session: SessionLike) -> None:
    """Do what others wait for before they can stop too."""
    if hasattr(session, "_take_leave"):
        session._take_leave()


def exit_preempted() -> NoReturn:
    """End the program with HPCFLOW_PREEMPTED_STATUS, together with all ranks."""
    from hpcflow.comm import abort

    status = config.flags.preempted_status
    program_log.warning("Preempted: the job ends with status %d", status)
    abort.expect_status(status)
    raise SystemExit(status)


_own_steps: Any = None


def preemption_requested(session: SessionLike | None = None) -> bool:
    """True when the program's own training loop has to stop now, and to save.

    To be called once per step, on every rank that trains::

        while not hf.train.preemption_requested() and step < last:
            step, _ = session.run([global_step, train_op])
        if hf.train.preemption_requested():
            hf.train.save_and_exit(session, saver, "model.ckpt", global_step)

    `session` is the one that trains, by default the default session. Ranks that average their
    gradients all stop after the same step.
    """
    global _own_steps
    if not config.flags.preemption:
        return False
    if _own_steps is None:
        session = session or get_default_session()
        graph = session.graph if session is not None else get_default_graph()
        _own_steps = make_steps(session, graph)
        _own_steps.done = -1  # this call comes before the first step
    return _own_steps.over or _own_steps.passed()


def save_and_exit(session: SessionLike, saver: Any = None, save_path: str | None = None,
                  global_step: TensorLike | None = None) -> NoReturn:
    """End the program after :func:`preemption_requested` has said so.

    Waits until all ranks have stopped, saves with `saver` as ``saver.save`` does (on the ranks that
    give one; one of them is enough), and exits with HPCFLOW_PREEMPTED_STATUS. Raises ``ValueError``
    for a saver without a path.
    """
    if saver is not None and not save_path:
        raise ValueError("save_and_exit: a saver needs a save_path")
    leave(session)
    if _own_steps is not None:
        _own_steps.wait_for_others()
    if saver is not None and save_path:
        os.makedirs(os.path.dirname(save_path) or ".", exist_ok=True)
        saver.save(session, save_path, global_step=global_step)
    exit_preempted()
