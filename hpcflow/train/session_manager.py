"""SessionManager: sessions on a model that is initialized, restored, or waited for."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hpcflow import errors
from hpcflow.config import flags
from hpcflow.graph.graph import Graph, get_default_graph
from hpcflow.graph.likes import OperationLike, SessionLike
from hpcflow.host.tuning import programs as tuning
from hpcflow.runtime.session.session import Session
from hpcflow.train.checkpoint_state import get_checkpoint_state
from hpcflow.train.saving_graph import restore_positions

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from hpcflow.train.saver import Saver


class _Checkpoint(NamedTuple):
    """A checkpoint that a session begins with, and all that its directory keeps."""

    saver: Any
    path: str
    kept: Any = ()

    def restore(self, session: Session) -> None:
        self.saver.restore(session, self.path)
        if self.kept:
            self.saver.recover_last_checkpoints(self.kept)


class SessionManager:
    """Makes sessions that are ready for training.

    Args:
        local_init_op: run in every new session (local variables, tables).
        ready_op: gives the names of what is not initialized; none means ready.
        ready_for_local_init_op: the same, for running `local_init_op`.
        graph: the graph; the default graph if None.
        recovery_wait_secs: the longest pause between two looks at what is waited for.
        local_init_run_options: the ``RunOptions`` of `local_init_op`.
        local_init_feed_dict: feeds of `local_init_op`.

    Raises ``ValueError`` for a `ready_for_local_init_op` without a `local_init_op`.
    """

    def __init__(self, local_init_op: OperationLike | None = None, ready_op: Any = None,
                 ready_for_local_init_op: OperationLike | None = None, graph: Graph | None = None,
                 recovery_wait_secs: float = 30, local_init_run_options: Message | None = None,
                 local_init_feed_dict: dict | None = None) -> None:
        if ready_for_local_init_op is not None and local_init_op is None:
            raise ValueError("If you pass a ready_for_local_init_op you must also pass a "
                             f"local_init_op , ready_for_local_init_op {ready_for_local_init_op}")
        self._local_init_op = local_init_op
        self._ready_op = ready_op
        self._ready_for_local_init_op = ready_for_local_init_op
        self._graph = graph or get_default_graph()
        self._recovery_wait_secs = recovery_wait_secs
        self._local_init_run_options = local_init_run_options
        self._local_init_feed_dict = local_init_feed_dict

    def prepare_session(self, master: str, init_op: OperationLike | None = None,
                        saver: Saver | None = None, checkpoint_dir: str | None = None,
                        checkpoint_filename_with_path: str | None = None,
                        wait_for_checkpoint: bool = False, max_wait_secs: float = 7200,
                        config: Message | None = None, init_feed_dict: dict | None = None,
                        init_fn: Callable | None = None) -> Session:
        """Return a session whose model is restored from a checkpoint, or else initialized.

        Args:
            master: target of the session.
            init_op, init_feed_dict, init_fn: how to initialize: an op with its feeds, a function
                of the session.
            saver: restores the checkpoint.
            checkpoint_dir: restore the latest checkpoint of this directory, if there is one.
            checkpoint_filename_with_path: restore this checkpoint.
            wait_for_checkpoint: wait for a checkpoint up to `max_wait_secs` seconds.
            config: a ``ConfigProto``.

        Raises ``RuntimeError`` when the model is not ready afterwards, or cannot be initialized;
        ``ValueError`` for both a directory and a file.
        """
        session, found = self._session_and_checkpoint(
            master, saver, checkpoint_dir, checkpoint_filename_with_path, wait_for_checkpoint,
            max_wait_secs, config)
        try:
            self._initialize(session, init_op, init_feed_dict, init_fn, found)
            self._make_ready(session, init_op, init_fn, found)
        except BaseException:
            session.close()
            raise
        return session

    def _initialize(self, session: Session, init_op: Any, init_feed_dict: dict | None,
                    init_fn: Callable | None, found: _Checkpoint | None) -> None:
        """Restore a checkpoint, or initialize without one; replicas on several ranks do both."""
        if found is None and init_op is None and not init_fn and self._local_init_op is None:
            raise RuntimeError("Model is not initialized and no init_op or init_fn or "
                               "local_init_op was given")
        if init_op is not None and (found is None or self._graph._replicas is not None):
            session.run(init_op, feed_dict=init_feed_dict)
        if found is not None:
            found.restore(session)
        elif init_fn:
            init_fn(session)

    def _make_ready(self, session: Session, init_op: Any, init_fn: Callable | None,
                    restored: _Checkpoint | None) -> None:
        local = self._run_local_init(session, restored)
        for missing, what in ((local, "model ready for local_init"),
                              (self._missing(session, self._ready_op), "model ready")):
            if missing is not None:
                raise RuntimeError(
                    f"Init operations did not make {what}. Init op: {_name(init_op)}, init fn: "
                    f"{init_fn}, local_init_op: {_name(self._local_init_op)}, error: {missing}")

    def recover_session(self, master: str, saver: Any = None, checkpoint_dir: str | None = None,
                        checkpoint_filename_with_path: str | None = None,
                        wait_for_checkpoint: bool = False, max_wait_secs: float = 7200,
                        config: Message | None = None) -> tuple[Session, bool]:
        """Return (session, ready): the model restored from a checkpoint, if there is one.

        Arguments and errors as of :meth:`prepare_session`.
        """
        session, found = self._session_and_checkpoint(
            master, saver, checkpoint_dir, checkpoint_filename_with_path, wait_for_checkpoint,
            max_wait_secs, config)
        if found is not None:
            found.restore(session)
        local_ready = self._run_local_init(session, found) is None
        ready = (found is not None and local_ready
                 and self._missing(session, self._ready_op) is None)
        return session, ready

    def wait_for_session(self, master: str, config: Message | None = None,
                         max_wait_secs: float = float("inf")) -> Session:
        """Return a session, once another task has made the model ready.

        Raises ``DeadlineExceededError`` if that takes longer than `max_wait_secs`. Once the chief
        (task 0 of the job "chief", "master" or "worker") is lost, steps of the session raise
        ``UnavailableError``.
        """
        began = time.monotonic()
        deadline = began + (float("inf") if max_wait_secs is None else max_wait_secs)
        pause, patience = tuning.READY_FIRST_PAUSE_SECONDS, flags.stall_seconds
        session = Session(master, graph=self._graph, config=config)
        session._follow_chief()
        while True:
            missing = self._run_local_init(session)
            if missing is None:
                missing = self._missing(session, self._ready_op)
            if missing is None:
                return session
            if time.monotonic() + pause > deadline:
                session.close()
                raise errors.DeadlineExceededError(
                    None, None, f"Session was not ready after waiting {max_wait_secs:g} secs: "
                    f"{missing}")
            if 0 < patience <= time.monotonic() - began:
                print(f"hpcflow: this worker has waited {patience:g} s for the chief to make the "
                      f"model ready: {missing}", file=sys.stderr, flush=True)
                patience = 0  # once is enough
            time.sleep(pause)
            pause = min(2 * pause, self._recovery_wait_secs)

    # ------------------------------------------------------------ parts

    def _session_and_checkpoint(
            self, master: str, saver: Saver | None, directory: str | None, filename: str | None,
            wait: bool, max_wait_secs: float,
            config: Message | None) -> tuple[Session, _Checkpoint | None]:
        if directory and filename:
            raise ValueError("Can not provide both checkpoint_dir and "
                             "checkpoint_filename_with_path.")
        session = Session(master, graph=self._graph, config=config)
        if saver is None or not (directory or filename):
            return session, None
        if filename:
            return session, _Checkpoint(saver, filename)
        assert directory is not None
        local = getattr(saver, "local", None)
        if local is not None:
            local.recover(session, directory)
        state = self._checkpoint(directory, time.monotonic() + (max_wait_secs if wait else 0))
        if state is None:
            return session, None
        return session, _Checkpoint(saver, state.model_checkpoint_path,
                                    state.all_model_checkpoint_paths)

    def _checkpoint(self, directory: str, deadline: float) -> Any:
        pause = tuning.READY_FIRST_PAUSE_SECONDS
        while True:
            state = get_checkpoint_state(directory)
            if state is not None or time.monotonic() + pause > deadline:
                return state
            time.sleep(pause)
            pause = min(2 * pause, self._recovery_wait_secs)

    def _run_local_init(self, session: Session, restored: _Checkpoint | None = None) -> str | None:
        """Run the local initializer if it can; otherwise say what is missing.

        It may initialize iterators, whose place in their data is then restored again.
        """
        if self._local_init_op is None:
            return None
        missing = self._missing(session, self._ready_for_local_init_op)
        if missing is None:
            session.run(self._local_init_op, self._local_init_feed_dict,
                        self._local_init_run_options)
            if restored is not None:
                restore_positions(restored.saver, session, restored.path)
        return missing

    def _missing(self, session: Session, ready_op: Any) -> str | None:
        return missing_by(ready_op, session)


def missing_by(ready_op: Any, session: SessionLike) -> str | None:
    """Return what `ready_op` reports as uninitialized, as a message; None when nothing is."""
    if ready_op is None:
        return None
    try:
        value = session.run(ready_op)
    except errors.FailedPreconditionError as e:
        if "uninitialized" not in str(e):
            raise
        return str(e)
    # Older programs use an assertion, or its int32 result, as the ready op.
    if value is None or value.dtype == np.int32 or value.size == 0:
        return None
    return f"Variables not initialized: {', '.join(v.decode() for v in value.reshape(-1))}"


def _name(op: Any) -> str:
    return getattr(op, "name", str(op))
