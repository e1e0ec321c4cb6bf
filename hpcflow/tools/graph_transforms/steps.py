"""Transforms of the shape of a graph: what goes, what is renamed, and in which order it stands."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from graphlib import TopologicalSorter
from typing import Any

from hpcflow.dtypes import as_dtype
from hpcflow.graph.attr_values import canonical, to_proto
from hpcflow.graph.importer import split_input
from hpcflow.graph.opdef import REQUIRED, registered_ops
from hpcflow.graph_util.graph_defs import extract_sub_graph
from hpcflow.shapes import TensorShape
from hpcflow.tools.graph_transforms.specs import Parameters, one

# Ends of loops, which are no order.
_BACK = ("NextIteration", "RefNextIteration")


class Task:
    """A copy of a graph that is being changed, with the names of what is fed and fetched."""

    def __init__(self, graph_def: Any, inputs: list[str], outputs: list[str]) -> None:
        self.graph_def = type(graph_def)()
        self.graph_def.CopyFrom(graph_def)
        self.inputs = [split_input(name)[0] for name in inputs]
        self.outputs = [split_input(name)[0] for name in outputs]

    def by_name(self) -> dict[str, Any]:
        """The nodes by their names."""
        return {node.name: node for node in self.graph_def.node}

    def keep(self, wanted: Callable[[Any], bool]) -> None:
        """Keep the nodes for which `wanted` is true."""
        kept = [node for node in self.graph_def.node if wanted(node)]
        self.replace_nodes(kept)

    def replace_nodes(self, nodes: list[Any]) -> None:
        """Put `nodes` in the place of all nodes."""
        copies = []
        for node in nodes:
            copies.append(type(node)())
            copies[-1].CopyFrom(node)
        del self.graph_def.node[:]
        self.graph_def.node.extend(copies)

    def redirect(self, sources: dict[str, str]) -> None:
        """Let readers of the nodes in `sources` read the tensor that stands there."""
        for node in self.graph_def.node:
            node.input[:] = [_redirected(text, sources) for text in node.input]


def _redirected(text: str, sources: dict[str, str]) -> str:
    name, port = split_input(text)
    while name in sources:
        if port < 0:
            text = f"^{split_input(sources[name])[0]}"
        else:
            text = sources[name]
        name = split_input(text)[0]
    return text


def strip_unused(task: Task, parameters: Parameters) -> None:
    """Keep what the outputs need of the inputs; inputs become placeholders of `type` and `shape`,
    or, by their names, of ``name``, ``type_for_name`` and ``shape_for_name``."""
    types = dict(zip(parameters.get("name", ()), parameters.get("type_for_name", ()), strict=False))
    shapes = dict(zip(parameters.get("name", ()), parameters.get("shape_for_name", ()),
                      strict=False))
    for name in task.inputs:
        node = task.by_name().get(name)
        if node is None or node.op.startswith("Placeholder"):
            continue
        dtype = as_dtype(types.get(name) or one(parameters, "type", "float32"))
        shape = shapes.get(name) or one(parameters, "shape", "")
        node.Clear()
        node.name, node.op = name, "Placeholder"
        node.attr["dtype"].type = dtype.as_datatype_enum
        dims = [int(size) for size in shape.split(",") if size.strip()]
        node.attr["shape"].shape.CopyFrom(
            TensorShape([None if size < 0 else size for size in dims]).as_proto())
    task.graph_def = extract_sub_graph(task.graph_def, task.outputs)


def remove_nodes(task: Task, parameters: Parameters) -> None:
    """Take the nodes of the types `op` with up to `max_inputs` inputs out; readers take what these
    read."""
    types = set(parameters.get("op", ()))
    most = int(one(parameters, "max_inputs", "1"))
    sources = {}
    for node in task.graph_def.node:
        data = [text for text in node.input if not text.startswith("^")]
        removable = node.op in types and node.name not in {*task.inputs, *task.outputs}
        if removable and 1 <= len(data) <= most:
            sources[node.name] = data[0]
    task.keep(lambda node: node.name not in sources)
    task.redirect(sources)


def remove_controls(task: Task, parameters: Parameters) -> None:
    """Take all control edges out."""
    for node in task.graph_def.node:
        node.input[:] = [text for text in node.input if not text.startswith("^")]


def sort(task: Task, parameters: Parameters) -> None:
    """Let each node stand behind those that it reads."""
    by_name = task.by_name()
    order: TopologicalSorter[str] = TopologicalSorter()
    for node in task.graph_def.node:
        sources = {split_input(text)[0] for text in node.input}
        order.add(node.name, *(s for s in sources if by_name[s].op not in _BACK))
    task.replace_nodes([by_name[name] for name in order.static_order()])


def merge_duplicates(task: Task, parameters: Parameters) -> None:
    """Keep one of the nodes that compute the same from the same."""
    while True:
        first: dict[bytes, str] = {}
        sources = {}
        for node in task.graph_def.node:
            same = None if _is_kept(task, node) else _signature(node)
            if same is not None and first.setdefault(same, node.name) != node.name:
                sources[node.name] = first[same]
        if not sources:
            return
        task.keep(lambda node, gone=sources: node.name not in gone)  # type: ignore[misc]
        task.redirect(sources)


def _is_kept(task: Task, node: Any) -> bool:
    op_def = registered_ops().get(node.op)
    several = op_def is not None and len(op_def.outputs) != 1
    return (op_def is None or op_def.is_stateful or several or node.op.startswith("Placeholder")
            or node.name in {*task.inputs, *task.outputs})


def _signature(node: Any) -> bytes:
    copy = type(node)()
    copy.CopyFrom(node)
    copy.name = ""
    return copy.SerializeToString(deterministic=True)


# ---------------------------------------------------------------- one field of each node


def remove_device(task: Task, parameters: Parameters) -> None:
    """Place the nodes nowhere."""
    for node in task.graph_def.node:
        node.device = ""


def set_device(task: Task, parameters: Parameters) -> None:
    """Place the nodes on `device`; with `if_default` those that are placed nowhere."""
    only_open = one(parameters, "if_default", "false").lower() == "true"
    for node in task.graph_def.node:
        if not (only_open and node.device):
            node.device = one(parameters, "device", "")


def rename_op(task: Task, parameters: Parameters) -> None:
    """Change the type `old_op_name` to `new_op_name`."""
    for node in task.graph_def.node:
        if node.op == one(parameters, "old_op_name"):
            node.op = one(parameters, "new_op_name")


def rename_node(task: Task, parameters: Parameters) -> None:
    """Give the node `old_node_name` the name `new_node_name`.

    Raises ``ValueError`` if another node has it.
    """
    old, new = one(parameters, "old_node_name"), one(parameters, "new_node_name")
    if new in task.by_name():
        raise ValueError(f"A node named '{new}' already exists in the graph")
    for node in task.graph_def.node:
        node.name = new if node.name == old else node.name
        node.input[:] = [_renamed(text, old, new) for text in node.input]


def obfuscate_names(task: Task, parameters: Parameters) -> None:
    """Give the nodes that are neither fed nor fetched numbers for names."""
    kept = {*task.inputs, *task.outputs}
    free = (text for text in map(str, itertools.count()) if text not in kept)
    names = {node.name: node.name if node.name in kept else next(free)
             for node in task.graph_def.node}
    for node in task.graph_def.node:
        node.name = names[node.name]
        for i, text in enumerate(node.input):
            old = split_input(text)[0]
            node.input[i] = _renamed(text, old, names.get(old, old))


def _renamed(text: str, old: str, new: str) -> str:
    name, port = split_input(text)
    if name != old:
        return text
    return f"^{new}" if port < 0 else f"{new}:{port}" if port else new


def remove_attribute(task: Task, parameters: Parameters) -> None:
    """Take `attribute_name` from the nodes, or from those of the type `op_name`."""
    for node in _of_type(task, parameters):
        node.attr.pop(one(parameters, "attribute_name"), None)


def rename_attribute(task: Task, parameters: Parameters) -> None:
    """Give `old_attribute_name` the name `new_attribute_name`, also of the type `op_name` alone."""
    old, new = one(parameters, "old_attribute_name"), one(parameters, "new_attribute_name")
    for node in _of_type(task, parameters):
        if old in node.attr:
            node.attr[new].CopyFrom(node.attr[old])
            del node.attr[old]


def add_default_attributes(task: Task, parameters: Parameters) -> None:
    """Write the attributes that nodes leave at their defaults."""
    for node in task.graph_def.node:
        op_def = registered_ops().get(node.op)
        for attr in op_def.attrs if op_def is not None else ():
            if attr.default is not REQUIRED and attr.name not in node.attr:
                node.attr[attr.name].CopyFrom(to_proto(canonical(attr.default, attr, node.op)))


def _of_type(task: Task, parameters: Parameters) -> list[Any]:
    wanted = one(parameters, "op_name", "*")
    return [node for node in task.graph_def.node if wanted in ("*", node.op)]
