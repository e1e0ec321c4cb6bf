"""Clipping of tensors by value and by norm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hpcflow import dtypes
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import colocate_with, name_scope
from hpcflow.graph.indexed_slices import IndexedSlices
from hpcflow.graph.likes import AxisLike, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops

__all__ = [
    "clip_by_average_norm",
    "clip_by_global_norm",
    "clip_by_norm",
    "clip_by_value",
    "global_norm",
]


def clip_by_value(t: TensorLike, clip_value_min: TensorLike, clip_value_max: TensorLike,
                  name: str | None = None) -> Any:
    """Return `t` with elements below `clip_value_min` or above `clip_value_max` set to these.

    Of IndexedSlices the values are clipped. Raises ``ValueError`` for bounds that would give the
    result another shape.
    """
    bounds = _graph_values(t, clip_value_min, clip_value_max)
    with name_scope(name, "clip_by_value", bounds) as scope:
        values = _dense_part(t)
        clipped = raw_ops.Maximum(raw_ops.Minimum(values, clip_value_max), clip_value_min,
                                  name=scope)
        values.get_shape().assert_is_compatible_with(clipped.get_shape())
        return _like(t, clipped)


def _dense_part(t: TensorLike) -> Tensor:
    """`t` as a tensor; of IndexedSlices the values."""
    return convert_to_tensor(t.values if isinstance(t, IndexedSlices) else t, name="t")


def _like(original: Any, values: Tensor) -> Any:
    """`values`, as IndexedSlices if `original` is."""
    if isinstance(original, IndexedSlices):
        return IndexedSlices(values, original.indices, original.dense_shape)
    return values


def clip_by_norm(t: TensorLike, clip_norm: TensorLike, axes: AxisLike | None = None,
                 name: str | None = None) -> Any:
    """Return `t`, scaled down so that its L2 norm is at most `clip_norm`.

    With `axes` the norm is taken over these dimensions, and every slice along them is scaled by
    itself. A tensor of zeros stays as it is, and has a gradient. Of IndexedSlices the values are
    scaled. Raises ``ValueError`` for a `clip_norm` that would give the result another shape.
    """
    with name_scope(name, "clip_by_norm", _graph_values(t, clip_norm)) as scope:
        original, t = t, _dense_part(t)
        limit = convert_to_tensor(clip_norm, t.dtype.base_dtype)
        squares = raw_ops.Sum(raw_ops.Mul(t, t), _all_axes(t) if axes is None else axes,
                              keep_dims=True)
        # The root's gradient at 0 is infinite, so zero norms take the root of 1 instead.
        positive = raw_ops.Greater(squares, raw_ops.ZerosLike(squares))
        safe = raw_ops.Select(positive, squares, raw_ops.OnesLike(squares))
        norm = raw_ops.Select(positive, raw_ops.Sqrt(safe), squares)
        scaled = raw_ops.Mul(t, limit)
        t.get_shape().assert_is_compatible_with(scaled.get_shape())
        return _like(original, raw_ops.RealDiv(scaled, raw_ops.Maximum(norm, limit), name=scope))


def clip_by_average_norm(t: TensorLike, clip_norm: TensorLike, name: str | None = None) -> Tensor:
    """Return `t`, scaled down so that its L2 norm over its number of elements is at most
    `clip_norm`."""
    with name_scope(name, "clip_by_average_norm", _graph_values(t, clip_norm)) as scope:
        t = convert_to_tensor(t, name="t")
        dtype = t.dtype.base_dtype
        limit = convert_to_tensor(clip_norm, dtype)
        count = raw_ops.Cast(raw_ops.Size(t), DstT=dtype)
        inverse = raw_ops.Rsqrt(raw_ops.Sum(raw_ops.Mul(t, t), _all_axes(t)))
        factor = raw_ops.Minimum(raw_ops.Mul(inverse, count), raw_ops.Reciprocal(limit))
        return raw_ops.Mul(raw_ops.Mul(t, limit), factor, name=scope)


def global_norm(t_list: Sequence[Any], name: str | None = None) -> Tensor:
    """Return the L2 norm of all elements of all tensors, ``sqrt(sum(norm(t)**2))``.

    Entries may be IndexedSlices, whose values count, or None; where there is nothing else, the norm
    is a float32 zero. Raises ``TypeError`` for what is no sequence.
    """
    values = _values_of(t_list)
    with name_scope(name, "global_norm", [v for v in values if v is not None]):
        halves = []
        for value in values:
            if value is not None:
                with colocate_with(value):
                    halves.append(raw_ops.L2Loss(value))
        if not halves:
            return convert_to_tensor(0.0)
        half = raw_ops.AddN(inputs=halves) if len(halves) > 1 else halves[0]
        two = convert_to_tensor(2.0, half.dtype.base_dtype)
        return raw_ops.Sqrt(raw_ops.Mul(half, two, name="mul"), name="global_norm")


def clip_by_global_norm(t_list: Sequence[Any], clip_norm: TensorLike,
                        use_norm: TensorLike | None = None,
                        name: str | None = None) -> tuple[list, Tensor]:
    """Scale all tensors by one factor, such that their global norm is at most `clip_norm`.

    Args:
        t_list: tensors, IndexedSlices and None (which stays None).
        clip_norm: the limit, a positive scalar.
        use_norm: the global norm, if it was computed already.
        name: name of the operations.

    Returns: the list of scaled tensors, and the global norm before. If that is infinite or NaN,
        all elements become NaN (Pascanu et al., 2012).
    """
    values = _values_of(t_list)
    norm = global_norm(t_list, name) if use_norm is None else convert_to_tensor(use_norm)
    inputs = [v for v in values if v is not None] + [norm]
    with name_scope(name, "clip_by_global_norm", inputs) as scope:
        dtype = norm.dtype.base_dtype
        limit = convert_to_tensor(clip_norm, dtype)
        # norm - norm is 0, and NaN for an infinite or undefined norm.
        invalid = raw_ops.Sub(norm, norm)
        scale = raw_ops.Add(raw_ops.RealDiv(limit, raw_ops.Maximum(norm, limit)), invalid)
        # The scope's name comes twice, as in graphs of the 1.x releases.
        inner = scope[:-1].rpartition("/")[2]
        clipped = [_scaled(t, v, scale, f"{inner}/_{i}")
                   for i, (t, v) in enumerate(zip(t_list, values))]
    return clipped, norm


def _scaled(original: Tensor | IndexedSlices | None, value: Tensor | None, scale: Tensor,
            name: str) -> Any:
    if value is None:
        return None
    with colocate_with(value):
        if scale.dtype.base_dtype is not value.dtype.base_dtype:
            scale = raw_ops.Cast(scale, DstT=value.dtype.base_dtype)
        scaled = raw_ops.Mul(value, scale, name=name)
    return _like(original, scaled)


def _values_of(t_list: Sequence[Any]) -> list[Tensor | None]:
    if isinstance(t_list, (str, Tensor)) or not hasattr(t_list, "__len__") or not hasattr(
            t_list, "__getitem__"):
        raise TypeError(f"t_list should be a sequence of tensors, got {t_list!r}")
    return [None if t is None else t.values if isinstance(t, IndexedSlices)
            else convert_to_tensor(t) for t in t_list]


def _all_axes(t: Tensor) -> Any:
    ndims = t.shape.ndims
    if ndims is not None:
        return convert_to_tensor(list(range(ndims)), dtypes.int32)
    return raw_ops.Range(0, raw_ops.Rank(t), 1)


def _graph_values(*values: Any) -> list:
    return [v for v in values if hasattr(v, "graph")]
