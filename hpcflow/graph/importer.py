"""GraphDef import: adding the nodes of a protobuf to the default graph."""

from __future__ import annotations

import contextlib
import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hpcflow import device_spec, dtypes
from hpcflow.dtypes import DType, c_name
from hpcflow.graph import shape_inference
from hpcflow.graph.attr_values import node_attrs
from hpcflow.graph.build import has_stand_in
from hpcflow.graph.graph import Graph, get_default_graph
from hpcflow.graph.opdef import OpDef, get_op_def
from hpcflow.graph.operation import (
    COLOCATION_ATTR,
    COLOCATION_PREFIX,
    Operation,
    Tensor,
    arg_types,
)
from hpcflow.version import GRAPH_DEF_VERSION, GRAPH_DEF_VERSION_MIN_PRODUCER

if TYPE_CHECKING:
    from google.protobuf.message import Message

_BACK_EDGE_TYPES = ("NextIteration", "RefNextIteration")
_ENTER_TYPES = ("Enter", "RefEnter")


def import_graph_def(graph_def: Any, input_map: dict | None = None,
                     return_elements: list | None = None, name: str | None = None,
                     op_dict: dict | None = None,
                     producer_op_list: Message | None = None) -> list | None:
    """Add the nodes of `graph_def` to the default graph under the name scope `name`.

    `name` defaults to "import"; an empty string imports at the top level. `input_map` replaces
    tensors of the GraphDef ("op", "op:1", or "^op" for a control input) by tensors of the graph;
    `return_elements` names operations and tensors to return. Surrounding control dependencies and
    device scopes apply, the latter not to colocated nodes, which follow their group. Attributes
    that only the definitions of `producer_op_list` have are dropped where they have the default.

    An empty graph gets the versions of the GraphDef; another has the older producer and the newer
    minimal consumer of both.

    Raises ``ValueError`` for a GraphDef that is meant for newer releases only, naming every op type
    that is not registered, every dangling input, and every name of `input_map` or `return_elements`
    that the GraphDef does not have; ``TypeError`` for arguments of the wrong kind. After an error
    the graph is as it was.
    """
    del op_dict  # every registered op is known
    _check_arguments(graph_def, input_map, return_elements)
    if name == "" and not all(isinstance(value, (Tensor, Operation))
                              for value in (input_map or {}).values()):
        raise ValueError("tf.import_graph_def() requires a non-empty `name` if `input_map` "
                         "contains non-Tensor values.")
    _check_versions(graph_def.versions)
    graph = get_default_graph()
    with graph._lock:  # what other threads add is not among what this adds
        return _import(graph, graph_def, input_map, return_elements, name, producer_op_list)


def _import(graph: Graph, graph_def: Message, input_map: dict | None, return_elements: list | None,
            name: str | None, producer_op_list: Message | None) -> list | None:
    added = graph._library.add_protos(graph_def.library)
    nodes = graph_def.node if producer_op_list is None else [
        _known_attributes(graph, n, producer_op_list) for n in graph_def.node]
    importer = Importer(graph, nodes, dict(input_map or {}))
    try:
        with graph.name_scope("import" if name is None else name) as scope:
            importer.run(scope)
            importer.check_map_used()
            found = None if return_elements is None else importer.elements(return_elements)
    except BaseException:
        importer.undo()
        graph._library.remove(added)
        raise
    graph._take_versions(graph_def.versions, importer.start == 0)
    return found


def _check_versions(versions: Message) -> None:
    if versions.producer < GRAPH_DEF_VERSION_MIN_PRODUCER:
        raise ValueError(f"GraphDef producer version {versions.producer} below min producer "
                         f"{GRAPH_DEF_VERSION_MIN_PRODUCER}: no release has such a version")
    if versions.min_consumer > GRAPH_DEF_VERSION:
        raise ValueError(f"GraphDef min consumer version {versions.min_consumer} above current "
                         f"version {GRAPH_DEF_VERSION}: it was made for a newer release")
    if GRAPH_DEF_VERSION in versions.bad_consumers:
        raise ValueError(f"GraphDef disallows consumer version {GRAPH_DEF_VERSION}")


def check_graph_def(graph_def: Any) -> None:
    """Raise ``TypeError`` for what is no GraphDef."""
    from tensorboard.compat.proto import graph_pb2

    if not isinstance(graph_def, graph_pb2.GraphDef):
        raise TypeError(f"graph_def must be a GraphDef proto, got {type(graph_def).__name__}")


