"""The calls of a layer: what they were given, and what they gave."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from hpcflow.framework import nest

if TYPE_CHECKING:
    from hpcflow.graph.operation import Tensor


class Node(NamedTuple):
    """One call of a layer."""

    layer: Any
    inputs: Any  # as they were given
    sources: list  # the tensors among them
    keywords: dict
    outputs: list

    # The names that programs know these by.

    @property
    def outbound_layer(self) -> Any:
        """The layer."""
        return self.layer

    @property
    def input_tensors(self) -> Any:
        """The tensor that it was given, or a list of several; of an input, its own in a list."""
        return _only(self.sources) if self.sources else self.outputs

    @property
    def output_tensors(self) -> Any:
        """The result, or a list of several."""
        return _only(self.outputs) if self.sources else self.outputs

    @property
    def inbound_layers(self) -> Any:
        """The layer that the tensors it was given come from, or a list of those of several."""
        found = [t._keras_history.layer for t in self.sources if hasattr(t, "_keras_history")]
        return _only(found) if found else []

    @property
    def input_shapes(self) -> Any:
        """The static shapes of what it was given."""
        return nest.map_structure(_tuple, self.input_tensors)

    @property
    def output_shapes(self) -> Any:
        """The static shapes of its results."""
        return nest.map_structure(_tuple, self.output_tensors)

    @property
    def reads(self) -> list:
        """The tensors that it was given, those of keywords too."""
        return self.sources + [v for v in nest.flatten(list(self.keywords.values()))
                               if hasattr(v, "_keras_history")]


class History(NamedTuple):
    """Where a tensor comes from: the call of a layer, and which of its results it is."""

    layer: Any
    node_index: int
    tensor_index: int

    @property
    def node(self) -> Node:
        """The call."""
        return self.layer.inbound_nodes[self.node_index]


class Called:
    """What a layer remembers of its calls."""

    name: Any
    inbound_nodes: list[Node]

    @property
    def _first_call(self) -> int:
        """The number of the first call in what is written: the calls of a network are counted
        from 1, its own tensors are call 0."""
        return int(getattr(self, "_network", None) is not None)

    def _calls(self) -> list[Node]:
        """The calls that tensors may be asked of."""
        return self.inbound_nodes

    @property
    def _inbound_nodes(self) -> list[Node]:
        """The calls, by the name that programs know."""
        return self.inbound_nodes

    def get_input_mask_at(self, node_index: int) -> Any:
        """Return the mask of the input of a call."""
        return _only([_mask(t) for t in self._node(node_index, "input mask").sources])

    def get_output_mask_at(self, node_index: int) -> Any:
        """Return the mask of the output of a call."""
        return _only([_mask(t) for t in self._node(node_index, "output mask").outputs])

    @property
    def input_mask(self) -> Any:
        """The mask of the input of the first call."""
        return self.get_input_mask_at(0)

    @property
    def output_mask(self) -> Any:
        """The mask of the output of the first call."""
        return self.get_output_mask_at(0)

    def _node(self, index: int, what: str) -> Node:
        calls = self._calls()
        if not calls:
            raise AttributeError(f"The layer \"{self.name}\" has never been called and thus has no "
                                 f"defined {what}.")
        if index >= len(calls):
            raise ValueError(f"Asked to get {what} at node {index}, but the layer has only "
                             f"{len(calls)} inbound nodes.")
        return calls[index]

    def get_input_at(self, node_index: int) -> Any:
        """Return the input of a call."""
        return _only(self._node(node_index, "input").sources)

    def get_output_at(self, node_index: int) -> Any:
        """Return the output of a call."""
        return _only(self._node(node_index, "output").outputs)

    def get_input_shape_at(self, node_index: int) -> Any:
        """Return the static shape of the input of a call."""
        return _only([_tuple(t) for t in self._node(node_index, "input shape").sources])

    def get_output_shape_at(self, node_index: int) -> Any:
        """Return the static shape of the output of a call."""
        return _only([_tuple(t) for t in self._node(node_index, "output shape").outputs])

    def _single(self, what: str) -> None:
        calls = self._calls()
        if len({str([_tuple(t) for t in n.outputs + n.sources]) for n in calls}) > 1:
            raise AttributeError(f"Layer {self.name} has multiple inbound nodes, hence the notion "
                                 f"of \"layer {what}\" is ill-defined. Use `get_{what}_at"
                                 "(node_index)` instead.")

    @property
    def input(self) -> Any:
        """The input of the first call; of a network, what it goes from. ``AttributeError`` without
        a call."""
        return self.get_input_at(0)

    @property
    def output(self) -> Any:
        """The output of the first call; of a network, what it goes to."""
        return self.get_output_at(0)

    @property
    def input_shape(self) -> Any:
        """The static shape of the input."""
        self._single("input_shape")
        return self.get_input_shape_at(0)

    @property
    def output_shape(self) -> Any:
        """The static shape of the output."""
        self._single("output_shape")
        return self.get_output_shape_at(0)


def _only(values: list) -> Any:
    return values[0] if len(values) == 1 else values


def _tuple(tensor: Tensor) -> tuple | None:
    dims = tensor.get_shape()
    return None if dims.ndims is None else tuple(dims.as_list())


def _mask(tensor: Any) -> Any:
    return getattr(tensor, "_keras_mask", None)
