"""schedule: the order of a part's nodes where their dependencies leave it open.

Construction order is the base: it is what the user wrote, and for training steps it is good. Three
things depart from it:

- A node that gives back more memory than it takes runs as soon as it can: an optimizer's update
  frees its gradient at once, instead of keeping all gradients to the end of the step.
- What needs no input (a fill, random numbers) waits until its first reader is next.
- What leads to another task comes before what does not: the others wait for it.
- Where the values of a whole chain after the other need less memory at the peak, that is the base:
  branches that were built level by level do not all begin before the first ends.

A read of a variable that is free to come before an update still does, and operations with side
effects keep their order among each other. Only the order is fixed here, and with it the estimate
of the peak memory: nothing waits for anything that it did not wait for before.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from typing import Any

from hpcflow.compiler.distribute.partition import task_of
from hpcflow.compiler.ir.effects import is_pure, is_state, state_of
from hpcflow.compiler.ir.sizes import bytes_of
from hpcflow.compiler.ir.step_graph import (
    BACK_EDGE_TYPES,
    ENTER_TYPES,
    FEED,
    FETCH,
    SEND,
    Node,
    Port,
    topological,
    writes_state,
)
from hpcflow.host.tuning import compiler as tuning
from hpcflow.kernels.registry import is_early

# Ops whose output is their input.
VIEWS = frozenset({"Identity", "Reshape", "ExpandDims", "Squeeze", "StopGradient",
                    "PreventGradient", "Snapshot", "Switch", "Enter", "Exit", "NextIteration",
                    "ReadVariableOp", SEND})
_SENDS = frozenset({SEND, "_SendControl"})
# Stateful op types that may come in any order among each other.
_ORDERLESS = re.compile(
    r"Variable|VariableV2|TemporaryVariable|VarHandleOp|ReadVariableOp|ResourceGather(Nd)?|"
    r"Random\w*|"
    r"Multinomial|TruncatedNormal|ParameterizedTruncatedNormal|Placeholder\w*|_\w+")


def schedule(nodes: list[Node]) -> PeakMemory:
    """Set ``node.order`` of a task's nodes to their place in the order; returns the estimate of
    the memory that values take at the peak."""
    ordered = topological(nodes)
    plan = _Schedule(ordered)
    order = plan.run()
    is_large = plan.peak.nbytes >= tuning.SCHEDULE_LARGE_BYTES
    if is_large and not any([_keeps_order(n) for n in ordered]):
        deep = _Schedule(ordered, depth_first=True)
        deep_order = deep.run()
        if deep.peak.nbytes < plan.peak.nbytes * (1 - tuning.SCHEDULE_LEAST_GAIN):
            plan, order = deep, deep_order
    for place, node in enumerate(order):
        node.order = place
    return plan.peak


def _keeps_order(node: Node) -> bool:
    """True for what other tasks start in the same order, and for what begins a loop, of which a
    value's bytes say little."""
    return is_early(node.type) or node.type in ENTER_TYPES


def lifetimes(order: list[Node]) -> dict[Port, tuple[int, int]]:
    """Value -> its bytes, and the place in `order` (sorted) of its last reader, or of its node."""
    plan = _Schedule(order)
    return {port: (nbytes, max(plan.readers[port], default=plan.place[port[0]]))
            for port, nbytes in plan.sizes.items()}


def peak_of(nodes: list[Node]) -> PeakMemory:
    """The estimate for the nodes of a task in the order that they have."""
    plan = _Schedule(sorted(nodes, key=lambda node: node.order))
    for i in range(len(nodes)):
        plan._account(i)
    plan._note_largest()
    return plan.peak


def leading_to_others(order: list[Node]) -> set[Node]:
    """Return the nodes that messages to other tasks and ops that are to start early depend on,
    these included; none if no op is to start early. The updates of the first gradients that are
    reduced can wait until the last is on its way: there is time then."""
    found: set[Node] = set()
    if any(is_early(node.type) for node in order):
        for node in reversed(order):
            if node in found or is_early(node.type) or node.type in _SENDS:
                found.update(source for source, _ in node.inputs)
                found.update(node.controls)
                found.add(node)
    return found


class PeakMemory:
    """The estimated peak of the memory of values: ``nbytes``, the node that runs then, and the
    largest values alive; without variables and constants, which outlive the step."""

    def __init__(self) -> None:
        self.nbytes = 0
        self.node: Node | None = None
        self.largest: list[tuple[int, Node]] = []

    def report(self, task: str) -> None:
        """Print the estimate on standard error."""
        at = f" at '{self.node.name}'" if self.node is not None else ""
        rows = "".join(f"\n  {size:>14,d}  {node.name}" for size, node in self.largest)
        print(f"# {task}: about {self.nbytes:,d} bytes of values at the peak{at} (unknown "
              f"dimensions taken as {tuning.SIZES_UNKNOWN_DIMENSION}){rows}",
              file=sys.stderr, flush=True)