def _check_arguments(graph_def: str | Message, input_map: Sequence[Any] | Mapping[Any, Any] | None,
                     return_elements: int | Sequence[Any] | None) -> None:
    check_graph_def(graph_def)
    if input_map is not None and not (
            isinstance(input_map, dict) and all(isinstance(k, (str, bytes)) for k in input_map)):
        raise TypeError("input_map must be a dictionary mapping strings to Tensor objects.")
    if return_elements is not None and not (
            isinstance(return_elements, (list, tuple))
            and all(isinstance(x, (str, bytes)) for x in return_elements)):
        raise TypeError("return_elements must be a list of strings.")


def _known_attributes(graph: Graph, node: Message, producers: Message) -> Any:
    """`node` without the attributes that are defaults of a newer definition of its op type."""
    newer = next((op for op in producers.op if op.name == node.op), None)
    if newer is None or not graph._library.has(node.op):
        return node
    known = graph._library.op_def(node.op).attr_map
    dropped = [a.name for a in newer.attr if a.name in node.attr and a.name not in known
               and a.HasField("default_value") and a.default_value == node.attr[a.name]]
    if not dropped:
        return node
    copy = type(node)()
    copy.CopyFrom(node)
    for name in dropped:
        del copy.attr[name]
    return copy


def split_input(text: str) -> tuple[str, int]:
    """``"^op"`` -> (op, -1); ``"op"`` -> (op, 0); ``"op:2"`` -> (op, 2)."""
    if text.startswith("^"):
        return text[1:], -1
    op, colon, index = text.rpartition(":")
    if not colon:
        return text, 0
    if not index.isdigit():
        raise ValueError(f"Unknown input node '{text}': Cannot convert '{text}' to a tensor "
                         "name.")
    return op, int(index)


# Op type -> a function of the graph, the attributes, the inputs and the output types that builds
# what a node of that type stands for and returns its outputs. Filled by hpcflow.ops.
LOWERED: dict[str, Callable[[Graph, dict[str, Any], list[Tensor], list], list[Tensor]]] = {}

# What looks at the operations of an import when all are there. Filled by hpcflow.ops.
AFTERWARDS: list[Callable[[Graph, list[Operation]], None]] = []


