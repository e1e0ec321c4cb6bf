"""Operations and tensors of a graph by name, by what they read, and by who reads them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from typing import Any

from hpcflow.graph.graph import Graph
from hpcflow.graph.operation import Operation, Tensor


def _flat(values: Any) -> list[Any]:
    """The entries of a nest, in order; one thing is a list of it."""
    if isinstance(values, (list, tuple, set, frozenset)) or (
            isinstance(values, Iterable) and not isinstance(values, (str, Tensor, Operation))):
        return [entry for value in values for entry in _flat(value)]
    return [values]


def get_tensors(graph: Graph) -> list[Tensor]:
    """Return all tensors of `graph`."""
    if not isinstance(graph, Graph):
        raise TypeError(f"Expected a graph, got: {type(graph)}")
    return [t for op in graph.get_operations() for t in op.outputs]


def make_list_of_op(ops: Any, check_graph: bool = True, allow_graph: bool = True,
                    ignore_ts: bool = False) -> list[Operation]:
    """Return the operations in `ops`: one, a nest, or a graph.

    Raises ``TypeError`` for what is none, but tensors with `ignore_ts`; with `check_graph`
    ``ValueError`` if they are of several graphs.
    """
    if isinstance(ops, Graph):
        if not allow_graph:
            raise TypeError("allow_graph is False: a graph cannot stand for its operations")
        return list(ops.get_operations())
    return _of_kind(_flat(ops), Operation, Tensor if ignore_ts else None, check_graph)


def make_list_of_t(ts: Any, check_graph: bool = True, allow_graph: bool = True,
                   ignore_ops: bool = False) -> list[Tensor]:
    """Return the tensors in `ts`: one, a nest, or those of a graph; errors as
    :func:`make_list_of_op`."""
    if isinstance(ts, Graph):
        if not allow_graph:
            raise TypeError("allow_graph is False: a graph cannot stand for its tensors")
        return get_tensors(ts)
    return _of_kind(_flat(ts), Tensor, Operation if ignore_ops else None, check_graph)


def _of_kind(values: list[Any], kind: type, ignored: type | None, check_graph: bool) -> list[Any]:
    values = [v for v in values if ignored is None or not isinstance(v, ignored)]
    for value in values:
        if not isinstance(value, kind):
            raise TypeError(f"Expected a type in: {kind.__name__}, got: {type(value)}")
    if check_graph and len({id(v.graph) for v in values}) > 1:
        raise ValueError("The operations and tensors are of several graphs")
    return values


def get_generating_ops(ts: Any) -> list[Operation]:
    """Return the operations that make the tensors `ts`."""
    return [t.op for t in make_list_of_t(ts, allow_graph=False)]


def get_consuming_ops(ts: Any) -> list[Operation]:
    """Return the operations that read the tensors `ts`."""
    found = [op for t in make_list_of_t(ts, allow_graph=False) for op in t.consumers()]
    return list(dict.fromkeys(found))


# ---------------------------------------------------------------- by what they are


def _outputs(ops: Any) -> list[Tensor]:
    return [t for op in make_list_of_op(ops) for t in op.outputs]


def filter_ts(ops: Any, positive_filter: Callable[[Tensor], bool] | bool | None) -> list[Tensor]:
    """Return the outputs of `ops` for which `positive_filter` is true; True stands for all."""
    return _filtered(_outputs(ops), positive_filter)


def filter_ops(ops: Any, positive_filter: Callable[[Operation], bool] | bool | None
               ) -> list[Operation]:
    """Return those of `ops` for which `positive_filter` is true; True stands for all."""
    return _filtered(make_list_of_op(ops), positive_filter)


def _filtered(values: list[Any], wanted: Callable[[Any], bool] | bool | None) -> list[Any]:
    return [v for v in values if (wanted(v) if callable(wanted) else wanted is not False)]


def filter_ts_from_regex(ops: Any, regex: str | re.Pattern[str]) -> list[Tensor]:
    """Return the outputs of `ops` in whose names `regex` is found."""
    return filter_ts(ops, lambda t: re.search(regex, t.name) is not None)


def filter_ops_from_regex(ops: Any, regex: str | re.Pattern[str]) -> list[Operation]:
    """Return those of `ops` in whose names `regex` is found."""
    return filter_ops(ops, lambda op: re.search(regex, op.name) is not None)


def get_name_scope_ops(ops: Any, scope: str) -> list[Operation]:
    """Return those of `ops` that are in the name scope `scope`, itself included."""
    inside = scope.rstrip("/")
    return filter_ops(ops, lambda op: op.name == inside or op.name.startswith(f"{inside}/"))


def select_ops(*args: Any, graph: Graph | None = None,
               positive_filter: Callable[[Operation], bool] | None = None,
               restrict_ops_regex: bool = False) -> list[Operation]:
    """Return operations, given one by one, in lists, or by patterns of their names in `graph`.

    Raises ``ValueError`` for a pattern without a graph.
    """
    return _selected(args, graph, positive_filter, filter_ops_from_regex,
                     lambda arg: make_list_of_op(arg, ignore_ts=True))


def select_ts(*args: Any, graph: Graph | None = None,
              positive_filter: Callable[[Tensor], bool] | None = None,
              restrict_ts_regex: bool = False) -> list[Tensor]:
    """Return tensors, given one by one, in lists, or by patterns of their names in `graph`.

    Raises ``ValueError`` for a pattern without a graph.
    """
    return _selected(args, graph, positive_filter, filter_ts_from_regex,
                     lambda arg: make_list_of_t(arg, ignore_ops=True))


def _selected(args: tuple[Any, ...], graph: Graph | None, wanted: Callable[[Any], bool] | None,
              by_name: Callable[..., list], given: Callable[[Any], list]) -> list[Any]:
    found: dict[Any, None] = {}
    for arg in args:
        if isinstance(arg, (str, re.Pattern)):
            if graph is None:
                raise ValueError("Use the keyword argument 'graph' to use regex.")
            found |= dict.fromkeys(by_name(graph, arg))
        else:
            found |= dict.fromkeys(given(arg))
    return [v for v in found if wanted is None or wanted(v)]


# ---------------------------------------------------------------- by who reads whom


def get_forward_walk_ops(seed_ops: Any, inclusive: bool = True, within_ops: Any = None,
                         within_ops_fn: Callable[[Operation], bool] | None = None,
                         stop_at_ts: Any = (), control_outputs: Any = None) -> list[Operation]:
    """Return what depends on `seed_ops`, operations or tensors, over the tensors that are not in
    `stop_at_ts`; with `inclusive` they are among them."""
    seeds = _seeds(seed_ops, get_consuming_ops)
    stops = set(make_list_of_t(stop_at_ts))
    return _walk(seeds, inclusive, within_ops, within_ops_fn, lambda op: [
        reader for t in op.outputs if t not in stops for reader in t.consumers()])


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
                               control_inputs: bool = False, control_outputs: Any = None,
                               control_ios: Any = None) -> list[Operation]:
    """Return what depends on the first and what the second depend on."""
    forward = get_forward_walk_ops(forward_seed_ops, forward_inclusive, within_ops, within_ops_fn)
    backward = set(get_backward_walk_ops(backward_seed_ops, backward_inclusive, within_ops,
                                         within_ops_fn, control_inputs=control_inputs))
    return [op for op in forward if op in backward]


def get_walks_union_ops(forward_seed_ops: Any, backward_seed_ops: Any,
                        forward_inclusive: bool = True, backward_inclusive: bool = True,
                        within_ops: Any = None,
                        within_ops_fn: Callable[[Operation], bool] | None = None,
                        control_inputs: bool = False, control_outputs: Any = None,
                        control_ios: Any = None) -> list[Operation]:
    """Return what depends on the first or what the second depend on."""
    forward = get_forward_walk_ops(forward_seed_ops, forward_inclusive, within_ops, within_ops_fn)
    backward = get_backward_walk_ops(backward_seed_ops, backward_inclusive, within_ops,
                                     within_ops_fn, control_inputs=control_inputs)
    return list(dict.fromkeys([*forward, *backward]))
