"""State that lives as long as a step: kept with the running step, emptied when it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hpcflow.resources.stack import Stack
    from hpcflow.resources.tensor_array import TensorArray
    from hpcflow.runtime.executor.executor import Step


def keep(step: Step, thing: TensorArray | Stack) -> Any:
    """Return `thing`, whose ``release()`` is called when `step` ends, in whatever way."""
    held = step.resources
    if held is None:
        held = step.resources = {}
    things = held.get(keep)
    if things is None:
        things = held[keep] = []
        step.on_finish_hooks.append(lambda: _release(things))
    things.append(thing)
    return thing


def _release(things: list) -> None:
    for thing in things:
        thing.release()
    things.clear()
