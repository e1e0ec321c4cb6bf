"""MetaGraphs of name scopes, by the functions of the 1.x module ``framework.meta_graph``: these
return the variables of the scope too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hpcflow.graph.graph import Graph, get_default_graph
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.opdef import get_op_def, has_op
from hpcflow.metagraph import meta_graph
from hpcflow.ops.common.slice_info import strip_scope

if TYPE_CHECKING:
    from google.protobuf.message import Message


def create_meta_graph_def(meta_info_def: Any = None, graph_def: Message | None = None,
                          saver_def: Message | None = None, collection_list: Any = None,
                          graph: Graph | None = None, export_scope: str | None = None,
                          strip_default_attrs: bool = False) -> Any:
    """Return the ``MetaGraphDef`` of a graph; the arguments are those of
    :func:`hpcflow.train.export_meta_graph`. Raises ``TypeError`` for a `graph` of another type."""
    if graph is not None and not isinstance(graph, Graph):
        raise TypeError(f"graph must be of type Graph, not {type(graph)}")
    return meta_graph.export_meta_graph(
        meta_info_def=meta_info_def, graph_def=graph_def, saver_def=saver_def,
        collection_list=collection_list, graph=graph, export_scope=export_scope,
        strip_default_attrs=strip_default_attrs)


def export_scoped_meta_graph(filename: str | None = None, graph_def: Message | None = None,
                             graph: Graph | None = None, export_scope: str | None = None,
                             as_text: bool = False,
                             unbound_inputs_col_name: str = meta_graph.UNBOUND_INPUTS,
                             clear_devices: bool = False, **kwargs: Any) -> tuple[Any, dict]:
    """Return the ``MetaGraphDef`` of a name scope, and its variables by their names within it.

    `unbound_inputs_col_name` names the collection of the inputs from outside, which an import has
    to replace; the other arguments are those of :func:`hpcflow.train.export_meta_graph`.
    """
    graph = graph or get_default_graph()
    meta = meta_graph.export_meta_graph(
        filename=None, graph_def=graph_def, graph=graph, export_scope=export_scope,
        clear_devices=clear_devices, **kwargs)
    default = meta_graph.UNBOUND_INPUTS
    if unbound_inputs_col_name != default and default in meta.collection_def:
        if unbound_inputs_col_name:
            meta.collection_def[unbound_inputs_col_name].CopyFrom(meta.collection_def[default])
        del meta.collection_def[default]
    if filename is not None:
        meta_graph._write(filename, meta, as_text)
    return meta, _variables(graph, export_scope)


def import_scoped_meta_graph(meta_graph_or_file: Any, clear_devices: bool = False,
                             graph: Graph | None = None, import_scope: str | None = None,
                             input_map: dict | None = None,
                             unbound_inputs_col_name: str = meta_graph.UNBOUND_INPUTS,
                             restore_collections_predicate: Any = lambda key: True) -> dict:
    """Add a MetaGraph to `graph` (the default graph) below a name scope; return the variables of
    the scope by their names within it. Raises ``ValueError`` for unbound inputs not in
    `input_map`."""
    graph = graph or get_default_graph()
    scope, _ = meta_graph.import_into_scope(
        meta_graph_or_file, clear_devices, graph, import_scope, input_map,
        unbound_inputs_col_name, restore_collections_predicate)
    return _variables(graph, scope)


def copy_scoped_meta_graph(from_scope: str, to_scope: str, from_graph: Graph | None = None,
                           to_graph: Graph | None = None) -> dict:
    """Copy what is below a name scope to another scope or graph; return the copied variables by
    their names within it. Raises ``ValueError`` for a scope copied onto itself."""
    from_graph, to_graph = from_graph or get_default_graph(), to_graph or get_default_graph()
    if from_graph is to_graph and from_scope == to_scope:
        raise ValueError("'from_scope' and 'to_scope' need to be different when performing copy "
                         "in the same graph.")
    meta, _ = export_scoped_meta_graph(export_scope=from_scope, graph=from_graph)
    return import_scoped_meta_graph(meta, graph=to_graph, import_scope=to_scope)


def add_collection_def(meta_graph_def: Message, key: str, graph: Graph | None = None,
                       export_scope: str | None = None) -> None:
    """Add a collection of `graph` to a MetaGraph. Raises ``TypeError`` for a `graph` of another
    type."""
    if graph is not None and not isinstance(graph, Graph):
        raise TypeError(f"graph must be of type Graph, not {type(graph)}")
    meta_graph._add_collection(meta_graph_def, graph or get_default_graph(), key, export_scope)


def ops_used_by_graph_def(graph_def: Message) -> list[str]:
    """The op types of a GraphDef, of its functions too, as far as they are no functions."""
    functions = {f.signature.name: f for f in graph_def.library.function}
    used: set[str] = set()
    waiting = {node.op for node in graph_def.node}
    while waiting:
        used |= waiting
        waiting = {n.op for name in waiting if name in functions
                   for n in functions[name].node_def} - used
    return sorted(used - set(functions))


def stripped_op_list_for_graph(graph_def: Message) -> Any:
    """The definitions of the op types of a GraphDef, as an ``OpList``. Raises ``ValueError`` for
    one that is not registered."""
    from tensorboard.compat.proto import op_def_pb2

    used = ops_used_by_graph_def(graph_def)
    unknown = [op_type for op_type in used if not has_op(op_type)]
    if unknown:
        raise ValueError(f"Op {', '.join(unknown)} is used by the graph, but is not registered")
    return op_def_pb2.OpList(op=[get_op_def(op_type).to_proto() for op_type in used])


def _variables(graph: Graph, scope: str | None) -> dict:
    """The variables below a scope by the names of their tensors within it."""
    prefix = f"{scope.rstrip('/')}/" if scope else ""
    found = {}
    for key in (GraphKeys.GLOBAL_VARIABLES, GraphKeys.LOCAL_VARIABLES):
        for variable in graph.get_collection(key):
            if variable.op.name.startswith(prefix):
                found[strip_scope(variable.name, scope)] = variable
    return found
