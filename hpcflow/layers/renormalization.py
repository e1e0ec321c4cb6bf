"""Batch normalization in its less common forms: several axes, virtual batches, adjustments of the
normalized values, and corrections towards earlier batches (batch renormalization)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hpcflow.dtypes import DType
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import add_to_collection, control_dependencies, name_scope
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.layers.building import if_training
from hpcflow.nn import normalization
from hpcflow.ops.arrays.casting import cast
from hpcflow.ops.state.state import assign, assign_sub

if TYPE_CHECKING:
    from hpcflow.ops.state.variables import Variable

_CLIPPED = ("rmax", "rmin", "dmax")


class Renormalization(NamedTuple):
    """A correction of normalized values x to x r + d, as if normalized by the earlier batches.

    arXiv:1702.03275: r is the deviation of the batch over that of training so far, and d the
    difference of their means over the latter; no gradient flows through them.
    """

    clipping: dict[str, Any]  # rmin <= r <= rmax, |d| <= dmax
    momentum: float  # of the mean and the deviation of training so far
    mean: Any  # variables
    deviation: Any
    moving_deviation: Any  # follows the batches with the momentum of the layer

    def update(self, mean: Tensor, deviation: Tensor) -> list[Any]:
        """Operations by which the statistics of training so far follow a batch."""
        return [follow(self.mean, mean, self.momentum),
                follow(self.deviation, deviation, self.momentum)]


def checked_clipping(clipping: dict[str, Any] | None) -> dict[str, Any]:
    """The limits of the corrections; ``ValueError`` for other names."""
    other = sorted(set(clipping or ()) - set(_CLIPPED))
    if other:
        raise ValueError(f"renorm_clipping may have the keys {', '.join(_CLIPPED)}, not "
                         f"{', '.join(map(repr, other))}")
    return dict(clipping or {})


def check_virtual_batches(size: int, axes: Sequence[int], adjustment: Any,
                          dims: Sequence[int | None]) -> None:
    """Raise ``ValueError`` where the batch cannot be normalized in parts of `size`."""
    if size < 1 or dims[0] is not None and dims[0] % size:
        raise ValueError(f"virtual_batch_size must be positive and divide the batch but is {size} "
                         f"for a batch of {dims[0]}")
    if 0 in [a % len(dims) for a in axes] or adjustment is not None:
        raise ValueError("virtual_batch_size cannot be used with an adjustment, nor with the batch "
                         "as axis")


class Layout(NamedTuple):
    """The layout of the statistics of a normalization, relative to the inputs."""

    reduced: list[int]  # the axes that moments are taken over
    kept: list[int]  # the shape of the variables
    broadcast: list[int] | None  # the shape in which they fit the inputs; None if they do

    def fitted(self, value: Any, dtype: DType | None = None) -> Any:
        """A variable or a moment so that it broadcasts to the inputs, in their `dtype` if that is
        given; None stays None."""
        if value is None:
            return None
        tensor = convert_to_tensor(value)
        if dtype is not None:
            tensor = cast(tensor, dtype.base_dtype)
        if self.broadcast is None:
            return tensor
        return raw_ops.Reshape(tensor, np.array(self.broadcast, np.int32))


def layout_of(dims: Sequence[int | None], axes: Sequence[int], virtual: bool) -> Layout:
    """The layout for inputs of shape `dims` normalized along `axes`; `virtual` batches are made by
    a dimension after the first."""
    if not virtual and len(axes) == 1:
        kept: list = [dims[axes[0]]]
        row: list = [dims[axes[0]] if a == axes[0] else 1 for a in range(len(dims))]
        broadcast = None if axes[0] == len(dims) - 1 else row
    else:
        kept, broadcast = [d if a in axes else 1 for a, d in enumerate(dims)], None
    reduced = [a for a in range(len(dims)) if a not in axes]
    if virtual:
        kept.insert(1, 1)
        reduced = [a if a == 0 else a + 1 for a in reduced]
    return Layout(reduced, kept, broadcast)


def in_virtual_batches(inputs: Tensor, size: int) -> Tensor:
    """The inputs with a dimension after the first, which has `size` elements then."""
    rest = raw_ops.Shape(inputs)[1:]
    shape = raw_ops.ConcatV2([np.array([size, -1], np.int32), rest], np.int32(0))
    parts = raw_ops.Reshape(inputs, shape)
    parts.set_shape([size, None, *inputs.shape.as_list()[1:]])
    return parts


def normalize(inputs: Tensor, layout: Layout, moving: tuple, beta: Any, gamma: Any,
              momentum: float, epsilon: float, training: TensorLike, virtual: bool,
              renorm: Renormalization | None, adjustment: Callable | None) -> Tensor:
    """The normalized inputs, made of plain operations; adds the updates to their collection."""
    values = [convert_to_tensor(m) for m in moving]

    def of_batch() -> list[Tensor]:
        mean, variance = normalization.moments(cast(inputs, values[0].dtype), layout.reduced,
                                               keep_dims=layout.broadcast is None
                                               and len(layout.kept) > 1)
        if not virtual:
            return [mean, variance, raw_ops.Identity(mean), raw_ops.Identity(variance)]
        one = np.array([1], np.int32)
        return [mean, variance, *(raw_ops.Mean(m, one, keep_dims=True) for m in (mean, variance))]

    mean, variance, new_mean, new_variance = if_training(
        training, of_batch, lambda: [raw_ops.Identity(v) for v in values * 2])
    scale, offset = layout.fitted(gamma), layout.fitted(beta)
    if adjustment is not None:
        by, more = map(convert_to_tensor, adjustment(raw_ops.Shape(inputs)))
        by, more = _in_training(training, by, more)
        scale, offset = _then(by, more, scale, offset)
    waits: list = []
    if renorm is not None:
        factor, shift, waits = _corrected(renorm, new_mean, new_variance, epsilon, training)
        scale, offset = _then(layout.fitted(raw_ops.StopGradient(factor)),
                              layout.fitted(raw_ops.StopGradient(shift)), scale, offset)
    with control_dependencies(waits):
        _update(moving, renorm, raw_ops.Identity(new_mean), raw_ops.Identity(new_variance),
                momentum, epsilon, training)
    dtype = inputs.dtype
    offset, scale = (None if v is None else cast(v, dtype.base_dtype) for v in (offset, scale))
    return normalization.batch_normalization(inputs, layout.fitted(mean, dtype),
                                             layout.fitted(variance, dtype), offset, scale, epsilon)


def _then(scale: Tensor, offset: Tensor, then_scale: TensorLike, then_offset: TensorLike) -> tuple:
    """Compose two affine transformations: scale and offset, then another scale and offset."""
    if then_scale is not None:
        scale, offset = raw_ops.Mul(scale, then_scale), raw_ops.Mul(offset, then_scale)
    return scale, offset if then_offset is None else raw_ops.Add(offset, then_offset)


def _in_training(training: Any, scale: Tensor, offset: Tensor) -> list[Tensor]:
    """A transformation that changes nothing unless it is training."""
    return if_training(training, lambda: [raw_ops.Identity(scale), raw_ops.Identity(offset)],
                       lambda: [raw_ops.OnesLike(scale), raw_ops.ZerosLike(offset)])


def _corrected(renorm: Renormalization, mean: Tensor, variance: Tensor, epsilon: float,
               training: Any) -> tuple[Tensor, Tensor, list]:
    """r and d, from the statistics before this batch, and what updates these."""
    kind = mean.dtype.base_dtype.np.type
    deviation = _deviation(variance, epsilon)
    # Early on nothing is divided by zero.
    kept = raw_ops.Maximum(convert_to_tensor(renorm.deviation), kind(math.sqrt(epsilon)))
    factor = raw_ops.RealDiv(deviation, kept)
    shift = raw_ops.RealDiv(raw_ops.Sub(mean, convert_to_tensor(renorm.mean)), kept)
    with control_dependencies([factor, shift]):
        mean, deviation = raw_ops.Identity(mean), raw_ops.Identity(deviation)
    low, high, most = (renorm.clipping.get(key) for key in ("rmin", "rmax", "dmax"))
    if low is not None:
        factor = raw_ops.Maximum(factor, low)
    if high is not None:
        factor = raw_ops.Minimum(factor, high)
    if most is not None:
        shift = raw_ops.Minimum(raw_ops.Maximum(shift, -most), most)
    waits = if_training(training, lambda: renorm.update(mean, deviation), lambda: [
        raw_ops.Identity(convert_to_tensor(v)) for v in (renorm.mean, renorm.deviation)])
    return (*_in_training(training, factor, shift), waits)


def _deviation(variance: Tensor, epsilon: float) -> Tensor:
    return raw_ops.Sqrt(raw_ops.Add(variance, variance.dtype.base_dtype.np.type(epsilon)))


def _update(moving: tuple, renorm: Renormalization | None, mean: Tensor, variance: Tensor,
            momentum: float, epsilon: float, training: Any) -> None:
    """Add the updates of the moving statistics to their collection, if it may be training."""
    if isinstance(training, (bool, int)) and not training:
        return

    def update_variance() -> Any:
        if renorm is None:
            return follow(moving[1], variance, momentum)
        deviation = follow(renorm.moving_deviation, _deviation(variance, epsilon), momentum)
        square = raw_ops.Sub(raw_ops.Square(deviation), variance.dtype.base_dtype.np.type(epsilon))
        return assign(moving[1], raw_ops.Relu(square))

    for kept, update in ((moving[0], lambda: follow(moving[0], mean, momentum)),
                         (moving[1], update_variance)):
        add_to_collection(GraphKeys.UPDATE_OPS, if_training(
            training, update, lambda kept=kept: raw_ops.Identity(convert_to_tensor(kept))))


def follow(kept: Variable, new: Tensor, momentum: TensorLike) -> Any:
    """Return the operation ``kept = momentum kept + (1 - momentum) new``."""
    with name_scope(None, "AssignMovingAvg") as scope:
        rate = raw_ops.Sub(np.ones((), kept.dtype.base_dtype.np), momentum, name="sub")
        change = raw_ops.Mul(raw_ops.Sub(convert_to_tensor(kept), new, name="sub_1"), rate,
                             name="mul")
        return assign_sub(kept, change, name=scope)
