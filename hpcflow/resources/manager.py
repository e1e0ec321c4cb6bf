"""ResourceManager: the state of one task, by container, kind and name."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from hpcflow.resources.handles import DEFAULT_CONTAINER, SharedHandle


class ResourceManager:
    """Resources of one task; shared by name between the graphs of all sessions.

    `version` grows when a container is cleared, so that compiled steps that hold resources know.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._containers: dict[str, dict[tuple[str, str], Any]] = {}
        self.version = 0

    def lookup_or_create(self, container: str, kind: str, name: str,
                         create: Callable[[], Any]) -> Any:
        """Return the resource, made by `create()` if it does not exist yet."""
        with self._lock:
            items = self._containers.setdefault(container or DEFAULT_CONTAINER, {})
            key = (kind, name)
            if key not in items:
                items[key] = made = create()
                if isinstance(made, SharedHandle):
                    made.container = container or DEFAULT_CONTAINER
            return items[key]

    def lookup(self, container: str, kind: str, name: str) -> Any:
        """Return the resource, or None."""
        with self._lock:
            return self._containers.get(container or DEFAULT_CONTAINER, {}).get((kind, name))

    def delete(self, container: str, kind: str, name: str) -> bool:
        """Forget one resource; True if it existed."""
        with self._lock:
            items = self._containers.get(container or DEFAULT_CONTAINER, {})
            return items.pop((kind, name), None) is not None

    def items(self, kind: str) -> list[tuple[str, str, Any]]:
        """(container, name, resource) of every resource of `kind`."""
        with self._lock:
            return [(c, n, r) for c, items in self._containers.items()
                    for (k, n), r in items.items() if k == kind]

    def clear(self, containers: list[str] | None = None) -> None:
        """Empty the named containers (all when None), closing what can be closed."""
        with self._lock:
            names = containers or list(self._containers)
            dropped = [self._containers.pop(n, {}) for n in names]
            self.version += 1
        for items in dropped:
            for resource in items.values():
                close = getattr(resource, "clear", None)
                if close is not None:
                    close()
