"""The checkpoints of a Saver that are kept: the last few, and one every few hours."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from typing import Any

from hpcflow import storage
from hpcflow.base import program_log
from hpcflow.errors import OpError
from hpcflow.train.checkpoint_files import meta_graph_filename
from hpcflow.train.checkpoint_state import get_checkpoint_mtimes


class KeptCheckpoints:
    """What a Saver knows of its checkpoints, by the ``SaverDef`` that says how many it keeps."""

    saver_def: Any

    def __init__(self) -> None:
        self._last_checkpoints: list[tuple[str, float]] = []
        self._to_delete: list[tuple[str, float]] = []
        self._next_checkpoint_time = float("inf")  # what is kept for good is later

    @property
    def last_checkpoints(self) -> list[str]:
        """The paths of the checkpoints that are kept, oldest first."""
        return [path for path, _ in self._last_checkpoints]

    def set_last_checkpoints(self, last_checkpoints: list[str]) -> None:
        """Set what :attr:`last_checkpoints` returns, from paths; they are never deleted."""
        if not isinstance(last_checkpoints, list):
            raise TypeError(f"last_checkpoints must be a list of paths, got {last_checkpoints!r}")
        self._last_checkpoints = [(path, float("inf")) for path in last_checkpoints]

    def set_last_checkpoints_with_time(self,
                                       last_checkpoints_with_time: list[tuple[str, float]]) -> None:
        """Set the checkpoints that are kept, with the times when they were made."""
        if not isinstance(last_checkpoints_with_time, list):
            raise TypeError("last_checkpoints_with_time must be a list of (path, seconds), got "
                            f"{last_checkpoints_with_time!r}")
        self._last_checkpoints = list(last_checkpoints_with_time)

    def recover_last_checkpoints(self, checkpoint_paths: Iterable[str]) -> None:
        """Set the checkpoints that are kept to those of the paths that exist, oldest first."""
        existing = [p for p in checkpoint_paths if storage.checkpoint_exists(p)]
        self.set_last_checkpoints_with_time(
            list(zip(existing, get_checkpoint_mtimes(existing), strict=True)))

    def _record(self, path: str) -> None:
        if not self.saver_def.max_to_keep:
            return
        others = [item for item in self._last_checkpoints if item[0] != path]
        self._last_checkpoints = [*others, (path, time.time())]
        while len(self._last_checkpoints) > self.saver_def.max_to_keep:
            self._to_delete.append(self._last_checkpoints.pop(0))

    def _delete_old(self, meta_graph_suffix: str) -> None:
        hours = self.saver_def.keep_checkpoint_every_n_hours
        for path, made in self._to_delete:
            if made > self._next_checkpoint_time:
                if made != float("inf"):
                    self._next_checkpoint_time += hours * 3600
                continue
            try:
                if storage.checkpoint_exists(path):
                    storage.delete(path)
                meta = meta_graph_filename(path, meta_graph_suffix)
                if os.path.exists(meta):
                    os.unlink(meta)
            except (OpError, OSError) as error:
                program_log.warning("could not delete the old checkpoint %s: %s", path, error)
        self._to_delete = []

    def _begin_hours(self) -> None:
        """Count the hours, of which each few keep a checkpoint for good, from now on."""
        hours = self.saver_def.keep_checkpoint_every_n_hours
        self._next_checkpoint_time = time.time() + hours * 3600 if hours else float("inf")
