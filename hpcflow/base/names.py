"""Names of objects in all modules that have been imported."""

from __future__ import annotations

import sys
from typing import Any


def rename_everywhere(before: object, after: object) -> None:
    """Let every name of a module that stands for `before` stand for `after`, except in the module
    that calls."""
    caller = sys._getframe(1).f_globals
    for module in list(sys.modules.values()):
        names: dict[str, Any] = getattr(module, "__dict__", {})
        if names is not caller:
            for name in [n for n, value in list(names.items()) if value is before]:
                names[name] = after
