"""Network: layers as one layer, by the tensors that it goes from and to or by a method."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import hpcflow as hf
from hpcflow.framework import nest
from hpcflow.keras.engine.calls import Node
from hpcflow.keras.engine.inputs import InputLayer
from hpcflow.keras.engine.layer import Layer, _parameters, _training
from hpcflow.keras.engine.op_layers import add_op_layers
from hpcflow.keras.session import flat
from hpcflow.keras.settings import floatx
from hpcflow.keras.summaries import print_summary
from hpcflow.shapes import ShapeLike

if TYPE_CHECKING:
    from hpcflow.graph.likes import TensorHandle, TensorLike


class Network(Layer):
    """A layer that is made of layers.

    Made of `inputs` and `outputs`, tensors of layers, it is what lies between these; a class of
    one's own defines ``call`` instead and keeps its layers as attributes.

    Attributes:
        inputs, outputs: lists of the tensors; None for a class before it is called on data.
        input_names, output_names: the names of the layers that these come from.
    """

    supports_masking = True

    def __init__(self, inputs: Any = None, outputs: Any = None, name: str | None = None,
                 **keywords: Any) -> None:
        super().__init__(name=name, **keywords)
        self._network: tuple[list[Layer], list[Node]] | None = None
        self.inputs: list | None = None
        self.outputs: list | None = None
        self.input_names: list[str] = []
        self.output_names: list[str] = []
        if inputs is not None or outputs is not None:
            self._connect(inputs, outputs)

    def _connect(self, inputs: Any, outputs: Any) -> None:
        """Let the network be what lies between tensors."""
        self._structures = inputs, outputs
        self.inputs, self.outputs = flat(inputs), flat(outputs)
        for tensor in self.inputs:
            if not hasattr(tensor, "_keras_history"):
                raise ValueError("Input tensors to a Model must come from `tf.keras.Input`. "
                                 f"Received: {tensor}")
        self.input_names = [t._keras_history.layer.name for t in self.inputs]
        self._network = _sorted(self.inputs, self.outputs)
        self.output_names = _names_of_outputs(self.outputs)
        names = [layer.name for layer in self._network[0]]
        twice = next((n for n in names if names.count(n) > 1), None)
        if twice is not None:
            raise ValueError(f"Model {self.name} has {names.count(twice)} layers of the name "
                             f"\"{twice}\", which must be one's alone")
        self.built = True

    def _calls(self) -> list[Node]:
        """The calls; the first of a network is what it is made of."""
        if self._network is None:
            return self.inbound_nodes
        inputs, outputs = self.inputs or [], self.outputs or []
        return [Node(self, self._structures[0], inputs, {}, outputs), *self.inbound_nodes]

    # ------------------------------------------------------------ layers

    @property
    def layers(self) -> list:
        """The layers, those of a path in the order of the path."""
        return self._sublayers()

    def _sublayers(self) -> list[Layer]:
        if self._network is not None:
            own = self._network[0]
            return list(dict.fromkeys(own + [v for v in super()._sublayers() if v not in own]))
        return super()._sublayers()

    def get_layer(self, name: str | None = None, index: int | None = None) -> Layer:
        """Return a layer by name or position. ``ValueError`` if there is none."""
        layers = self.layers
        if index is not None:
            if index >= len(layers):
                raise ValueError(f"Was asked to retrieve layer at index {index} but model only has "
                                 f"{len(layers)} layers.")
            return layers[index]
        for layer in layers:
            if layer.name == name:
                return layer
        raise ValueError("Provide either a layer name or layer index." if not name else
                         f"No such layer: {name}")

    @property
    def weights(self) -> list:
        """The variables of the layers, layer by layer."""
        inner = [v for layer in self.layers for v in layer.weights]
        own = self._own_weights(True) + self._own_weights(False)
        return list(dict.fromkeys(inner + [v for v in own if v not in inner]))

    @property
    def updates(self) -> list:
        """The operations that are to be run with the training step: those of the layers that are
        made of the network's inputs, or of no inputs."""
        return self._of_own_inputs(super().updates)

    @property
    def losses(self) -> list:
        """The losses of the layers for the network's inputs, and those of variables."""
        return self._of_own_inputs(super().losses)

    def _of_own_inputs(self, items: list) -> list:
        """Those of `items` that are made of the inputs of the network or of one of its calls, or
        are there for any inputs: a layer may be called in other networks, too."""
        if self._network is None or not items:
            return items
        own = [*(self.inputs or ()), *(t for node in self.inbound_nodes for t in node.sources)]
        kept = {id(v) for inputs in (None, own) for v in self._of_inputs(items, inputs)}
        return [v for v in items if id(v) in kept]

    @property
    def _checkpoint_dependencies(self) -> list[tuple[str, Any]]:
        if self._network is None and not hasattr(self, "_stack"):
            return super()._checkpoint_dependencies
        with_weights = [layer for layer in self.layers if layer.weights]
        return [*((f"layer_with_weights-{n}", v) for n, v in enumerate(with_weights)),
                *((f"layer-{n}", v) for n, v in enumerate(self.layers)),
                *super()._checkpoint_dependencies]

    @property
    def state_updates(self) -> list:
        """The updates of the states of recurrent layers that keep them, also in prediction: those
        that are made of the network's inputs, or of no inputs."""
        return self._of_own_inputs(_state_updates(self))

    def reset_states(self) -> None:
        """Set the states of recurrent layers to zero."""
        for layer in self.layers:
            if getattr(layer, "stateful", False):
                layer.reset_states()

    # ------------------------------------------------------------ applying it

    def call(self, inputs: TensorLike, training: Any = None, mask: TensorLike | None = None) -> Any:
        """Return what the layers make of other inputs."""
        if self._network is None:
            raise NotImplementedError("When subclassing the `Model` class, you should implement a "
                                      "`call` method.")
        given = flat(inputs)
        if len(given) != len(self.inputs or ()):
            raise ValueError(f"Model {self.name} takes {len(self.inputs or ())} inputs, got "
                             f"{len(given)}")
        values = dict(zip(map(id, self.inputs or ()), given, strict=True))
        for node in self._network[1]:
            _replay(node, values, training)
        missing = [t.name for t in self.outputs or () if id(t) not in values]
        if missing:
            raise ValueError(f"The outputs {missing} are made by loops or conditions that are no "
                             "layers, and cannot be made of other inputs; put these into a Lambda "
                             "layer")
        results = [values[id(t)] for t in self.outputs or ()]
        structure = self._structures[1]
        if isinstance(structure, dict):
            return dict(zip(structure, results, strict=True))
        return nest.pack_sequence_as(structure, results) if nest.is_sequence(structure) \
            else results[0]

    def compute_mask(self, inputs: TensorHandle, mask: TensorHandle | None = None) -> Any:
        """The masks of the results are those that the layers gave them."""
        return None

    def build(self, input_shape: ShapeLike) -> None:
        """Make the variables, for inputs of a shape with the batch."""
        if self._network is None and not self.built and self._scope is None:
            shapes = input_shape if isinstance(input_shape, list) and input_shape and isinstance(
                input_shape[0], (list, tuple, hf.TensorShape)) else [input_shape]
            made = [hf.placeholder(self._dtype or floatx(), s) for s in shapes]
            self(made if len(made) > 1 else made[0])
        self.built = True

    def summary(self, line_length: int | None = None, positions: Any = None,
                print_fn: Callable[..., Any] | None = None) -> None:
        """Print the layers with their shapes and numbers of parameters."""
        print_summary(self, line_length, positions, print_fn)


