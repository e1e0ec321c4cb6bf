"""packs: values that leave a task for another at about the same time go in one message.

A message costs its sender and its receiver more than the bytes of a bias do. What a region makes
leaves when the region has run in any case; so its values for one other task are packed while they
are short together, and no large computation comes between them: what comes early in a long region
is not to wait for its end. A pack is one event for who receives it, so what reads its values is one
region there, too.
"""

from __future__ import annotations

from hpcflow.compiler.distribute.costs import Rates, cost_of
from hpcflow.compiler.distribute.partition import task_of
from hpcflow.compiler.ir.sizes import bytes_of
from hpcflow.compiler.ir.step_graph import CONTROL_FLOW_TYPES, FEED, Node, StepGraph, is_barrier
from hpcflow.host.tuning import compiler as tuning

#: The attribute of Send and Recv nodes that says which pack they belong to.
ATTR = "pack"
_RATES = Rates()

#: A value (an output of a node) for another device.
Crossing = tuple[Node, int, str]


class Pack:
    """Values that go from one region to one device in one message."""

    __slots__ = ("begun", "nbytes", "values")

    def __init__(self, begun: float) -> None:
        self.begun = begun  # the time at which the first value is made
        self.nbytes = 0
        self.values: list[Crossing] = []


class Packs:
    """Puts the values that leave the regions of a graph into packs, while regions are numbered."""

    def __init__(self, graph: StepGraph) -> None:
        # Values of loops over tasks are told apart by their iterations.
        self._possible = not graph.tokens
        self._spent: dict[int, float] = {}  # region -> seconds of its nodes so far
        self._made: dict[Node, float] = {}  # when in its region a node has run
        self._last: dict[tuple[int, str], Pack] = {}
        self._of: dict[Crossing, Pack | None] = {}

    def ran(self, node: Node) -> None:
        """Note when `node`, which now has its region, has run in it: after the nodes that the
        region had before."""
        seconds = self._spent.get(node.region, 0.0) + _RATES.seconds(cost_of(node))
        self._spent[node.region] = self._made[node] = seconds

    def event(self, source: Node, index: int, device: str) -> object:
        """Return the key of the arrival of an output of `source` at `device`, or (with -1) of
        knowing there that it has run: its only value says so, where that is read."""
        if (index < 0 and len(source.dtypes) == 1 and source.type not in CONTROL_FLOW_TYPES
                and bytes_of((source, 0)) <= tuning.EDGE_SHORT_BYTES):
            value = (source, 0, device)
            if value in self._of:
                return self._of[value] or value
        crossing = (source, index, device)
        if crossing not in self._of:
            nbytes = self._bytes(source, index, device)
            self._of[crossing] = self._join(crossing, nbytes) if nbytes else None
        return self._of[crossing] or crossing

    def _bytes(self, source: Node, index: int, device: str) -> int:
        """The size of a value that may be in a pack; otherwise 0."""
        if (not self._possible or index < 0 or source not in self._made or source.absorbed
                or source.type in CONTROL_FLOW_TYPES or source.type == FEED or is_barrier(source)
                or task_of(source.device) == task_of(device)
                or not (_is_host(source.device) and _is_host(device))):
            return 0
        dims, nbytes = source.dims[index], source.dtypes[index].base_dtype.size or 0
        if dims is None or None in dims:
            return 0
        for d in dims:
            nbytes *= d  # type: ignore[operator]
        return nbytes if nbytes <= tuning.PACK_MOST_BYTES else 0

    def _join(self, crossing: Crossing, nbytes: int) -> Pack:
        source, _, device = crossing
        pack, made = self._last.get((source.region, device)), self._made[source]
        if pack is None or pack.nbytes + nbytes > tuning.PACK_MOST_BYTES or (
                abs(made - pack.begun) > tuning.PACK_MOST_SECONDS):
            pack = self._last[source.region, device] = Pack(made)
        pack.nbytes += nbytes
        pack.values.append(crossing)
        return pack

    def numbers(self) -> dict[Crossing, int]:
        """Return the number of the pack of each value; values that would be alone in a pack are
        left out."""
        packs = dict.fromkeys(p for p in self._of.values() if p is not None and len(p.values) > 1)
        return {value: number for number, pack in enumerate(packs) for value in pack.values}


def _is_host(device: str) -> bool:
    return "/device:CPU:" in device
