"""GraphDef import: adding the nodes of a protobuf to the default graph."""

from __future__ import annotations

from typing import Any

from hpcflow.graph import shape_inference
from hpcflow.graph.attr_values import canonical, from_proto
from hpcflow.graph.graph import Graph, get_default_graph
from hpcflow.graph.opdef import REQUIRED, OpDef, get_op_def, has_op
from hpcflow.graph.operation import (
    COLOCATION_ATTR,
    COLOCATION_PREFIX,
    Operation,
    Tensor,
    arg_types,
)


def import_graph_def(graph_def: Any, input_map: dict | None = None,
                     return_elements: list | None = None, name: str | None = None,
                     op_dict: dict | None = None, producer_op_list: Any = None) -> list | None:
    """Add the nodes of `graph_def` to the default graph under the name scope `name`.

    `input_map` replaces tensors of the GraphDef by tensors of the graph; `return_elements` names
    operations and tensors to return. Raises ``ValueError`` naming every op type that is not
    registered, every dangling input, and every name of `input_map` or `return_elements` that the
    GraphDef does not have; ``TypeError`` for arguments of the wrong kind.
    """
    del op_dict, producer_op_list  # every registered op is known; attributes carry their values
    _check_arguments(graph_def, input_map, return_elements)
    importer = _Importer(get_default_graph(), graph_def, dict(input_map or {}))
    # None stands for "import"; an empty string imports at the top level.
    prefix = "import" if name is None else name
    graph = importer.graph
    if prefix:
        with graph.name_scope(prefix) as scope:
            importer.run(scope)
    else:
        importer.run("")
    return None if return_elements is None else importer.elements(return_elements)


def _check_arguments(graph_def: Any, input_map: Any, return_elements: Any) -> None:
    from tensorboard.compat.proto import graph_pb2

    if not isinstance(graph_def, graph_pb2.GraphDef):
        raise TypeError(f"graph_def must be a GraphDef proto, got {type(graph_def).__name__}.")
    if input_map is not None and not (
            isinstance(input_map, dict) and all(isinstance(k, str) for k in input_map)):
        raise TypeError("input_map must be a dictionary mapping strings to Tensor objects.")
    if return_elements is not None and not (
            isinstance(return_elements, (list, tuple))
            and all(isinstance(x, str) for x in return_elements)):
        raise TypeError("return_elements must be a list of strings.")


def split_input(text: str) -> tuple[str, int]:
    """``"^op"`` -> (op, -1); ``"op"`` -> (op, 0); ``"op:2"`` -> (op, 2)."""
    if text.startswith("^"):
        return text[1:], -1
    op, colon, index = text.rpartition(":")
    if not colon:
        return text, 0
    if not index.isdigit():
        raise ValueError(f"Cannot convert '{text}' to a tensor name.")
    return op, int(index)


