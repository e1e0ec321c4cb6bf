"""Functions in configurations: by name, or as their code."""

from __future__ import annotations

import base64
import marshal
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any

from hpcflow.keras.lookup import get_custom_objects, named


def func_dump(func: Any) -> tuple[str, Any, Any]:
    """Return the code of a function as text, its defaults and the values that it closes over."""
    code = base64.encodebytes(marshal.dumps(func.__code__)).decode("ascii")
    cells = func.__closure__
    return code, func.__defaults__, tuple(c.cell_contents for c in cells) if cells else None


def func_load(code: Any, defaults: Any = None, closure: Any = None,
              globs: dict[str, Any] | None = None) -> Callable:
    """Return the function of :func:`func_dump`, with the global names `globs`.

    The code is that of one release of Python, and may do anything: load what you trust.
    """
    if isinstance(code, (tuple, list)):
        code, defaults, closure = code
    cells = None if closure is None else tuple(
        v if isinstance(v, types.CellType) else types.CellType(v) for v in closure)
    loaded = marshal.loads(base64.decodebytes(code.encode("ascii")))
    return types.FunctionType(loaded, globals() if globs is None else globs, loaded.co_name,
                              tuple(defaults) if isinstance(defaults, list) else defaults, cells)


def written(value: Any, key: str, module: str, raw: bool = False) -> dict[str, Any]:
    """A function as entries of a configuration: what it is, which kind of thing that is, and the
    module that it is from. With `raw` it may be any other value, too; else ``ValueError``."""
    kind: str | None
    if isinstance(value, types.FunctionType):
        found, kind, home = func_dump(value), "lambda", value.__module__
    elif callable(value):
        found, kind, home = value.__name__, "function", value.__module__
    elif raw:
        found, kind, home = value, "raw", None
    else:
        raise ValueError(f"Invalid input for serialization, type: {type(value)}")
    return {key: found, f"{key}_type": kind, module: home}


def read(config: dict[str, Any], key: str, module: str,
         custom_objects: Mapping[str, Any] | None = None) -> Any:
    """Take a function out of the entries of :func:`written`. ``TypeError`` for another kind."""
    value, kind, home = config.pop(key), config.pop(f"{key}_type"), config.pop(module, None)
    if kind == "raw":
        return value
    if kind == "function":
        return named({**(custom_objects or {})}, value, "function in Lambda layer")
    if kind != "lambda":
        raise TypeError(f"Unknown function type: {kind}")
    own = vars(sys.modules[home]) if home in sys.modules else {}
    return func_load(value, globs={**own, **get_custom_objects(), **(custom_objects or {})})
