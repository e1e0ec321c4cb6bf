"""The values of a layer's variables, its configuration, and the shapes of its results."""

from __future__ import annotations

from typing import Any

import hpcflow as hf
from hpcflow.framework import nest
from hpcflow.keras.session import batch_get_value, batch_set_value
from hpcflow.keras.settings import floatx
from hpcflow.platform.inspecting import fn_args
from hpcflow.shapes import ShapeLike


class Described:
    """What a layer says of itself."""

    name: Any
    built: bool
    trainable: bool
    weights: Any
    _dtype: Any
    _batch_input_shape: tuple | None

    def count_params(self) -> int:
        """Return the number of elements of all variables. ``ValueError`` if not built."""
        if not self.built:
            raise ValueError(f"You tried to call `count_params` on {self.name}, but the layer "
                             "isn't built.")
        return sum(v.get_shape().num_elements() for v in self.weights)

    def get_weights(self) -> list:
        """Return the values of the variables."""
        return batch_get_value(self.weights)

    def set_weights(self, weights: list) -> None:
        """Set the variables. ``ValueError`` for other numbers or shapes of arrays."""
        own = self.weights
        if len(own) != len(weights):
            raise ValueError(f"You called `set_weights(weights)` on layer \"{self.name}\" with a "
                             f"weight list of length {len(weights)}, but the layer was expecting "
                             f"{len(own)} weights.")
        for variable, value in zip(own, weights, strict=True):
            if tuple(variable.shape.as_list()) != getattr(value, "shape", ()):
                raise ValueError(f"Layer weight shape {tuple(variable.shape.as_list())} not "
                                 f"compatible with provided weight shape {value.shape}")
        batch_set_value(list(zip(own, weights, strict=True)))

    def get_config(self) -> dict:
        """Return what makes a layer like this one by :meth:`from_config`.

        ``NotImplementedError`` for a class that takes other arguments and does not define it.
        """
        config: dict[str, Any] = {"name": self.name, "trainable": self.trainable}
        if self._batch_input_shape is not None:
            config["batch_input_shape"] = self._batch_input_shape
        config["dtype"] = None if self._dtype is None else self._dtype.name
        if type(self).get_config is Described.get_config and any(
                name not in config and name != "dynamic" for name in fn_args(type(self).__init__)
                if name != "self"):
            raise NotImplementedError("Layers with arguments in `__init__` must override "
                                      "`get_config`.")
        return config

    @classmethod
    def from_config(cls, config: dict) -> Any:
        """Return a layer of a configuration."""
        return cls(**config)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Return the static shape of the result for inputs of a shape."""
        with hf.Graph().as_default():
            shapes = _shapes(input_shape)
            inputs = [hf.placeholder(self._dtype or floatx(), s) for s in shapes]
            copied = type(self).from_config(self.get_config())
            result = copied(inputs if isinstance(input_shape, list) and len(shapes) > 1
                            else inputs[0])
        return nest.map_structure(lambda t: t.get_shape(), result)

    def compute_output_signature(self, input_signature: Any) -> Any:
        """Return a ``TensorSpec``, or a nest of them, of the result for inputs of such.

        The type is that of the layer, if it is known, else that of the first input. ``TypeError``
        for anything else.
        """
        for spec in nest.flatten(input_signature):
            if not isinstance(spec, hf.TensorSpec):
                raise TypeError("Only TensorSpec signature types are supported, but saw signature "
                                f"signature entry: {spec}.")
        shapes = self.compute_output_shape(nest.map_structure(lambda s: s.shape, input_signature))
        dtype = self._dtype or nest.flatten(input_signature)[0].dtype
        return nest.map_structure(lambda s: hf.TensorSpec(s, dtype), shapes)


def _shapes(shape: ShapeLike) -> list:
    """Return a list of shapes, from one shape or a list of several."""
    if isinstance(shape, list) and shape and isinstance(shape[0], (list, tuple, hf.TensorShape)):
        return [hf.TensorShape(s) for s in shape]
    return [hf.TensorShape(shape)]
