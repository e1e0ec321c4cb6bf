"""The last transfers with each rank: what a report about a step that waits says of its peers.

A transfer is noted on the hot path, so a note is one tuple on a bounded queue, and turned into
words only when somebody asks.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable

from hpcflow.host.tuning import comm as tuning

#: When (``clock()``), of what, how many bytes.
Note = tuple[float, str, int]
#: Takes the note of a transfer.
Log = Callable[[Note], None]

#: The clock of the notes, in seconds.
clock = time.monotonic


class Transfers:
    """The last transfers of one endpoint, by rank and direction; any thread may note and ask."""

    def __init__(self) -> None:
        self._sent: dict[int, deque[Note]] = {}
        self._received: dict[int, deque[Note]] = {}

    def sent(self, rank: int) -> Log:
        """Return the function that takes notes of transfers to `rank`."""
        return self._sent.setdefault(rank, deque(maxlen=tuning.TRANSFERS_KEPT)).append

    def received(self, rank: int) -> Log:
        """Return the function that takes notes of transfers from `rank`."""
        return self._received.setdefault(rank, deque(maxlen=tuning.TRANSFERS_KEPT)).append

    def describe(self, ranks: Iterable[int]) -> list[str]:
        """Two lines for each rank, the last transfer first."""
        return [line for rank in sorted(set(ranks))
                for line in (_line("received from", rank, self._received.get(rank)),
                             _line("sent to", rank, self._sent.get(rank)))]


def _line(direction: str, rank: int, notes: deque[Note] | None) -> str:
    if not notes:
        return f"  {direction} rank {rank}: nothing"
    now = clock()
    shown = [f"'{what}' ({nbytes} bytes, {max(now - when, 0.0):.1f} s ago)"
             for when, what, nbytes in reversed(notes.copy())]
    return f"  {direction} rank {rank}: {', '.join(shown)}"
