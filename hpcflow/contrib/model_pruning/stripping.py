"""Graphs of trained models without masks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hpcflow.graph.graph import Graph
from hpcflow.graph.importer import import_graph_def
from hpcflow.graph.tensor_proto import make_tensor_proto
from hpcflow.graph_util import convert_variables_to_constants, extract_sub_graph
from hpcflow.runtime.session.session import Session
from hpcflow.train.checkpoint_state import latest_checkpoint
from hpcflow.train.saver import import_meta_graph

if TYPE_CHECKING:
    from google.protobuf.message import Message

_MASKED = "masked_weight"


def strip_pruning_vars_fn(input_graph_def: Any, output_node_names: Sequence[str]) -> Message:
    """Return the graph with constants in place of masked weights, and without the masks.

    The variables of `input_graph_def` are constants already; kept is what `output_node_names`
    need.
    """
    names = [node.name for node in input_graph_def.node if _MASKED in node.name]
    graph = Graph()
    with graph.as_default():
        import_graph_def(input_graph_def, name="")
    with Session(graph=graph) as session:
        values = dict(zip(names, session.run([f"{name}:0" for name in names])))
    stripped = type(input_graph_def)()
    for node in input_graph_def.node:
        kept = stripped.node.add()
        if node.name not in values:
            kept.CopyFrom(node)
            continue
        kept.name, kept.op = node.name, "Const"
        kept.attr["dtype"].CopyFrom(node.attr["T"])
        kept.attr["value"].tensor.CopyFrom(make_tensor_proto(values[node.name]))
    return extract_sub_graph(stripped, list(output_node_names))


def graph_def_from_checkpoint(checkpoint_dir: str, output_node_names: Sequence[str]) -> Message:
    """Return the graph of the last checkpoint in a directory, its variables as constants.

    Raises ``ValueError`` where there is none.
    """
    path = latest_checkpoint(checkpoint_dir)
    if path is None:
        raise ValueError(f"Could not find a checkpoint at: {checkpoint_dir}.")
    graph = Graph()
    with graph.as_default(), Session(graph=graph) as session:
        saver: Any = import_meta_graph(f"{path}.meta", clear_devices=True)
        saver.restore(session, path)
        return convert_variables_to_constants(session, graph.as_graph_def(),
                                              list(output_node_names))
