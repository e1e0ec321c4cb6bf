"""Operations and tensors of a graph by name, by what they read, and by who reads them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
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


def make_regex(obj: str | re.Pattern[str]) -> re.Pattern[str]:
    """Return a pattern, compiled if it is not; raises ``ValueError`` for what is none."""
    if not can_be_regex(obj):
        raise ValueError(f"Expected a string or a regex, got: {type(obj)}")
    return re.compile(obj)


def can_be_regex(obj: Any) -> bool:
    """Return True for a string or a compiled pattern."""
    return isinstance(obj, (str, re.Pattern))


# With which patterns begin that are for operations, and for tensors, alone.
_OPS_ONLY, _TS_ONLY = "(?#ops)", "(?#ts)"


def select_ops(*args: Any, graph: Graph | None = None,
               positive_filter: Callable[[Operation], bool] | None = None,
               restrict_ops_regex: bool = False) -> list[Operation]:
    """Return operations, given one by one, in lists, or by patterns of their names in `graph`.

    Patterns that begin with ``(?#ts)`` are for tensors, and left out; with `restrict_ops_regex`
    all but those that begin with ``(?#ops)`` are. Raises ``ValueError`` for a pattern without a
    graph.
    """
    return _selected(_patterns(args, graph, _OPS_ONLY, _TS_ONLY, restrict_ops_regex), graph,
                     positive_filter, filter_ops_from_regex,
                     lambda arg: make_list_of_op(arg, ignore_ts=True))


def select_ts(*args: Any, graph: Graph | None = None,
              positive_filter: Callable[[Tensor], bool] | None = None,
              restrict_ts_regex: bool = False) -> list[Tensor]:
    """Return tensors, given one by one, in lists, or by patterns of their names in `graph`.

    Patterns that begin with ``(?#ops)`` are for operations, and left out; with `restrict_ts_regex`
    all but those that begin with ``(?#ts)`` are. Raises ``ValueError`` for a pattern without a
    graph.
    """
    return _selected(_patterns(args, graph, _TS_ONLY, _OPS_ONLY, restrict_ts_regex), graph,
                     positive_filter, filter_ts_from_regex,
                     lambda arg: make_list_of_t(arg, ignore_ops=True))


def select_ops_and_ts(*args: Any, graph: Graph | None = None,
                      positive_filter: Callable[[Any], bool] | None = None
                      ) -> tuple[list[Operation], list[Tensor]]:
    """Return operations and tensors; only patterns that begin with ``(?#ts)`` are for tensors."""
    return (select_ops(*args, graph=graph, positive_filter=positive_filter),
            select_ts(*args, graph=graph, positive_filter=positive_filter, restrict_ts_regex=True))


def _patterns(args: tuple[Any, ...], graph: Graph | None, mark: str, other: str,
              only_marked: bool) -> list[Any]:
    """What is given, less the patterns that are not meant."""
    kept = []
    for arg in args:
        if can_be_regex(arg):
            if graph is None:
                raise ValueError("Use the keyword argument 'graph' to use regex.")
            text = make_regex(arg).pattern
            if text.startswith(other) or (only_marked and not text.startswith(mark)):
                continue
        kept.append(arg)
    return kept


def _selected(args: list[Any], graph: Graph | None, wanted: Callable[[Any], bool] | None,
              by_name: Callable[..., list], given: Callable[[Any], list]) -> list[Any]:
    found: dict[Any, None] = {}
    for arg in args:
        found |= dict.fromkeys(by_name(graph, arg) if can_be_regex(arg) else given(arg))
    return [v for v in found if wanted is None or wanted(v)]
