"""Layers of several inputs."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import hpcflow as hf
from hpcflow.keras import backend
from hpcflow.keras.engine.layer import Layer
from hpcflow.shapes import ShapeLike

if TYPE_CHECKING:
    from hpcflow.graph.likes import AxisLike, TensorHandle
    from hpcflow.graph.operation import Tensor


class _Merge(Layer):
    """One result of at least two inputs, which are broadcast to each other."""

    supports_masking = True
    least = 2

    def build(self, input_shape: ShapeLike) -> None:
        """Check the inputs. ``ValueError`` for fewer than two of them."""
        if not isinstance(input_shape, list) or len(input_shape) < self.least:
            raise ValueError("A merge layer should be called on a list of at least "
                             f"{self.least} inputs. Got: {input_shape}")
        self.built = True

    def call(self, inputs: Any) -> Any:
        """Return the inputs merged."""
        ranks = [t.shape.ndims for t in inputs]
        if None not in ranks and len(set(ranks)) > 1:  # the batch is the first, whatever the rank
            most = max(ranks)
            inputs = [_raised(t, most) for t in inputs]
        return self._merged(inputs)

    def _merged(self, inputs: list) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not say how it merges")

    def compute_mask(self, inputs: Sequence[Tensor], mask: Any = None) -> Any:
        """Return what no input masks. ``ValueError`` unless both are lists of as many."""
        _check_masks(inputs, mask)
        parts = [hf.cast(m, hf.bool) for m in mask or [] if m is not None]
        return functools.reduce(hf.logical_and, parts) if parts else None


def _check_masks(inputs: Any, mask: Any) -> None:
    if mask is None:
        return
    for name, value in (("mask", mask), ("inputs", inputs)):
        if not isinstance(value, (list, tuple)):
            raise ValueError(f"`{name}` should be a list.")
    if len(mask) != len(inputs):
        raise ValueError("The lists `inputs` and `mask` should have the same length.")


def _raised(tensor: Any, rank: int) -> Any:
    """A tensor with dimensions of size 1 after that of the batch."""
    for _ in range(rank - tensor.shape.ndims):
        tensor = hf.expand_dims(tensor, 1)
    return tensor


class Add(_Merge):
    """The sum."""

    def _merged(self, inputs: list) -> Any:
        return functools.reduce(hf.add, inputs)


class Subtract(_Merge):
    """The first without the second."""

    def build(self, input_shape: ShapeLike) -> None:
        """Check the inputs. ``ValueError`` unless there are two."""
        if not isinstance(input_shape, list) or len(input_shape) != 2:
            raise ValueError("A `Subtract` layer should be called on exactly 2 inputs")
        super().build(input_shape)

    def _merged(self, inputs: list) -> Any:
        return inputs[0] - inputs[1]


class Multiply(_Merge):
    """The product."""

    def _merged(self, inputs: list) -> Any:
        return functools.reduce(hf.multiply, inputs)


class Average(_Merge):
    """The mean."""

    def _merged(self, inputs: list) -> Any:
        return functools.reduce(hf.add, inputs) / float(len(inputs))


class Maximum(_Merge):
    """The largest."""

    def _merged(self, inputs: list) -> Any:
        return functools.reduce(hf.maximum, inputs)


class Minimum(_Merge):
    """The smallest."""

    def _merged(self, inputs: list) -> Any:
        return functools.reduce(hf.minimum, inputs)


class Concatenate(_Merge):
    """The inputs beside each other along `axis`."""

    def __init__(self, axis: int = -1, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.axis = axis

    def build(self, input_shape: ShapeLike) -> None:
        """Check the inputs. ``ValueError`` for fewer than two, and for those that do not fit."""
        super().build(input_shape)
        shapes: Any = [hf.TensorShape(s) for s in input_shape]  # type: ignore[union-attr]
        if any(s.ndims is None for s in shapes):
            return
        rests = [[d for n, d in enumerate(s.as_list()) if n != self.axis % s.ndims]
                 for s in shapes]
        for rest in rests[1:]:
            if len(rest) != len(rests[0]) or any(
                    None not in (a, b) and a != b for a, b in zip(rest, rests[0])):
                raise ValueError("A `Concatenate` layer requires inputs with matching shapes "
                                 f"except for the concat axis. Got inputs shapes: {shapes}")

    def call(self, inputs: Any) -> Any:
        """Return the inputs joined."""
        return backend.concatenate(list(inputs), self.axis)

    def compute_mask(self, inputs: Sequence[Any], mask: Tensor | None = None) -> Any:
        """Return the masks joined, where they run along the joined dimension."""
        _check_masks(inputs, mask)
        if not mask or all(m is None for m in mask):
            return None
        parts = [hf.ones_like(x[..., 0], dtype=hf.bool) if m is None else m
                 for x, m in zip(inputs, mask, strict=True)]
        rank = inputs[0].shape.ndims
        if self.axis % rank == 1 and rank > 2:
            return hf.concat(parts, 1)
        return functools.reduce(hf.logical_and, parts)

    def get_config(self) -> dict:
        """Return the arguments."""
        return {**super().get_config(), "axis": self.axis}


class Dot(_Merge):
    """The products of two inputs over one axis of each; `normalize` makes them cosines."""

    def __init__(self, axes: Any, normalize: bool = False, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.axes, self.normalize = axes, normalize

    def call(self, inputs: Any) -> Any:
        """Return the products."""
        if len(inputs) != 2:
            raise ValueError("A `Dot` layer should be called on exactly 2 inputs")
        axes = (self.axes, self.axes) if isinstance(self.axes, int) else tuple(self.axes)
        axes = tuple(a % t.shape.ndims for a, t in zip(axes, inputs, strict=True))
        if self.normalize:
            inputs = [hf.nn.l2_normalize(t, a) for t, a in zip(inputs, axes, strict=True)]
        return backend.batch_dot(inputs[0], inputs[1], axes)

    def compute_mask(self, inputs: Any, mask: TensorHandle | None = None) -> Any:
        """There is none."""
        return None

    def get_config(self) -> dict:
        """Return the arguments."""
        return {**super().get_config(), "axes": self.axes, "normalize": self.normalize}


def add(inputs: list, **keywords: Any) -> Any:
    """Return the sum of the inputs."""
    return Add(**keywords)(inputs)


def subtract(inputs: list, **keywords: Any) -> Any:
    """Return the first input without the second."""
    return Subtract(**keywords)(inputs)


def multiply(inputs: list, **keywords: Any) -> Any:
    """Return the product of the inputs."""
    return Multiply(**keywords)(inputs)


def average(inputs: list, **keywords: Any) -> Any:
    """Return the mean of the inputs."""
    return Average(**keywords)(inputs)


def maximum(inputs: list, **keywords: Any) -> Any:
    """Return the largest of the inputs."""
    return Maximum(**keywords)(inputs)


def minimum(inputs: list, **keywords: Any) -> Any:
    """Return the smallest of the inputs."""
    return Minimum(**keywords)(inputs)


def concatenate(inputs: list, axis: int = -1, **keywords: Any) -> Any:
    """Return the inputs beside each other along `axis`."""
    return Concatenate(axis, **keywords)(inputs)


def dot(inputs: list, axes: AxisLike, normalize: bool = False, **keywords: Any) -> Any:
    """Return the products of two inputs."""
    return Dot(axes, normalize, **keywords)(inputs)
