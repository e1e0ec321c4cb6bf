"""Operations of a graph by who reads whom, and by who waits for whom."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from hpcflow.contrib.graph_editor.selecting import (
    _flat,
    get_consuming_ops,
    get_generating_ops,
    make_list_of_op,
    make_list_of_t,
)
from hpcflow.graph.graph import Graph
from hpcflow.graph.operation import Operation, Tensor


class ControlOutputs:
    """Knows who waits for each operation of a graph, as it was at the last `update`."""

    def __init__(self, graph: Graph) -> None:
        """Raises ``TypeError`` for what is no graph."""
        if not isinstance(graph, Graph):
            raise TypeError(f"Expected a graph, got: {type(graph)}")
        self._graph = graph
        self._waiting: dict[Operation, list[Operation]] = {}
        self.update()

    @property
    def graph(self) -> Graph:
        """The graph."""
        return self._graph

    def update(self) -> ControlOutputs:
        """Look at the graph again."""
        self._waiting = {}
        for op in self._graph.get_operations():
            for other in op.control_inputs:
                self._waiting.setdefault(other, []).append(op)
        return self

    def get_all(self) -> dict[Operation, list[Operation]]:
        """Return who waits for each operation that is waited for."""
        return self._waiting

    def get(self, op: Operation) -> list[Operation]:
        """Return the operations that wait for `op`."""
        return self._waiting.get(op, [])


def check_cios(control_inputs: Any = False, control_outputs: ControlOutputs | None = None,
               control_ios: ControlOutputs | None = None) -> tuple[bool, ControlOutputs | None]:
    """Return `control_inputs` and `control_outputs`, or what `control_ios` stands for: both.

    Raises ``TypeError`` for objects of other classes, ``ValueError`` if all are given.
    """
    for given in (control_outputs, control_ios):
        if given is not None and not isinstance(given, ControlOutputs):
            raise TypeError(f"Expected a util.ControlOutputs, got: {type(given)}")
    if control_ios is None:
        return bool(control_inputs), control_outputs
    if control_outputs is not None:
        raise ValueError("control_outputs should be None when using control_ios.")
    return True, control_ios


def get_forward_walk_ops(seed_ops: Any, inclusive: bool = True, within_ops: Any = None,
                         within_ops_fn: Callable[[Operation], bool] | None = None,
                         stop_at_ts: Any = (), control_outputs: ControlOutputs | None = None
                         ) -> list[Operation]:
    """Return what depends on `seed_ops`, operations or tensors, over the tensors that are not in
    `stop_at_ts`; with `inclusive` they are among them. With `control_outputs` also what waits for
    these."""
    _, waiting = check_cios(False, control_outputs)
    seeds = _seeds(seed_ops, get_consuming_ops)
    stops = set(make_list_of_t(stop_at_ts))
    return _walk(seeds, inclusive, within_ops, within_ops_fn, lambda op: [
        *(reader for t in op.outputs if t not in stops for reader in t.consumers()),
        *(waiting.get(op) if waiting is not None else ())])


def get_backward_walk_ops(seed_ops: Any, inclusive: bool = True, within_ops: Any = None,
                          within_ops_fn: Callable[[Operation], bool] | None = None,
                          stop_at_ts: Any = (), control_inputs: bool = False) -> list[Operation]:
    """Return what `seed_ops`, operations or tensors, depend on, over the tensors that are not in
    `stop_at_ts`; with `control_inputs` over control edges, too."""
    seeds = _seeds(seed_ops, get_generating_ops)
    stops = set(make_list_of_t(stop_at_ts))
    return _walk(seeds, inclusive, within_ops, within_ops_fn, lambda op: [
        *(t.op for t in op.inputs if t not in stops),
        *(op.control_inputs if control_inputs else ())])


def _seeds(seeds: Any, of_tensors: Callable[[Any], list[Operation]]) -> list[Operation]:
    values = _flat(seeds)
    if values and isinstance(values[0], Tensor):
        return of_tensors(values)
    return make_list_of_op(values, allow_graph=False)


def _walk(seeds: list[Operation], inclusive: bool, within_ops: Any,
          within_ops_fn: Callable[[Operation], bool] | None,
          following: Callable[[Operation], Collection[Operation]]) -> list[Operation]:
    inside = None if within_ops is None else set(make_list_of_op(within_ops, allow_graph=False))

    def is_within(op: Operation) -> bool:
        return (inside is None or op in inside) and (within_ops_fn is None or within_ops_fn(op))

    found = dict.fromkeys(op for op in seeds if is_within(op))
    waiting = list(found)
    while waiting:
        for op in following(waiting.pop()):
            if op not in found and is_within(op):
                found[op] = None
                waiting.append(op)
    left_out = set() if inclusive else set(seeds)
    return [op for op in found if op not in left_out]


def get_walks_intersection_ops(forward_seed_ops: Any, backward_seed_ops: Any,
                               forward_inclusive: bool = True, backward_inclusive: bool = True,
                               within_ops: Any = None,
                               within_ops_fn: Callable[[Operation], bool] | None = None,
                               control_inputs: bool = False,
                               control_outputs: ControlOutputs | None = None,
                               control_ios: ControlOutputs | None = None) -> list[Operation]:
    """Return what depends on the first and what the second depend on."""
    forward, backward = _both_walks(
        (forward_seed_ops, forward_inclusive), (backward_seed_ops, backward_inclusive),
        (within_ops, within_ops_fn), check_cios(control_inputs, control_outputs, control_ios))
    common = set(backward)
    return [op for op in forward if op in common]


def get_walks_union_ops(forward_seed_ops: Any, backward_seed_ops: Any,
                        forward_inclusive: bool = True, backward_inclusive: bool = True,
                        within_ops: Any = None,
                        within_ops_fn: Callable[[Operation], bool] | None = None,
                        control_inputs: bool = False,
                        control_outputs: ControlOutputs | None = None,
                        control_ios: ControlOutputs | None = None) -> list[Operation]:
    """Return what depends on the first or what the second depend on."""
    forward, backward = _both_walks(
        (forward_seed_ops, forward_inclusive), (backward_seed_ops, backward_inclusive),
        (within_ops, within_ops_fn), check_cios(control_inputs, control_outputs, control_ios))
    return list(dict.fromkeys([*forward, *backward]))


def _both_walks(forward: tuple[Any, bool], backward: tuple[Any, bool], within: tuple[Any, Any],
                controls: tuple[bool, ControlOutputs | None]
                ) -> tuple[list[Operation], list[Operation]]:
    """The walk from some seeds on, and that back from others; each with whether these count."""
    return (get_forward_walk_ops(*forward, *within, control_outputs=controls[1]),
            get_backward_walk_ops(*backward, *within, control_inputs=controls[0]))


def get_ops_ios(ops: Any, control_inputs: bool = False,
                control_outputs: ControlOutputs | None = None,
                control_ios: ControlOutputs | None = None) -> list[Operation]:
    """Return who makes what `ops` read, and who reads what they make; where asked for, also whom
    they wait for, and who waits for them."""
    inputs, waiting = check_cios(control_inputs, control_outputs, control_ios)
    found: dict[Operation, None] = {}
    for op in make_list_of_op(ops):
        found |= dict.fromkeys(t.op for t in op.inputs)
        found |= dict.fromkeys(get_consuming_ops(list(op.outputs)))
        found |= dict.fromkeys(op.control_inputs if inputs else ())
        found |= dict.fromkeys(waiting.get(op) if waiting is not None else ())
    return list(found)


def compute_boundary_ts(ops: Any) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
    """Return the tensors that `ops` read from outside, those of theirs that are read outside or by
    nobody, and those that are read inside alone."""
    inside = dict.fromkeys(make_list_of_op(ops))
    inputs = dict.fromkeys(t for op in inside for t in op.inputs if t.op not in inside)
    read = {t: t.consumers() for op in inside for t in op.outputs}
    outputs = [t for t, readers in read.items()
               if not readers or any(op not in inside for op in readers)]
    return list(inputs), outputs, [t for t in read if t not in set(outputs)]


def get_within_boundary_ops(ops: Any, seed_ops: Any, boundary_ops: Any = (),
                            inclusive: bool = True, control_inputs: bool = False,
                            control_outputs: ControlOutputs | None = None,
                            control_ios: ControlOutputs | None = None) -> list[Operation]:
    """Return those of `ops` that are connected with `seed_ops` other than over `boundary_ops`,
    which are among them with `inclusive`.

    Raises ``ValueError`` if a seed is on the boundary and not `inclusive`.
    """
    controls = check_cios(control_inputs, control_outputs, control_ios)
    within, boundary = set(make_list_of_op(ops)), set(make_list_of_op(boundary_ops))
    found = dict.fromkeys(make_list_of_op(seed_ops))
    if not inclusive and boundary & found.keys():
        raise ValueError("Boundary is intersecting with seeds.")
    waiting = list(found)
    while waiting:
        op = waiting.pop()
        for other in get_ops_ios(op, *controls) if op not in boundary else ():
            if other not in found and other in within and (inclusive or other not in boundary):
                found[other] = None
                waiting.append(other)
    return list(found)
