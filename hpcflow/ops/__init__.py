"""Op types: the signature, shape function, gradient and builder of each, by families.

Importing this package registers every family of its rooms; its ``__all__`` is the public API of
all of them. A family may use the graph and other families; kernels are elsewhere. Begin reading
with `math.elementwise`, which has the shortest families.
"""

from __future__ import annotations

import importlib
import pkgutil

__all__: list[str] = []

for _info in pkgutil.walk_packages(__path__, f"{__name__}."):
    _module = importlib.import_module(_info.name)
    if not _info.ispkg:
        for _name in getattr(_module, "__all__", ()):
            globals()[_name] = getattr(_module, _name)
            __all__.append(_name)
