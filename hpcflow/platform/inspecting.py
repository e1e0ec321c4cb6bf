"""Inspection of functions' arguments (``python.util.tf_inspect``, ``function_utils``)."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from hpcflow.platform.decorating import unwrap


class ArgSpec(NamedTuple):
    """The arguments of a function, as Python once described them."""

    args: list[str]
    varargs: str | None
    keywords: str | None
    defaults: tuple | None


FullArgSpec = inspect.FullArgSpec


def getargspec(function: Callable) -> ArgSpec:
    """Return the arguments of `function`; of an object or a class, those that it is called with,
    with ``self``. What a ``functools.partial`` gives is left out.

    Raises ``TypeError`` for what cannot be called, ``ValueError`` for a partial that gives an
    argument before one that has no default.
    """
    spec = getfullargspec(function)
    return ArgSpec(spec.args, spec.varargs, spec.varkw, spec.defaults)


def _told(decorators: list[Any]) -> inspect.FullArgSpec | None:
    """The arguments that the outermost of `decorators` with an opinion tells."""
    specs = (getattr(decorator, "decorator_argspec", None) for decorator in decorators)
    spec: Any = next((s for s in specs if s is not None), None)
    if isinstance(spec, ArgSpec):
        return inspect.FullArgSpec(spec.args, spec.varargs, spec.keywords, spec.defaults, [], None,
                                   {})
    return spec


def getfullargspec(function: Callable) -> inspect.FullArgSpec:
    """Return the arguments of `function`, those of keywords too: see :func:`getargspec`."""
    decorators, function = unwrap(function)
    told = _told(decorators)
    if told is not None:
        return told
    if isinstance(function, functools.partial):
        return _of_partial(function)
    if isinstance(function, type) or inspect.isroutine(function):
        return _described(_called(function))
    if not callable(function):
        raise TypeError(f"Unsupported callable: {function!r}")
    return _described(type(function).__call__)


def _described(function: Callable[..., Any]) -> inspect.FullArgSpec:
    """The arguments of a function; those of this library without types, as 1.x's have none, with
    which programs compare their own."""
    spec = inspect.getfullargspec(function)
    own = (getattr(function, "__module__", None) or "").partition(".")[0] == "hpcflow"
    return spec._replace(annotations={}) if own else spec


def _called(function: Callable[..., Any]) -> Any:
    """Return the function that a call runs: ``__init__`` of a class, or ``__new__``."""
    if not isinstance(function, type):
        return function
    made: Any = function
    return made.__new__ if made.__init__ is object.__init__ is not made.__new__ else made.__init__


def _of_partial(function: functools.partial) -> inspect.FullArgSpec:
    inner = getfullargspec(function.func)
    args = inner.args[len(function.args):]
    defaults = dict(zip(inner.args[len(inner.args) - len(inner.defaults or ()):],
                        inner.defaults or (), strict=True))
    defaults.update({k: v for k, v in function.keywords.items() if k in args})
    first = next((n for n, name in enumerate(args) if name in defaults), len(args))
    missing = [name for name in args[first:] if name not in defaults]
    if missing:
        raise ValueError("Some arguments ['" + "', '".join(missing) + "'] do not have default "
                         "value, but they are positioned after those with default values. This "
                         "can not be expressed with ArgSpec.")
    kept = tuple(defaults[name] for name in args[first:])
    return inner._replace(args=args, defaults=kept or None)


def fn_args(function: Callable) -> tuple[str, ...]:
    """Return the names of the arguments that a call of `function` can give, without ``self``."""
    if isinstance(function, functools.partial):
        names = fn_args(function.func)[len(function.args):]
        return tuple(name for name in names if name not in function.keywords)
    if not inspect.isroutine(function) and not isinstance(function, type):
        function = function.__call__  # type: ignore[operator]
    spec = inspect.getfullargspec(unwrap(function)[1])
    names = (*spec.args, *spec.kwonlyargs)
    return names[1:] if inspect.ismethod(function) and spec.args else names


def has_kwargs(function: Callable) -> bool:
    """Return whether any keywords can be given to `function`."""
    if isinstance(function, functools.partial):
        return has_kwargs(function.func)
    if not callable(function):
        raise TypeError(f"fn should be a function-like object, but is of type {type(function)}.")
    return getfullargspec(function).varkw is not None


def get_func_name(function: Callable) -> str:
    """Return the name of a function, ``Class.name`` of a method, the text of the type of another
    object that is called. Raises ``ValueError`` for what is not callable."""
    function = unwrap(function)[1]
    if not callable(function):
        raise ValueError("Argument must be callable")
    if inspect.ismethod(function):
        return f"{type(function.__self__).__name__}.{function.__name__}"
    return function.__name__ if inspect.isfunction(function) else str(type(function))


def get_func_code(function: Callable) -> Any:
    """Return the code object of a function or of the method that calls an object, None of what has
    none. Raises ``ValueError`` for what is not callable."""
    function = unwrap(function)[1]
    if not callable(function):
        raise ValueError("Argument must be callable")
    has_code = function if hasattr(function, "__code__") else type(function).__call__
    return getattr(has_code, "__code__", None)


def getcallargs(function: Callable, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """Return the arguments of a call by name, defaults included."""
    decorators, inner = unwrap(function)
    told = _told(decorators)
    if told is None:
        return inspect.getcallargs(inner, *args, **kwargs)
    defaults = told.defaults or ()
    found = dict(zip(told.args[len(told.args) - len(defaults):], defaults, strict=True))
    found.update(zip([name for name in told.args if name not in kwargs], args, strict=False))
    return {**found, **kwargs}


def _inside(function: Callable) -> Callable:
    """`function` of ``inspect``, of what decorators are around."""

    @functools.wraps(function)
    def of_inner(target: Any) -> Any:
        return function(unwrap(target)[1])

    return of_inner


getfile, getsource = _inside(inspect.getfile), _inside(inspect.getsource)
getsourcefile, getsourcelines = _inside(inspect.getsourcefile), _inside(inspect.getsourcelines)
isbuiltin, isclass = _inside(inspect.isbuiltin), _inside(inspect.isclass)
isfunction, ismethod = _inside(inspect.isfunction), _inside(inspect.ismethod)
ismodule, isroutine = _inside(inspect.ismodule), _inside(inspect.isroutine)


# ---------------------------------------------------------------- decorators


def unchanged(*args: Any, **kwargs: Any) -> Callable:
    """Return a decorator that changes nothing, with whatever arguments: of exported names."""
    return lambda target: target


def same(target: Any, *args: Any, **kwargs: Any) -> Any:
    """Return `target`: a decorator that changes nothing, or what lists public names."""
    return target


def nothing(*args: Any, **kwargs: Any) -> None:
    """Do nothing: names that are not documented stay where they are."""


def names_of(module_name: str, *args: Any) -> list[str]:
    """Return the public names of a module, by its name."""
    return [name for name in vars(sys.modules[module_name]) if not name.startswith("_")]
