"""``slim.queues``: queue runners that run within a ``with``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import hpcflow as hf
from hpcflow import train

__all__ = ["QueueRunners"]


@contextmanager
def QueueRunners(session: Any) -> Iterator[None]:
    """Start the queue runners of the default graph, and stop them at the end of the block.

    A session whose queue runners go on for two minutes is closed.
    """
    coordinator = train.Coordinator()
    threads = [thread for runner in hf.get_collection(hf.GraphKeys.QUEUE_RUNNERS)
               for thread in runner.create_threads(session, coord=coordinator, daemon=True,
                                                   start=True)]
    try:
        yield
    finally:
        coordinator.request_stop()
        try:
            coordinator.join(threads, stop_grace_period_secs=120)
        except RuntimeError:
            session.close()