def _replay(node: Node, values: dict[int, Any], training: TensorLike) -> None:
    """Call a layer again, on what stands for the inputs of an earlier call."""
    def now(tensor: TensorLike) -> Any:
        return values.get(id(tensor), tensor)

    inputs = ({k: now(v) for k, v in node.inputs.items()} if isinstance(node.inputs, dict)
              else nest.map_structure(now, node.inputs))
    keywords = {k: nest.map_structure(now, v) if nest.flatten(v) else v
                for k, v in node.keywords.items()}
    if training is not None and "training" in _parameters(type(node.layer).call):
        keywords["training"] = training
    with _training.of(training):
        results = nest.flatten(node.layer(inputs, **keywords))
    values.update(zip(map(id, node.outputs), results))  # a layer may show fewer than it has


def _names_of_outputs(outputs: list) -> list[str]:
    names: list[str] = []
    for tensor in outputs:
        history = getattr(tensor, "_keras_history", None)
        name = tensor.op.name.split("/")[-1] if history is None else history.layer.name
        same = sum(n == name or n.startswith(f"{name}_") for n in names) if name in names else 0
        names.append(f"{name}_{same}" if same else name)
    return names


def _sorted(inputs: list, outputs: list) -> tuple[list[Layer], list[Node]]:
    """The layers between tensors, from the furthest to the end on, and the calls in order.

    Raises ``ValueError`` if the outputs are made of another input, too.
    """
    ends = {id(t) for t in inputs}
    order: list[Node] = []
    positions: dict[int, int] = {}  # of layers, as they are first reached from the outputs
    layers: dict[int, Layer] = {}

    def calls(tensors: list) -> Iterator[Node]:
        for tensor in tensors:
            if not hasattr(tensor, "_keras_history"):
                add_op_layers(tensor)
            for source in [tensor] if hasattr(tensor, "_keras_history") else _made_of(tensor):
                history = source._keras_history
                is_input = isinstance(history.layer, InputLayer)
                if is_input and id(source) not in ends:
                    raise ValueError(f"Graph disconnected: the outputs are made of "
                                     f"{source.op.name}, which is none of the model's inputs")
                if is_input or id(source) not in ends:
                    yield history.node

    found: set[int] = set()
    waiting: list[tuple[Node | None, Iterator[Node]]] = [(None, calls([*outputs, *inputs]))]
    while waiting:  # no recursion, as there may be thousands of calls
        node, before = waiting[-1]
        needed = next(before, None)
        if needed is None:
            order += [node] if node is not None else []
            waiting.pop()
        elif id(needed) not in found:
            found.add(id(needed))
            positions.setdefault(id(needed.layer), len(positions))
            layers[id(needed.layer)] = needed.layer
            waiting.append((needed, calls(needed.reads)))
    depths: dict[int, int] = {}
    for node in reversed(order):
        own = depths.setdefault(id(node.layer), 0)
        for tensor in node.reads:
            history = getattr(tensor, "_keras_history", None)
            if history is not None and id(history.layer) in positions:
                further = id(history.layer)
                depths[further] = max(depths.get(further, 0), own + 1)
    ranked = sorted(layers.values(), key=lambda v: (-depths[id(v)], positions[id(v)]))
    return ranked, [n for n in order if not isinstance(n.layer, InputLayer)]


def _made_of(tensor: Any) -> list:
    """The tensors of layers that operations which are no layers make `tensor` of."""
    found: list = []
    seen: set[int] = set()
    waiting = [tensor]
    while waiting:
        for source in waiting.pop().op.inputs:
            if id(source) in seen:
                continue
            seen.add(id(source))
            (found if hasattr(source, "_keras_history") else waiting).append(source)
    return found


def _state_updates(layer: Layer) -> list:
    below = layer._sublayers() if isinstance(layer, Layer) else []  # cells may be other objects
    inner = [u for v in below for u in _state_updates(v)]
    return layer._updates + inner if getattr(layer, "stateful", False) else inner
