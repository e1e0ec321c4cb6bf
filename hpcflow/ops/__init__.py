"""Op families: signature, shape function, gradient and builder of every op type.

Importing this package registers every family; its ``__all__`` is the public API of all of them.
"""

from __future__ import annotations

import importlib
import pkgutil

__all__: list[str] = []

for _info in pkgutil.iter_modules(__path__):
    _module = importlib.import_module(f"{__name__}.{_info.name}")
    for _name in getattr(_module, "__all__", ()):
        globals()[_name] = getattr(_module, _name)
        __all__.append(_name)
