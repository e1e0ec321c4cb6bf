"""Bijectors of other bijectors, or of functions that the user has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import hpcflow as hf
from hpcflow.contrib.distributions.bijectors.base import Bijector

if TYPE_CHECKING:
    from hpcflow.graph.likes import TensorLike
    from hpcflow.graph.operation import Tensor
    from hpcflow.shapes import TensorShape


class Invert(Bijector):
    """The inverse of a bijector."""

    def __init__(self, bijector: Bijector, validate_args: bool = False,
                 name: str | None = None) -> None:
        super().__init__(bijector.graph_parents, bijector.is_constant_jacobian, validate_args,
                         bijector.dtype, bijector.inverse_min_event_ndims,
                         bijector.forward_min_event_ndims, name or f"invert_{bijector.name}")
        self._bijector = bijector

    @property
    def bijector(self) -> Bijector:
        """The one that this is the inverse of."""
        return self._bijector

    def _gained_dims(self) -> int:
        return -self._bijector._gained_dims()

    def forward(self, x: Any, name: str = "forward") -> Tensor:
        """Return the inverse of the other for `x`."""
        return self._bijector.inverse(x, name)

    def inverse(self, y: Any, name: str = "inverse") -> Tensor:
        """Return the other of `y`."""
        return self._bijector.forward(y, name)

    def forward_log_det_jacobian(self, x: Any, event_ndims: TensorLike,
                                 name: str = "forward_log_det_jacobian") -> Tensor:
        """Return the other's ``inverse_log_det_jacobian``."""
        return self._bijector.inverse_log_det_jacobian(x, event_ndims, name)

    def inverse_log_det_jacobian(self, y: Any, event_ndims: TensorLike,
                                 name: str = "inverse_log_det_jacobian") -> Tensor:
        """Return the other's ``forward_log_det_jacobian``."""
        return self._bijector.forward_log_det_jacobian(y, event_ndims, name)

    def _forward_event_shape(self, shape: TensorShape) -> TensorShape:
        return self._bijector.inverse_event_shape(shape)

    def _inverse_event_shape(self, shape: TensorShape) -> TensorShape:
        return self._bijector.forward_event_shape(shape)

    def _forward_event_shape_tensor(self, shape: Tensor) -> Tensor:
        return self._bijector.inverse_event_shape_tensor(shape)

    def _inverse_event_shape_tensor(self, shape: Tensor) -> Tensor:
        return self._bijector.forward_event_shape_tensor(shape)


