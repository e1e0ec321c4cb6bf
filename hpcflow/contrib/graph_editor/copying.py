"""Copies of parts of a graph, with other inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hpcflow.contrib.graph_editor.views import SubGraphView, make_view
from hpcflow.contrib.graph_editor.walks import get_walks_intersection_ops
from hpcflow.framework import nest
from hpcflow.graph.graph import Graph, get_default_graph
from hpcflow.graph.importer import import_graph_def
from hpcflow.graph.operation import COLOCATION_ATTR, Operation, Tensor


class TransformerInfo:
    """Knows the copy of each operation and tensor of a copied view."""

    def __init__(self, ops: Mapping[Operation, Operation],
                 replaced: Mapping[Tensor, Tensor]) -> None:
        self._transformed_ops = dict(ops)
        self._transformed_ts: dict[Tensor, Tensor] = {
            t: copy for op, other in ops.items()
            for t, copy in zip(op.outputs, other.outputs, strict=True)}
        self._transformed_ts.update(replaced)
        self._originals: dict[Any, Any] = {
            copy: one for found in (self._transformed_ops, self._transformed_ts)
            for one, copy in found.items()}

    def transformed(self, original_top: Any, missing_fn: Callable[[Any], Any] | None = None) -> Any:
        """The copy of an operation, a tensor, or each of a nest; else ``missing_fn(it)``."""
        return _mapped(original_top, lambda x: self._copy_of(x, missing_fn))

    def original(self, transformed_top: Any, missing_fn: Callable[[Any], Any] | None = None) -> Any:
        """The operation or tensor of which it is the copy; else ``missing_fn(it)``."""
        return _mapped(transformed_top, lambda x: self._originals.get(
            x, None if missing_fn is None else missing_fn(x)))

    def _copy_of(self, one: Any, missing_fn: Callable[[Any], Any] | None) -> Any:
        found: Mapping[Any, Any] = (
            self._transformed_ts if isinstance(one, Tensor) else self._transformed_ops)
        return found.get(one, None if missing_fn is None else missing_fn(one))


def _mapped(structure: Any, function: Callable[[Any], Any]) -> Any:
    if isinstance(structure, (Tensor, Operation)):
        return function(structure)
    return nest.map_structure(function, structure)


def copy(sgv: Any, dst_graph: Graph | None = None, dst_scope: str = "", src_scope: str = "",
         reuse_dst_scope: bool = False) -> tuple[SubGraphView, TransformerInfo]:
    """Copy a view, within its graph or to `dst_graph`, into the name scope `dst_scope`.

    In the same graph the copies read what the originals read from outside; elsewhere that is a
    ``ValueError``.
    """
    return copy_with_input_replacements(sgv, {}, dst_graph, dst_scope, src_scope, reuse_dst_scope)


def copy_with_input_replacements(sgv: Any, replacement_ts: Mapping[Tensor, Tensor],
                                 dst_graph: Graph | None = None, dst_scope: str = "",
                                 src_scope: str = "", reuse_dst_scope: bool = False
                                 ) -> tuple[SubGraphView, TransformerInfo]:
    """Copy a view; where the originals read a tensor of `replacement_ts`, the copies read the one
    that stands there. Returns the view of the copies, and who is whose copy.

    Raises ``ValueError`` if copies in another graph would read a tensor of the first.
    """
    view = make_view(sgv)
    graph = dst_graph or view.graph or get_default_graph()
    inside = set(view.ops)
    outside = {}
    for tensor in {*(t for op in view.ops for t in op.inputs)}:
        if tensor in replacement_ts or tensor.op not in inside:
            outside[_key(tensor)] = _as_tensor(replacement_ts.get(tensor, tensor))
    if any(t.graph is not graph for t in outside.values()):
        raise ValueError("The copies would read tensors of another graph: replace them")
    made = _copied(view, graph, outside, dst_scope or "copied")
    info = TransformerInfo(made, {t: _as_tensor(r) for t, r in replacement_ts.items()})
    return SubGraphView(list(made.values())), info


def _as_tensor(value: Any) -> Tensor:
    return value if isinstance(value, Tensor) else value._as_graph_element()


def _key(tensor: Tensor) -> str:
    return f"{tensor.op.name}:{tensor.value_index}"


def _copied(view: SubGraphView, graph: Graph, outside: dict[str, Tensor],
            scope: str) -> dict[Operation, Operation]:
    """The copy of each operation; their control inputs outside stay."""
    if not view:
        return {}
    names = {op.name for op in view.ops}
    graph_def: Any = None
    for op in view.ops:
        node = op.node_def
        node.attr.pop(COLOCATION_ATTR, None)
        kept = [text for text in node.input if not text.startswith("^") or text[1:] in names]
        node.input[:] = kept
        graph_def = graph_def or type(op.graph.as_graph_def())()
        graph_def.node.extend([node])
    with graph.as_default(), graph.control_dependencies(None):
        found = import_graph_def(graph_def, outside, [op.name for op in view.ops], name=scope)
    made = dict(zip(view.ops, found or (), strict=True))
    for op, other in made.items():
        controls = [c for c in op.control_inputs if c.name not in names and c.graph is graph]
        if controls:
            other._add_control_inputs(controls)
    return made


def graph_replace(target_ts: Any, replacement_ts: Mapping[Tensor, Tensor], dst_scope: str = "",
                  src_scope: str = "", reuse_dst_scope: bool = False) -> Any:
    """Return `target_ts`, a tensor or a nest, computed again with other tensors in the place of the
    keys of `replacement_ts`.

    What does not depend on these is not copied. Raises ``ValueError`` if none of the targets does.
    """
    targets = [target_ts] if isinstance(target_ts, Tensor) else nest.flatten(target_ts)
    replaced = {_as_tensor(t): r for t, r in replacement_ts.items()}
    ops = get_walks_intersection_ops(list(replaced), targets)
    if not ops:
        raise ValueError("Targets and replacements are not connected!")
    _, info = copy_with_input_replacements(ops, replaced, None, dst_scope, src_scope,
                                           reuse_dst_scope)
    return info.transformed(target_ts, missing_fn=lambda original: original)