class _Schedule:
    """List scheduling over the positions of `nodes`, which are sorted producers first; with
    `depth_first` in the order in which what ends the step would ask for values."""

    def __init__(self, nodes: list[Node], depth_first: bool = False) -> None:
        self.nodes = nodes
        self.place = {n: i for i, n in enumerate(nodes)}
        self.after: list[list[int]] = [[] for _ in nodes]  # by dependency
        self.missing = [0] * len(nodes)
        self.soft: list[list[int]] = [[] for _ in nodes]  # by preference
        self.held = [0] * len(nodes)
        self._link()
        self.roots, self.sizes, self.readers = self._values()
        self.left = {root: len(found) for root, found in self.readers.items()}
        self.reads: list[list[Port]] = [[] for _ in nodes]
        for root, found in self.readers.items():
            for i in found:
                self.reads[i].append(root)
        self.gives = self._given()
        self._prefer()
        self.keys = self._keys(self._by_depth() if depth_first else range(len(nodes)))
        self.peak = PeakMemory()
        self.done = [False] * len(nodes)
        self.alive: dict[Port, None] = {}
        self.now = 0
        self._at_peak: list[Port] = []

    # ------------------------------------------------------------ dependencies

    def _link(self) -> None:
        place = self.place
        for i, node in enumerate(self.nodes):
            sources = {place[s] for s, _ in node.inputs if s.type not in BACK_EDGE_TYPES}
            sources.update(place[c] for c in node.controls if c.type not in BACK_EDGE_TYPES)
            self.missing[i] = len(sources)
            for source in sources:
                self.after[source].append(i)

    def _prefer(self) -> None:
        """Reads before the updates that they do not follow; side effects in their order."""
        reads, writes, upstream = self._accesses()
        for state, writers in writes.items():
            for k, (w, bit) in enumerate(writers):
                for r in reads.get(state, ()):
                    if r != w and not upstream[r] & bit:
                        self._hold(r, w)
                for earlier, _ in writers[:k]:
                    if earlier != w:
                        self._hold(earlier, w)
        previous = -1
        for i, node in enumerate(self.nodes):
            if node.op_def.is_stateful and not writes_state(node) and (
                    not _ORDERLESS.fullmatch(node.type)):
                if previous >= 0:
                    self._hold(previous, i)
                previous = i

    def _hold(self, first: int, second: int) -> None:
        self.soft[first].append(second)
        self.held[second] += 1

    def _accesses(self) -> tuple[dict, dict, list[int]]:
        """Who reads and who writes every state, and as bits the writers before each node."""
        reads: dict[Any, list[int]] = {}
        writes: dict[Any, list[tuple[int, int]]] = {}
        upstream = [0] * len(self.nodes)
        bit = 1
        for i, node in enumerate(self.nodes):
            # Who holds what was read counts as a reader: an update would have to copy.
            sources = [self.roots.get(p, p) for p in node.inputs]
            states = [state_of(p) for p in sources if is_state(p)]
            if states and writes_state(node):
                for state in dict.fromkeys(states):
                    writes.setdefault(state, []).append((i, bit))
                upstream[i] |= bit
                bit <<= 1
            else:
                for state in dict.fromkeys(states):
                    reads.setdefault(state, []).append(i)
            if upstream[i]:
                for j in self.after[i]:
                    upstream[j] |= upstream[i]
        return reads, writes, upstream

    # ------------------------------------------------------------ memory

    def _values(self) -> tuple[dict[Port, Port], dict[Port, int], dict[Port, list[int]]]:
        """Return three maps: from a port to the value that it is a view of, from a value to its
        bytes, and from a value to its readers."""
        roots: dict[Port, Port] = {}
        sizes: dict[Port, int] = {}
        readers: dict[Port, list[int]] = {}
        for i, node in enumerate(self.nodes):
            for port in {roots.get(p, p) for p in node.inputs}:
                if port in sizes:
                    readers[port].append(i)
            if node.type in VIEWS and node.inputs:
                source = roots.get(node.inputs[0], node.inputs[0])
                for k in range(len(node.dtypes)):
                    roots[(node, k)] = source
            elif not node.is_const and node.type != FEED:
                for k in range(len(node.dtypes)):
                    sizes[(node, k)] = 0 if node.type == FETCH else bytes_of((node, k))
                    readers[(node, k)] = []
        return roots, sizes, readers

    def _given(self) -> list[int]:
        """The bytes that each node adds."""
        return [sum(self.sizes.get((n, k), 0) for k in range(len(n.dtypes))) for n in self.nodes]

    def _gain(self, i: int) -> int:
        """The bytes that running node `i` now takes (negative: gives back)."""
        freed = sum(self.sizes[root] for root in self.reads[i] if self.left[root] == 1)
        return self.gives[i] - freed

    def _account(self, i: int) -> None:
        node = self.nodes[i]
        self.now += self.gives[i]
        for k in range(len(node.dtypes)):
            if (node, k) in self.sizes:
                self.alive[(node, k)] = None
        if self.now > self.peak.nbytes:
            self.peak.nbytes, self.peak.node = self.now, node
            self._at_peak = list(self.alive)
        for root in self.reads[i]:
            self.left[root] -= 1
            if not self.left[root]:
                self._release(root)
        for k in range(len(node.dtypes)):
            if self.left.get((node, k)) == 0:  # nobody reads it
                self._release((node, k))

    def _release(self, root: Port) -> None:
        if root in self.alive:
            del self.alive[root]
            self.now -= self.sizes[root]

    # ------------------------------------------------------------ order

    def _by_depth(self) -> list[int]:
        """The position of each node in a walk from the last nodes back, one input after the
        other: a chain is walked as a whole."""
        found: dict[int, int] = {}
        walk = [i for i in reversed(range(len(self.nodes))) if not self.after[i]]
        while walk:
            i = walk[-1]
            node = self.nodes[i]
            sources = [self.place[s] for s in [*(s for s, _ in node.inputs), *node.controls]
                       if s.type not in BACK_EDGE_TYPES]
            missing = [] if i in found else [j for j in sources if j not in found]
            if missing:
                walk.extend(reversed(missing))
                continue
            found.setdefault(i, len(found))
            walk.pop()
        return [found[i] for i in range(len(self.nodes))]

    def _keys(self, places: Iterable[int]) -> list[tuple]:
        """Return the priorities of nodes that are ready, of nodes that should have these places."""
        count = len(self.nodes)
        when = [float(place) for place in places]
        urgent = [False] * count
        for i in range(count - 1, -1, -1):
            node = self.nodes[i]
            if node.type in _SENDS:
                urgent[i] = is_remote(node)
            elif any(urgent[j] for j in self.after[i]):
                urgent[i] = True
            if self.after[i] and not node.inputs and not node.controls and is_pure(node):
                small = self.gives[i] < tuning.SCHEDULE_SMALL_BYTES
                when[i] = -1 if small else min(when[j] for j in self.after[i]) - 0.5
        return [(not u, w, i) for i, (u, w) in enumerate(zip(urgent, when, strict=True))]

    def run(self) -> list[Node]:
        """The nodes in their order."""
        order: list[Node] = []
        heap = [self.keys[i] for i in range(len(self.nodes)) if self._is_free(i)]
        heapify(heap)
        eager: list[int] = []
        while len(order) < len(self.nodes):
            if eager:
                i = eager.pop()
            elif heap:
                i = heappop(heap)[-1]
            else:  # preferences that contradict each other
                i = min((self.keys[j] for j, m in enumerate(self.missing)
                         if not m and not self.done[j]))[-1]
            if self.done[i]:
                continue
            self.done[i] = True
            order.append(self.nodes[i])
            self._account(i)
            for j in self._woken(i):
                if self._gain(j) < 0 or self.nodes[j].type in _SENDS:
                    eager.append(j)
                else:
                    heappush(heap, self.keys[j])
            eager.extend(self._last_readers(i))
        self._note_largest()
        return order

    def _note_largest(self) -> None:
        largest = sorted(((self.sizes[p], p[0]) for p in self._at_peak), key=lambda e: -e[0])
        self.peak.largest = [e for e in largest[:5] if e[0]]

    def _is_free(self, i: int) -> bool:
        return not (self.missing[i] or self.held[i] or self.done[i])

    def _woken(self, i: int) -> list[int]:
        found = []
        for counts, targets in ((self.missing, self.after[i]), (self.held, self.soft[i])):
            for j in targets:
                counts[j] -= 1
                if self._is_free(j):
                    found.append(j)
        return found

    def _last_readers(self, i: int) -> list[int]:
        """Nodes that are ready and, now that `i` has run, are the last to need a value."""
        found = []
        for root in self.reads[i]:
            if self.left[root] == 1:
                j = next(j for j in self.readers[root] if not self.done[j])
                if self._is_free(j) and self._gain(j) < 0:
                    found.append(j)
        return found


def is_remote(node: Node) -> bool:
    """True for an end of an edge between tasks."""
    attrs = node.attrs
    return task_of(attrs["send_device"].decode()) != task_of(attrs["recv_device"].decode())
