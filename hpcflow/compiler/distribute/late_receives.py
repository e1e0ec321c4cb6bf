"""late_receives: large values from other tasks are received just before they are used.

A receive that is posted when the step begins takes its memory at once, although its value may be
read much later: of a deep network whose parameters are elsewhere, all parameters would be there
from the beginning. So the receive of a large value gets a control edge, from a region that ends
about as long before the first reader begins as the message takes, the messages one after the other.

What it waits for is something that all readers of the value wait for anyway. So whatever ran in
some order before still does in the same, on all tasks, and no step can wait for itself. The rates
are those of a fast processor and a slow network: rather too early than too late. If the estimate of
the peak does not fall, nothing changes.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

from hpcflow.compiler.distribute.costs import Rates, cost_of
from hpcflow.compiler.distribute.schedule import is_remote, lifetimes
from hpcflow.compiler.ir.frames import FrameInfo, assign_frames, same_everywhere
from hpcflow.compiler.ir.sizes import bytes_of
from hpcflow.compiler.ir.step_graph import BACK_EDGE_TYPES, ENTER_TYPES, RECV, Node, is_barrier
from hpcflow.host.tuning import compiler as tuning

_RATES = Rates(2e11, 1e10, 4e10)


class Change(NamedTuple):
    """The estimated peak of the values of a part, in bytes: with every value received at once, and
    as it is now."""

    at_once: int
    late: int

    def report(self, task: str) -> None:
        """Print the two peaks on standard error."""
        print(f"# {task}: about {self.at_once:,d} bytes of values at the peak if all were received "
              f"at once, {self.late:,d} as they are", file=sys.stderr, flush=True)


def delay_receives(nodes: list[Node]) -> Change | None:
    """Let receives of large values wait in a task's part, changed in place; None if there are none.

    To be called when the nodes have their places in the order (``schedule``).
    """
    large = [n for n in nodes if _is_large(n)]
    if not large:
        return None
    order = sorted(nodes, key=lambda n: n.order)
    at_once = _peak(order, {})
    triggers = _Part(order).triggers(large)
    late = _peak(order, triggers)
    if late > at_once * (1 - tuning.LATE_LEAST_GAIN):
        return Change(at_once, at_once)
    for receive, trigger in triggers.items():
        receive.controls.append(trigger)
    return Change(at_once, late)


def _is_large(node: Node) -> bool:
    return (node.type == RECV and is_remote(node) and not node.attrs.keys() & {"depth", "pack"}
            and bytes_of((node, 0)) >= tuning.LATE_LEAST_BYTES)


def _peak(order: list[Node], triggers: dict[Node, Node]) -> int:
    """The most bytes of values at one time, if those of `triggers` are received after these and
    all others when the step begins."""
    place = {n: i for i, n in enumerate(order)}
    changes = [0] * (len(order) + 1)
    for (node, _), (nbytes, last) in lifetimes(order).items():
        first = place[node]
        if node.type == RECV and is_remote(node):
            first = place[triggers[node]] if node in triggers else 0
        changes[first] += nbytes
        changes[max(last, first) + 1] -= nbytes
    now = most = 0
    for change in changes:
        now += change
        most = max(most, now)
    return most


class _Part:
    """The regions of a part: when they run, and what each of them waits for.

    Attributes:
        begins, ends: seconds from the beginning of the step, by region.
    """

    def __init__(self, order: list[Node]) -> None:
        self.key = {n: n if is_barrier(n) else (n.device, n.region) for n in order}
        self.last: dict[Any, Node] = {}  # region -> what can stand for its end
        self.begins: dict[Any, float] = {}
        self.ends: dict[Any, float] = {}
        self.readers: dict[Node, list[Any]] = {}
        self.before: dict[Any, int] = {}  # as bits, the regions that it waits for
        self.bits: dict[Any, int] = {}
        self._measure(order)
        self._connect(order)

    def _measure(self, order: list[Node]) -> None:
        now = 0.0
        root = FrameInfo("", None)
        # Loops inside of regions too: what they repeat does not stand for the end of a region.
        frames = assign_frames(order, root, same_everywhere) if any(
            [n.type in ENTER_TYPES for n in order]) else {}
        for node in order:
            key = self.key[node]
            self.begins.setdefault(key, now)
            if not node.is_const:
                now += _RATES.seconds(cost_of(node))
            self.ends[key] = now
            if key is not node and node.inputs and not node.absorbed and (
                    frames.get(node, root) is root):
                self.last[key] = node

    def _connect(self, order: list[Node]) -> None:
        sources: dict[Any, set[Any]] = {}
        for node in order:
            key = self.key[node]
            found = sources.setdefault(key, set())
            for source in [*(s for s, _ in node.inputs), *node.controls]:
                if source.type not in BACK_EDGE_TYPES and self.key[source] != key:
                    found.add(self.key[source])
                    self.readers.setdefault(source, []).append(key)
        for key in _sorted(sources):
            bits = 0
            for source in sources[key]:
                bits |= self.before[source] | self.bits[source]
            self.before[key] = bits
            self.bits[key] = 1 << len(self.bits)

    def triggers(self, receives: list[Node]) -> dict[Node, Node]:
        """Return, for each of `receives`, the node that it may wait for; those that are needed too
        early are left out."""
        needed = [(min([self.begins[r] for r in self.readers[n]]), n) for n in receives
                  if self.readers.get(n)]
        found = {}
        busy = float("inf")  # the network, from then on
        for begin, receive in sorted(needed, key=lambda e: -e[0]):
            nbytes = bytes_of((receive, 0))
            travels = tuning.LATE_MESSAGE_SECONDS + nbytes / tuning.LATE_BYTES_PER_SECOND
            busy = min(begin, busy) - travels
            trigger = self._last_before(receive, busy)
            if trigger is not None:
                found[receive] = trigger
        return found

    def _last_before(self, receive: Node, limit: float) -> Node | None:
        """The end of the last region by `limit` that all readers of `receive` wait for."""
        common = -1
        for reader in self.readers[receive]:
            common &= self.before[reader]
        fitting = [k for k in self.last if self.bits[k] & common and self.ends[k] <= limit]
        return self.last[max(fitting, key=lambda k: self.ends[k])] if fitting else None


def _sorted(sources: dict[Any, set[Any]]) -> list[Any]:
    """The regions, each after those that it waits for."""
    left = {k: len(found) for k, found in sources.items()}
    readers: dict[Any, list[Any]] = {k: [] for k in sources}
    for key, found in sources.items():
        for source in found:
            readers[source].append(key)
    result = [k for k, count in left.items() if not count]
    for key in result:
        for reader in readers[key]:
            left[reader] -= 1
            if not left[reader]:
                result.append(reader)
    return result
