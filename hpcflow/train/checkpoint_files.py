"""Waiting for checkpoints that another process writes, and removing them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator

from hpcflow import storage
from hpcflow.base import program_log
from hpcflow.train.checkpoint_state import latest_checkpoint


def wait_for_new_checkpoint(checkpoint_dir: str, last_checkpoint: str | None = None,
                            seconds_to_sleep: float = 1, timeout: float | None = None
                            ) -> str | None:
    """Wait until the latest checkpoint of a directory is another one.

    Args:
        checkpoint_dir: where another process saves checkpoints.
        last_checkpoint: the path of the one known; None for any.
        seconds_to_sleep: between two looks.
        timeout: seconds to wait; None for without end.

    Returns: its path, or None after the timeout.
    """
    stop = None if timeout is None else time.monotonic() + timeout
    while True:
        path = latest_checkpoint(checkpoint_dir)
        if path is not None and path != last_checkpoint:
            return path
        if stop is not None and time.monotonic() + seconds_to_sleep > stop:
            return None
        time.sleep(seconds_to_sleep)


def checkpoints_iterator(checkpoint_dir: str, min_interval_secs: float = 0,
                         timeout: float | None = None,
                         timeout_fn: Callable[[], bool] | None = None) -> Iterator[str]:
    """Yield the latest checkpoint of a directory, again and again as new ones come.

    Checkpoints that come while the caller works on one, but for the last of them, are left out.

    Args:
        checkpoint_dir: where another process saves checkpoints.
        min_interval_secs: the least time between two of them.
        timeout: seconds to wait for the next one; None for without end.
        timeout_fn: called after the timeout; true ends the iteration, false lets it wait again.
            Without it the timeout ends it.
    """
    path = None
    while True:
        new = wait_for_new_checkpoint(checkpoint_dir, path, timeout=timeout)
        if new is None:
            if timeout_fn is None or timeout_fn():
                program_log.info("no new checkpoint in %s for %s s", checkpoint_dir, timeout)
                return
            continue
        start, path = time.monotonic(), new
        yield path
        time.sleep(max(0.0, start + min_interval_secs - time.monotonic()))


def remove_checkpoint(checkpoint_prefix: str, checkpoint_format_version: int = 2,
                      meta_graph_suffix: str = "meta") -> None:
    """Remove a checkpoint, of whatever format, and the MetaGraph that was saved with it.

    What does not exist is passed over. `checkpoint_format_version` is accepted: files say theirs.
    """
    meta = f"{checkpoint_prefix}.{meta_graph_suffix}"
    if os.path.exists(meta):
        os.unlink(meta)
    if storage.checkpoint_exists(checkpoint_prefix):
        storage.delete(checkpoint_prefix)


def meta_graph_filename(checkpoint_filename: str, meta_graph_suffix: str = "meta") -> str:
    """Return the path of the file that holds the MetaGraph of a checkpoint."""
    return f"{checkpoint_filename}.{meta_graph_suffix}"
