"""Work in a thread of its own, whose failure is raised where somebody waits for it."""

from __future__ import annotations

import threading
from collections.abc import Callable


class BackgroundTask:
    """Runs `work` in a thread. An interpreter that ends waits for it.

    Args:
        work: what is done, once.
        name: what it is, for the name of the thread.
    """

    def __init__(self, work: Callable[[], None], name: str) -> None:
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(work,), name=name, daemon=False)
        self._thread.start()

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
