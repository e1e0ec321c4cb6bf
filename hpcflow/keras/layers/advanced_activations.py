"""Activations with parameters, fixed or learned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import hpcflow as hf
from hpcflow.keras import activations, initializers, lookup
from hpcflow.keras.engine.layer import Layer
from hpcflow.shapes import ShapeLike

if TYPE_CHECKING:
    from hpcflow.graph.likes import Identifier, TensorLike


class _Elementwise(Layer):
    """A function of numbers with parameters."""

    supports_masking = True
    options: tuple[str, ...] = ()

    def get_config(self) -> dict:
        """Return the arguments."""
        return {**super().get_config(), **{k: getattr(self, k) for k in self.options}}


class LeakyReLU(_Elementwise):
    """x where it is positive, alpha x elsewhere."""

    options = ("alpha",)

    def __init__(self, alpha: float = 0.3, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.alpha = float(alpha)

    def call(self, inputs: TensorLike) -> Any:
        """Return the activation."""
        return hf.nn.leaky_relu(inputs, self.alpha)


class ELU(_Elementwise):
    """x where it is positive, alpha (exp(x) - 1) elsewhere."""

    options = ("alpha",)

    def __init__(self, alpha: float = 1.0, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.alpha = float(alpha)

    def call(self, inputs: TensorLike) -> Any:
        """Return the activation."""
        return activations.elu(inputs, self.alpha)


class ThresholdedReLU(_Elementwise):
    """x above theta, 0 elsewhere."""

    options = ("theta",)

    def __init__(self, theta: float = 1.0, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.theta = float(theta)

    def call(self, inputs: Any) -> Any:
        """Return the activation."""
        return inputs * hf.cast(inputs > self.theta, inputs.dtype.base_dtype)


class ReLU(_Elementwise):
    """See ``activations.relu``; `negative_slope` is its alpha."""

    options = ("max_value", "negative_slope", "threshold")

    def __init__(self, max_value: float | None = None, negative_slope: float = 0,
                 threshold: float = 0, **keywords: Any) -> None:
        super().__init__(**keywords)
        if (max_value is not None and max_value < 0) or negative_slope < 0 or threshold < 0:
            raise ValueError("the arguments of a ReLU layer cannot be negative: max_value "
                             f"{max_value}, negative_slope {negative_slope}, threshold {threshold}")
        self.max_value, self.negative_slope, self.threshold = max_value, negative_slope, threshold

    def call(self, inputs: TensorLike) -> Any:
        """Return the activation."""
        return activations.relu(inputs, self.negative_slope, self.max_value, self.threshold)


class Softmax(_Elementwise):
    """exp(x) over its sum along `axis`."""

    options = ("axis",)

    def __init__(self, axis: int = -1, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.axis = axis

    def call(self, inputs: TensorLike) -> Any:
        """Return the activation."""
        return activations.softmax(inputs, self.axis)


class PReLU(Layer):
    """x where it is positive, elsewhere alpha x, which is learned for each feature.

    `shared_axes` are those along which there is one alpha.
    """

    supports_masking = True

    def __init__(self, alpha_initializer: Identifier = "zeros",
                 alpha_regularizer: Identifier | None = None,
                 alpha_constraint: Identifier | None = None, shared_axes: Any = None,
                 **keywords: Any) -> None:
        super().__init__(**keywords)
        self.alpha_initializer = initializers.get(alpha_initializer)
        self.alpha_regularizer, self.alpha_constraint = alpha_regularizer, alpha_constraint
        self.shared_axes = None if shared_axes is None else np.atleast_1d(shared_axes).tolist()

    def build(self, input_shape: ShapeLike) -> None:
        """Make the variable ``alpha``."""
        shape = hf.TensorShape(input_shape).as_list()[1:]
        for axis in self.shared_axes or ():
            shape[axis - 1] = 1
        self.alpha = self.add_weight("alpha", shape, None, self.alpha_initializer,
                                     self.alpha_regularizer, constraint=self.alpha_constraint)
        self.built = True

    def call(self, inputs: Any) -> Any:
        """Return the activation."""
        return hf.nn.relu(inputs) - self.alpha * hf.nn.relu(-inputs)

    def get_config(self) -> dict:
        """Return the arguments."""
        config = super().get_config()
        config.update((k, lookup.serialized(getattr(self, k))) for k in (
            "alpha_initializer", "alpha_regularizer", "alpha_constraint", "shared_axes"))
        return config
