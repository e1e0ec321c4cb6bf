"""Generalized divisive normalization (arXiv:1511.06281)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hpcflow as hf
from hpcflow.graph.opdef import RegisterGradient
from hpcflow.graph.operation import Operation, Tensor


class GDN(hf.layers.Layer):
    """Layer ``y[i] = x[i] / √(beta[i] + Σ_j gamma[j, i] x[j]²)`` over channels i and j.

    Attributes:
        beta: tensor ``[channels]``, 1 at first.
        gamma: tensor ``[channels, channels]``, a multiple of the identity at first.
    """

    def __init__(self, inverse: bool = False, beta_min: float = 1e-6, gamma_init: float = 0.1,
                 reparam_offset: float = 2 ** -18, data_format: str = "channels_last",
                 activity_regularizer: Callable | None = None, trainable: bool = True,
                 name: str | None = None, **kwargs: Any) -> None:
        """Take the settings.

        Args:
            inverse: multiply instead of dividing: one step towards the inverse.
            beta_min: lower bound of beta.
            gamma_init: the diagonal of gamma at first.
            reparam_offset: beta and gamma are squares of the variables, less the square of this:
                it keeps their gradients from vanishing at zero.
            data_format: ``"channels_last"`` or ``"channels_first"``.
            activity_regularizer: function of the result whose result joins the losses.
            trainable: whether optimizers change the variables.
            name: name of the scope.

        Raises ``ValueError`` for another format.
        """
        super().__init__(trainable=trainable, name=name,
                         activity_regularizer=activity_regularizer, **kwargs)
        if data_format not in ("channels_first", "channels_last"):
            raise ValueError(f"Unsupported `data_format` for GDN layer: {data_format}.")
        self.inverse = inverse
        self.data_format = data_format
        self._beta_min = beta_min
        self._gamma_init = gamma_init
        self._offset = reparam_offset
        self.input_spec = hf.layers.InputSpec(min_ndim=3, max_ndim=5)

    def build(self, input_shape: Any) -> None:
        """Make the variables; ``ValueError`` for an unknown number of channels."""
        axis = 1 if self.data_format == "channels_first" else -1
        shape = hf.TensorShape(input_shape).as_list()
        channels = shape[axis]
        if channels is None:
            raise ValueError("The channel dimension of the inputs to `GDN` must be defined.")
        self.input_spec = hf.layers.InputSpec(ndim=len(shape), axes={axis: channels})
        pedestal = self._offset ** 2

        def squared(name: str, shape: list[int], first: Callable, bound: float) -> Tensor:
            root = self.add_variable(
                name, shape, dtype=self.dtype, trainable=True,
                initializer=lambda shape, dtype=None, partition_info=None: hf.sqrt(
                    first(shape, dtype) + hf.constant(pedestal, dtype)))
            bounded = _lower_bound(hf.convert_to_tensor(root), hf.constant(bound, self.dtype))
            return hf.square(bounded) - hf.constant(pedestal, self.dtype)

        self.beta = squared("reparam_beta", [channels], hf.ones,
                            (self._beta_min + pedestal) ** 0.5)
        self.gamma = squared("reparam_gamma", [channels, channels], self._first_gamma,
                             self._offset)
        self.built = True

    def _first_gamma(self, shape: Any, dtype: Any) -> Any:
        return hf.constant(self._gamma_init, dtype) * hf.eye(hf.TensorShape(shape).as_list()[0],
                                                            dtype=dtype)

    def call(self, inputs: Any) -> Tensor:
        """Return the normalized inputs, of their shape."""
        inputs = hf.convert_to_tensor(inputs, dtype=self.dtype)
        last = inputs
        if self.data_format == "channels_first":
            rank = inputs.shape.ndims
            last = hf.transpose(inputs, [0, *range(2, rank), 1])
        pool: Any = hf.sqrt(hf.tensordot(hf.square(last), self.gamma, 1) + self.beta)
        if self.data_format == "channels_first":
            pool = hf.transpose(pool, [0, rank - 1, *range(1, rank - 1)])
        outputs = inputs * pool if self.inverse else inputs / pool
        outputs.set_shape(inputs.shape)
        return outputs


def _lower_bound(x: Tensor, bound: Tensor) -> Tensor:
    """The maximum of `x` and `bound`, with a gradient also where `x` is lower but to grow."""
    with hf.get_default_graph().gradient_override_map({"Maximum": "GDNLowerBound"}):
        return hf.maximum(x, bound)


@RegisterGradient("GDNLowerBound")
def _lower_bound_grad(op: Operation, grad: Any) -> list:
    x: Any
    x, bound = op.inputs
    passes = hf.logical_or(x >= bound, grad < 0.0)
    return [hf.cast(passes, grad.dtype) * grad, None]


def gdn(inputs: Any, inverse: bool = False, beta_min: float = 1e-6, gamma_init: float = 0.1,
        reparam_offset: float = 2 ** -18, data_format: str = "channels_last",
        activity_regularizer: Callable | None = None, trainable: bool = True,
        name: str | None = None, reuse: bool | None = None) -> Any:
    """Return what a :class:`GDN` layer makes of `inputs`; `reuse` its variables by `name`."""
    layer = GDN(inverse, beta_min, gamma_init, reparam_offset, data_format, activity_regularizer,
                trainable, name, dtype=inputs.dtype.base_dtype, _scope=name, _reuse=reuse)
    return layer.apply(inputs)
