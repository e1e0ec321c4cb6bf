"""``tools.optimize_for_inference_lib`` and ``strip_unused_lib``: graphs that are served alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hpcflow.dtypes import as_dtype
from hpcflow.graph_util.graph_defs import remove_training_nodes
from hpcflow.platform.file_io import file_exists, write_string_to_file
from hpcflow.tools.freeze_graph import read_message
from hpcflow.tools.graph_transforms import TransformGraph

if TYPE_CHECKING:
    from google.protobuf.message import Message


def strip_unused(input_graph_def: Message, input_node_names: Sequence[str],
                 output_node_names: Sequence[str],
                 placeholder_type_enum: int | Sequence[int]) -> Any:
    """Return the GraphDef of what computes the outputs from the inputs, which become placeholders.

    `placeholder_type_enum` is the element type of all inputs, or of each. Raises ``KeyError`` for
    an input that is not in the graph.
    """
    known = {node.name for node in input_graph_def.node}
    for name in input_node_names:
        if ":" in name:
            raise ValueError(f"Name '{name}' appears to refer to a Tensor, not an Operation.")
        if name not in known:
            raise KeyError(f"The following input nodes were not found: {{'{name}'}}")
    several = isinstance(placeholder_type_enum, (list, tuple))
    types = placeholder_type_enum if several else [placeholder_type_enum] * len(input_node_names)
    pairs = ", ".join(f"name={name}, type_for_name={as_dtype(enum).name}" for name, enum in zip(
        input_node_names, types, strict=True))  # type: ignore[arg-type]
    return TransformGraph(input_graph_def, input_node_names, output_node_names,
                          [f"strip_unused_nodes({pairs})"])


def strip_unused_from_files(input_graph: str, input_binary: bool, output_graph: str,
                            output_binary: bool, input_node_names: str, output_node_names: str,
                            placeholder_type_enum: int | Sequence[int]) -> int | None:
    """:func:`strip_unused` of a file, written to another one.

    The names are lists with commas; a file that is not binary holds text. Returns -1, with a
    message, where there is no such file or no name of an output.
    """
    if not file_exists(input_graph):
        print(f"Input graph file '{input_graph}' does not exist!")
        return -1
    if not output_node_names:
        print("You need to supply the name of a node to --output_node_names.")
        return -1
    graph_def = strip_unused(read_message("graph", "GraphDef", input_graph, input_binary),
                             input_node_names.split(","), output_node_names.split(","),
                             placeholder_type_enum)
    if output_binary:
        write_string_to_file(output_graph, graph_def.SerializeToString())
    else:
        write_string_to_file(output_graph, str(graph_def))
    print(f"{len(graph_def.node)} ops in the final graph.")
    return None


def optimize_for_inference(input_graph_def: Message, input_node_names: Sequence[str],
                           output_node_names: Sequence[str],
                           placeholder_type_enum: int | Sequence[int],
                           toco_compatible: bool = False) -> Any:
    """Return the GraphDef of what computes the outputs from the inputs, without what training needs
    and with batch normalization folded into the weights before it."""
    stripped = strip_unused(input_graph_def, input_node_names, output_node_names,
                            placeholder_type_enum)
    stripped = remove_training_nodes(stripped, output_node_names)
    return TransformGraph(stripped, input_node_names, output_node_names,
                          ["fold_old_batch_norms", "fold_batch_norms"])


def fold_batch_norms(input_graph_def: Message) -> Any:
    """Return the GraphDef with batch normalization folded into the weights before it."""
    read = {text.lstrip("^").partition(":")[0] for n in input_graph_def.node for text in n.input}
    ends = [n.name for n in input_graph_def.node if n.name not in read]
    return TransformGraph(input_graph_def, [], ends, ["fold_old_batch_norms"])
