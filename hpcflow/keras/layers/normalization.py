"""Layers that normalize over features."""

from __future__ import annotations

from typing import Any

import hpcflow as hf
from hpcflow.graph.likes import Identifier
from hpcflow.keras import constraints, initializers, lookup, regularizers
from hpcflow.keras.engine.layer import Layer
from hpcflow.shapes import ShapeLike, as_shape


class LayerNormalization(Layer):
    """Inputs without their mean and divided by their standard deviation, of each example alone.

    Args:
        axis: the dimension, or dimensions, over which both are taken, and which weights have.
        epsilon: is added to the variance.
        center, scale: add the weight `beta`, multiply by the weight `gamma`.

    Raises ``ValueError`` for dimensions that the inputs do not have, or that are named twice.
    """

    supports_masking = True

    def __init__(self, axis: int | list[int] | tuple[int, ...] = -1, epsilon: float = 1e-3,
                 center: bool = True, scale: bool = True,
                 beta_initializer: Identifier = "zeros", gamma_initializer: Identifier = "ones",
                 beta_regularizer: Identifier | None = None,
                 gamma_regularizer: Identifier | None = None,
                 beta_constraint: Identifier | None = None,
                 gamma_constraint: Identifier | None = None, **keywords: Any) -> None:
        super().__init__(**keywords)
        if not isinstance(axis, (int, list, tuple)):
            raise ValueError("Expected an int or a list/tuple of ints for the argument 'axis', but "
                             f"received instead: {axis}")
        self.axis: Any = axis
        self.epsilon, self.center, self.scale = epsilon, center, scale
        self.beta = self.gamma = None
        self.beta_initializer = initializers.get(beta_initializer)
        self.gamma_initializer = initializers.get(gamma_initializer)
        self.beta_regularizer = regularizers.get(beta_regularizer)
        self.gamma_regularizer = regularizers.get(gamma_regularizer)
        self.beta_constraint = constraints.get(beta_constraint)
        self.gamma_constraint = constraints.get(gamma_constraint)

    def build(self, input_shape: ShapeLike) -> None:
        """Add the weights."""
        shape: Any = as_shape(input_shape)
        if shape.ndims is None:
            raise ValueError("LayerNormalization: the inputs have an undefined rank")
        self.axis = self._dimensions(shape.ndims)
        sizes = [shape[axis] for axis in self.axis]
        for name, wanted in (("gamma", self.scale), ("beta", self.center)):
            if wanted:
                setattr(self, name, self.add_weight(
                    name, sizes, initializer=getattr(self, f"{name}_initializer"),
                    regularizer=getattr(self, f"{name}_regularizer"),
                    constraint=getattr(self, f"{name}_constraint")))
        super().build(input_shape)

    def _dimensions(self, rank: int) -> list[int]:
        given = [self.axis] if isinstance(self.axis, int) else list(self.axis)
        found = [axis + rank if axis < 0 else axis for axis in given]
        for axis in found:
            if not 0 <= axis < rank:
                raise ValueError(f"Invalid axis: {axis}")
        if len(found) != len(set(found)):
            raise ValueError(f"Duplicate axis: {tuple(found)}")
        return found

    def call(self, inputs: Any) -> Any:
        """Return the normalized inputs, of the same shape."""
        shape = inputs.shape
        mean, variance = hf.nn.moments(inputs, self.axis, keep_dims=True)
        sizes = [shape[axis] if axis in self.axis else 1 for axis in range(shape.ndims)]

        def spread(weight: Any) -> Any:
            return weight if weight is None or self.axis == [shape.ndims - 1] else \
                hf.reshape(weight, sizes)

        outputs = hf.nn.batch_normalization(inputs, mean, variance, spread(self.beta),
                                            spread(self.gamma), self.epsilon)
        outputs.set_shape(shape)
        return outputs

    def compute_output_shape(self, input_shape: ShapeLike) -> Any:
        """Return the shape of the inputs."""
        return as_shape(input_shape)

    def get_config(self) -> dict:
        """Return the arguments."""
        parts = {f"{name}_{kind}": lookup.serialized(getattr(self, f"{name}_{kind}"))
                 for name in ("beta", "gamma") for kind in (
                     "initializer", "regularizer", "constraint")}
        return {**super().get_config(), "axis": self.axis, "epsilon": self.epsilon,
                "center": self.center, "scale": self.scale, **parts}