class Chain(Bijector):
    """Bijectors one after the other: ``Chain([f, g])`` is ``f(g(x))``.

    Raises ``ValueError`` for two types of arguments.
    """

    def __init__(self, bijectors: Sequence[Bijector] | None = None, validate_args: bool = False,
                 name: str | None = None) -> None:
        self._bijectors = list(bijectors or ())
        dtypes = {b.dtype for b in self._bijectors if b.dtype is not None}
        if len(dtypes) > 1:
            raise ValueError(f"incompatible dtypes: {sorted(d.name for d in dtypes)}")
        forward, inverse = _least_dims(self._bijectors)
        super().__init__(
            [tensor for b in self._bijectors for tensor in b.graph_parents],
            all(b.is_constant_jacobian for b in self._bijectors), validate_args,
            next(iter(dtypes), None), forward, inverse,
            name or ("_of_".join(["chain", *(b.name for b in self._bijectors)])
                     if self._bijectors else "identity"))

    @property
    def bijectors(self) -> list[Bijector]:
        """The bijectors, of which the last comes first."""
        return self._bijectors

    def _gained_dims(self) -> int:
        return sum(b._gained_dims() for b in self._bijectors)

    def _forward(self, x: Tensor) -> Tensor:
        for bijector in reversed(self._bijectors):
            x = bijector.forward(x)
        return x

    def _inverse(self, y: Tensor) -> Tensor:
        for bijector in self._bijectors:
            y = bijector.inverse(y)
        return y

    def forward_log_det_jacobian(self, x: Any, event_ndims: TensorLike,
                                 name: str = "forward_log_det_jacobian") -> Tensor:
        """Return the sum of those of the bijectors, see the base class."""
        return self._sum(x, event_ndims, name, True)

    def inverse_log_det_jacobian(self, y: Any, event_ndims: TensorLike,
                                 name: str = "inverse_log_det_jacobian") -> Tensor:
        """Return the sum of those of the inverses, see the base class."""
        return self._sum(y, event_ndims, name, False)

    def _sum(self, value: Any, event_ndims: TensorLike, name: str, is_forward: bool) -> Tensor:
        least = self._forward_dims if is_forward else self._inverse_dims
        dims = self._checked_dims(event_ndims, least)
        with self._scope(name):
            value = self._tensor(value)
            total = hf.zeros([], value.dtype.base_dtype)
            for b in reversed(self._bijectors) if is_forward else self._bijectors:
                total += (b.forward_log_det_jacobian(value, dims) if is_forward
                          else b.inverse_log_det_jacobian(value, dims))
                value = b.forward(value) if is_forward else b.inverse(value)
                dims += b._gained_dims() if is_forward else -b._gained_dims()
            return total

    def _forward_event_shape(self, shape: TensorShape) -> TensorShape:
        for bijector in reversed(self._bijectors):
            shape = bijector.forward_event_shape(shape)
        return shape

    def _inverse_event_shape(self, shape: TensorShape) -> TensorShape:
        for bijector in self._bijectors:
            shape = bijector.inverse_event_shape(shape)
        return shape

    def _forward_event_shape_tensor(self, shape: Tensor) -> Tensor:
        for bijector in reversed(self._bijectors):
            shape = bijector.forward_event_shape_tensor(shape)
        return shape

    def _inverse_event_shape_tensor(self, shape: Tensor) -> Tensor:
        for bijector in self._bijectors:
            shape = bijector.inverse_event_shape_tensor(shape)
        return shape


def _least_dims(bijectors: list[Bijector]) -> tuple[int, int]:
    """The dimensions that an event needs at least, before all bijectors and behind them."""
    before = now = 0
    for bijector in reversed(bijectors):
        missing = max(0, bijector.forward_min_event_ndims - now)
        before += missing
        now += missing + bijector._gained_dims()
    return before, max(0, now)


class Inline(Bijector):
    """A bijector of functions that are given; ``NotImplementedError`` for those that are not."""

    def __init__(self, forward_fn: Callable | None = None, inverse_fn: Callable | None = None,
                 inverse_log_det_jacobian_fn: Callable | None = None,
                 forward_log_det_jacobian_fn: Callable | None = None,
                 forward_event_shape_fn: Callable | None = None,
                 forward_event_shape_tensor_fn: Callable | None = None,
                 inverse_event_shape_fn: Callable | None = None,
                 inverse_event_shape_tensor_fn: Callable | None = None,
                 is_constant_jacobian: bool = False, validate_args: bool = False,
                 forward_min_event_ndims: int | None = None,
                 inverse_min_event_ndims: int | None = None, name: str = "inline") -> None:
        super().__init__(None, is_constant_jacobian, validate_args, None, forward_min_event_ndims,
                         inverse_min_event_ndims, name)
        given = {"forward": forward_fn, "inverse": inverse_fn,
                 "forward_log_det_jacobian": forward_log_det_jacobian_fn,
                 "inverse_log_det_jacobian": inverse_log_det_jacobian_fn,
                 "forward_event_shape": forward_event_shape_fn,
                 "forward_event_shape_tensor": forward_event_shape_tensor_fn,
                 "inverse_event_shape": inverse_event_shape_fn,
                 "inverse_event_shape_tensor": inverse_event_shape_tensor_fn}
        for method, function in given.items():
            if function is not None:
                setattr(self, f"_{method}", function)
