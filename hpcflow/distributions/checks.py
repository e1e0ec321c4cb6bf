"""Checks of what distributions are given, made when the graph runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import hpcflow as hf
from hpcflow.dtypes import DType, DTypeLike

if TYPE_CHECKING:
    from hpcflow.graph.likes import TensorLike
    from hpcflow.graph.operation import Operation, Tensor


def after(checks: list[Operation], x: Tensor) -> Tensor:
    """`x`, once the checks have passed."""
    with hf.control_dependencies(checks):
        return hf.identity(x)


def assert_integer_form(x: TensorLike, data: list | None = None, summarize: int | None = None,
                        message: str | None = None, int_dtype: DTypeLike | None = None,
                        name: str = "assert_integer_form") -> Operation:
    """An operation that asserts that the elements of `x` are whole numbers (of `int_dtype`)."""
    with hf.name_scope(name, values=[x]):
        x = hf.convert_to_tensor(x, name="x")
        if x.dtype.base_dtype.is_integer:
            return hf.no_op()
        message = message or f"{x.op.name} has non-integer components"
        same_size = {2: hf.int16, 4: hf.int32, 8: hf.int64}.get(x.dtype.base_dtype.size)
        if int_dtype is None and same_size is None:
            raise TypeError(f"assert_integer_form: x of type {x.dtype.name} has no integer type")
        whole = hf.cast(hf.cast(x, int_dtype or same_size), x.dtype.base_dtype)
        return hf.assert_equal(x, whole, data=data, summarize=summarize, message=message)


def embed_check_nonnegative_integer_form(
        x: TensorLike, name: str = "embed_check_nonnegative_integer_form") -> Tensor:
    """`x`, whose elements are asserted to be whole and not negative."""
    with hf.name_scope(name, values=[x]):
        x = hf.convert_to_tensor(x, name="x")
        checks = [hf.assert_non_negative(x, message=f"'{x.op.name}' must be non-negative.")]
        if not x.dtype.base_dtype.is_integer:
            checks.append(assert_integer_form(x, message=(
                f"'{x.op.name}' cannot contain fractional components.")))
        return after(checks, x)


def _largest(dtype: DType) -> int:
    """The integer up to which numbers of this type count by one: float, integer or bool."""
    if dtype == hf.bool:
        return 1
    if dtype.is_floating:
        return int(2 ** (np.finfo(dtype.as_numpy_dtype).nmant + 1))
    return int(dtype.max)


def embed_check_categorical_event_shape(
        categorical_param: TensorLike,
        name: str = "embed_check_categorical_event_shape") -> Tensor:
    """The parameter, with at least two classes last and no more than its type can count.

    Raises ``TypeError`` for types that count nothing, ``ValueError`` where this is known
    statically; else it is asserted when run.
    """
    with hf.name_scope(name, values=[categorical_param]):
        x = hf.convert_to_tensor(categorical_param, name="categorical_param")
        dtype = x.dtype.base_dtype
        if not dtype.is_floating and not dtype.is_integer or dtype.is_quantized:
            raise TypeError(f"Unable to validate size of unrecognized dtype ({dtype.name}).")
        most = _largest(dtype)
        over = f"Number of classes exceeds `dtype` precision, i.e., {dtype.name} implies shape[-1]"
        under = "A categorically-distributed parameter must have at least 2 events."
        known = x.shape[-1].value if x.shape.ndims else None
        if x.shape.ndims == 0 or (known is not None and known < 2):
            raise ValueError(under)
        if known is not None and known > most:
            raise ValueError(f"{over} cannot exceed {most}, but it is {known}.")
        if known is not None:
            return x
        events = hf.shape(x)[-1]
        return after([hf.assert_rank_at_least(x, 1, message=under),
                      hf.assert_greater_equal(events, 2, message=under),
                      hf.assert_less_equal(events, min(most, 2**31 - 1), message=over)], x)


def embed_check_integer_casting_closed(
        x: TensorLike, target_dtype: DTypeLike, assert_nonnegative: bool = True,
        name: str = "embed_check_casting_closed") -> Tensor:
    """`x`, whose elements are asserted to be the same numbers when cast to `target_dtype`.

    Raises ``TypeError`` unless one of both types is an integer type.
    """
    with hf.name_scope(name, values=[x]):
        x = hf.convert_to_tensor(x, name="x")
        own, target = x.dtype.base_dtype, hf.as_dtype(target_dtype).base_dtype
        if not own.is_integer and not own.is_floating:
            raise TypeError(f"{own.name} must be floating- or integer-type.")
        if not (target.is_integer or target.is_floating or target == hf.bool):
            raise TypeError(f"{target.name} must be floating- or integer-type.")
        if own.is_floating and target.is_floating:
            raise TypeError(f"At least one of {own.name} and {target.name} must be integer-type.")
        return after(_casting_checks(x, own, target, assert_nonnegative), x)


def _casting_checks(x: Tensor, own: DType, target: DType, nonnegative: bool) -> list[Operation]:
    checks: list[Any] = []
    if nonnegative:
        checks.append(hf.assert_non_negative(x, message="Elements must be non-negative."))
    if not own.is_integer:
        checks.append(assert_integer_form(x, int_dtype=target, message=(
            f"Elements must be {target.name}-equivalent.")))
        return checks
    most = _largest(target)
    least = 0 if target.is_unsigned or target == hf.bool else -most - 1
    if most < _largest(own):
        checks.append(hf.assert_less_equal(x, hf.constant(most, own), message=(
            f"Elements cannot exceed {most}.")))
    if not nonnegative and least > own.min:
        checks.append(hf.assert_greater_equal(x, hf.constant(least, own), message=(
            f"Elements cannot be smaller than {least}.")))
    return checks
