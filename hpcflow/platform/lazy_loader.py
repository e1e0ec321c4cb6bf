"""LazyLoader: a module that is imported when a name of it is first asked for."""

from __future__ import annotations

import importlib
import warnings
from types import ModuleType
from typing import Any


class LazyLoader(ModuleType):
    """Stands for the module `name` until an attribute of it is needed.

    Args:
        local_name: the name in `parent_module_globals` that the module then has.
        parent_module_globals: the globals of the module that uses it.
        name: the path of the module.
        warning: a text to warn with when it is imported.
    """

    def __init__(self, local_name: str, parent_module_globals: dict[str, Any], name: str,
                 warning: str | None = None) -> None:
        super().__init__(name)
        self._place = (parent_module_globals, local_name)
        self._warning = warning

    def _load(self) -> ModuleType:
        module = importlib.import_module(self.__name__)
        names, local_name = self._place
        names[local_name] = module
        if self._warning:
            warnings.warn(self._warning, stacklevel=3)
            self._warning = None
        self.__dict__.update(module.__dict__)
        return module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._load(), name)

    def __dir__(self) -> list[str]:
        return dir(self._load())
