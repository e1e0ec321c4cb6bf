"""Work in a thread of its own, whose failure is raised where somebody waits for it."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable


class BackgroundTask:
    """Writes `path` in a thread. An interpreter that ends waits for it.

    Args:
        work: what is done, once.
        path: the checkpoint that it writes.
        awaited: readers wait for it, because the program did not ask for the background.
    """

    def __init__(self, work: Callable[[], None], path: str, awaited: bool = False) -> None:
        self._error: BaseException | None = None
        self.path = os.path.abspath(path)
        self._thread = threading.Thread(target=self._run, args=(work,), name=f"saving {path}",
                                        daemon=False)
        self._thread.start()
        if awaited:
            _awaited.add(self)

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised by join()
            self._error = error

    @property
    def is_over(self) -> bool:
        """True once the work is done or has failed."""
        return not self._thread.is_alive()

    def join(self) -> None:
        """Wait for the end. Raises what the work failed with, at the first call only."""
        if self._thread is not threading.current_thread():
            self._thread.join()
            error, self._error = self._error, None
            if error is not None:
                raise error

    @property
    def is_own_thread(self) -> bool:
        """True if the caller is what runs the work."""
        return self._thread is threading.current_thread()

    def wait(self) -> None:
        """Wait for the end, whatever it is."""
        self._thread.join()


_awaited: weakref.WeakSet[BackgroundTask] = weakref.WeakSet()


def wait_for_writes(path: str) -> None:
    """Wait until this process has written the awaited checkpoints that it is writing now and that
    are `path`, or in the directory `path`; what writes one waits for none."""
    path = os.path.abspath(path)
    tasks = list(_awaited)
    if any(task.is_own_thread for task in tasks):
        return
    for task in tasks:
        if path in (task.path, os.path.dirname(task.path)):
            task.wait()
