"""Views: some operations of a graph, with what they read from outside and what is read there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hpcflow.contrib.graph_editor.selecting import (
    get_consuming_ops,
    get_name_scope_ops,
    make_list_of_op,
    select_ops,
)
from hpcflow.contrib.graph_editor.walks import compute_boundary_ts, get_backward_walk_ops
from hpcflow.graph.graph import Graph
from hpcflow.graph.operation import Operation, Tensor


class SubGraphView:
    """Some operations of a graph, the tensors that they read from outside, and those of theirs that
    are read outside, or by nobody, as it was when the view was made.

    The methods that begin with ``remap`` return a view with other inputs or outputs, or in another
    order.
    """

    def __init__(self, inside_ops: Any = (), passthrough_ts: Any = ()) -> None:
        ops = make_list_of_op(inside_ops)
        self._ops = sorted(dict.fromkeys(ops), key=lambda op: op._id)
        self._passthrough = tuple(passthrough_ts)
        self._set_default_inputs()
        self._set_default_outputs()

    def _set_default_inputs(self) -> None:
        self._inputs = [*compute_boundary_ts(self._ops)[0], *self._passthrough]

    def _set_default_outputs(self) -> None:
        self._outputs = [*compute_boundary_ts(self._ops)[1], *self._passthrough]

    @property
    def graph(self) -> Graph | None:
        """The graph; None without operations."""
        return self._ops[0].graph if self._ops else None

    @property
    def ops(self) -> list[Operation]:
        """The operations, in the order in which they were made."""
        return list(self._ops)

    @property
    def inputs(self) -> list[Tensor]:
        """The tensors that are read from outside."""
        return list(self._inputs)

    @property
    def outputs(self) -> list[Tensor]:
        """The tensors that are read outside or by nobody."""
        return list(self._outputs)

    @property
    def passthroughs(self) -> list[Tensor]:
        """The tensors that are both an input and an output."""
        return list(self._passthrough)

    @property
    def connected_inputs(self) -> list[Tensor]:
        """The inputs that are no placeholders of this module's."""
        return [t for t in self._inputs if t.op.type != "Placeholder"]

    @property
    def connected_outputs(self) -> list[Tensor]:
        """The outputs that are no placeholders of this module's."""
        return [t for t in self._outputs if t.op.type != "Placeholder"]

    def consumers(self) -> list[Operation]:
        """The operations outside that read the outputs."""
        inside = set(self._ops)
        return [op for op in get_consuming_ops(self._outputs) if op not in inside]

    def op(self, op_id: int) -> Operation:
        """The operation at a place."""
        return self._ops[op_id]

    def find_op_by_name(self, op_name: str) -> Operation:
        """The operation of that name; ``ValueError`` if there is none."""
        for op in self._ops:
            if op.name == op_name:
                return op
        raise ValueError(f"{op_name} not found in subgraph.")

    def input_index(self, t: Tensor) -> int:
        """The place of a tensor among the inputs; ``ValueError`` if it is none."""
        return _place_of(t, self._inputs, "input")

    def output_index(self, t: Tensor) -> int:
        """The place of a tensor among the outputs; ``ValueError`` if it is none."""
        return _place_of(t, self._outputs, "output")

    def is_passthrough(self, t: Tensor) -> bool:
        """True for a tensor that is both an input and an output."""
        return t in self._passthrough

    def __len__(self) -> int:
        return len(self._ops)

    def __bool__(self) -> bool:
        return bool(self._ops)

    def __repr__(self) -> str:
        """Names of the operations, inputs and outputs."""
        names = [[x.name for x in found] for found in (self._ops, self._inputs, self._outputs)]
        return "SubGraphView: ops {}, inputs {}, outputs {}".format(*names)

    # ---------------------------------------------------------------- other inputs and outputs

    def copy(self) -> SubGraphView:
        """A view of the same."""
        other = SubGraphView(self._ops, self._passthrough)
        other._inputs, other._outputs = self.inputs, self.outputs
        return other

    def remap(self, new_input_indices: Any = None, new_output_indices: Any = None) -> SubGraphView:
        """A view with those inputs and outputs, given as for the two methods below."""
        other = self if new_input_indices is None else self.remap_inputs(new_input_indices)
        return other.copy() if new_output_indices is None else (
            other.remap_outputs(new_output_indices))

    def remap_inputs(self, new_input_indices: Any) -> SubGraphView:
        """A view with some of the inputs: places or tensors in a list.

        Raises ``ValueError`` for what is no input, or is twice there.
        """
        other = self.copy()
        other._inputs = _remapped(new_input_indices, self._inputs, self.input_index, once=True)
        return other

    def remap_outputs(self, new_output_indices: Any) -> SubGraphView:
        """A view with some of the outputs, given as for `remap_inputs`; one may be there twice."""
        other = self.copy()
        other._outputs = _remapped(new_output_indices, self._outputs, self.output_index, once=False)
        return other

    def remap_default(self, remove_input_map: bool = True,
                      remove_output_map: bool = True) -> SubGraphView:
        """A view with the inputs and outputs that a new one has."""
        other = self.copy()
        if remove_input_map:
            other._set_default_inputs()
        if remove_output_map:
            other._set_default_outputs()
        return other

    def remap_outputs_make_unique(self) -> SubGraphView:
        """A view with each output once."""
        other = self.copy()
        other._outputs = list(dict.fromkeys(self._outputs))
        return other

    def remap_outputs_to_consumers(self) -> SubGraphView:
        """A view with each output as often as it is read."""
        other = self.copy()
        other._outputs = [t for t in dict.fromkeys(self._outputs) for _ in t.consumers()]
        return other

    def remove_unused_ops(self, control_inputs: bool = True) -> SubGraphView:
        """A view of the operations that the outputs depend on."""
        needed = set(get_backward_walk_ops([t.op for t in self._outputs],
                                           within_ops=self._ops, control_inputs=control_inputs))
        other = self.copy()
        other._ops = [op for op in self._ops if op in needed]
        return other


def _place_of(tensor: Tensor, tensors: list[Tensor], kind: str) -> int:
    for place, other in enumerate(tensors):
        if other is tensor:
            return place
    raise ValueError(f"Can't find {tensor.name} in {kind}s of subgraph.")


def _remapped(wanted: Any, tensors: list[Tensor], place_of: Any, once: bool) -> list[Tensor]:
    if not isinstance(wanted, Iterable):
        raise TypeError(f"Expected a list of places, got: {type(wanted)}")
    places = [place_of(x) if isinstance(x, Tensor) else int(x) for x in wanted]
    if once and len(set(places)) != len(places):
        raise ValueError(f"Found repetition in mapping: {places}")
    for place in places:
        if not 0 <= place < len(tensors):
            raise ValueError(f"Out of [0, {len(tensors)}[ range: {place}")
    return [tensors[place] for place in places]


def make_view(*args: Any, graph: Graph | None = None) -> SubGraphView:
    """Return the view of operations, given as for ``select_ops``."""
    if len(args) == 1 and isinstance(args[0], SubGraphView):
        return args[0]
    flat = [list(arg) if isinstance(arg, (set, dict)) else arg for arg in args]
    return SubGraphView(select_ops(*flat, graph=graph))


def make_view_from_scope(scope: str, graph: Graph) -> SubGraphView:
    """Return the view of the operations in a name scope."""
    return SubGraphView(get_name_scope_ops(graph, scope))
