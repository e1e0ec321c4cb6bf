"""Helpers of programs that define distributions: static values, checks, triangles, sums of logs."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import hpcflow as hf
from hpcflow.distributions.base import logits_and_probs
from hpcflow.distributions.checks import (  # noqa: F401 - of this path too
    assert_integer_form,
    embed_check_categorical_event_shape,
    embed_check_integer_casting_closed,
    embed_check_nonnegative_integer_form,
)
from hpcflow.distributions.seeds import gen_new_seed  # noqa: F401 - of this path too
from hpcflow.dtypes import DTypeLike

if TYPE_CHECKING:
    from hpcflow.graph.likes import TensorLike
    from hpcflow.graph.operation import Tensor


def maybe_get_static_value(x: TensorLike, dtype: DTypeLike | None = None) -> Any:
    """The value of `x` as an array of `dtype`, or None where only a session knows it."""
    if x is None:
        return None
    value = hf.constant_value(x) if isinstance(x, hf.Tensor) else np.asarray(x)
    if value is None or dtype is None:
        return value
    return np.asarray(value, hf.as_dtype(dtype).as_numpy_dtype)


def get_logits_and_probs(logits: TensorLike | None = None, probs: TensorLike | None = None,
                         multidimensional: bool = False, validate_args: bool = False,
                         name: str = "get_logits_and_probs", dtype: DTypeLike | None = None
                         ) -> tuple:
    """Both forms of a probability (or, if `multidimensional`, of those along the last dimension)
    from the one that is given; ``ValueError`` unless exactly one is."""
    with hf.name_scope(name, values=[logits, probs]):
        if dtype is not None:
            logits, probs = (v if v is None else hf.convert_to_tensor(v, dtype)
                             for v in (logits, probs))
        return logits_and_probs(logits, probs, validate_args, multidimensional)


def log_combinations(n: Any, counts: Any, name: str = "log_combinations") -> Tensor:
    """The logarithm of the ways to part `n` draws into `counts`, along their last dimension."""
    with hf.name_scope(name, values=[n, counts]):
        n, counts = hf.convert_to_tensor(n, name="n"), hf.convert_to_tensor(counts, name="counts")
        return hf.lgamma(n + 1) - hf.reduce_sum(hf.lgamma(counts + 1), -1)


def same_dynamic_shape(a: TensorLike, b: TensorLike) -> Tensor:
    """A boolean tensor: true if `a` and `b` have the same shape when the graph runs."""
    a, b = hf.convert_to_tensor(a, name="a"), hf.convert_to_tensor(b, name="b")

    def equal() -> Tensor:
        return hf.reduce_all(hf.equal(hf.concat([hf.shape(a), hf.shape(b)], 0),
                                      hf.concat([hf.shape(b), hf.shape(a)], 0)))

    return hf.cond(hf.equal(hf.rank(a), hf.rank(b)), equal, lambda: hf.constant(False))


def rotate_transpose(x: Any, shift: Any, name: str = "rotate_transpose") -> Tensor:
    """`x` with its dimensions moved by `shift` places to the right, round the end."""
    with hf.name_scope(name, values=[x, shift]):
        x = hf.convert_to_tensor(x, name="x")
        by, rank = maybe_get_static_value(shift), x.shape.ndims
        if by is not None and rank is not None:
            return hf.transpose(x, np.roll(np.arange(rank), int(by)))
        places = hf.rank(x)
        return hf.transpose(x, hf.floormod(hf.range(places) - shift, places))


def pick_vector(cond: TensorLike, true_vector: TensorLike, false_vector: TensorLike,
                name: str = "pick_vector") -> Any:
    """The one vector or the other by the scalar `cond`, itself where that is known statically.

    Raises ``TypeError`` unless `cond` is boolean and both vectors are of one type.
    """
    with hf.name_scope(name, values=[cond, true_vector, false_vector]):
        cond = hf.convert_to_tensor(cond, name="cond")
        if cond.dtype.base_dtype != hf.bool:
            raise TypeError(f"pick_vector: cond must be of type bool, got {cond.dtype.name}")
        known = hf.constant_value(cond)
        if known is not None:
            return hf.convert_to_tensor(true_vector if known else false_vector)
        first = hf.convert_to_tensor(true_vector, name="true_vector")
        second = hf.convert_to_tensor(false_vector, name="false_vector")
        if first.dtype.base_dtype != second.dtype.base_dtype:
            raise TypeError(f"pick_vector: vectors must be of one type, got {first.dtype.name} "
                            f"and {second.dtype.name}")
        begin = hf.where(cond, 0, hf.shape(first)[0])
        size = hf.where(cond, hf.shape(first)[0], -1)
        return hf.slice(hf.concat([first, second], 0), [begin], [size])


def prefer_static_rank(x: TensorLike) -> Any:
    """The rank of `x` as an array, or as a tensor where it is not known statically."""
    return prefer_static_value(hf.rank(x))


def prefer_static_shape(x: TensorLike) -> Any:
    """The shape of `x` as an array, or as a tensor where it is not known statically."""
    return prefer_static_value(hf.shape(x))


def prefer_static_value(x: TensorLike) -> Any:
    """The value of `x` as an array, or `x` where only a session knows it."""
    value = hf.constant_value(x) if isinstance(x, hf.Tensor) else x
    return x if value is None else np.asarray(value)


def _side(x: Tensor) -> Any:
    """How large a triangle of the elements along the last dimension of `x` is: statically, or as
    a tensor; ``ValueError`` where that is no whole number."""
    count = x.shape[-1].value if x.shape.ndims is not None else None
    if count is None:
        sizes: Any = hf.shape(x)
        elements: Any = hf.cast(sizes[-1], hf.float64)
        root: Any = hf.sqrt(elements * 2.0 + 0.25)
        return hf.cast(hf.round(root - 0.5), hf.int32)
    side = int(np.floor(np.sqrt(0.25 + 2.0 * count)))
    if side * (side + 1) // 2 != count:
        raise ValueError(f"fill_triangular: a triangle has n (n + 1) / 2 elements, but the last "
                         f"dimension of x is {count}")
    return side


def fill_triangular(x: Any, upper: bool = False, name: str = "fill_triangular") -> Tensor:
    """Triangular matrices of the elements along the last dimension of `x`, clockwise around.

    Row after row holds the last elements first: ``[1, 2, 3, 4, 5, 6]`` gives
    ``[[4, 0, 0], [6, 5, 0], [3, 2, 1]]``, and with `upper` ``[[1, 2, 3], [0, 5, 6], [0, 0, 4]]``.
    """
    with hf.name_scope(name, values=[x]):
        x = hf.convert_to_tensor(x, name="x")
        side, batch = _side(x), prefer_static_shape(x)[:-1]
        # The square is the elements followed by those, but the first row, once more backwards.
        rest, back = x[..., side:], hf.reverse(x, [-1])
        parts = [x, hf.reverse(rest, [-1])] if upper else [rest, back]
        square = hf.reshape(hf.concat(parts, -1), hf.concat([batch, [side, side]], 0))
        if x.shape.ndims is not None:
            known = side if isinstance(side, int) else None
            square.set_shape(x.shape[:-1].concatenate([known, known]))
        return hf.matrix_band_part(square, 0 if upper else -1, -1 if upper else 0)


def fill_triangular_inverse(x: Any, upper: bool = False,
                            name: str = "fill_triangular_inverse") -> Tensor:
    """The vectors of which :func:`fill_triangular` makes the matrices `x`."""
    with hf.name_scope(name, values=[x]):
        x = hf.convert_to_tensor(x, name="x")
        side = prefer_static_shape(x)[-1]
        count = side * (side + 1) // 2
        batch = prefer_static_shape(x)[:-2]
        flat = hf.reshape(x, hf.concat([batch, [side * side]], 0))
        # Half of the elements are above the diagonal; the first (or last) row is whole.
        first = flat[..., :side] if upper else hf.reverse(flat[..., -side:], [-1])
        found = hf.concat([first, _folded(flat, side, upper)], -1)[..., :count]
        if x.shape.ndims is not None:
            known = None if isinstance(count, hf.Tensor) else int(count)
            found.set_shape(x.shape[:-2].concatenate([known]))
        return found


def _folded(flat: Any, side: Any, upper: bool) -> Tensor:
    """What follows the first row: the two halves, which are 0 in different places, added."""
    rest = flat[..., side:] if upper else flat[..., :-side]
    return rest + hf.reverse(rest, [-1])


def reduce_weighted_logsumexp(logx: Any, w: Any = None,
                              axis: int | Sequence[int] | None = None, keep_dims: bool = False,
                              return_sign: bool = False, name: str = "reduce_weighted_logsumexp"
                              ) -> Any:
    """The logarithm of ``abs(sum(w * exp(logx)))`` along `axis`, and if asked for, its sign."""
    with hf.name_scope(name, values=[logx, w]):
        logx = hf.convert_to_tensor(logx, name="logx")
        if w is None:
            found = hf.reduce_logsumexp(logx, axis=axis, keepdims=keep_dims)
            return (found, hf.ones_like(found)) if return_sign else found
        w = hf.convert_to_tensor(w, logx.dtype, name="w")
        terms: Any = logx + hf.log(hf.abs(w))
        top = hf.stop_gradient(hf.reduce_max(terms, axis=axis, keepdims=True))
        top = hf.where(hf.is_inf(top), hf.zeros_like(top), top)
        total = hf.reduce_sum(hf.sign(w) * hf.exp(terms - top), axis=axis, keepdims=keep_dims)
        sign = hf.sign(total)
        found = hf.log(sign * total) + (top if keep_dims else hf.squeeze(top, axis=axis))
        return (found, sign) if return_sign else found


def softplus_inverse(x: Any, name: str | None = None) -> Tensor:
    """The `y` for which ``log(1 + exp(y))`` is `x` > 0, also where that rounds to an end."""
    with hf.name_scope(name, "softplus_inverse", values=[x]):
        x = hf.convert_to_tensor(x, name="x")
        edge = np.log(np.finfo(x.dtype.base_dtype.as_numpy_dtype).eps) + 2.0
        small, large = x < np.exp(edge), x > -edge
        between = hf.where(hf.logical_or(small, large), hf.ones_like(x), x)
        middle = between + hf.log(-hf.expm1(-between))
        tiny = hf.where(small, x, hf.ones_like(x))
        return hf.where(small, hf.log(tiny), hf.where(large, x, middle))


def parent_frame_arguments() -> dict[str, Any]:
    """The arguments by name, and keyword arguments, of the function that calls this one."""
    frame = inspect.currentframe()
    caller = frame.f_back if frame is not None else None
    if caller is None:
        return {}
    names, variable, keywords, values = inspect.getargvalues(caller)
    del variable  # positional arguments beyond the named ones have no names
    return {**{name: values[name] for name in names}, **(values[keywords] if keywords else {})}
