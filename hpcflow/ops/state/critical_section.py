"""CriticalSection: functions of the graph that steps run one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcflow.graph import nest
from hpcflow.graph.graph import name_scope
from hpcflow.graph.operation import Operation
from hpcflow.ops.state.mutexes import Mutex

__all__ = ["CriticalSection"]


class CriticalSection:
    """Runs what functions add to the graph while no other step runs what is in the section.

    Args:
        name: name of the lock's operation.
        shared_name: sections of one name share a lock.
    """

    def __init__(self, name: str | None = None, shared_name: str | None = None,
                 critical_section_def: object = None, import_scope: str | None = None) -> None:
        self._mutex = Mutex(shared_name or name, name or "critical_section")
        self._is_open = False

    @property
    def name(self) -> str:
        """The name of the lock's operation."""
        return self._mutex.name

    def execute(self, fn: Callable, exclusive_resource_access: bool = True,
                name: str | None = None) -> Any:
        """Return the result of ``fn()``, tensors in any nest, computed inside of the section.

        `exclusive_resource_access` is accepted. Raises ``ValueError`` inside of another `execute`
        of the same section, which would wait for itself.
        """
        if self._is_open:
            raise ValueError(f"Attempting to lock a CriticalSection (signature={self.name}) in "
                             "which we are; this would deadlock")
        structure: list[Any] = []

        def build() -> list:
            result = fn()
            structure.append(result)
            return [result] if isinstance(result, Operation) else nest.flatten(result)

        self._is_open = True
        try:
            with name_scope(name, "critical_section_execute"):
                values = self._mutex.execute(build)
        finally:
            self._is_open = False
        result = structure[0]
        if isinstance(result, Operation):
            return values[0]
        return nest.pack_as(result, values)
