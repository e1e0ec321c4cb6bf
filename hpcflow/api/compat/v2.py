"""``hpcflow.compat.v2``: the v2 interface as far as it is for graphs.

Programs of 1.x call parts of it within their graphs. Functions take their arguments in the order
and by the names of that interface; `losses`, `metrics`, `optimizers` and `initializers` are those
of ``keras``. What is for sessions or collections is not here: it is in ``hpcflow`` itself.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from hpcflow.api.compat.v2_signatures import GONE, MORE, OTHERS, SIGNATURES

newaxis = None
#: Defaults of arguments that the old functions take by another name.
_DEFAULTS = {"keepdims": False}
_PARTS = frozenset(path.partition(".")[0] for path in (*SIGNATURES, *OTHERS, *GONE) if "." in path)


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: Any = _Part(name) if name in _PARTS else _found(name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*dir(sys.modules["hpcflow"]), *OTHERS, "newaxis"} - GONE)


class _Part(ModuleType):
    """A module of the interface, such as ``nn``."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{__name__}.{name}")
        self._part = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        found = _found(f"{self._part}.{name}")
        setattr(self, name, found)
        return found

    def __dir__(self) -> list[str]:
        return dir(_at(self._part))


def _found(path: str) -> Any:
    if path in GONE:
        raise AttributeError(f"module 'hpcflow.compat.v2' has no attribute '{path}': it is not in "
                             f"the v2 interface; use `hf.{path}`")
    found = _at(OTHERS.get(path, path))
    return _reordered(path, found) if path in SIGNATURES else found


def _at(path: str) -> Any:
    return functools.reduce(getattr, path.split("."), sys.modules["hpcflow"])


def _reordered(path: str, function: Callable) -> Callable:
    """`function`, called by the order and the names of the arguments that the v2 one has."""
    pairs = [part.partition("=") for part in SIGNATURES[path].split()]
    names = {new: old or new for new, _, old in pairs}
    order = list(names)

    @functools.wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        if len(args) > len(order):
            raise TypeError(f"{path}() takes at most {len(order)} arguments: {', '.join(order)}; "
                            f"got {len(args)}")
        given = dict(zip(order, args, strict=False))
        for name, value in keywords.items():
            if name in given:
                raise TypeError(f"{path}() got multiple values for argument '{name}'")
            if name not in names:
                raise TypeError(f"{path}() got an unexpected keyword argument '{name}'")
            given[name] = value
        return function(**{**MORE.get(path, {}),
                           **{names[name]: value for name, value in given.items()}})

    del call.__wrapped__  # whoever asks for the arguments is told those of this interface
    call.__signature__ = _signature(path, function, names)  # type: ignore[attr-defined]
    return call


def _signature(path: str, function: Callable, names: dict[str, str]) -> inspect.Signature:
    """What is told of a function whose arguments are `names`, by those of the old one."""
    old, more = inspect.signature(function).parameters, MORE.get(path, {})
    return inspect.Signature([
        inspect.Parameter(new, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=(
            more[known] if known in more else
            old[known].default if known in old else _DEFAULTS.get(new)))
        for new, known in names.items()])
