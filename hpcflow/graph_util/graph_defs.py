"""Tools on GraphDefs (``hpcflow.graph_util``): parts of graphs, and graphs without variables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from hpcflow import dtypes
from hpcflow.device_spec import DeviceSpec
from hpcflow.graph.graph import Graph
from hpcflow.graph.importer import check_graph_def, split_input
from hpcflow.graph.likes import SessionLike
from hpcflow.graph.operation import COLOCATION_ATTR, COLOCATION_PREFIX, Operation
from hpcflow.graph_util.freezing import VARIABLE_TYPES, Frozen, values_of
from hpcflow.metagraph.placing import replace_devices, write_placement
from hpcflow.shapes import TensorShape

if TYPE_CHECKING:
    from google.protobuf.message import Message

__all__ = ["convert_variables_to_constants", "extract_sub_graph", "must_run_on_cpu",
           "remove_training_nodes", "replace_devices", "set_cpu0",
           "tensor_shape_from_node_def_name", "write_placement"]  # fmt: skip

_TRAINING_TYPES = ("CheckNumerics", "Identity")
# Op type -> the attribute that says whether it handles what GPUs do not: int32, or strings.
_HOST_TYPES = {"Const": "dtype", "DynamicStitch": "T", "ParallelDynamicStitch": "T", "Cast": "SrcT"}


def must_run_on_cpu(node: Any, pin_variables_on_cpu: bool = False) -> bool:
    """True if a node (an Operation or a NodeDef) has to be placed on a CPU.

    These are constants that are int32 or strings, DynamicStitch of int32, casts from int32, and
    with `pin_variables_on_cpu` all variables.
    """
    node_def = node.node_def if isinstance(node, Operation) else node
    if node_def.op in VARIABLE_TYPES:
        return pin_variables_on_cpu
    attr = _HOST_TYPES.get(node_def.op)
    if attr is None:
        return False
    dtype = node_def.attr[attr].type
    return dtype == dtypes.int32.enum or (node_def.op == "Const" and dtype == dtypes.string.enum)


def set_cpu0(device_string: str) -> str:
    """Return the device name with the first CPU in the place of its device."""
    spec = DeviceSpec.from_string(device_string)
    spec.device_type, spec.device_index = "CPU", 0
    return spec.to_string()


def extract_sub_graph(graph_def: Message, dest_nodes: Iterable[str]) -> Any:
    """Return the GraphDef of the nodes that `dest_nodes` (names) depend on, and of themselves.

    Raises ``TypeError`` if it is no GraphDef, or `dest_nodes` one string, ``AssertionError`` for
    unknown names.
    """
    check_graph_def(graph_def)
    if isinstance(dest_nodes, (str, bytes)):
        raise TypeError(f"dest_nodes must be a list of names, got {dest_nodes!r}")
    by_name = {node.name: node for node in graph_def.node}
    wanted = list(dest_nodes)
    unknown = [name for name in wanted if name not in by_name]
    if unknown:
        raise AssertionError(f"{', '.join(unknown)} is not in graph")
    kept: set[str] = set()
    while wanted:
        name = wanted.pop()
        if name not in kept:
            kept.add(name)
            wanted.extend(split_input(text)[0] for text in by_name[name].input)
    return _graph_with(graph_def, [node for node in graph_def.node if node.name in kept])


def _graph_with(graph_def: Message, nodes: list) -> Any:
    """A GraphDef with copies of `nodes` and the versions and functions of `graph_def`."""
    result = type(graph_def)()
    result.node.extend(nodes)
    for part in ("library", "versions"):
        if graph_def.HasField(part):
            getattr(result, part).CopyFrom(getattr(graph_def, part))
    return result


def tensor_shape_from_node_def_name(graph: Graph, input_name: str) -> TensorShape:
    """Return the static shape of the tensor that a NodeDef's input string names."""
    name, index = split_input(input_name)
    return graph.get_tensor_by_name(f"{name}:{max(index, 0)}").get_shape()


def remove_training_nodes(input_graph: Message,
                          protected_nodes: Iterable[str] | None = None) -> Any:
    """Return the GraphDef without Identity and CheckNumerics: readers take what these read.

    Nothing waits for a CheckNumerics any more. Every Identity with other control edges stays, and
    so do the `protected_nodes`, those that others are colocated with, and those that nobody reads:
    they are outputs.
    """
    protected = set(protected_nodes or ()) | _colocated_with(input_graph)
    read = {split_input(t)[0] for n in input_graph.node for t in n.input}
    checks = {n.name for n in input_graph.node if n.op == "CheckNumerics"} & read - protected
    inputs = {n.name: [t for t in n.input if not (t.startswith("^") and t[1:] in checks)]
              for n in input_graph.node}
    controls = {t[1:] for texts in inputs.values() for t in texts if t.startswith("^")} | protected
    sources = {
        n.name: n.input[0] for n in input_graph.node
        if n.op in _TRAINING_TYPES and len(inputs[n.name]) == 1 and n.name not in controls
        and n.name in read}  # fmt: skip
    result = _graph_with(input_graph, [n for n in input_graph.node if n.name not in sources])
    for node in result.node:
        node.input[:] = [_source_of(text, sources) for text in inputs[node.name]]
    return result


def _colocated_with(graph_def: Message) -> set[str]:
    """The nodes that other nodes name as where they are."""
    return {group[len(COLOCATION_PREFIX):].decode() for node in graph_def.node
            if COLOCATION_ATTR in node.attr for group in node.attr[COLOCATION_ATTR].list.s
            if group.startswith(COLOCATION_PREFIX)
            and group[len(COLOCATION_PREFIX):] != node.name.encode()}


def _source_of(text: str, sources: dict[str, str]) -> str:
    while split_input(text)[0] in sources:
        text = sources[split_input(text)[0]]
    return text


def convert_variables_to_constants(sess: SessionLike, input_graph_def: Message,
                                   output_node_names: list[str],
                                   variable_names_whitelist: list[str] | None = None,
                                   variable_names_blacklist: list[str] | None = None) -> Any:
    """Return the part of a GraphDef that computes some nodes, with its variables as constants.

    Args:
        sess: a session in which the variables have their values.
        input_graph_def: the GraphDef of its graph.
        output_node_names: names of the nodes to keep, with what they depend on.
        variable_names_whitelist: the only variables to convert, if given.
        variable_names_blacklist: variables not to convert.

    Raises ``ValueError`` if one of these nodes writes such a variable.
    """
    result = extract_sub_graph(input_graph_def, output_node_names)
    names = [n.name for n in result.node if n.op in VARIABLE_TYPES
             and (variable_names_whitelist is None or n.name in variable_names_whitelist)
             and n.name not in (variable_names_blacklist or ())]
    Frozen(result, values_of(sess, result, names))
    return result
