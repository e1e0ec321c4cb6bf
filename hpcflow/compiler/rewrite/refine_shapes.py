"""refine_shapes: static shapes anew, for feeds of shapes that are known.

A program that leaves the size of its batches open is compiled for any size. A step that is often
fed arrays of the same shapes is compiled once more for just these: their shapes go through the
shape functions of the nodes, into loops, stacks and TensorArrays too, and what follows from them
(how values are broadcast, the sizes of buffers, which kernel is best) is settled before the step
runs.

A loop variable has the shape that it enters with if the body gives it back with that shape,
whatever it was declared to be. That is found by assuming it, and assuming less where the body
disagrees.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.compiler.ir.conditions import Conditions
from hpcflow.compiler.ir.step_graph import (
    BACK_EDGE_TYPES,
    CONTROL_FLOW_TYPES,
    FEED,
    FETCH,
    MERGE_TYPES,
    Node,
    Port,
    StepGraph,
    new_node,
)
from hpcflow.graph.opdef import get_op_def
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.shape_inference import constant_value, merge_dims, set_shapes
from hpcflow.host.tuning import compiler as tuning
from hpcflow.kernels.registry import SYNC, find_kernel

_HANDED_ON = frozenset({"Identity", "RefIdentity", "Enter", "RefEnter", "Switch", "RefSwitch"})
_PUSHES, _POPS = frozenset({"StackPush", "StackPushV2"}), frozenset({"StackPop", "StackPopV2"})
_WRITES = frozenset({"TensorArrayWrite", "TensorArrayWriteV2", "TensorArrayWriteV3"})
_SCATTERS = frozenset({"TensorArrayScatter", "TensorArrayScatterV2", "TensorArrayScatterV3"})
_READS = frozenset({"TensorArrayRead", "TensorArrayReadV2", "TensorArrayReadV3"})
_GATHERS = frozenset({"TensorArrayGather", "TensorArrayGatherV2", "TensorArrayGatherV3"})
_SIZES = frozenset({"TensorArraySize", "TensorArraySizeV2", "TensorArraySizeV3"})
_GRADIENTS = frozenset({"TensorArrayGrad", "TensorArrayGradV2", "TensorArrayGradV3"})
_OTHER_WRITES = frozenset({"TensorArrayUnpack", "TensorArraySplit", "TensorArraySplitV2",
                           "TensorArraySplitV3"})
_INTEGERS = frozenset({"int32", "int64"})
_NEVER = CONTROL_FLOW_TYPES | {FEED, FETCH, "Const"}
_REDUCTIONS = frozenset({"Sum", "Mean", "Max", "Min", "Prod"})


class _Disagreement(Exception):
    """The shapes of the feeds do not fit the graph: a node will say so when it runs."""


def refine_shapes(graph: StepGraph, fed: tuple[Dims, ...],
                  instantiate: Callable[[Node, list], Any]) -> None:
    """Make the static shapes of all nodes those that follow from feeds of the shapes `fed`.

    `instantiate(node, constants)` gives the CPU kernel function of a node.
    """
    inference = _Inference(graph, fed, instantiate)
    try:
        inference.run()
    except (_Disagreement, ValueError):
        return
    for node in graph.nodes:
        if node in inference.found:
            node.dims = [t._dims for t in inference.found[node]._outputs]
    _settle(graph, inference)


class _Inference:
    """Operations that stand for the nodes, with the shapes that are found.

    Attributes:
        found: node -> its operation.
        constants: outputs whose values are known, though they are no function of constants -> a
            tensor of that value.
        assumed: the Merges at the head of loops -> the shape of their variable.
        elements: where a stack or TensorArray comes from -> the shapes of what goes in, and the
            values that are known.
        writers: where a stack or TensorArray comes from -> how many nodes put something in.
    """

    def __init__(self, graph: StepGraph, fed: tuple[Dims, ...],
                 instantiate: Callable[[Node, list], Any]) -> None:
        self.graph = graph
        self.instantiate = instantiate
        self.fed = dict(zip(graph.feeds, fed, strict=True))
        self.found: dict[Node, Operation] = {}
        self.constants: dict[Port, Tensor] = {}
        self.assumed: dict[Node, Dims] = {}
        self.elements: dict[Any, list[tuple[Dims, np.ndarray | None]]] = {}
        self.writers: dict[Any, int] = {}

    def run(self) -> None:
        """Infer the shapes, until the bodies of all loops give back what is assumed of their
        variables."""
        for node in self.graph.nodes:
            key = self._written(node)
            if key is not None:
                self.writers[key] = self.writers.get(key, 0) + 1
        for _ in range(tuning.REFINE_MOST_ROUNDS):
            self.found, self.elements, self.constants = {}, {}, {}
            for node in self.graph.nodes:
                self._infer(node)
            if not self._assume_less():
                return
        raise _Disagreement

    def _infer(self, node: Node) -> None:
        op = self.found[node] = _operation(node, [self._tensor(p) for p in node.inputs])
        dims = self._dims_of(node, op)
        for tensor, own, declared in zip(op._outputs, dims, node.dims, strict=True):
            tensor._dims = own if node in self.assumed else merge_dims(own, declared)
        self._note_element(node, op)
        self._note_values(node, op)

    def _tensor(self, port: Port) -> Tensor:
        """The tensor of an output; of a value from the end of a loop nothing is known yet."""
        node, index = port
        if port in self.constants:
            return self.constants[port]
        if node in self.found:
            return self.found[node]._outputs[index]
        if node.type not in BACK_EDGE_TYPES:
            raise _Disagreement
        return _operation(node, [])._outputs[index]

    def _dims_of(self, node: Node, op: Operation) -> list[Dims]:
        if node.type == FEED:
            return [self.fed[node]]
        if node.type in MERGE_TYPES:
            return self._merged(node, op)
        if node.type in _POPS | _READS:
            return [self._element(self._origin(node.inputs[0]))]
        if node.type in _GATHERS:
            element, indices = self._element(self._origin(node.inputs[0])), op.input_dims(1)
            return [None if element is None or not indices else (*indices, *element)]
        if node.type == FETCH or op.op_def.shape_fn is None:
            return list(node.dims)
        set_shapes(op)
        return [t._dims for t in op._outputs]

    def _merged(self, node: Node, op: Operation) -> list[Dims]:
        entering = [t._dims for t, (s, _) in zip(op._inputs, node.inputs, strict=True)
                    if s.type not in BACK_EDGE_TYPES]
        if len(entering) < len(node.inputs):
            dims = self.assumed.setdefault(node, _common(entering))
        else:
            dims = _common(entering)
        return [dims, *node.dims[1:]]

    def _assume_less(self) -> bool:
        """True if some loop variable comes back in another shape than it is assumed to have."""
        changed = False
        for node, dims in self.assumed.items():
            back = [self.found[s]._outputs[i]._dims for s, i in node.inputs
                    if s.type in BACK_EDGE_TYPES]
            common = _common([dims, *back])
            if common != dims:
                self.assumed[node], changed = common, True
        return changed

    # ------------------------------------------------------------ stacks and TensorArrays

    def _origin(self, port: Port) -> Any:
        """Return a key that identifies the stack or TensorArray of a handle."""
        node, _ = port
        while node.type in _HANDED_ON:
            node, _ = node.inputs[0]
        if node.type in _GRADIENTS:
            return self._origin(node.inputs[0]), node.attrs.get("source")
        return node

    def _written(self, node: Node) -> Any:
        """Return the key of the stack or TensorArray that `node` puts elements into, or None."""
        writes = node.type in _PUSHES | _WRITES | _SCATTERS | _OTHER_WRITES
        return self._origin(node.inputs[0]) if writes else None

    def _note_element(self, node: Node, op: Operation) -> None:
        key = self._written(node)
        if key is None:
            return
        dims: Dims = None
        value = None
        if node.type in _PUSHES:
            dims = op.input_dims(1)
            value = self.value(node.inputs[1])
        elif node.type in _WRITES | _SCATTERS:
            dims = op.input_dims(2)
            if node.type in _SCATTERS:
                dims = dims[1:] if dims else None
        self.elements.setdefault(key, []).append((dims, value))

    def _put(self, key: Node) -> list[tuple[Dims, np.ndarray | None]]:
        """Return the shapes and values of all writes to an array; none while one of them is not
        known yet."""
        found = self.elements.get(key, [])
        return found if found and len(found) == self.writers[key] else []

    def _element(self, key: Node) -> Dims:
        """Return the shape of the elements that come out: what the shapes of all that go in have in
        common."""
        found = self._put(key)
        return _common([dims for dims, _ in found]) if found else None

    # ------------------------------------------------------------ values

    def value(self, port: Port) -> np.ndarray | None:
        """The value of a small output of integers, if it is known."""
        node, index = port
        if node.dtypes[index].name not in _INTEGERS:
            return None
        value = constant_value(self._tensor(port))
        return None if value is None or value.size > tuning.REFINE_MOST_ELEMENTS else value

    def _note_values(self, node: Node, op: Operation) -> None:
        if node.type in _POPS:
            put = self._put(self._origin(node.inputs[0]))
            if len(put) == 1 and put[0][1] is not None:
                self._note_value((node, 0), put[0][1])
        elif node.type in _SIZES:
            array = self._origin(node.inputs[0])
            size = self._size(array) if isinstance(array, Node) else None
            if size is not None:
                self._note_value((node, 0), size)
        elif self._is_arithmetic(node, op):
            for i, value in enumerate(self._evaluate(node)):
                self._note_value((node, i), value)

    def _size(self, array: Node) -> np.ndarray | None:
        """Return the number of elements of a TensorArray that does not grow; None if it is not
        known."""
        if array.attrs.get("dynamic_size") or not array.type.startswith("TensorArray"):
            return None
        return self.value(array.inputs[0])

    def _is_arithmetic(self, node: Node, op: Operation) -> bool:
        """True for functions of small integers, such as shapes are made of."""
        if node.type in _NEVER or not node.inputs or not op.outputs or node.op_def.is_stateful:
            return False
        if node.type != "BroadcastGradientArgs" and not all(_is_small(t._dims) for t in op.outputs):
            return False
        return (all(t.name in _INTEGERS for t in node.dtypes)
                and constant_value(op.outputs[0]) is None)

    def _evaluate(self, node: Node) -> list[np.ndarray]:
        """The values of the outputs; none if an input is not known, or the kernel refuses."""
        kernel = find_kernel(node.type, "CPU", node.attrs)
        given = [self.value(p) for p in node.inputs]
        if kernel is None or kernel.mode != SYNC or any(v is None for v in given):
            return []
        try:
            result = self.instantiate(node, given)(*given)
        except Exception:  # noqa: BLE001  (reported when the node runs)
            return []
        return [np.asarray(v) for v in (result if len(node.dtypes) > 1 else [result])]

    def _note_value(self, port: Port, value: np.ndarray) -> None:
        node, index = port
        const = new_node("Const", node.name, {"dtype": node.dtypes[index], "value": value}, [], [],
                         node.device, [value.shape], node.order)
        tensor = self.constants[port] = _operation(const, [])._outputs[0]
        tensor._dims = value.shape


def _is_small(dims: Dims) -> bool:
    return dims is not None and None not in dims and math.prod(dims) <= tuning.REFINE_MOST_ELEMENTS


def _operation(node: Node, inputs: list[Tensor]) -> Operation:
    """An operation like `node` that belongs to no graph."""
    op = Operation.__new__(Operation)
    op.graph = node.op.graph if node.op is not None else None  # type: ignore[assignment]
    op.type, op.name, op.op_def = node.type, node.name, node.op_def
    op._inputs, op._control_inputs, op._attrs, op._device = inputs, [], node.attrs, node.device
    op._original_op, op._control_flow_context = None, None
    op._stack, op._id = () if node.op is None else node.op._stack, -1
    op._outputs = [Tensor(op, i, t) for i, t in enumerate(node.dtypes)]
    if node.op is not None and node.op.type == node.type:
        for tensor, original in zip(op._outputs, node.op._outputs, strict=False):
            tensor._handle_data = original._handle_data
    return op


def _common(shapes: list[Dims]) -> Dims:
    """Return the most specific shape that all of the shapes are compatible with."""
    first, *others = shapes
    for dims in others:
        if first is None or dims is None or len(first) != len(dims):
            return None
        first = tuple(a if a == b else None for a, b in zip(first, dims, strict=True))
    return first


# ---------------------------------------------------------------- what follows


def _settle(graph: StepGraph, inference: _Inference) -> None:
    """Drop, in loops and branches, the arithmetic of shapes that are known.

    Outside of them constants are folded by a pass of their own.
    """
    inside: set[Node] = set()
    conditions = Conditions(graph)
    nodes: list[Node] = []
    for node in graph.nodes:
        if node.type in CONTROL_FLOW_TYPES or any(s in inside for s, _ in node.inputs) or any(
                c in inside for c in node.controls):
            inside.add(node)
            if node.type not in CONTROL_FLOW_TYPES and not node.op_def.is_stateful:
                nodes += _settle_inputs(node, inference, inside, conditions)
        nodes.append(node)
    graph.nodes = nodes
    _drop_unread_stacks(graph, inference)


def _settle_inputs(node: Node, inference: _Inference, inside: set[Node],
                   conditions: Conditions) -> list[Node]:
    """New constants that `node` reads instead of values that are known; they wait for these, so
    that they are where it is, and dead where these would be."""
    if len(node.inputs) < 2:
        return []
    made: list[Node] = []
    for i, (source, index) in enumerate(node.inputs[1:], 1):
        value = None
        if source.type != "Const" and source in inside and source in inference.found:
            value = inference.value((source, index))
        if value is None:
            continue
        if conditions.imply(node.inputs[0], source) and _becomes_identity(node, value):
            return []
        const = new_node("Const", f"{node.name}/{i}", {"dtype": source.dtypes[index],
                                                       "value": value},
                         [], [source], node.device, [value.shape], node.order)
        const.op = node.op
        node.inputs[i] = (const, 0)
        made.append(const)
    return made


def _becomes_identity(node: Node, value: np.ndarray) -> bool:
    """True for a reduction over no axis and a reshape to the shape that is there already, which
    then only hand their input on."""
    source, index = node.inputs[0]
    if node.type in _REDUCTIONS:
        holds = not value.size
    else:
        dims = source.dims[index]
        holds = node.type == "Reshape" and dims is not None and value.tolist() == list(dims)
    if holds:
        node.type, node.op_def = "Identity", get_op_def("Identity")
        node.attrs = {"T": node.attrs["T"]}
        node.inputs = node.inputs[:1]
    return holds


def _drop_unread_stacks(graph: StepGraph, inference: _Inference) -> None:
    """Where nobody reads what comes off a stack any more, nothing is put on it."""
    pushes: dict[Any, list[Node]] = {}
    pops: dict[Any, list[Node]] = {}
    for node in graph.nodes:
        if node.type in _PUSHES | _POPS:
            kind = pushes if node.type in _PUSHES else pops
            kind.setdefault(inference._origin(node.inputs[0]), []).append(node)
    if not pops:
        return
    read = _read_for_values(graph)
    for key, taken in pops.items():
        if not read.isdisjoint(taken):
            continue
        for node in pushes.get(key, []):
            node.type, node.op_def = "Identity", get_op_def("Identity")
            node.inputs, node.attrs = node.inputs[1:2], {"T": node.attrs["T"]}
        for node in taken:  # what waits for it waits for what it waited for
            node.controls = list(dict.fromkeys([*node.controls, node.inputs[0][0]]))
            dtype = node.dtypes[0]
            node.type, node.op_def, node.inputs = "Const", get_op_def("Const"), []
            node.attrs = {"dtype": dtype, "value": np.zeros((), dtype.np)}
            node.dims = [()]


def _read_for_values(graph: StepGraph) -> set[Node]:
    """The nodes whose values something else than unread arithmetic depends on."""
    read: set[Node] = set()
    for node in reversed(graph.nodes):
        if node in read or not node.dtypes or node.op_def.is_stateful or node.controls or (
                node.type in CONTROL_FLOW_TYPES or node.type in (FEED, FETCH)):
            read.update(s for s, _ in node.inputs)
    return read
