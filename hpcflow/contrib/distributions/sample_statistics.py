"""Statistics of samples."""

from __future__ import annotations

from typing import Any

import numpy as np

import hpcflow as hf

_ROUNDINGS = {"lower": hf.floor, "higher": hf.ceil, "nearest": hf.round}


def percentile(x: Any, q: Any, axis: Any = None, interpolation: str | None = None,
               keep_dims: bool = False, validate_args: bool = False,
               preserve_gradients: bool = True, name: str | None = None) -> Any:
    """Return the element of `x` below which q percent of the elements along some axes lie.

    Args:
        x: numbers of a static rank.
        q: a scalar from 0 to 100.
        axis: an axis or several; all if None.
        interpolation: which of two elements is taken: ``"nearest"`` (if None), ``"lower"`` or
            ``"higher"``.
        keep_dims: keep the axes, with size 1.
        validate_args: check `q` when run (``InvalidArgumentError``).
        preserve_gradients: accepted; a place in an array has no gradient.
        name: name of the scope.

    Raises ``ValueError`` for an unknown rank or interpolation, or a `q` of another rank.
    """
    interpolation = interpolation or "nearest"
    if interpolation not in _ROUNDINGS:
        raise ValueError(f"Argument 'interpolation' must be one of {sorted(_ROUNDINGS)}, got "
                         f"{interpolation!r}")
    with hf.name_scope(name, "percentile", [x, q]):
        x = hf.convert_to_tensor(x, name="x")
        q = hf.cast(hf.convert_to_tensor(q, name="q"), hf.float64)
        if q.shape.ndims not in (None, 0):
            raise ValueError(f"Expected q to be a scalar, got the shape {q.shape}")
        if validate_args:
            checks = [hf.assert_non_negative(q), hf.assert_less_equal(q, np.float64(100))]
            with hf.control_dependencies(checks):
                q = hf.identity(q)
        rank = x.shape.ndims
        if rank is None:
            raise ValueError("percentile: the rank of x must be known")
        axes = sorted({int(a) % rank for a in (range(rank) if axis is None else np.ravel(axis))})
        return _at(x, q, axes, interpolation, keep_dims)


def _at(x: Any, q: Any, axes: list[int], interpolation: str, keep_dims: bool) -> Any:
    rank = x.shape.ndims
    kept = [a for a in range(rank) if a not in axes]
    size = hf.shape(x)
    outer = hf.gather(size, hf.constant(kept, hf.int32))
    rows = hf.reshape(hf.transpose(x, [*kept, *axes]), hf.concat([outer, [-1]], 0))
    count = hf.shape(rows)[-1]
    # Elements come in falling order, so that the place is counted from the other end.
    place = hf.cast(count - 1, hf.float64) * (1 - q / 100)
    opposite = {"lower": "higher", "higher": "lower"}.get(interpolation, interpolation)
    index = hf.clip_by_value(hf.cast(_ROUNDINGS[opposite](place), hf.int32), 0, count - 1)
    found = hf.gather(hf.nn.top_k(rows, count)[0], index, axis=-1)
    if not keep_dims:
        return found
    for a in axes:
        found = hf.expand_dims(found, a)
    return found