class Importer:
    """One import: what is known of the nodes, and the operations made so far.

    Args:
        graph: the graph to add to, in which the import's name scope is current.
        nodes: ``NodeDef`` protobufs.
        input_map: the name of an input -> the tensor (or operation, for "^name") to use for it.
    """

    def __init__(self, graph: Graph, nodes: Iterable, input_map: dict[str, Any]) -> None:
        self.graph = graph
        self.start = graph.version
        self.nodes = list(nodes)
        self.by_name = {n.name: n for n in self.nodes}
        self.input_map = {_full_name(k): v for k, v in input_map.items()}
        self.used_inputs: set[str] = set()
        self.ops: dict[str, Operation] = {}
        self.outputs: dict[str, list[Tensor]] = {}
        self.back_edges: list[tuple[Operation, int, str]] = []
        self.named: set[str] = set()  # the names that this import took
        self._scopes: set[str] | None = None
        self.frames: dict[bytes, bytes] = {}  # the name of a loop in the GraphDef, and here

    def run(self, scope: str) -> None:
        """Add everything, under the names `scope` + name."""
        self._check_nodes()
        self._check_inputs()
        for node in self._sorted():
            with _naming(node):
                self._add(node, scope)
        for op, index, text in self.back_edges:
            op._update_input(index, self.tensor(text))
        self._set_colocation()
        self._set_devices()
        made = self.graph._ops[self.start:]
        for look in AFTERWARDS:
            look(self.graph, made)

    def undo(self) -> None:
        """Take back what was added."""
        self.graph._remove_from(self.start)
        for name in self.named:
            self.graph._names_in_use.pop(name, None)

    # ------------------------------------------------------------ checks and order

    def _check_nodes(self) -> None:
        missing = sorted({op for op in self._op_types() if not self.graph._library.has(op)})
        if missing:
            raise ValueError("No op named " + ", ".join(missing) + " in the registered ops: the "
                             f"GraphDef needs {len(missing)} op type(s) that are not available")
        if len(self.by_name) < len(self.nodes):
            twice = [n.name for n in self.nodes if self.by_name[n.name] is not n]
            raise ValueError("; ".join(f"Node '{name}' is not unique" for name in twice))

    def _op_types(self) -> set[str]:
        """The types of all nodes, and of the nodes of the functions that they name."""
        found: set[str] = set()
        waiting = list(self.nodes)
        while waiting:
            node = waiting.pop()
            named = [f.name for a in node.attr.values() for f in (a.func, *a.list.func)]
            for name in [node.op, *named]:
                function = self.graph._get_function(name)
                if function is not None and name not in found:
                    waiting += function.to_proto().node_def
                    found.add(name)
            found.add(node.op)
        return found

    def _check_inputs(self) -> None:
        problems = []
        for node in self.nodes:
            for text in node.input:
                if not self._is_there(text):
                    problems.append(f"Node '{node.name}': Unknown input node '{text}'")
            for group in node.attr[COLOCATION_ATTR].list.s if COLOCATION_ATTR in node.attr else ():
                target = _colocation_target(group)
                if target is not None and target not in self.by_name:
                    problems.append(f"Node '{node.name}' expects to be colocated with unknown node "
                                    f"'{target}'")
        if problems:
            raise ValueError("; ".join(problems))

    def _is_there(self, text: str) -> bool:
        try:
            return split_input(text)[0] in self.by_name or _full_name(text) in self.input_map
        except ValueError:
            return False

    def check_map_used(self) -> None:
        """Raise ``ValueError`` for entries of the map that the GraphDef does not have."""
        there = {f"^{name}" for name in self.ops}
        there |= {f"{name}:{i}" for name, out in self.outputs.items() for i in range(len(out))}
        unused = sorted(set(self.input_map) - self.used_inputs - there)
        if unused:
            raise ValueError("Attempted to map inputs that were not found in graph_def: "
                             f"[{', '.join(unused)}]")

    def _sorted(self) -> list[Any]:
        """Nodes after their inputs, otherwise in their own order; back edges of loops do not count.
        """
        position = {n.name: i for i, n in enumerate(self.nodes)}
        waiting = [0] * len(self.nodes)
        readers: list[list[int]] = [[] for _ in self.nodes]
        for i, node in enumerate(self.nodes):
            for source in {split_input(t)[0] for t in node.input}:
                at = position.get(source)
                if at is not None and self.nodes[at].op not in _BACK_EDGE_TYPES:
                    waiting[i] += 1
                    readers[at].append(i)
        ready = [i for i, count in enumerate(waiting) if not count]
        order = []
        while ready:
            i = heapq.heappop(ready)
            order.append(self.nodes[i])
            for reader in readers[i]:
                waiting[reader] -= 1
                if not waiting[reader]:
                    heapq.heappush(ready, reader)
        if len(order) < len(self.nodes):
            stuck = [n.name for n, count in zip(self.nodes, waiting, strict=True) if count][:5]
            raise ValueError(f"GraphDef has a cycle through {', '.join(stuck)}")
        return order

    # ------------------------------------------------------------ one node

    def _add(self, node: Message, scope: str) -> None:
        op_def = self.graph._library.op_def(node.op)
        attrs = node_attrs(node, op_def)
        expected = arg_types(op_def.inputs, attrs)
        data = [t for t in node.input if not t.startswith("^")]
        if len(data) != len(expected):
            types = ", ".join(map(_shown, expected))
            raise ValueError(f"Node '{node.name}' ({node.op}): NodeDef expected inputs '{types}' "
                             f"do not match {len(data)} inputs specified: {', '.join(data)}")
        inputs, late = self._inputs(data, expected)
        for i, (tensor, dtype) in enumerate(zip(inputs, expected, strict=True)):
            self._check_input_type(node, i, tensor, dtype)
        controls = [self._control(t) for t in node.input if t.startswith("^")]
        lowered = node.op in LOWERED and has_stand_in(node.op, attrs)
        create = self._lower if lowered else self._create
        if controls:
            # Known from the start: an operation that waits for one of a loop is in that loop.
            with self.graph.control_dependencies(controls):
                op = create(op_def, inputs, attrs, scope, node)
            op._control_inputs.extend(c for c in controls if c not in op._control_inputs)
        else:
            op = create(op_def, inputs, attrs, scope, node)
        self.back_edges.extend((op, i, t) for i, t in late)
        self.ops[node.name] = op
        self.outputs.setdefault(node.name, op.outputs)

    def _create(self, op_def: OpDef, inputs: list[Tensor], attrs: dict, scope: str,
                node: Message) -> Operation:
        shapes = attrs.pop("_output_shapes", ())
        name = self._name(scope, node)
        if op_def.name in _ENTER_TYPES:
            attrs["frame_name"] = self._frame(attrs["frame_name"])
        op = self.graph._add_op(op_def, inputs, attrs, name + "/", compute_device=False)
        for tensor, shape in zip(op._outputs, shapes, strict=False):
            if not _is_handle(tensor):  # writers do not agree on the shapes of these
                tensor._dims = shape_inference.merge_dims(tensor._dims, shape._dims)
        return op

    def _name(self, scope: str, node: Message) -> str:
        name = f"{scope}{node.name}"
        used, folded = self.graph._names_in_use, name.lower()
        if name in self.graph._nodes_by_name or (
                folded in used and folded not in self.named and folded in self._taken()):
            return self.graph.unique_name(node.name)
        used.setdefault(folded, 1)
        self.named.add(folded)
        return name

    def _taken(self) -> set[str]:
        """The names of the operations that were there before, and of the scopes around them."""
        if self._scopes is None:
            parts = [op.name.lower().split("/") for op in self.graph._ops[:self.start]]
            self._scopes = {"/".join(p[:i]) for p in parts for i in range(1, len(p) + 1)}
        return self._scopes

    def _lower(self, op_def: OpDef, inputs: list[Tensor], attrs: dict, scope: str,
               node: Message) -> Operation:
        """Build what the node stands for; an operation of its name gives what it results in."""
        name, types = self._name(scope, node), arg_types(op_def.outputs, attrs)
        with self.graph.device(node.device or ""), self.graph.name_scope(name + "/"):
            outputs = LOWERED[node.op](self.graph, attrs, inputs, types)
        self.outputs[node.name] = outputs
        if not outputs:
            return self.graph._add_op(get_op_def("NoOp"), [], {}, name + "/")
        return self.graph._add_op(get_op_def("IdentityN"), list(outputs), {"T": types}, name + "/",
                                  compute_device=False)

    def _frame(self, name: bytes) -> bytes:
        """The name of a loop, so that no other loop of the graph has the same."""
        found = self.frames.get(name)
        if found is None:
            found = self.frames[name] = self.graph.unique_name(name.decode()).encode()
        return found

    def _inputs(self, data: list[str], expected: list) -> tuple[list[Tensor], list]:
        inputs: list[Any] = []
        late: list[tuple[int, str]] = []
        for i, text in enumerate(data):
            op = split_input(text)[0]
            if op in self.by_name and op not in self.ops and _full_name(text) not in self.input_map:
                late.append((i, text))
                inputs.append(None)
            else:
                inputs.append(self.tensor(text, expected[i]))
        if late:
            # A back edge stands in with another input of its Merge until the loop is complete.
            stand_in = next((t for t in inputs if t is not None), None)
            if stand_in is None:
                raise ValueError(f"GraphDef has a cycle through {data[0]}")
            inputs = [stand_in if t is None else t for t in inputs]
        return inputs, late

    def tensor(self, text: str, dtype: Any = None) -> Tensor:
        """The tensor that an input or an output of a body names."""
        full = _full_name(text)
        if full in self.input_map:
            self.used_inputs.add(full)
            value = self.input_map[full]
            if not isinstance(value, Tensor):
                from hpcflow.graph.convert import convert_to_tensor

                value = convert_to_tensor(value, dtype.base_dtype, as_ref=dtype._is_ref_dtype)
            return value
        op, index = split_input(text)
        if op not in self.outputs:
            raise ValueError(f"Input '{text}' comes from a node that comes later: only the second "
                             "input of a Merge may, from a NextIteration")
        outputs = self.outputs[op]
        if index >= len(outputs):
            raise ValueError(f"Connecting to invalid output {index} of source node {op} which has "
                             f"{len(outputs)} outputs")
        return outputs[index]

    def _control(self, text: str) -> Operation:
        if text in self.input_map:
            self.used_inputs.add(text)
            mapped = self.input_map[text]
            return mapped if isinstance(mapped, Operation) else mapped.op
        if text[1:] not in self.ops:
            raise ValueError(f"Control input '{text}' comes from a node that comes later: nothing "
                             "can wait for the next iteration")
        return self.ops[text[1:]]

    # ------------------------------------------------------------ afterwards

    def _set_colocation(self) -> None:
        """Groups name the operations as they are called here."""
        for op in self.ops.values():
            groups = op._attrs.get(COLOCATION_ATTR)
            if groups:
                op._attrs[COLOCATION_ATTR] = [self._renamed(group) for group in groups]

    def _renamed(self, group: bytes) -> bytes:
        target = _colocation_target(group)
        if target is None or target not in self.ops:
            return group
        return COLOCATION_PREFIX + self.ops[target].name.encode()

    def _set_devices(self) -> None:
        """Colocation overrides device scopes: such a node takes the device of its group."""
        colocated = []
        for name, op in self.ops.items():
            own = COLOCATION_PREFIX + op.name.encode()
            if any(c.startswith(COLOCATION_PREFIX) and c != own
                   for c in op._attrs.get(COLOCATION_ATTR, ())):
                colocated.append(op)
                continue
            try:
                op._set_device(device_spec.canonical_name(self.by_name[name].device))
            except ValueError as e:
                raise ValueError(f"Node '{name}': {e}") from None
            self.graph._apply_device(op)
        for op in colocated:
            targets = (self.graph._nodes_by_name[c[len(COLOCATION_PREFIX):].decode()]
                       for c in op.colocation_groups())
            op._set_device(next((t.device for t in targets if t.device), ""))

    def _check_input_type(self, node: Message, i: int, tensor: Tensor, dtype: DType) -> None:
        got = tensor._dtype
        if got.base_dtype is dtype.base_dtype and (got._is_ref_dtype or not dtype._is_ref_dtype):
            return
        scope = self.graph.get_name_scope()
        name = f"{scope}/{node.name}" if scope else node.name
        raise ValueError(f"Input {i} of node {name} was passed {_shown(got)} from {tensor.name} "
                         f"incompatible with expected {_shown(dtype)}. (Node '{node.name}' of "
                         f"type {node.op})")

    def elements(self, names: Iterable[str | bytes]) -> list[Any]:
        """The operations and tensors called `names`; ``ValueError`` if there is none."""
        found = []
        for name in names:
            name = name.decode() if isinstance(name, bytes) else name
            if ":" in name and not name.partition(":")[2].isdecimal():
                raise ValueError(f"Cannot convert '{name}' to a tensor name.")
            op_name, index = split_input(name)
            op = self.ops.get(op_name)
            if op is None:
                what = "tensor" if ":" in name else "node"
                raise ValueError(f"Requested return {what} '{name}' not found in graph def")
            if index >= len(op.outputs) and ":" in name:
                raise ValueError(f"Invalid return output {index} of node '{op_name}', which has "
                                 f"{len(op.outputs)} output(s)")
            found.append(op.outputs[index] if ":" in name else op)
        return found


