"""Sequential: a model whose layers follow one another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import hpcflow as hf
from hpcflow.keras.engine.inputs import Input, InputLayer
from hpcflow.keras.engine.layer import Layer, deserialize
from hpcflow.keras.engine.training import Model
from hpcflow.shapes import ShapeLike

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from hpcflow.graph.likes import TensorLike


class Sequential(Model):
    """Layers one after the other.

    Where the first layer knows the shape of its input the model is built as layers are added;
    otherwise it is when it is called, fitted or built.

    Args:
        layers: the layer, or the layers, to begin with.
        name: its name.
    """

    def __init__(self, layers: Any = None, name: str | None = None) -> None:
        super().__init__(name=name)
        self._stack: list[Layer] = []
        for layer in layers if isinstance(layers, (list, tuple)) else [layers] if layers else ():
            self.add(layer)

    @property
    def layers(self) -> list:
        """The layers, without one for the input."""
        return [v for v in self._stack if not isinstance(v, InputLayer)]

    def _sublayers(self) -> list[Layer]:
        return list(self._stack)

    def add(self, layer: Layer) -> None:
        """Add a layer, or that of an `Input`. ``TypeError`` for something else."""
        origin = getattr(layer, "_keras_history", (None,))[0]
        if isinstance(origin, InputLayer):
            layer = origin
        if not isinstance(layer, Layer):
            raise TypeError("The added layer must be an instance of class Layer. Found: "
                            f"{layer!r}")
        first = not self._stack
        if first and isinstance(layer, InputLayer):
            self._stack.append(layer)
            self._join([layer.inbound_nodes[0].outputs[0]] * 2)
            return
        if first and (shape := _first_shape(layer)) is not None:
            self._begin(shape, layer)
        self._stack.append(layer)
        if self.inputs is not None:
            self._join([self.inputs[0], layer((self.outputs or [])[0])])

    def _begin(self, shape: Any, first: Layer | None = None) -> None:
        tensor = Input(batch_shape=tuple(shape), dtype=None if first is None else first._dtype,
                       name=None if first is None else f"{first.name}_input")
        self._join([tensor, tensor])

    def _join(self, ends: list) -> None:
        if isinstance(ends[1], list):
            raise TypeError("All layers in a Sequential model should have a single output tensor.")
        self._connect(ends[0], ends[1])

    def pop(self) -> None:
        """Remove the last layer. ``TypeError`` if there is none."""
        if not self.layers:
            raise TypeError("There are no layers in the model.")
        self._stack.pop()
        if not self.layers:
            self.inputs = self.outputs = self._network = None
            self.built = False
        elif self.inputs is not None:
            self._join([self.inputs[0], self._stack[-1].inbound_nodes[-1].outputs[0]])

    def build(self, input_shape: ShapeLike | None = None) -> None:
        """Build the layers for inputs of a shape, with the batch."""
        if self.inputs is None and self._scope is None and input_shape is not None:
            first = self._stack[0] if self._stack else None
            tensor = Input(batch_shape=tuple(hf.TensorShape(input_shape).as_list()),
                           name=None if first is None else f"{first.name}_input")
            self._join([tensor, tensor])
            for layer in self._stack:
                tensor = layer(tensor)
            self._join([(self.inputs or [])[0], tensor])
        self.built = True

    def call(self, inputs: TensorLike, training: Any = None, mask: TensorLike | None = None) -> Any:
        """Return what the layers make of `inputs`."""
        if self.inputs is not None:
            return super().call(inputs, training, mask)
        for layer in self._stack:
            inputs = layer(inputs)
        return inputs

    def predict_proba(self, x: TensorLike, batch_size: int = 32, verbose: int = 0) -> Any:
        """Return the predictions, which are to be probabilities."""
        return self.predict(x, batch_size, verbose)

    def predict_classes(self, x: TensorLike, batch_size: int = 32, verbose: int = 0) -> Any:
        """Return the classes of the largest predictions; of a single one whether it is > 0.5."""
        predicted = self.predict(x, batch_size, verbose)
        if predicted.shape[-1] > 1:
            return predicted.argmax(axis=-1)
        return (predicted > 0.5).astype("int32")

    def get_config(self) -> dict:
        """Return the configurations of the layers."""
        return {"name": self.name, "layers": [
            {"class_name": type(v).__name__, "config": v.get_config()} for v in self.layers]}

    @classmethod
    def from_config(cls, config: Mapping[str, Any] | Message,
                    custom_objects: dict | None = None) -> Any:
        """Return a model of a configuration."""
        layers = config["layers"] if isinstance(config, dict) else config
        name = config.get("name") if isinstance(config, dict) else None
        return cls([deserialize(v, custom_objects) for v in layers], name)


def _first_shape(layer: Layer) -> Any:
    """The shape of the input that a first layer says, also that of a model."""
    if layer._batch_input_shape is not None:
        return layer._batch_input_shape
    inputs = getattr(layer, "inputs", None)
    return inputs[0].get_shape().as_list() if inputs else None
