"""The base class of bijectors: functions that have an inverse and a Jacobian's determinant."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

import hpcflow as hf

if TYPE_CHECKING:
    from hpcflow.dtypes import DTypeLike
    from hpcflow.graph.likes import TensorLike
    from hpcflow.graph.operation import Operation, Tensor
    from hpcflow.shapes import TensorShape


class Bijector:
    """A function with an inverse, and the logarithm of its Jacobian's determinant.

    A subclass gives ``_forward``, ``_inverse``, and one of ``_forward_log_det_jacobian`` and
    ``_inverse_log_det_jacobian``, for events of ``forward_min_event_ndims`` dimensions; and
    ``_forward_event_shape`` with its kin where shapes change.

    What went through one way is not computed back: the inverse of ``forward(x)`` is `x` itself.

    Args:
        graph_parents: for the 1.x API.
        is_constant_jacobian: the determinant does not depend on the argument.
        validate_args: check arguments when the graph runs.
        dtype: type of the arguments; None for any.
        forward_min_event_ndims, inverse_min_event_ndims: dimensions of an event that the function
            and its inverse need; one of them is that of the other by default.
        name: prefix of the names of operations.

    Raises ``ValueError`` where neither number of dimensions is given, or one is no whole number.
    """

    def __init__(self, graph_parents: list | None = None, is_constant_jacobian: bool = False,
                 validate_args: bool = False, dtype: DTypeLike | None = None,
                 forward_min_event_ndims: int | None = None,
                 inverse_min_event_ndims: int | None = None, name: str | None = None) -> None:
        self._graph_parents = list(graph_parents or ())
        if forward_min_event_ndims is None and inverse_min_event_ndims is None:
            raise ValueError("Must specify at least one of `forward_min_event_ndims` and "
                             "`inverse_min_event_ndims`.")
        for given in (forward_min_event_ndims, inverse_min_event_ndims):
            if given is not None and (not isinstance(given, int) or given < 0):
                raise ValueError(f"min_event_ndims must be an integer of at least 0, got {given}")
        forward, inverse = forward_min_event_ndims, inverse_min_event_ndims
        self._forward_dims: int = int(inverse if forward is None else forward)  # type: ignore[arg-type]
        self._inverse_dims: int = int(forward if inverse is None else inverse)  # type: ignore[arg-type]
        self._is_constant, self._validate_args = is_constant_jacobian, validate_args
        self._dtype = None if dtype is None else hf.as_dtype(dtype)
        own = type(self).__name__.lstrip("_")
        self._name = name or re.sub(r"(?<=[a-z])(?=[A-Z])", "_", own).lower()
        self._arguments: dict[Tensor, Tensor] = {}  # by the result
        self._results: dict[Tensor, Tensor] = {}  # by the argument
        # log |det J| of the function, by the argument or the result, and the dimensions of events
        self._log_dets: dict[tuple[Tensor, Any], Any] = {}

    # ------------------------------------------------------------ facts

    @property
    def name(self) -> str:
        """The prefix of the names of operations."""
        return self._name

    @property
    def dtype(self) -> Any:
        """The type of the arguments; None for any."""
        return self._dtype

    @property
    def graph_parents(self) -> list:
        """The tensors that were named as its own."""
        return self._graph_parents

    @property
    def validate_args(self) -> bool:
        """True if arguments are checked when the graph runs."""
        return self._validate_args

    @property
    def is_constant_jacobian(self) -> bool:
        """True if the determinant does not depend on the argument."""
        return self._is_constant

    @property
    def forward_min_event_ndims(self) -> int:
        """The number of dimensions of an event that goes forward."""
        return self._forward_dims

    @property
    def inverse_min_event_ndims(self) -> int:
        """The number of dimensions of an event that goes back."""
        return self._inverse_dims

    def forward_event_shape(self, input_shape: Any) -> TensorShape:
        """Return the static shape that events of `input_shape` get."""
        return hf.TensorShape(self._forward_event_shape(hf.TensorShape(input_shape)))

    def inverse_event_shape(self, output_shape: Any) -> TensorShape:
        """Return the static shape of the events that become those of `output_shape`."""
        return hf.TensorShape(self._inverse_event_shape(hf.TensorShape(output_shape)))

    def forward_event_shape_tensor(self, input_shape: TensorLike,
                                   name: str = "forward_event_shape_tensor") -> Tensor:
        """Return the shape that events of `input_shape` get, int32."""
        with self._scope(name):
            shape = hf.convert_to_tensor(input_shape, hf.int32)
            return self._forward_event_shape_tensor(shape)

    def inverse_event_shape_tensor(self, output_shape: TensorLike,
                                   name: str = "inverse_event_shape_tensor") -> Tensor:
        """Return the shape of the events that become those of `output_shape`, int32."""
        with self._scope(name):
            shape = hf.convert_to_tensor(output_shape, hf.int32)
            return self._inverse_event_shape_tensor(shape)

    # ------------------------------------------------------------ values

    def forward(self, x: TensorLike, name: str = "forward") -> Tensor:
        """Return the function of `x`."""
        with self._scope(name):
            x = self._tensor(x)
            if x not in self._results:
                self._remember(x, self._has("_forward")(x))
            return self._results[x]

    def inverse(self, y: TensorLike, name: str = "inverse") -> Tensor:
        """Return what the function is `y` of."""
        with self._scope(name):
            y = self._tensor(y)
            if y not in self._arguments:
                self._remember(self._has("_inverse")(y), y)
            return self._arguments[y]

    def forward_log_det_jacobian(self, x: TensorLike, event_ndims: TensorLike,
                                 name: str = "forward_log_det_jacobian") -> Tensor:
        """Return log |det J| of the function at `x`, for events of `event_ndims` dimensions.

        Raises ``ValueError`` for fewer dimensions than ``forward_min_event_ndims``.
        """
        with self._scope(name):
            dims, x = self._checked_dims(event_ndims, self._forward_dims), self._tensor(x)
            known = self._log_dets.get((x, dims))
            if known is None and x in self._results:
                known = self._log_dets.get((self._results[x], dims + self._gained_dims()))
            if known is None:
                self._log_dets[x, dims] = known = self._log_det(x, dims)
            return known

    def inverse_log_det_jacobian(self, y: TensorLike, event_ndims: TensorLike,
                                 name: str = "inverse_log_det_jacobian") -> Tensor:
        """Return log |det J| of the inverse at `y`, for events of `event_ndims` dimensions.

        Raises ``ValueError`` for fewer dimensions than ``inverse_min_event_ndims``.
        """
        with self._scope(name):
            dims, y = self._checked_dims(event_ndims, self._inverse_dims), self._tensor(y)
            known = self._log_dets.get((y, dims))
            if known is None and y in self._arguments:
                known = self._log_dets.get((self._arguments[y], dims - self._gained_dims()))
            if known is not None:
                return -known
            found: Any = self._inverse_log_det(y, dims)
            self._log_dets[y, dims] = -found
            return found

    def _log_det(self, x: Tensor, dims: Any) -> Tensor:
        own = getattr(self, "_forward_log_det_jacobian", None)
        if own is not None:
            return self._over_event(x, own(x), self._forward_dims, dims)
        inverse = self._has("_inverse_log_det_jacobian", "_forward_log_det_jacobian")
        y = self.forward(x)
        return self._over_event(y, -inverse(y), self._inverse_dims, dims + self._gained_dims())

    def _inverse_log_det(self, y: Tensor, dims: Any) -> Tensor:
        own = getattr(self, "_inverse_log_det_jacobian", None)
        if own is not None:
            return self._over_event(y, own(y), self._inverse_dims, dims)
        forward = self._has("_forward_log_det_jacobian", "_inverse_log_det_jacobian")
        x = self.inverse(y)
        return self._over_event(x, -forward(x), self._forward_dims, dims - self._gained_dims())

    # ------------------------------------------------------------ for subclasses

    def _gained_dims(self) -> int:
        """The dimensions that an event has more behind the function than before."""
        return self._inverse_dims - self._forward_dims

    def _forward_event_shape(self, shape: TensorShape) -> TensorShape:
        return shape

    def _inverse_event_shape(self, shape: TensorShape) -> TensorShape:
        return shape

    def _forward_event_shape_tensor(self, shape: Tensor) -> Tensor:
        return shape

    def _inverse_event_shape_tensor(self, shape: Tensor) -> Tensor:
        return shape

    def _tensor(self, value: TensorLike) -> Tensor:
        tensor = hf.convert_to_tensor(value, preferred_dtype=self._dtype)
        if self._dtype is not None and tensor.dtype.base_dtype != self._dtype:
            raise TypeError(f"Input had dtype {tensor.dtype} but expected {self._dtype}.")
        return tensor

    def _scope(self, name: str) -> Any:
        return hf.name_scope(f"{self._name}/{name}")

    def _has(self, method: str, wanted: str | None = None) -> Callable[[Tensor], Any]:
        found = getattr(self, method, None)
        if found is None:
            raise NotImplementedError(f"{(wanted or method).strip('_')} not implemented: "
                                      f"{type(self).__name__}")
        return found

    def _remember(self, x: Tensor, y: Tensor) -> None:
        self._results[x], self._arguments[y] = y, x

    def _over_event(self, at: Tensor, value: Any, least: int, dims: Any) -> Tensor:
        """The sum over the dimensions of an event beyond the `least` that `value` is for."""
        value = hf.convert_to_tensor(value, preferred_dtype=at.dtype.base_dtype)
        if isinstance(dims, int) and dims == least:
            return value
        if self._is_constant:
            rank = hf.rank(at)
            shape = hf.shape(at)[rank - dims : rank - least]
            value = value * hf.ones(shape, value.dtype.base_dtype)
        axes = list(range(-(dims - least), 0)) if isinstance(dims, int) else hf.range(
            least - dims, 0)
        return hf.reduce_sum(value, axes)

    def _checked_dims(self, event_ndims: Any, least: int) -> Any:
        """The number of dimensions of an event: an int, or a tensor where it is not known."""
        fed = isinstance(event_ndims, hf.Tensor)
        known = hf.constant_value(event_ndims) if fed else np.asarray(event_ndims)
        kind = event_ndims.dtype.base_dtype.np if fed else np.asarray(event_ndims).dtype
        if kind.kind not in "iu":
            raise ValueError(f"Expected integer event_ndims, got {event_ndims}")
        if (event_ndims.shape.ndims if fed else np.ndim(event_ndims)) not in (None, 0):
            raise ValueError(f"Expected scalar event_ndims, got {event_ndims}")
        if known is not None:
            if known < least:
                raise ValueError(f"event_ndims ({known}) must be larger than min_event_ndims "
                                 f"({least})")
            return int(known)
        if not self._validate_args:
            return event_ndims
        return checked(event_ndims,
                       hf.assert_rank(event_ndims, 0, message="Expected scalar event_ndims"),
                       hf.assert_greater_equal(event_ndims, least))


def checked(value: Tensor, *checks: Operation) -> Tensor:
    """Return `value`, which is there once the checks have passed."""
    with hf.control_dependencies(list(checks)):
        return hf.identity(value)
