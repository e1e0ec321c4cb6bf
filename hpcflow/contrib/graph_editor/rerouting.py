"""Changing what operations read and wait for."""

from __future__ import annotations

from typing import Any

from hpcflow.contrib.graph_editor.selecting import make_list_of_op, make_list_of_t
from hpcflow.graph.operation import Operation, Tensor


def reroute_ts(ts0: Any, ts1: Any, can_modify: Any = None, cannot_modify: Any = None) -> int:
    """Let the readers of each tensor of `ts1` read the one of `ts0`; returns how many
    inputs changed.

    Only operations of `can_modify`, if given, and none of `cannot_modify` are changed. Raises
    ``ValueError`` if the tensors are not as many, or of other types or shapes.
    """
    pairs = _pairs(ts0, ts1)
    readers = [(t1, _readers(t1)) for _, t1 in pairs]
    may = _changeable(can_modify, cannot_modify)
    return sum(_reroute(t0, t1, [op for op in ops if may(op)])
               for (t0, _), (t1, ops) in zip(pairs, readers, strict=True))


def swap_ts(ts0: Any, ts1: Any, can_modify: Any = None, cannot_modify: Any = None) -> int:
    """Let the readers of each tensor of `ts0` read the one of `ts1`, and the other way round; as
    :func:`reroute_ts`."""
    pairs = _pairs(ts0, ts1)
    may = _changeable(can_modify, cannot_modify)
    readers = [([op for op in _readers(t0) if may(op)], [op for op in _readers(t1) if may(op)])
               for t0, t1 in pairs]
    places = [([_places(op, t0) for op in of0], [_places(op, t1) for op in of1])
              for (t0, t1), (of0, of1) in zip(pairs, readers, strict=True)]
    changed = 0
    for (t0, t1), of, at in zip(pairs, readers, places, strict=True):
        changed += _put(t1, of[0], at[0]) + _put(t0, of[1], at[1])
    return changed


def _pairs(ts0: Any, ts1: Any) -> list[tuple[Tensor, Tensor]]:
    first, second = make_list_of_t(ts0), make_list_of_t(ts1)
    if len(first) != len(second):
        raise ValueError(f"ts0 and ts1 have different sizes: {len(first)} != {len(second)}")
    for t0, t1 in zip(first, second, strict=True):
        if t0.dtype.base_dtype is not t1.dtype.base_dtype:
            raise ValueError(f"Dtypes {t0.dtype} and {t1.dtype} are not compatible.")
        if not t0.shape.is_compatible_with(t1.shape):
            raise ValueError(f"Shapes {t0.shape} and {t1.shape} are not compatible.")
    return list(zip(first, second, strict=True))


def _changeable(can_modify: Any, cannot_modify: Any) -> Any:
    only = None if can_modify is None else set(make_list_of_op(list(can_modify)))
    never = set() if cannot_modify is None else set(make_list_of_op(list(cannot_modify)))
    return lambda op: (only is None or op in only) and op not in never


def _reroute(t0: Tensor, t1: Tensor, readers: list[Operation]) -> int:
    return _put(t0, readers, [_places(op, t1) for op in readers])


def _readers(tensor: Tensor) -> list[Operation]:
    return list(dict.fromkeys(tensor.consumers()))


def _places(op: Operation, tensor: Tensor) -> list[int]:
    return [i for i, t in enumerate(op.inputs) if t is tensor]


def _put(tensor: Tensor, readers: list[Operation], places: list[list[int]]) -> int:
    for op, indices in zip(readers, places, strict=True):
        for i in indices:
            op._update_input(i, tensor)
    return sum(map(len, places))


def add_control_inputs(op: Operation, cops: Any) -> None:
    """Let `op` wait for `cops`, too.

    Raises ``TypeError`` if it is no operation, ``ValueError`` if it waits for one of them already.
    """
    if not isinstance(op, Operation):
        raise TypeError(f"Expected a tf.Operation, got: {type(op)}")
    more = make_list_of_op(cops, allow_graph=False)
    for other in more:
        if other in op.control_inputs:
            raise ValueError(f"{other.name} is already a control_input of {op.name}")
    op._add_control_inputs(more)


def remove_control_inputs(op: Operation, cops: Any) -> None:
    """Let `op` no longer wait for `cops`.

    Raises ``TypeError`` if it is no operation, ``ValueError`` if it does not wait for one of them.
    """
    if not isinstance(op, Operation):
        raise TypeError(f"Expected a tf.Operation, got: {type(op)}")
    less = make_list_of_op(cops, allow_graph=False)
    for other in less:
        if other not in op.control_inputs:
            raise ValueError(f"{other.name} is not a control_input of {op.name}")
    kept = [other for other in op.control_inputs if other not in less]
    op._remove_all_control_inputs()
    op._add_control_inputs(kept)