class _Importer:
    def __init__(self, graph: Graph, graph_def: Any, input_map: dict[str, Any]) -> None:
        self.graph = graph
        self.nodes = list(graph_def.node)
        self.by_name = {n.name: n for n in self.nodes}
        self.input_map = {k if k.startswith("^") else _full_name(k): v
                          for k, v in input_map.items()}
        self.used_inputs: set[str] = set()
        self.ops: dict[str, Operation] = {}
        self.back_edges: list[tuple[Operation, int, str]] = []
        self.library = graph_def.library

    def run(self, scope: str) -> None:
        self._check_types()
        self._check_inputs()
        with self.graph.control_dependencies(None):
            for node in self._sorted():
                self._add(node, scope)
        for op, index, text in self.back_edges:
            op._update_input(index, self._tensor(text))
        unused = sorted(set(self.input_map) - self.used_inputs)
        if unused:
            raise ValueError("Attempted to map inputs that were not found in graph_def: "
                             f"[{', '.join(unused)}]")

    def _check_types(self) -> None:
        missing = sorted({n.op for n in self.nodes if not has_op(n.op)})
        if missing:
            raise ValueError("No op named " + ", ".join(missing) + " in the registered ops: the "
                             f"GraphDef needs {len(missing)} op type(s) that are not available")

    def _check_inputs(self) -> None:
        problems = []
        for node in self.nodes:
            for text in node.input:
                op, index = split_input(text)
                key = f"^{op}" if index < 0 else f"{op}:{index}"
                if op not in self.by_name and key not in self.input_map:
                    problems.append(f"Node '{node.name}': Unknown input node '{text}'")
        if problems:
            raise ValueError("; ".join(problems))

    def _sorted(self) -> list[Any]:
        """Nodes after their inputs; edges out of NextIteration close loops and are left out."""
        waiting: dict[str, int] = {}
        readers: dict[str, list[Any]] = {}
        for node in self.nodes:
            sources = {split_input(t)[0] for t in node.input}
            sources = {s for s in sources if s in self.by_name
                       and self.by_name[s].op not in ("NextIteration", "RefNextIteration")}
            waiting[node.name] = len(sources)
            for source in sources:
                readers.setdefault(source, []).append(node)
        ready = [n for n in self.nodes if not waiting[n.name]]
        for node in ready:
            for reader in readers.get(node.name, ()):
                waiting[reader.name] -= 1
                if not waiting[reader.name]:
                    ready.append(reader)
        if len(ready) < len(self.nodes):
            stuck = [n.name for n in self.nodes if waiting[n.name]][:5]
            raise ValueError(f"GraphDef has a cycle through {', '.join(stuck)}")
        return ready

    def _add(self, node: Any, scope: str) -> None:
        op_def = get_op_def(node.op)
        attrs = self._attrs(node, op_def, scope)
        expected = arg_types(op_def.inputs, attrs)
        data = [t for t in node.input if not t.startswith("^")]
        if len(data) != len(expected):
            raise ValueError(f"Node '{node.name}' ({node.op}): {len(data)} inputs specified of "
                             f"{len(expected)} inputs in Op: {', '.join(data)}")
        inputs, late = self._inputs(data, expected)
        for i, (tensor, dtype) in enumerate(zip(inputs, expected, strict=True)):
            got = tensor.dtype
            if got.base_dtype is not dtype.base_dtype or (
                    dtype._is_ref_dtype and not got._is_ref_dtype):
                raise ValueError(f"Cannot convert a tensor of type {got.name} to an input of type "
                                 f"{dtype.name}: input {i} of node '{node.name}' ({node.op})")
        name = f"{scope}{node.name}"
        with self.graph._attr_scope({}):
            op = self._create(op_def, inputs, attrs, name, node)
        if late:
            self.back_edges.extend((op, i, t) for i, t in late)
        for text in node.input:
            if text.startswith("^"):
                op._control_inputs.append(self._control(text))
        if node.device:
            op._set_device(node.device)
            for function in reversed(self.graph._device_stack):
                op._set_device(function(op))
        self.ops[node.name] = op

    def _create(self, op_def: OpDef, inputs: list[Tensor], attrs: dict, name: str,
                node: Any) -> Operation:
        shapes = node.attr["_output_shapes"].list.shape if "_output_shapes" in node.attr else ()
        attrs.pop("_output_shapes", None)
        if name in self.graph._ops_by_name:
            unique = self.graph.unique_name(name[len(self.graph._name_stack) + 1:]
                                            if self.graph._name_stack else name)
        else:
            unique = name
            self.graph._names_in_use.setdefault(name.lower(), 1)
        op = self.graph._add_op(op_def, inputs, attrs, unique + "/")
        for tensor, shape in zip(op._outputs, shapes, strict=False):
            tensor._dims = shape_inference.merge_dims(tensor._dims, _dims_of(shape))
        return op

    def _attrs(self, node: Any, op_def: OpDef, scope: str) -> dict[str, Any]:
        attrs: dict[str, Any] = {}
        for key, proto in node.attr.items():
            value = from_proto(proto)
            attr = op_def.attr_map.get(key)
            if attr is not None and value is not None:
                value = canonical(value, attr, node.op)
            elif attr is None and not key.startswith("_"):
                # Attributes of newer versions are dropped where they say nothing.
                if value not in (None, False, 0, b"", []) and not _all_ones(value):
                    raise ValueError(f"Node '{node.name}': {node.op} has no attribute '{key}', which "
                                     f"the GraphDef sets to {value!r}")
                continue
            attrs[key] = value
        for attr in op_def.attrs:
            if attrs.get(attr.name) is None:
                if attr.default is REQUIRED:
                    raise ValueError(f"Node '{node.name}' ({node.op}) is missing a value for "
                                     f"attribute '{attr.name}'")
                attrs[attr.name] = attr.default
        if COLOCATION_ATTR in attrs:
            attrs[COLOCATION_ATTR] = [self._colocation(c, scope) for c in attrs[COLOCATION_ATTR]]
        return attrs

    def _colocation(self, group: bytes, scope: str) -> bytes:
        name = group[len(COLOCATION_PREFIX):].decode()
        if group.startswith(COLOCATION_PREFIX) and name in self.by_name:
            return COLOCATION_PREFIX + f"{scope}{name}".encode()
        return group

    def _inputs(self, data: list[str], expected: list) -> tuple[list[Tensor], list]:
        inputs: list[Tensor] = []
        late: list[tuple[int, str]] = []
        for i, text in enumerate(data):
            op, _ = split_input(text)
            if op in self.by_name and op not in self.ops and _full_name(text) not in self.input_map:
                late.append((i, text))
                inputs.append(None)  # type: ignore[arg-type]
            else:
                inputs.append(self._tensor(text, expected[i]))
        # A back edge stands in with another input of its Merge until the loop is complete.
        stand_in = next((t for t in inputs if t is not None), None)
        return [stand_in if t is None else t for t in inputs], late  # type: ignore[misc]

    def _tensor(self, text: str, dtype: Any = None) -> Tensor:
        full = _full_name(text)
        if full in self.input_map:
            self.used_inputs.add(full)
            value = self.input_map[full]
            if not isinstance(value, Tensor):
                from hpcflow.graph.convert import convert_to_tensor

                value = convert_to_tensor(value, dtype)
            return value
        op, index = split_input(text)
        outputs = self.ops[op].outputs
        if index >= len(outputs):
            raise ValueError(f"Connecting to invalid output {index} of source node {op} which has "
                             f"{len(outputs)} outputs")
        return outputs[index]

    def _control(self, text: str) -> Operation:
        if text in self.input_map:
            self.used_inputs.add(text)
            mapped = self.input_map[text]
            return mapped if isinstance(mapped, Operation) else mapped.op
        return self.ops[text[1:]]

    def elements(self, names: list[str]) -> list[Any]:
        found = []
        for name in names:
            op, _, index = name.partition(":")
            if op not in self.ops or (index and int(index) >= len(self.ops[op].outputs)):
                raise ValueError(f"return_element {name!r} not found in graph_def.")
            found.append(self.ops[op].outputs[int(index)] if index else self.ops[op])
        return found


def _full_name(text: str) -> str:
    op, index = split_input(text)
    return f"^{op}" if index < 0 else f"{op}:{index}"


def _all_ones(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(v == 1 for v in value)


def _dims_of(shape: Any) -> tuple | None:
    if shape.unknown_rank:
        return None
    return tuple(None if d.size < 0 else d.size for d in shape.dim)
