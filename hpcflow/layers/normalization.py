"""The batch normalization layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.dtypes import float32
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import add_to_collection
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.layers.building import if_training, known_size, layer_scope
from hpcflow.nn import normalization
from hpcflow.nn.fused_normalization import fused_batch_norm
from hpcflow.ops.initializers import Ones, Zeros
from hpcflow.ops.state import assign_sub
from hpcflow.ops.variable_scope import get_variable

_ZEROS, _ONES = Zeros(), Ones()


def batch_normalization(inputs: Any, axis: int = -1, momentum: float = 0.99,
                        epsilon: float = 1e-3, center: bool = True, scale: bool = True,
                        beta_initializer: Any = _ZEROS, gamma_initializer: Any = _ONES,
                        moving_mean_initializer: Any = _ZEROS,
                        moving_variance_initializer: Any = _ONES,
                        beta_regularizer: Callable | None = None,
                        gamma_regularizer: Callable | None = None, training: Any = False,
                        trainable: bool = True, name: str | None = None,
                        reuse: bool | None = None, renorm: bool = False,
                        renorm_clipping: dict | None = None, renorm_momentum: float = 0.99,
                        fused: bool | None = None, virtual_batch_size: int | None = None,
                        adjustment: Callable | None = None) -> Tensor:
    """Return gamma (inputs - mean) / √(variance + epsilon) + beta (arXiv:1502.03167).

    While training, mean and variance are those of the batch, and operations that update the moving
    ones are added to the collection UPDATE_OPS, to be run with the training step; otherwise the
    moving ones are used.

    Args:
        inputs: any shape of known rank.
        axis: the dimension whose entries are normalized apart, its size known.
        momentum: of the moving statistics: ``moving = momentum moving + (1 - momentum) batch``.
        epsilon: added to the variance.
        center: whether there is a beta.
        scale: whether there is a gamma.
        beta_initializer, gamma_initializer, moving_mean_initializer,
            moving_variance_initializer: of the variables of these names.
        beta_regularizer, gamma_regularizer: functions whose results join the regularization losses.
        training: a bool or a scalar bool tensor.
        trainable: whether optimizers change beta and gamma.
        name: variable scope; "batch_normalization" made unique if None.
        reuse: whether the layer's variables are those of an earlier one.
        fused: the moving variance is that of the population (over n - 1), not of the batch (over
            n); for None as well where there are four dimensions. Images of float32 are normalized
            by one op then, with an epsilon of 1.001e-5 at least.

    Raises: ``ValueError`` if the size of the axis is unknown, or for `renorm`,
        `virtual_batch_size` or `adjustment`, which are not supported.
    """
    if renorm or virtual_batch_size is not None or adjustment is not None:
        raise ValueError("batch_normalization: renorm, virtual_batch_size and adjustment are not "
                         "supported")
    inputs = convert_to_tensor(inputs)
    with layer_scope(name, "batch_normalization", reuse, inputs):
        size = known_size(inputs, axis, "batch_normalization")
        dtype = inputs.dtype.base_dtype

        def variable(kind: str, initializer: Any, regularizer: Any = None,
                     trained: bool = trainable) -> Any:
            return get_variable(kind, [size], dtype, initializer, regularizer, trained)

        beta = variable("beta", beta_initializer, beta_regularizer) if center else None
        gamma = variable("gamma", gamma_initializer, gamma_regularizer) if scale else None
        moving = (variable("moving_mean", moving_mean_initializer, trained=False),
                  variable("moving_variance", moving_variance_initializer, trained=False))
        if fused is not False and _has_one_op(inputs, axis):
            outputs, *batch = _fused(inputs, axis, moving, beta, gamma, epsilon, training)
        else:
            outputs, *batch = _composed(inputs, axis, moving, beta, gamma, epsilon, training, fused)
        _update(moving, batch, momentum, training)
        outputs.set_shape(inputs.shape)
        return outputs


def _has_one_op(inputs: Tensor, axis: int) -> bool:
    """True for images in single precision with their channels in one of the usual places."""
    rank = len(inputs.shape.as_list())
    return rank == 4 and axis % rank in (1, 3) and inputs.dtype.base_dtype is float32


def _fused(inputs: Tensor, axis: int, moving: tuple, beta: Any, gamma: Any, epsilon: float,
           training: Any) -> list[Tensor]:
    """The normalized inputs, the mean and the variance of the population, by one op."""
    size = moving[0].shape.as_list()
    scale = np.ones(size, np.float32) if gamma is None else gamma
    offset = np.zeros(size, np.float32) if beta is None else beta
    layout = "NHWC" if axis % 4 == 3 else "NCHW"
    values = [convert_to_tensor(m) for m in moving]

    def normalized(mean: Any, variance: Any) -> tuple[Tensor, Tensor, Tensor]:
        return fused_batch_norm(inputs, scale, offset, mean, variance, epsilon, layout,
                                mean is None)

    return if_training(training, lambda: list(normalized(None, None)),
                       lambda: [normalized(*values)[0], *map(raw_ops.Identity, values)])


def _composed(inputs: Tensor, axis: int, moving: tuple, beta: Any, gamma: Any, epsilon: float,
              training: Any, fused: bool | None) -> list[Tensor]:
    """The normalized inputs, and the mean and the variance that the moving ones follow."""
    rank = len(inputs.shape.as_list())
    others = [a for a in range(rank) if a != axis % rank]
    values = [convert_to_tensor(m) for m in moving]
    population = rank == 4 if fused is None else fused

    def of_batch() -> list[Tensor]:
        mean, variance = normalization.moments(inputs, others)
        kept = _of_population(variance, inputs, mean) if population else variance
        return [mean, variance, kept]

    mean, variance, kept = if_training(training, of_batch, lambda: [
        raw_ops.Identity(v) for v in (*values, values[1])])
    shape = _row(inputs, axis)
    fitted = [None if v is None else _shaped(convert_to_tensor(v), shape)
              for v in (mean, variance, beta, gamma)]
    outputs = normalization.batch_normalization(inputs, fitted[0], fitted[1], fitted[2], fitted[3],
                                                epsilon)
    return [outputs, mean, kept]


def _update(moving: tuple, batch: list[Tensor], momentum: float, training: Any) -> None:
    """Add the updates of the moving statistics to the collection, if it may be training."""
    if isinstance(training, (bool, int)) and not training:
        return
    rate = moving[0].dtype.base_dtype.np.type(1 - momentum)
    for kept, new in zip(moving, batch, strict=True):
        # Where it is not training the difference is zero.
        update = assign_sub(kept, raw_ops.Mul(raw_ops.Sub(convert_to_tensor(kept), new), rate),
                            name="AssignMovingAvg")
        add_to_collection(GraphKeys.UPDATE_OPS, update)


def _of_population(variance: Tensor, inputs: Tensor, mean: Tensor) -> Tensor:
    """The variance over n - 1 from that over n, n being the number of values for each `mean`."""
    count = raw_ops.Cast(raw_ops.FloorDiv(raw_ops.Size(inputs), raw_ops.Size(mean)),
                         DstT=variance.dtype.base_dtype)
    one = variance.dtype.base_dtype.np.type(1)
    others = raw_ops.Maximum(raw_ops.Sub(count, one), one)
    return raw_ops.Mul(variance, raw_ops.RealDiv(count, others))


def _row(inputs: Tensor, axis: int) -> list[int] | None:
    """The shape in which statistics broadcast to the inputs; None if they do as they are."""
    dims: list = inputs.shape.as_list()
    axis %= len(dims)
    if axis == len(dims) - 1:
        return None
    return [dims[axis] if a == axis else 1 for a in range(len(dims))]


def _shaped(value: Tensor, shape: list[int] | None) -> Tensor:
    return value if shape is None else raw_ops.Reshape(value, np.array(shape, np.int32))
