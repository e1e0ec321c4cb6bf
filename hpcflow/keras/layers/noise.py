"""Dropout of other kinds than :class:`Dropout`, and noise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import hpcflow as hf
from hpcflow.keras.engine.layer import Layer
from hpcflow.keras.session import learning_phase
from hpcflow.layers.building import if_training

if TYPE_CHECKING:
    from hpcflow.graph.likes import BoolLike, TensorLike

_SELU_FLOOR = -1.0507009873554804934193349852946 * 1.6732632423543772848170429916717  # of selu


class _Spatial(Layer):
    """Dropout of whole channels. `noise_shape` is of configurations alone: it follows from the
    inputs."""

    supports_masking = True
    rank = 1

    def __init__(self, rate: float, data_format: str | None = None, noise_shape: Any = None,
                 seed: int | None = None, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.rate, self.data_format = rate, data_format or "channels_last"
        self.noise_shape, self.seed = noise_shape, seed

    def call(self, inputs: TensorLike, training: BoolLike | None = None) -> Any:
        """Return the inputs without some of their channels, in training."""
        shape = hf.shape(inputs)
        ones = [1] * self.rank
        kept = [shape[0], shape[1], *ones] if self.data_format == "channels_first" else [
            shape[0], *ones, shape[self.rank + 1]]
        phase = learning_phase() if training is None else training
        return hf.layers.dropout(inputs, self.rate, hf.stack(kept), self.seed, phase)

    def get_config(self) -> dict:
        """Return the arguments."""
        config = {**super().get_config(), "rate": self.rate, "noise_shape": self.noise_shape,
                  "seed": self.seed}
        if self.data_format != "channels_last":
            config["data_format"] = self.data_format
        return config


class SpatialDropout1D(_Spatial):
    """Dropout of whole channels of sequences."""

    def __init__(self, rate: float, **keywords: Any) -> None:
        super().__init__(rate, **keywords)


class SpatialDropout2D(_Spatial):
    """Dropout of whole channels of images."""

    rank = 2


class SpatialDropout3D(_Spatial):
    """Dropout of whole channels of volumes."""

    rank = 3


class AlphaDropout(Layer):
    """Dropout that keeps mean and variance of what ``selu`` gives: in training a part `rate` of
    the elements gets the value that ``selu`` goes to, and all are scaled and moved.

    Args:
        rate: the part.
        noise_shape: shape of what is kept and dropped as one, that of the inputs if None.
        seed: of the choice.
    """

    supports_masking = True

    def __init__(self, rate: float, noise_shape: Any = None, seed: int | None = None,
                 **keywords: Any) -> None:
        super().__init__(**keywords)
        self.rate, self.noise_shape, self.seed = rate, noise_shape, seed

    def call(self, inputs: Any, training: BoolLike | None = None) -> Any:
        """Return the inputs, some of them replaced in training."""
        if not 0.0 < self.rate < 1.0:
            return inputs
        phase = learning_phase() if training is None else training
        return if_training(phase, lambda: self._dropped(inputs), lambda: hf.identity(inputs))

    def _dropped(self, inputs: Any) -> Any:
        shape = hf.shape(inputs) if self.noise_shape is None else self.noise_shape
        kept = hf.cast(hf.random_uniform(shape, seed=self.seed) >= self.rate,
                       inputs.dtype.base_dtype)
        scale = ((1 - self.rate) * (1 + self.rate * _SELU_FLOOR ** 2)) ** -0.5
        return scale * (inputs * kept + _SELU_FLOOR * (1 - kept)) - scale * _SELU_FLOOR * self.rate

    def get_config(self) -> dict:
        """Return the rate."""
        return {**super().get_config(), "rate": self.rate}


class GaussianNoise(Layer):
    """Normal noise of a standard deviation, added in training."""

    supports_masking = True

    def __init__(self, stddev: float, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.stddev = stddev

    def call(self, inputs: TensorLike, training: BoolLike | None = None) -> Any:
        """Return the inputs, in training with noise."""
        phase = learning_phase() if training is None else training
        return if_training(
            phase, lambda: inputs + hf.random_normal(hf.shape(inputs), 0.0, self.stddev),
            lambda: hf.identity(inputs))

    def get_config(self) -> dict:
        """Return the arguments."""
        return {**super().get_config(), "stddev": self.stddev}


class GaussianDropout(Layer):
    """Factors in training, normal around 1 with variance rate / (1 - rate)."""

    supports_masking = True

    def __init__(self, rate: float, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.rate = rate

    def call(self, inputs: TensorLike, training: BoolLike | None = None) -> Any:
        """Return the inputs, in training times such factors."""
        phase = learning_phase() if training is None else training
        spread = float(np.sqrt(self.rate / (1.0 - self.rate)))
        return if_training(
            phase, lambda: inputs * hf.random_normal(hf.shape(inputs), 1.0, spread),
            lambda: hf.identity(inputs))

    def get_config(self) -> dict:
        """Return the arguments."""
        return {**super().get_config(), "rate": self.rate}
