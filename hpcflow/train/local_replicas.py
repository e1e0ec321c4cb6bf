"""Copies on the nodes of what ranks that average their gradients save: all have all variables, so a
second rank, on another node if there is one, saves as rank 0 does."""

from __future__ import annotations

import json
import os
import secrets
import socket
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcflow import config, dtypes
from hpcflow.framework.session_run_hook import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)
from hpcflow.graph.graph import device
from hpcflow.graph.likes import SessionLike
from hpcflow.ops.arrays.constants import placeholder
from hpcflow.ops.flow.collectives import add_op
from hpcflow.train.checkpoint_state import get_checkpoint_state
from hpcflow.train.hooks import global_step_for
from hpcflow.train.saving_graph import restore_positions
from hpcflow.train.step_timer import SecondOrStepTimer

if TYPE_CHECKING:
    from hpcflow.train.coordinator import Coordinator

_ROOM = 4096  # of a message; a path is not longer


def copies_another(hooks: list, master: str) -> bool | None:
    """True if a hook copies this rank's variables from another rank, so that it initializes its own
    but saves nothing; False if this rank is the source, None where no hook copies."""
    found = [h for h in hooks if hasattr(h, "is_root")]
    return None if not found else not any(h.is_root(master) for h in found)


def replica_hooks(hooks: list, is_root: bool, checkpoint_dir: str | None, save_secs: float | None,
                  save_steps: int | None, scaffold: Any) -> list[SessionRunHook]:
    """The hook below where nodes have checkpoints of their own; none elsewhere."""
    if not config.flags.local_checkpoints:
        return []
    root = next(h.root for h in hooks if hasattr(h, "is_root"))
    return [LocalReplicaHook(root, is_root, checkpoint_dir, save_secs, save_steps, scaffold)]


class LocalReplicaHook(SessionRunHook):
    """Saves on the node of a second rank, and begins from what any rank's node has.

    All ranks have this hook, before the one that copies the variables of the root.

    Args:
        root: the rank that saves in the shared directory.
        is_root: whether this is it.
        checkpoint_dir, save_secs, save_steps: of the root; what others say does not count.
        scaffold: has the saver.
    """

    def __init__(self, root: int, is_root: bool, checkpoint_dir: str | None,
                 save_secs: float | None, save_steps: int | None, scaffold: Any) -> None:
        self._root, self._is_root, self._scaffold = root, is_root, scaffold
        self._said = {"directory": os.path.abspath(checkpoint_dir) if checkpoint_dir else "",
                      "secs": save_secs, "steps": save_steps}
        self._timer: SecondOrStepTimer | None = None

    def succeed(self) -> None:
        """The root is lost, and this rank is the root now."""
        self._is_root = True

    def begin(self) -> None:
        """Add the operations to the graph; ``RuntimeError`` without a global step."""
        self._global_step = global_step_for(self)
        with device("/device:CPU:0"):
            self._message = placeholder(dtypes.uint8, [_ROOM])
            self._heard = add_op("MpiBroadcast", [self._message], root=self._root, key=b"",
                                 name="local_checkpoints_of_root")
            self._own = placeholder(dtypes.int64, [1, 4])
            self._all = add_op("MpiAllgather", self._own, key=b"", name="local_checkpoints")[0]

    def after_create_session(self, session: SessionLike, coord: Coordinator) -> None:
        """Agree on where to begin; all ranks must come here."""
        said = self._hear(session)
        self._directory = said["directory"]
        local = self._scaffold.saver.local
        if not self._directory or local is None:
            return
        newest = max((c.step for c in local.find(session, self._directory)), default=-1)
        ranks, me = self._meet(session, newest)
        best = int(ranks[:, 0].max())
        if best > said["step"]:
            if me == int(ranks[:, 0].argmax()):
                local.recover(session, self._directory)
            self._meet(session, newest)
            if self._is_root:
                self._restore(session)
        if me == self._partner(ranks) and (said["secs"] or said["steps"]):
            self._timer = SecondOrStepTimer(said["secs"] or None, said["steps"] or None)
            self._timer.update_last_triggered_step(int(session.run(self._global_step)))

    def _hear(self, session: SessionLike) -> dict[str, Any]:
        """What the root says of where and when it saves, and its step."""
        step = int(session.run(self._global_step))
        text = json.dumps(self._said | {"step": step}).encode()
        message = np.zeros(_ROOM, np.uint8)
        message[:len(text)] = np.frombuffer(text, np.uint8)
        heard = session.run(self._heard, {self._message: message})
        return json.loads(np.asarray(heard).tobytes().rstrip(b"\0"))

    def _meet(self, session: SessionLike, newest: int) -> tuple[np.ndarray, int]:
        """(of each rank its newest step, its node, a number of its own, and whether it is the root;
        which one is this)."""
        number = secrets.randbits(62)
        mine = [[newest, zlib.crc32(socket.gethostname().encode()), number, self._is_root]]
        ranks = session.run(self._all, {self._own: mine})
        return ranks, int(np.flatnonzero(ranks[:, 2] == number)[0])

    def _partner(self, ranks: np.ndarray) -> int:
        """The first rank on another node than the root, or else the one behind it."""
        root = int(ranks[:, 3].argmax())
        elsewhere = np.flatnonzero(ranks[:, 1] != ranks[root, 1])
        found = int(elsewhere[0]) if len(elsewhere) else (root + 1) % len(ranks)
        return found if found != root else -1

    def _restore(self, session: SessionLike) -> None:
        state = get_checkpoint_state(self._directory)
        saver = self._scaffold.saver
        if state is not None:
            saver.restore(session, state.model_checkpoint_path)
            restore_positions(saver, session, state.model_checkpoint_path)
            saver.recover_last_checkpoints(state.all_model_checkpoint_paths)

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        """Fetch the global step, on the rank that saves."""
        return SessionRunArgs(self._global_step) if self._timer is not None else None

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Save if it is time."""
        timer = self._timer
        if timer is None or not timer.should_trigger_for_step(int(run_values.results) + 1):
            return
        step = int(run_context.session.run(self._global_step))
        if timer.should_trigger_for_step(step):
            timer.update_last_triggered_step(step)
            self._scaffold.saver.local.try_save(run_context.session, self._directory,
                                                f"model.ckpt-{step}")