@contextlib.contextmanager
def _naming(node: Message) -> Iterator[None]:
    """Let errors name `node`, which the import is at."""
    try:
        yield
    except (ValueError, TypeError) as e:
        if f"'{node.name}'" in str(e) or isinstance(e, UnicodeError):
            raise
        kind = TypeError if isinstance(e, TypeError) else ValueError
        raise kind(f"Node '{node.name}': {e} (of type {node.op})") from e


def _shown(dtype: DType) -> str:
    return f"{c_name(dtype.base_dtype)}{'_ref' if dtype._is_ref_dtype else ''}"


def _is_handle(tensor: Tensor) -> bool:
    """True if a tensor stands for a resource: by a handle, or by the older pair of strings."""
    return tensor.dtype.base_dtype is dtypes.resource or (
        tensor.dtype._is_ref_dtype and tensor.dtype.base_dtype is dtypes.string)


def _colocation_target(group: bytes) -> str | None:
    """The node name in ``loc:@name``; None for a group of another kind."""
    if not group.startswith(COLOCATION_PREFIX):
        return None
    return group[len(COLOCATION_PREFIX):].decode(errors="replace")


def _full_name(text: str | bytes) -> str:
    op, index = split_input(text.decode() if isinstance(text, bytes) else text)
    return f"^{op}" if index < 0 else f"{op}:{index}"
