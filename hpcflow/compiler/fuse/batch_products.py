"""batch_products: products of the steps of an unrolled network by one matrix become one product.

A recurrent step multiplies its input and the state before it, side by side, by the same weights.
The inputs of all steps are often there at once (`unstack` of a sequence): what the weights make of
them is one product over all steps, ahead of the first, and a step only multiplies its state. The
gradients are the mirror image: a step computes at once what the step before needs, and what only
goes into one value for all steps (the gradient of the sequence) comes in one product at the end.

Weights that steps multiply transposed are transposed once. What is fetched, or waited for, stays as
it is. The sums that make an element are split in two: the last bits may differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from hpcflow.compiler.ir.frames import nodes_in_loops
from hpcflow.compiler.ir.single_use import Readers, readers_of, sources_of, take_out
from hpcflow.compiler.ir.step_graph import Node, Port, StepGraph, device_type, new_node
from hpcflow.dtypes import float32, float64, int32
from hpcflow.graph.opdef import get_op_def
from hpcflow.host.tuning import compiler as tuning

# Nodes whose outputs are all there at once, and nodes that take one value of all steps.
_DEALERS = ("Unpack", "Split", "SplitV")
_COLLECTORS = ("Pack", "ConcatV2")


def batch_products(graph: StepGraph) -> bool:
    """Join the products that need not be computed step by step; True if there were any."""
    groups = _groups(graph)
    if not groups:
        return False
    changes = _Changes(graph)
    for terms in groups:
        if not _ahead(terms, changes):
            _afterwards(terms, changes)
    return changes.apply()


def _groups(graph: StepGraph) -> list[list[Node]]:
    """Products by the same matrix, in the order of the graph."""
    found: dict[Any, list[Node]] = {}
    for node in graph.nodes:
        if node.type == "MatMul" and _may_join(node):
            key = (node.inputs[1], bool(node.attrs["transpose_b"]), node.device, _dims(node, 0))
            found.setdefault(key, []).append(node)
    groups = [terms for terms in found.values() if len(terms) >= tuning.BATCH_LEAST_STEPS]
    if groups:
        fixed = nodes_in_loops(graph) | set(graph.kept)
        groups = [[t for t in terms if t not in fixed] for terms in groups]
    return [terms for terms in groups if len(terms) >= tuning.BATCH_LEAST_STEPS]


def _may_join(node: Node) -> bool:
    rows, factor = _dims(node, 0), _dims(node, 1)
    source, index = node.inputs[1]
    return (not node.attrs["transpose_a"] and not node.controls
            and device_type(node.device) == "CPU" and node.dtypes[0] in (float32, float64)
            and source.dtypes[index] is node.dtypes[0]
            and rows is not None and factor is not None and None not in (*rows, *factor)
            and rows[0] <= tuning.BATCH_MANY_ROWS and factor[0] * factor[1] >= tuning.BATCH_LARGE)


class _Changes:
    """The changes to a graph: new nodes before those of the graph, inputs that are read elsewhere,
    and for nodes that go, what to wait for instead."""

    def __init__(self, graph: StepGraph) -> None:
        self.graph = graph
        self.readers: Readers = readers_of(graph)
        self.place = {node: number for number, node in enumerate(graph.nodes)}
        self.before: dict[Node, list[Node]] = {}
        self.instead: dict[Port, Port] = {}
        self.waits: dict[Node, list[Node]] = {}
        self.serial = 0

    def make(self, like: Node, before: Node, type: str, inputs: list[Port], dims: list[tuple],
             **attrs: Any) -> Node:
        """A node on the device of `like`, before `before` in the graph."""
        self.serial += 1
        node = new_node(type, f"{like.name}/steps_{self.serial}", attrs, inputs, [], like.device,
                        dims, before.order)
        node.site = like.creation_site
        self.before.setdefault(before, []).append(node)
        return node

    def const(self, like: Node, before: Node, value: int | Sequence[int]) -> Port:
        """An int32 constant."""
        array = np.array(value, np.int32)
        return self.make(like, before, "Const", [], [array.shape], dtype=int32, value=array), 0

    def joined(self, like: Node, before: Node, ports: list[Port], axis: int) -> Port:
        """Matrices beside each other."""
        if len(ports) == 1:
            return ports[0]
        shapes = [list(s.dims[i]) for s, i in ports]
        shapes[0][axis] = sum(dims[axis] for dims in shapes)
        where = self.const(like, before, axis)
        return self.make(like, before, "ConcatV2", [*ports, where], [tuple(shapes[0])],
                         N=len(ports), T=like.dtypes[0], Tidx=int32), 0

    def product(self, like: Node, before: Node, value: Port, factor: Port, flip: bool) -> Port:
        """`value` times `factor`, or times its transpose."""
        rows, columns = value[0].dims[value[1]][0], factor[0].dims[factor[1]][0 if flip else 1]
        return self.make(like, before, "MatMul", [value, factor], [(rows, columns)],
                         T=like.dtypes[0], transpose_a=False, transpose_b=flip), 0

    def dealt(self, like: Node, before: Node, whole: Port, count: int) -> Node:
        """Add a Split of the rows of `whole` into `count` equal parts."""
        rows, columns = whole[0].dims[whole[1]]
        return self.make(like, before, "Split", [self.const(like, before, 0), whole],
                         [(rows // count, columns)] * count, T=like.dtypes[0], num_split=count)

    def part(self, like: Node, before: Node, factor: Port, axis: int, start: int,
             stop: int) -> Port:
        """The rows (axis 0) or columns of a matrix from `start` to `stop`."""
        begin, size = [0, 0], list(factor[0].dims[factor[1]])
        begin[axis], size[axis] = start, stop - start
        ports = [factor, self.const(like, before, begin), self.const(like, before, size)]
        return self.make(like, before, "Slice", ports, [tuple(size)], T=like.dtypes[0],
                         Index=int32), 0

    def upright(self, like: Node, before: Node, factor: Port, flip: bool) -> Port:
        """The factor as it is multiplied, its elements in that order."""
        if not flip:
            return factor
        rows, columns = factor[0].dims[factor[1]]
        return self.make(like, before, "_Transposed", [factor], [(columns, rows)],
                         T=like.dtypes[0]), 0

    def apply(self) -> bool:
        """Bring the changes into the graph; True if there were any."""
        if not self.before:
            return False
        nodes = []
        for node in self.graph.nodes:
            nodes += [*self.before.get(node, ()), node]
        for node in nodes:
            node.inputs = [self.instead.get(p, p) for p in node.inputs]
        self.graph.nodes = nodes
        take_out(self.graph, self.waits)
        self.graph.sweep()
        return True


# ---------------------------------------------------------------- ahead of the steps


class _Factors(NamedTuple):
    """The operands that a product takes side by side: the values, their widths, and which of them
    are parts of what is there at once (by the node that has them)."""

    ports: list[Port]
    widths: tuple[int, ...]
    dealers: tuple[Node | None, ...]


def _ahead(terms: list[Node], changes: _Changes) -> bool:
    """Multiply the values that are there before all steps in one product; True if there are any."""
    alike: dict[Any, list[tuple[Node, _Factors]]] = {}
    for term in terms:
        found = _factors(term)
        alike.setdefault((found.widths, found.dealers), []).append((term, found))
    done = False
    for (widths, dealers), pairs in alike.items():
        given = _run_of(dealers)
        if given is not None and len(pairs) >= tuning.BATCH_LEAST_STEPS:
            _multiply_ahead([t for t, _ in pairs], [f.ports for _, f in pairs], widths, given,
                            changes)
            done = True
    return done


def _factors(term: Node) -> _Factors:
    source, _ = term.inputs[0]
    ports = [term.inputs[0]]
    if source.type == "ConcatV2" and not source.controls and source.device == term.device:
        axis = source.inputs[-1][0]
        if axis.is_const and int(axis.attrs["value"]) in (1, -1):
            ports = source.inputs[:-1]
    widths: tuple[Any, ...] = tuple(
        [s.dims[i][1] if s.dims[i] and len(s.dims[i]) == 2 else None for s, i in ports])
    if None in widths:
        ports, widths = [term.inputs[0]], (_dims(term, 0)[1],)
    dealers = [s if s.type in _DEALERS and s.device == term.device else None for s, _ in ports]
    return _Factors(ports, widths, tuple(dealers))


def _run_of(dealers: tuple[Node | None, ...]) -> tuple[int, int] | None:
    """The values at the beginning, or else at the end, that are there at once."""
    count = len(dealers)
    stop = next((i for i, d in enumerate(dealers) if d is None), count)
    if stop:
        return 0, stop
    start = next((i for i in range(count, 0, -1) if dealers[i - 1] is None), 0)
    return (start, count) if start < count else None


def _multiply_ahead(terms: list[Node], values: list[list[Port]], widths: tuple[int, ...],
                    given: tuple[int, int], changes: _Changes) -> None:
    start, stop = given
    first, total = terms[0], sum(widths)
    low, high = sum(widths[:start]), sum(widths[:stop])
    factor, flip = first.inputs[1], bool(first.attrs["transpose_b"])
    ends, bias = _with_bias(terms, changes.readers)
    at = min(ends, key=changes.place.__getitem__)
    stacked = [changes.joined(first, at, [ports[i] for ports in values], 0)
               for i in range(start, stop)]
    taken = factor
    if high - low < total:
        taken = changes.part(first, at, factor, int(flip), low, high)
    whole = changes.product(first, at, changes.joined(first, at, stacked, 1), taken, flip)
    if bias is not None:
        whole = changes.make(ends[0], at, "BiasAdd", [whole, bias], list(whole[0].dims),
                             **ends[0].attrs), 0
    dealt = changes.dealt(first, at, whole, len(terms))
    rest: Port | None = None
    if high - low < total:
        left = (0, low) if low else (high, total)
        rest = changes.upright(first, first, changes.part(first, first, factor, int(flip), *left),
                               flip)
    for number, (term, end, ports) in enumerate(zip(terms, ends, values, strict=True)):
        if rest is None:
            _become(end, "Identity", [(dealt, number)])
        else:
            value = changes.joined(term, term, [*ports[:start], *ports[stop:]], 1)
            late = changes.product(term, term, value, rest, False)
            _become(end, "Add", [late, (dealt, number)])
        if end is not term:
            changes.waits |= sources_of([term])


def _with_bias(terms: list[Node], readers: Readers) -> tuple[list[Node], Port | None]:
    """Return the nodes that add the same bias to each product, if nothing else reads the products,
    and the bias; else the products and None."""
    ends = []
    for term in terms:
        found = readers.get((term, 0), [])
        if len(found) != 1 or found[0].type != "BiasAdd" or found[0].controls or (
                found[0].device != term.device):
            return terms, None
        ends.append(found[0])
        if found[0].inputs[1] != ends[0].inputs[1]:
            return terms, None
    return ends, ends[0].inputs[1]


def _become(node: Node, type: str, inputs: list[Port]) -> None:
    node.type, node.op_def = type, get_op_def(type)
    node.attrs, node.inputs = {"T": node.dtypes[0]}, inputs


# ---------------------------------------------------------------- after the steps


class _Step(NamedTuple):
    """A product with the nodes that hand it on, the one that splits its columns in two, and the
    nodes that hand on the half that goes into the value of all steps."""

    chain: list[Node]
    split: Node
    half: list[Node]

    @property
    def controls(self) -> list[Node]:
        """The nodes that the halves wait for besides their inputs."""
        nodes = (*self.chain, self.split)
        return list(dict.fromkeys(c for n in nodes for c in n.controls))

    @property
    def waits(self) -> dict[Node, list[Node]]:
        """The nodes to wait for instead of each of the nodes."""
        found = sources_of(self.chain[::-1]) | {self.split: [self.chain[-1], *self.split.controls]}
        for before, node in zip([self.split, *self.half], self.half, strict=False):
            found[node] = [before, *node.controls]
        return found


def _afterwards(terms: list[Node], changes: _Changes) -> None:
    """Multiply after the last step what goes into one value of all steps."""
    groups: dict[Any, list[_Step]] = {}
    for term in terms:
        chain, split = _followed((term, 0), changes.readers)
        if split is None or not _halves_columns(split, term.dims[0]):
            continue
        for index in (0, 1):
            half, collector = _followed((split, index), changes.readers)
            if collector is not None and collector.type in _COLLECTORS:
                key = collector, index, tuple([dims[1] for dims in split.dims])
                groups.setdefault(key, []).append(_Step([term, *chain], split, half))
                break
    for (collector, index, widths), steps in groups.items():
        if len(steps) >= tuning.BATCH_LEAST_STEPS:
            _multiply_afterwards(steps, collector, index, widths, changes)


def _followed(port: Port, readers: Readers) -> tuple[list[Node], Node | None]:
    """The nodes that hand a value on, each to the next alone, and the one that computes with it;
    None where there are several, or it is on another device."""
    passed: list[Node] = []
    device = port[0].device
    while True:
        found = readers.get(port, [])
        if len(found) != 1 or found[0].device != device:
            return passed, None
        if found[0].type != "Identity":
            return passed, found[0]
        passed.append(found[0])
        port = found[0], 0


def _halves_columns(node: Node, whole: Sequence[int]) -> bool:
    if node.type not in ("Split", "SplitV") or len(node.dims) != 2:
        return False
    axis = node.inputs[0 if node.type == "Split" else 2][0]
    columns: list[Any] = [dims[1] if dims and len(dims) == 2 else None for dims in node.dims]
    return (axis.is_const and int(axis.attrs["value"]) in (1, -1) and None not in columns
            and sum(columns) == whole[1])


def _multiply_afterwards(steps: list[_Step], collector: Node, index: int,
                         widths: tuple[int, ...], changes: _Changes) -> None:
    first = steps[0].chain[0]
    factor, flip = first.inputs[1], bool(first.attrs["transpose_b"])
    limits = [(0, widths[0]), (widths[0], sum(widths))]
    taken = changes.part(first, collector, factor, 1 - int(flip), *limits[index])
    values = changes.joined(first, collector, [s.chain[0].inputs[0] for s in steps], 0)
    whole = changes.product(first, collector, values, taken, flip)
    whole[0].controls = list(dict.fromkeys(
        c for s in steps for c in (*s.controls, *(c for n in s.half for c in n.controls))))
    dealt = changes.dealt(first, collector, whole, len(steps))
    rest = changes.upright(first, first, changes.part(
        first, first, factor, 1 - int(flip), *limits[1 - index]), flip)
    for number, step in enumerate(steps):
        split = step.split
        last = (step.half[-1], 0) if step.half else (split, index)
        changes.instead[last] = (dealt, number)
        if changes.readers.get((split, 1 - index)):
            late = changes.product(first, split, step.chain[0].inputs[0], rest, False)
            late[0].controls = step.controls
            changes.instead[(split, 1 - index)] = late
        changes.waits |= step.waits


def _dims(node: Node, index: int) -> Any:
    source, port = node.inputs[index]
    dims = source.dims[port]
    return dims if dims is not None and len(dims) == 2 else None
