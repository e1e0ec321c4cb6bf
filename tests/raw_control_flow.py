"""Conditionals and loops built of their primitives, for tests of the executor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hpcflow as hf
from hpcflow import raw_ops


def switch(value: Any, pred: Any) -> tuple:
    """(value where `pred` is false, value where it is true)."""
    false, true = raw_ops.Switch(data=value, pred=pred)
    return false, true


def branches(pred: Any, value: Any, if_true: Callable, if_false: Callable) -> Any:
    """``if_true(value)`` or ``if_false(value)``, only one of which runs."""
    false, true = switch(value, pred)
    merged, _ = raw_ops.Merge(inputs=[if_false(false), if_true(true)])
    return merged


def loop(condition: Callable, body: Callable, start: list, invariants: tuple = (),
         name: str | None = None, parallel_iterations: int = 10) -> list:
    """``while condition(*v): v = body(*v)``; both also get the `invariants`."""
    frame = name or hf.get_default_graph().unique_name("loop")
    enters = [raw_ops.Enter(data=v, frame_name=frame, parallel_iterations=parallel_iterations)
              for v in start]
    fixed = [raw_ops.Enter(data=v, frame_name=frame, is_constant=True,
                           parallel_iterations=parallel_iterations) for v in invariants]
    merges = [raw_ops.Merge(inputs=[e, e])[0] for e in enters]
    goes_on = raw_ops.LoopCond(input=condition(*merges, *fixed))
    exits, inside = zip(*[switch(m, goes_on) for m in merges], strict=True)
    for merged, value in zip(merges, body(*inside, *fixed), strict=True):
        merged.op._update_input(1, raw_ops.NextIteration(data=value))
    return [raw_ops.Exit(data=e) for e in exits]
