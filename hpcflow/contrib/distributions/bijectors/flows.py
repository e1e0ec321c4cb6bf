"""Bijectors with networks inside: masked autoregressive flows, real NVP, batch normalization."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import hpcflow as hf
from hpcflow.contrib.distributions.bijectors.base import Bijector

if TYPE_CHECKING:
    from hpcflow.graph.likes import TensorLike
    from hpcflow.graph.operation import Tensor
    from hpcflow.layers import BatchNormalization as Layer
    from hpcflow.shapes import Dims

_Network = Callable[..., tuple[Any, Any]]


class MaskedAutoregressiveFlow(Bijector):
    """The function ``y[i] = x[i] * exp(log_scale[i]) + shift[i]`` of vectors.

    ``shift, log_scale = shift_and_log_scale_fn(y)``, of which element i may depend on ``y[:i]``
    alone; the inverse takes one call of it, the function as many as a vector has elements.

    Args:
        shift_and_log_scale_fn: one of the two that it returns may be None.
        is_constant_jacobian: the determinant does not depend on the argument.
        validate_args: check arguments when the graph runs.
        unroll_loop: build the calls one after the other rather than a loop.
        name: prefix of the names of operations.
    """

    def __init__(self, shift_and_log_scale_fn: _Network, is_constant_jacobian: bool = False,
                 validate_args: bool = False, unroll_loop: bool = False,
                 name: str | None = None) -> None:
        super().__init__(forward_min_event_ndims=1, is_constant_jacobian=is_constant_jacobian,
                         validate_args=validate_args, name=name or "masked_autoregressive_flow")
        self._shift_and_log_scale_fn, self._unroll_loop = shift_and_log_scale_fn, unroll_loop

    def _forward(self, x: Any) -> Any:
        size = x.shape.with_rank_at_least(1)[-1].value
        start = hf.zeros_like(x, name="y0")
        if self._unroll_loop:
            if size is None:
                raise ValueError("The final dimension of `x` must be known at graph construction "
                                 f"time if `unroll_loop=True`. `x.shape: {x.shape!r}`")
            for _ in range(size):
                start = _moved(x, *self._shift_and_log_scale_fn(start))
            return start
        self._shift_and_log_scale_fn(start)  # makes the variables outside of the loop
        count = hf.shape(x)[-1]
        _, y = hf.while_loop(
            lambda index, _: index < count,
            lambda index, y: (index + 1, _moved(x, *self._shift_and_log_scale_fn(y))),
            (0, start), maximum_iterations=size)
        return y

    def _inverse(self, y: Any) -> Any:
        return _moved_back(y, *self._shift_and_log_scale_fn(y))

    def _inverse_log_det_jacobian(self, y: Any) -> Any:
        _, log_scale = self._shift_and_log_scale_fn(y)
        if log_scale is None:
            return hf.constant(0, y.dtype.base_dtype, name="ildj")
        return -hf.reduce_sum(log_scale, axis=-1)


class RealNVP(Bijector):
    """The function of vectors that leaves the first elements, and moves and scales the others.

    ``shift, log_scale = shift_and_log_scale_fn(first, n)`` of the first `num_masked` elements are
    for the n others: ``y = x * exp(log_scale) + shift``. One of the two may be None.

    Raises ``ValueError`` for a negative `num_masked`, and when used for one that is not smaller
    than a vector.
    """

    def __init__(self, num_masked: int, shift_and_log_scale_fn: _Network,
                 is_constant_jacobian: bool = False, validate_args: bool = False,
                 name: str | None = None) -> None:
        super().__init__(forward_min_event_ndims=1, is_constant_jacobian=is_constant_jacobian,
                         validate_args=validate_args, name=name or "real_nvp")
        if num_masked <= 0:
            raise ValueError(f"num_masked must be a positive integer, got {num_masked}")
        self._num_masked = num_masked
        self._input_depth: int | None = None
        self._shift_and_log_scale_fn = shift_and_log_scale_fn

    def _parts(self, vector: Any) -> tuple[Any, Any, Any, Any]:
        """The first elements, the others, and what the network says for those."""
        if self._input_depth is None:
            self._input_depth = vector.shape.with_rank_at_least(1)[-1].value
            if self._input_depth is None:
                raise NotImplementedError(
                    "Rightmost dimension must be known prior to graph execution.")
            if self._num_masked >= self._input_depth:
                raise ValueError("Number of masked units must be smaller than the event size.")
        first, others = vector[..., :self._num_masked], vector[..., self._num_masked:]
        return first, others, *self._shift_and_log_scale_fn(
            first, self._input_depth - self._num_masked)

    def _forward(self, x: Any) -> Any:
        first, others, shift, log_scale = self._parts(x)
        return hf.concat([first, _moved(others, shift, log_scale)], axis=-1)

    def _inverse(self, y: Any) -> Any:
        first, others, shift, log_scale = self._parts(y)
        return hf.concat([first, _moved_back(others, shift, log_scale)], axis=-1)

    def _inverse_log_det_jacobian(self, y: Any) -> Any:
        return -self._forward_log_det_jacobian(y)

    def _forward_log_det_jacobian(self, x: Any) -> Any:
        log_scale = self._parts(x)[-1]
        if log_scale is None:
            return hf.constant(0, x.dtype.base_dtype, name="fldj")
        return hf.reduce_sum(log_scale, axis=-1)


def _moved(x: Any, shift: Any, log_scale: Any) -> Any:
    y = x if log_scale is None else x * hf.exp(log_scale)
    return y if shift is None else y + shift


def _moved_back(y: Any, shift: Any, log_scale: Any) -> Any:
    x = y if shift is None else y - shift
    return x if log_scale is None else x * hf.exp(-log_scale)


class BatchNormalization(Bijector):
    """The inverse of batch normalization: forward takes normalized values back.

    The inverse normalizes with the statistics of the batch while training, and then updates
    those that the layer keeps; forward always takes the kept ones.

    Args:
        batchnorm_layer: an ``hf.layers.BatchNormalization``; by default one whose gamma stays
            positive.
        training: whether the inverse normalizes by the batch.
        validate_args: check arguments when the graph runs.
        name: prefix of the names of operations.

    Raises ``ValueError`` for another kind of layer, and for layers with `renorm` or a
    `virtual_batch_size`.
    """

    def __init__(self, batchnorm_layer: Layer | None = None, training: bool = True,
                 validate_args: bool = False, name: str = "batch_normalization") -> None:
        layer = hf.layers.BatchNormalization(
            gamma_constraint=_positive) if batchnorm_layer is None else batchnorm_layer
        if not isinstance(layer, hf.layers.BatchNormalization):
            raise ValueError("batchnorm_layer must be an instance of BatchNormalization layer.")
        if getattr(layer, "renorm", False):
            raise ValueError("BatchNorm Bijector does not support renormalization.")
        if getattr(layer, "virtual_batch_size", None):
            raise ValueError("BatchNorm Bijector does not support virtual batch sizes.")
        self.batchnorm, self._training = layer, training
        axis = layer.axis
        super().__init__(forward_min_event_ndims=1 if isinstance(axis, int) else len(axis),
                         validate_args=validate_args, name=name)

    def _axes(self, dims: list) -> list[int]:
        axis = self.batchnorm.axis
        return [a % len(dims) for a in ([axis] if isinstance(axis, int) else axis)]

    def _dims(self, x: Tensor) -> list:
        """The known dimensions of a value; the layer has its variables then."""
        if not x.shape.is_fully_defined():
            raise ValueError("Input must have shape known at graph construction.")
        if not self.batchnorm.built:
            self.batchnorm.build(x.shape)
            self.batchnorm.built = True
        return x.shape.as_list()

    def _forward(self, x: Any) -> Any:
        dims = self._dims(x)
        axes = self._axes(dims)
        along = [size if i in axes else 1 for i, size in enumerate(dims)]
        layer = self.batchnorm
        if layer.center:
            x = x - hf.reshape(layer.beta, along)
        deviation = hf.sqrt(hf.reshape(layer.moving_variance, along) + layer.epsilon)
        if layer.scale:
            deviation /= hf.reshape(layer.gamma, along)
        return x * deviation + hf.reshape(layer.moving_mean, along)

    def _inverse(self, y: Any) -> Any:
        return self.batchnorm.apply(y, training=self._training)

    def _forward_log_det_jacobian(self, x: Any) -> Any:
        self._dims(x)
        return -self._log_determinant(self.batchnorm.moving_variance)

    def _inverse_log_det_jacobian(self, y: Any) -> Any:
        dims = self._dims(y)
        if not self._training:
            return self._log_determinant(self.batchnorm.moving_variance)
        others = [i for i in range(len(dims)) if i not in self._axes(dims)]
        return self._log_determinant(hf.nn.moments(y, axes=others, keep_dims=True)[1])

    def _log_determinant(self, variance: Any) -> Any:
        spread = 0.5 * hf.reduce_sum(hf.log(variance + self.batchnorm.epsilon))
        if not self.batchnorm.scale:
            return -spread
        return hf.reduce_sum(hf.log(self.batchnorm.gamma)) - spread


def _positive(gamma: Any) -> Any:
    positive: Any = hf.nn.relu(gamma)
    return positive + 1e-6


def masked_dense(inputs: TensorLike, units: int, num_blocks: int | None = None,
                 exclusive: bool = False, kernel_initializer: Callable | None = None,
                 reuse: bool | None = None, name: str | None = None, *args: Any,
                 **kwargs: Any) -> Tensor:
    """Return a dense layer of `inputs` in which a block of units sees no later block of inputs.

    Args:
        inputs: ``[..., depth]``, the depth known.
        units: the number of outputs.
        num_blocks: into how many blocks inputs and outputs are cut.
        exclusive: whether a block does not see its own block of inputs either.
        kernel_initializer: of the whole kernel; glorot_normal by default.
        reuse: use a layer of this name again.
        name: the name of the layer.
        args, kwargs: of ``hf.layers.Dense``, after `units`.

    Raises ``NotImplementedError`` for inputs of unknown depth.
    """
    inputs = hf.convert_to_tensor(inputs)
    depth = inputs.shape.with_rank_at_least(1)[-1].value
    if depth is None:
        raise NotImplementedError("Rightmost dimension must be known prior to graph execution.")
    mask = _mask(int(num_blocks or 1), depth, units, exclusive).T
    start = kernel_initializer or hf.glorot_normal_initializer()

    def masked(dims: Dims, dtype: Any = None, partition_info: Any = None) -> Tensor:
        return mask * start(dims, dtype, partition_info)

    with hf.name_scope(name, "masked_dense", [inputs, units, num_blocks]):
        layer = hf.layers.Dense(
            units, *args, kernel_initializer=masked, kernel_constraint=lambda x: mask * x,
            name=name, dtype=inputs.dtype.base_dtype, _scope=name, _reuse=reuse, **kwargs)
        return layer.apply(inputs)


def _mask(blocks: int, inputs: int, units: int, exclusive: bool) -> np.ndarray:
    """``[units, inputs]``, one where a unit sees an input."""
    wide, high = inputs // blocks, units // blocks
    mask = np.zeros([units, inputs], np.float32)
    for block in range(blocks):
        first = (block + bool(exclusive)) * high
        mask[first:, block * wide:(block + 1) * wide] = 1
    return mask


def masked_autoregressive_default_template(
        hidden_layers: Sequence[int], shift_only: bool = False,
        activation: Callable | None = hf.nn.relu, log_scale_min_clip: float = -5.0,
        log_scale_max_clip: float = 3.0, log_scale_clip_gradient: bool = False,
        name: str | None = None, **kwargs: Any) -> Callable:
    """Return a network of masked layers for ``MaskedAutoregressiveFlow``.

    Args:
        hidden_layers: the numbers of units of the hidden layers.
        shift_only: whether there is no log_scale: it is None.
        activation: of the hidden layers.
        log_scale_min_clip, log_scale_max_clip: bounds of log_scale.
        log_scale_clip_gradient: whether the gradient is cut at the bounds, too.
        name: the scope of the variables.
        kwargs: of ``hf.layers.Dense``.

    The network raises ``NotImplementedError`` for vectors of unknown size.
    """
    def network(x: Tensor) -> tuple[Any, Any]:
        depth = x.shape.with_rank_at_least(1)[-1].value
        if depth is None:
            raise NotImplementedError(
                "Rightmost dimension must be known prior to graph execution.")
        dims = x.shape.as_list() if x.shape.is_fully_defined() else hf.shape(x)
        for i, units in enumerate(hidden_layers):
            x = masked_dense(x, units, depth, i == 0, activation=activation, **kwargs)
        x = masked_dense(x, (1 if shift_only else 2) * depth, depth, activation=None, **kwargs)
        if shift_only:
            return hf.reshape(x, dims), None
        shift, log_scale = hf.unstack(hf.reshape(x, hf.concat([dims, [2]], axis=0)), 2, axis=-1)
        clipped = hf.clip_by_value(log_scale, log_scale_min_clip, log_scale_max_clip)
        if not log_scale_clip_gradient:
            clipped = log_scale + hf.stop_gradient(clipped - log_scale)
        return shift, clipped

    return hf.make_template(name or "masked_autoregressive_default_template", network)


def real_nvp_default_template(
        hidden_layers: Sequence[int], shift_only: bool = False,
        activation: Callable | None = hf.nn.relu, name: str | None = None,
        **kwargs: Any) -> Callable:
    """Return a network of dense layers for ``RealNVP``.

    Args:
        hidden_layers: the numbers of units of the hidden layers.
        shift_only: whether there is no log_scale: it is None.
        activation: of the hidden layers.
        name: has no effect; for the 1.x API.
        kwargs: of ``hf.layers.dense``.
    """
    def network(x: Tensor, output_units: int) -> tuple[Any, Any]:
        for units in hidden_layers:
            x = hf.layers.dense(x, units, activation=activation, **kwargs)
        x = hf.layers.dense(x, (1 if shift_only else 2) * output_units, activation=None, **kwargs)
        if shift_only:
            return x, None
        shift, log_scale = hf.split(x, 2, axis=-1)
        return shift, log_scale

    return hf.make_template("real_nvp_default_template", network)
