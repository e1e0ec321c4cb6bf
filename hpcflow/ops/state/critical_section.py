"""CriticalSection: functions of the graph that steps run one after the other."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from hpcflow.graph import nest
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import (
    add_to_collection,
    get_collection,
    get_default_graph,
    name_scope,
)
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.ops.state.mutexes import Mutex

__all__ = ["CriticalSection"]


CRITICAL_SECTIONS = "critical_sections"
CRITICAL_SECTION_EXECUTIONS = "critical_section_executions"
_threads = threading.local()


def _opened() -> list:
    """The sections whose functions this thread is calling, by the name that they share if any."""
    if not hasattr(_threads, "opened"):
        _threads.opened = []
    return _threads.opened


class Execution(NamedTuple):
    """One execution of a section: the section's key, and the resources from outside that it uses,
    for itself alone if it is exclusive."""

    key: Any
    resources: frozenset[Tensor]
    exclusive: bool


class CriticalSection:
    """Runs what functions add to the graph while no other step runs what is in the section.

    Args:
        name: name of the lock's operation.
        shared_name: sections of one name share a lock.
    """

    def __init__(self, name: str | None = None, shared_name: str | None = None,
                 critical_section_def: object = None, import_scope: str | None = None) -> None:
        self._mutex = Mutex(shared_name or name, name or "critical_section")
        self._key = shared_name or name or self
        add_to_collection(CRITICAL_SECTIONS, self)

    @property
    def name(self) -> str:
        """The name of the lock's operation."""
        return self._mutex.name

    def execute(self, fn: Callable, exclusive_resource_access: bool = True,
                name: str | None = None) -> Any:
        """Return the result of ``fn()``, tensors in any nest, computed inside of the section.

        With `exclusive_resource_access` no other section may use the resources that the function
        uses, such as ``ResourceVariable``s. Raises ``ValueError`` if one does, or did so for itself
        alone, and inside of another `execute` of the same section, which would wait for itself.
        """
        opened = _opened()
        if self._key in opened:
            raise ValueError(
                f"CriticalSection '{self.name}': the function attempts to directly access the "
                "CriticalSection in which it would be running; this would deadlock")
        structure: list[Any] = []

        def build() -> list:
            graph = get_default_graph()
            start = graph.version
            result = fn()
            structure.append(result)
            self._note_resources(graph._ops[start:], exclusive_resource_access)
            if isinstance(result, Operation):
                return [result]
            return [v if v is None or isinstance(v, Operation) else convert_to_tensor(v)
                    for v in nest.flatten(result)]

        opened.append(self._key)
        try:
            with name_scope(name, "critical_section_execute"):
                values = self._mutex.execute(build)
        finally:
            opened.remove(self._key)
        result = structure[0]
        if isinstance(result, Operation):
            return values[0]
        return nest.pack_as(result, values)

    def _note_resources(self, ops: list[Operation], exclusive: bool) -> None:
        """Keep which resources from outside the operations use."""
        made = {t for op in ops for t in op.outputs}
        used = frozenset(t for op in ops for t in op.inputs
                         if t.dtype.name == "resource" and t not in made)
        for other in get_collection(CRITICAL_SECTION_EXECUTIONS):
            shared = used & other.resources
            if other.key != self._key and shared and (exclusive or other.exclusive):
                raise ValueError(
                    f"CriticalSection '{self.name}' and another one use the resources "
                    f"{sorted(t.name for t in shared)}, and one of them requested exclusive "
                    "resource access; call both with exclusive_resource_access=False")
        add_to_collection(CRITICAL_SECTION_EXECUTIONS, Execution(self._key, used, exclusive))
