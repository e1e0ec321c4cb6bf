"""Session creators of MonitoredSession: for the chief, and for workers that wait for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hpcflow.train.scaffold import Scaffold
from hpcflow.train.session_manager import SessionManager

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from hpcflow.train.chief import ChiefParts


class SessionCreator:
    """Makes sessions; called again after a failure that sessions recover from."""

    #: On another rank than the chief: what it takes to become the chief.
    successor: ChiefParts | None = None

    def create_session(self) -> Any:
        """Return a session that is ready."""
        raise NotImplementedError("a SessionCreator must say how sessions are made")


class _ScaffoldCreator(SessionCreator):
    def __init__(self, scaffold: Scaffold | None, master: str, config: Message | None) -> None:
        self._scaffold = scaffold or Scaffold()
        self._master = master
        self._config = config
        self._manager: SessionManager | None = None

    def _session_manager(self) -> SessionManager:
        if self._manager is None:
            scaffold = self._scaffold.finalize()
            self._manager = SessionManager(
                local_init_op=scaffold.local_init_op, ready_op=scaffold.ready_op,
                ready_for_local_init_op=scaffold.ready_for_local_init_op,
                local_init_feed_dict=scaffold.local_init_feed_dict)
        return self._manager


class ChiefSessionCreator(_ScaffoldCreator):
    """Restores or initializes the model.

    Args:
        scaffold: the parts of the graph that training needs.
        master: target of the sessions.
        config: a ``ConfigProto``.
        checkpoint_dir: restore the latest checkpoint of this directory, if there is one.
        checkpoint_filename_with_path: restore this checkpoint.
    """

    def __init__(self, scaffold: Scaffold | None = None, master: str = "",
                 config: Message | None = None, checkpoint_dir: str | None = None,
                 checkpoint_filename_with_path: str | None = None) -> None:
        super().__init__(scaffold, master, config)
        self._checkpoint_dir = checkpoint_dir
        self._checkpoint_filename = checkpoint_filename_with_path

    def create_session(self) -> Any:
        """Return a session on the restored or initialized model."""
        manager, scaffold = self._session_manager(), self._scaffold
        return manager.prepare_session(
            self._master, saver=scaffold.saver, checkpoint_dir=self._checkpoint_dir,
            checkpoint_filename_with_path=self._checkpoint_filename, config=self._config,
            init_op=scaffold.init_op, init_feed_dict=scaffold.init_feed_dict,
            init_fn=scaffold.init_fn)


class WorkerSessionCreator(_ScaffoldCreator):
    """Waits until the chief has made the model ready; arguments as of ChiefSessionCreator.

    `max_wait_secs` says how long at most.
    """

    def __init__(self, scaffold: Scaffold | None = None, master: str = "",
                 config: Message | None = None, max_wait_secs: float = float("inf")) -> None:
        super().__init__(scaffold, master, config)
        self._max_wait_secs = max_wait_secs

    def create_session(self) -> Any:
        """Return a session, once the model is ready.

        Raises ``DeadlineExceededError`` if that takes too long.
        """
        return self._session_manager().wait_for_session(self._master, config=self._config,
                                                        max_wait_secs=self._max_wait_secs)
