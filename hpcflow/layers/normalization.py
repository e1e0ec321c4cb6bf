"""The batch normalization layer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hpcflow.dtypes import DType, bfloat16, float16, float32
from hpcflow.graph.convert import constant, convert_to_tensor
from hpcflow.graph.graph import add_to_collection, get_default_graph
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.likes import InitializerLike, TensorHandle, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.seeds import count_more
from hpcflow.layers.building import if_training, known_size, layer_scope
from hpcflow.layers.renormalization import (
    Layout,
    Renormalization,
    check_virtual_batches,
    checked_clipping,
    follow,
    in_virtual_batches,
    layout_of,
    normalize,
)
from hpcflow.nn import normalization
from hpcflow.nn.fused_normalization import fused_batch_norm
from hpcflow.ops.arrays.casting import cast
from hpcflow.ops.state.initializers import Ones, Zeros
from hpcflow.ops.state.variable_scope import get_variable, get_variable_scope

if TYPE_CHECKING:
    from hpcflow.ops.state.variables import Variable

_ZEROS, _ONES = Zeros(), Ones()


def batch_normalization(inputs: TensorHandle, axis: int = -1, momentum: float = 0.99,
                        epsilon: float = 1e-3, center: bool = True, scale: bool = True,
                        beta_initializer: Callable[..., Any] = _ZEROS,
                        gamma_initializer: Callable[..., Any] = _ONES,
                        moving_mean_initializer: Callable[..., Any] = _ZEROS,
                        moving_variance_initializer: Callable[..., Any] = _ONES,
                        beta_regularizer: Callable | None = None,
                        gamma_regularizer: Callable | None = None, training: Any = False,
                        trainable: bool = True, name: str | None = None, reuse: bool | None = None,
                        renorm: bool = False, renorm_clipping: dict | None = None,
                        renorm_momentum: float = 0.99, fused: bool | None = None,
                        virtual_batch_size: int | None = None, adjustment: Callable | None = None,
                        beta_constraint: Callable | None = None,
                        gamma_constraint: Callable | None = None) -> Tensor:
    """Return gamma (inputs - mean) / √(variance + epsilon) + beta (arXiv:1502.03167).

    While training, mean and variance are those of the batch, and operations that update the moving
    ones are added to the collection UPDATE_OPS, to be run with the training step; otherwise the
    moving ones are used.

    Args:
        inputs: any shape of known rank.
        axis: the dimension whose entries are normalized apart, its size known; or several, for
            whose entries together there are statistics, beta and gamma.
        momentum: of the moving statistics: ``moving = momentum moving + (1 - momentum) batch``.
        epsilon: added to the variance.
        center: whether there is a beta.
        scale: whether there is a gamma.
        beta_initializer, gamma_initializer: of the variables of these names.
        moving_mean_initializer, moving_variance_initializer: of the moving ones.
        beta_regularizer, gamma_regularizer: functions whose results join the regularization losses.
        training: a bool or a scalar bool tensor.
        trainable: whether optimizers change beta and gamma.
        beta_constraint, gamma_constraint: functions that optimizers apply to them after an update.
        name: variable scope; "batch_normalization" made unique if None.
        reuse: whether the layer's variables are those of an earlier one.
        renorm: whether, in training, normalized values are corrected towards the statistics of
            training so far (arXiv:1702.03275), which are variables of their own.
        renorm_clipping: limits ``rmin``, ``rmax`` and ``dmax`` of the corrections.
        renorm_momentum: of the statistics of training so far.
        fused: for images the moving variance is that of the population (over n - 1), not of the
            batch (over n), unless this is False. Images of float32 or float16 are normalized by
            one op then, with an epsilon of 1.001e-5 at least. It is left aside where the inputs
            have not four dimensions, and with `renorm`, `virtual_batch_size`, `adjustment` or
            several axes.
        virtual_batch_size: the batch is normalized in parts of that size, which must divide it;
            the moving statistics follow the means over the parts.
        adjustment: function of the shape of the inputs that gives a scale and a bias for the
            normalized values in training.

    The variables are of float32 where the inputs are of float16 or bfloat16.

    Raises: ``ValueError`` if the size of an axis is unknown, for one twice, other limits, and
        virtual batches of no size, with an `adjustment` or along the batch.
    """
    inputs = convert_to_tensor(inputs)
    axes = list(axis) if isinstance(axis, (list, tuple)) else [axis]
    virtual, clipping = virtual_batch_size is not None, checked_clipping(renorm_clipping)
    plain = len(axes) == 1 and not (renorm or virtual or adjustment)
    with layer_scope(name, "batch_normalization", reuse, inputs):
        layout = _checked_layout(inputs, axes, virtual_batch_size, adjustment)

        def variable(kind: str, initializer: InitializerLike, regularizer: Any = None,
                     trained: bool = False, constraint: Callable | None = None) -> Any:
            return get_variable(kind, layout.kept, dtype_of_statistics(inputs), initializer,
                                regularizer, trained, constraint=constraint)

        gamma = variable("gamma", gamma_initializer, gamma_regularizer, trainable,
                         gamma_constraint) if scale else None
        beta = variable("beta", beta_initializer, beta_regularizer, trainable,
                        beta_constraint) if center else None
        with _unpartitioned():
            moving = (variable("moving_mean", moving_mean_initializer),
                      variable("moving_variance", moving_variance_initializer))
        if plain:
            return _plain(inputs, axes[0], layout, moving, beta, gamma, momentum, epsilon,
                          training, fused)
        with _unpartitioned():
            before = _before(variable, clipping, renorm_momentum, moving_mean_initializer,
                             moving_variance_initializer) if renorm else None
        parts = (inputs if virtual_batch_size is None else
                 in_virtual_batches(inputs, virtual_batch_size))
        outputs = normalize(parts, layout, moving, beta, gamma, momentum, epsilon, training,
                            virtual, before, adjustment)
        return _like(outputs, inputs, virtual)


def _checked_layout(inputs: Tensor, axes: list[int], virtual_batch_size: int | None,
                    adjustment: Callable | None) -> Layout:
    """The layout of what is normalized. Raises ``ValueError`` for axes and virtual batches that the
    inputs cannot have."""
    for axis in axes:
        known_size(inputs, axis, "batch_normalization")
    dims = inputs.shape.as_list()
    if len({a % len(dims) for a in axes}) != len(axes):
        raise ValueError(f"batch_normalization: Duplicate axis: {axes}")
    if virtual_batch_size is not None:
        check_virtual_batches(virtual_batch_size, axes, adjustment, dims)
    return layout_of(dims, [a % len(dims) for a in axes], virtual_batch_size is not None)


def dtype_of_statistics(inputs: Tensor) -> DType:
    """Return the type of statistics, scale and offset: no sums are kept in half precision."""
    dtype = inputs.dtype.base_dtype
    return float32 if dtype in (float16, bfloat16) else dtype


@contextmanager
def _unpartitioned() -> Iterator[None]:
    """Make variables whole meanwhile: moving statistics are assigned to as a whole."""
    scope = get_variable_scope()
    partitioner = scope.partitioner
    scope.set_partitioner(None)
    try:
        yield
    finally:
        scope.set_partitioner(partitioner)


def _before(variable: Callable, clipping: dict, momentum: float, of_mean: Any,
            of_variance: Any) -> Renormalization:
    """The variables of the statistics of training so far."""

    def root(*args: Any, **keywords: Any) -> Tensor:
        return raw_ops.Sqrt(of_variance(*args, **keywords))

    moving = variable("moving_stddev", root)
    return Renormalization(clipping, momentum, variable("renorm_mean", of_mean),
                           variable("renorm_stddev", root), moving)


def _like(outputs: Tensor, inputs: Tensor, virtual: bool) -> Tensor:
    """`outputs` in the shape of `inputs`."""
    if virtual:
        outputs = raw_ops.Reshape(outputs, raw_ops.Shape(inputs))
    outputs.set_shape(inputs.shape)
    return outputs


def _plain(inputs: Tensor, axis: int, layout: Layout, moving: tuple, beta: Variable | None,
           gamma: Variable | None, momentum: float, epsilon: float, training: TensorLike,
           fused: bool | None) -> Tensor:
    """The usual form: one axis, statistics of the whole batch."""
    is_fused = fused is not False and _has_one_op(inputs, axis)
    if isinstance(training, Tensor):  # 1.15 has branches, of more operations
        count_more(get_default_graph(), 6 if is_fused else 20)
    elif training and not is_fused:
        count_more(get_default_graph(), -3)
    if is_fused:
        outputs, *batch = _fused(inputs, axis, moving, beta, gamma, epsilon, training)
    else:
        outputs, *batch = _composed(inputs, layout, moving, beta, gamma, epsilon, training,
                                     fused)
    _update(moving, batch, momentum, training)
    return _like(outputs, inputs, False)


def _has_one_op(inputs: Tensor, axis: int) -> bool:
    """True for images in single or half precision, channels in one of the usual places."""
    rank = len(inputs.shape.as_list())
    return (rank == 4 and axis % rank in (1, 3)
            and inputs.dtype.base_dtype in (float32, float16, bfloat16))


def _fused(inputs: Tensor, axis: int, moving: tuple, beta: Variable | None, gamma: Variable | None,
           epsilon: float, training: TensorLike) -> list[Tensor]:
    """The normalized inputs, the mean and the variance of the population, by one op."""
    size = moving[0].shape.as_list()
    scale = constant(1.0, float32, size) if gamma is None else gamma
    offset = constant(0.0, float32, size) if beta is None else beta
    layout = "NHWC" if axis % 4 == 3 else "NCHW"
    values = [convert_to_tensor(m) for m in moving]

    def normalized(mean: TensorLike | None,
                   variance: TensorLike | None) -> tuple[Tensor, Tensor, Tensor]:
        return fused_batch_norm(inputs, scale, offset, mean, variance, epsilon, layout,
                                mean is None)

    return if_training(training, lambda: list(normalized(None, None)),
                       lambda: [normalized(*values)[0], *values])


def _composed(inputs: Tensor, layout: Layout, moving: tuple, beta: Variable | None,
              gamma: Variable | None, epsilon: float, training: TensorLike,
              fused: bool | None) -> list[Tensor]:
    """The normalized inputs, and the mean and the variance that the moving ones follow."""
    values = [convert_to_tensor(m) for m in moving]
    population = len(inputs.shape) == 4 and fused is not False

    def of_batch() -> list[Tensor]:
        mean, variance = normalization.moments(cast(inputs, dtype_of_statistics(inputs)),
                                               layout.reduced)
        kept = of_population(variance, inputs, mean) if population else variance
        return [mean, variance, kept]

    mean, variance, kept = if_training(training, of_batch, lambda: [*values, values[1]])
    fitted = [layout.fitted(v, inputs.dtype) for v in (mean, variance, beta, gamma)]
    outputs = normalization.batch_normalization(inputs, fitted[0], fitted[1], fitted[2], fitted[3],
                                                epsilon)
    return [outputs, mean, kept]


def _update(moving: tuple, batch: list[Tensor], momentum: float, training: TensorLike) -> None:
    """Add the updates of the moving statistics to the collection, if it may be training."""
    if isinstance(training, (bool, int)) and not training:
        return
    decay = convert_to_tensor(momentum, moving[0].dtype.base_dtype)
    for kept, new in zip(moving, batch, strict=True):
        # Where it is not training the difference is zero.
        add_to_collection(GraphKeys.UPDATE_OPS, follow(kept, new, decay))


def of_population(variance: Tensor, inputs: Tensor, mean: Tensor) -> Tensor:
    """Return the variance over n - 1 from that over n: each `mean` is of n values."""
    count = raw_ops.Cast(raw_ops.FloorDiv(raw_ops.Size(inputs), raw_ops.Size(mean)),
                         DstT=variance.dtype.base_dtype)
    one = variance.dtype.base_dtype.np.type(1)
    others = raw_ops.Maximum(raw_ops.Sub(count, one), one)
    return raw_ops.Mul(variance, raw_ops.RealDiv(count, others))
