"""What CuPy lays down, read off the installed package: no driver is needed for that.

CuPy has fewer functions than NumPy, fewer types for each, and other habits: its ufuncs take the
first of their own loops that fits, ``at`` serves few types, indices out of range wrap silently.
On these rules the fake accelerator refuses what CuPy refuses and gives what CuPy gives.
"""

from __future__ import annotations

import functools
import inspect
import re
import warnings
from typing import Any

import ml_dtypes
import numpy as np
from fake_accelerator import FakeArray, Place, Rules

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # that there is no driver
    import cupy
    from cupy._core import _routines_math
    from cupy._sorting import search

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
# Kinds of types that a Python number of this class can become.
_WEAK = {bool: "biufc", int: "iufc", float: "fc", complex: "c"}
_UFUNC_KEYWORDS = frozenset({"out", "dtype", "casting"})
# Types with an atomic instruction, by what ``at`` does.
_ATOMIC = {"add": "ilqILQefd", "sub": "iI", "max": "ilqILQfd", "min": "ilqILQfd"}
# Functions that are a ufunc inside.
_WITHIN = {"where": search._where_ufunc, "clip": _routines_math._clip}
_REDUCING = {"reduce": ("add", "multiply"), "accumulate": ("add", "multiply"),
             "reduceat": ("add",)}


class NotInCupyError(TypeError):
    """CuPy has no such function, argument or loop."""


@functools.cache
def _found(path: str) -> Any:
    found: Any = cupy
    for name in path.split("."):
        found = getattr(found, name, None)
        if found is None:
            raise NotInCupyError(f"there is no cupy.{path}")
    return found


def _type(char: str) -> np.dtype:
    return BFLOAT16 if char == "E" else np.dtype(char)


@functools.cache
def _loops(ufunc: Any) -> list[tuple[list[np.dtype], list[np.dtype]]]:
    """Types of the inputs and of the outputs of every loop, in the order of CuPy's choice."""
    pairs = [text.split("->") for text in ufunc.types]
    return [([*map(_type, a)], [*map(_type, b)]) for a, b in pairs]


def _is_weak(value: Any) -> bool:
    return type(value) in _WEAK


def _dtype(value: Any) -> np.dtype:
    return np.dtype(getattr(value, "dtype", None) or np.asarray(value).dtype)


def _fits(value: Any, wanted: np.dtype, alone: bool) -> bool:
    """True if a loop takes `value` as its `wanted`; `alone` if all operands are Python numbers."""
    if not _is_weak(value):
        return np.can_cast(_dtype(value), wanted, "safe")
    kind = "f" if wanted == BFLOAT16 else wanted.kind
    wide = not alone or type(value) not in (int, float) or wanted.itemsize == 8
    return kind in _WEAK[type(value)] and wide


def loop_of(ufunc: Any, operands: tuple) -> list[np.dtype] | None:
    """Types of the outputs of the loop that serves `operands`; None if there is none."""
    alone = all(map(_is_weak, operands))
    for inputs, outputs in _loops(ufunc):
        if all(_fits(v, t, alone) for v, t in zip(operands, inputs)):
            return outputs
    return None


@functools.cache
def _method(name: str) -> inspect.Signature | None:
    """What is known of the arguments of a method; raises if arrays have none of that name."""
    found = getattr(cupy.ndarray, name, None)
    if found is None:
        raise NotInCupyError(f"cupy.ndarray has no {name}")
    try:
        signature = inspect.signature(found)
    except (TypeError, ValueError):
        return _documented(found.__doc__ or "")
    return signature.replace(parameters=list(signature.parameters.values())[1:])


def _documented(text: str) -> inspect.Signature | None:
    """The signature that the first line of a compiled method's docstring shows."""
    line = re.sub(r"->.*", "", text.strip().split("\n", 1)[0])
    if "(" not in line:
        return None
    words = line[line.index("(") + 1 : line.rindex(")")].split(",")[1:]
    parameters, kind = [], inspect.Parameter.POSITIONAL_OR_KEYWORD
    for word in filter(None, map(str.strip, words)):
        stars = len(word) - len(word.lstrip("*"))
        name = word.partition("=")[0].split()[-1].lstrip("*")
        if stars:
            kind = (None, inspect.Parameter.VAR_POSITIONAL,
                    inspect.Parameter.VAR_KEYWORD)[stars]  # type: ignore[assignment]
        default = None if "=" in word else inspect.Parameter.empty
        parameters.append(inspect.Parameter(name, kind, default=default))
        if stars == 1:
            kind = inspect.Parameter.KEYWORD_ONLY
    try:
        return inspect.Signature(parameters)
    except ValueError:
        return None


def _bind(signature: inspect.Signature | None, name: str, arguments: tuple, keywords: dict) -> None:
    if signature is None:
        return
    try:
        signature.bind(*arguments, **keywords)
    except TypeError as e:
        raise NotInCupyError(f"{name}{signature}: {e}") from None


class CupyRules(Rules):
    """Raises :class:`NotInCupyError` for what CuPy has not, and rounds as its loops do."""

    def finds(self, path: str) -> None:
        """Raise unless CuPy has the function or module."""
        _found(path)

    def called(self, path: str, arguments: tuple, keywords: dict, result: Any) -> Any:
        """The result in the types of CuPy's loop."""
        owner, _, name = path.rpartition(".")
        if owner and isinstance(_found(owner), cupy.ufunc):
            self._ufunc_method(owner, name, arguments)
            return result
        for value in (*arguments, *keywords.values()):
            self._check_type(path, value)
        function = _found(path)
        if path in _WITHIN and len(arguments) == 3:
            inner = _WITHIN[path]
            operands = (np.True_, *arguments[1:]) if path == "where" else arguments
            return self._ufunc(path, inner, operands, keywords, result)
        if isinstance(function, cupy.ufunc):
            return self._ufunc(path, function, arguments, keywords, result)
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError):
            return result
        _bind(signature, f"cupy.{path}", arguments, keywords)
        if path in ("sort", "argsort") and keywords.get("kind") not in (None, "stable"):
            raise NotInCupyError(f"cupy.{path} sorts stably, not by {keywords['kind']}")
        return result

    def _check_type(self, path: str, value: Any) -> None:
        if isinstance(value, (FakeArray, np.generic)) and value.dtype != BFLOAT16 and (
                value.dtype.kind in "OSUV"):
            raise NotInCupyError(f"cupy.{path} of {value.dtype}")

    def _ufunc(self, path: str, ufunc: Any, arguments: tuple, keywords: dict, result: Any) -> Any:
        unknown = keywords.keys() - _UFUNC_KEYWORDS
        if unknown:
            raise NotInCupyError(f"cupy.{path} takes no {', '.join(unknown)}")
        operands = arguments[: ufunc.nin]
        outputs = loop_of(ufunc, operands)
        if outputs is None:
            types = ", ".join(type(v).__name__ if _is_weak(v) else str(_dtype(v))
                              for v in operands)
            raise NotInCupyError(f"cupy.{path} has no loop for ({types})")
        if len(arguments) > ufunc.nin or keywords.get("out") is not None or "dtype" in keywords:
            return result
        if isinstance(result, tuple):
            return tuple(np.asarray(r).astype(t, copy=False) for r, t in zip(result, outputs))
        return np.asarray(result).astype(outputs[0], copy=False)

    def _ufunc_method(self, owner: str, name: str, arguments: tuple) -> None:
        if name != "at":
            if owner not in _REDUCING.get(name, ()):
                raise NotInCupyError(f"cupy.{owner} has no {name}")
            return
        does = _found(owner)._scatter_op
        if does is None:
            raise NotInCupyError(f"cupy.{owner} has no at")
        if arguments[0].dtype.char not in _ATOMIC.get(does, "ilqILQ"):
            raise NotInCupyError(f"cupy.{owner}.at does not take {arguments[0].dtype}")

    def given(self, path: str, arguments: list, keywords: dict) -> None:
        """Wraps indices out of range, as CuPy does."""
        if path.endswith(".at") and isinstance(arguments[1], np.ndarray) and len(arguments[0]):
            arguments[1] = arguments[1] % len(arguments[0])
        elif path == "take":
            keywords["mode"] = "wrap"

    def method(self, name: str, array: FakeArray, arguments: tuple, keywords: dict) -> None:
        """Raise unless arrays of CuPy have the method with these arguments."""
        _bind(_method(name), f"cupy.ndarray.{name}", arguments, keywords)
        if name == "astype":
            self._check_cast(array, np.dtype(arguments[0]))
        elif name == "repeat" and isinstance(arguments[0], FakeArray):
            raise NotInCupyError("cupy.ndarray.repeat takes no array of counts")

    def _check_cast(self, array: FakeArray, wanted: np.dtype) -> None:
        """What a float out of the range of an integer becomes, CUDA and the host say apart."""
        if wanted.kind not in "iu" or array.dtype.kind != "f" or not array.size:
            return
        values = array._data.astype(np.float64)
        info = np.iinfo(wanted)
        if not (np.isfinite(values).all() and (values > float(info.min) - 1).all()
                and (values < float(info.max) + 1).all()):
            raise NotInCupyError(f"{array.dtype} out of range of {wanted} is cast another way")

    def key(self, array: Place, key: Any) -> Any:
        """The key with indices in range, as CuPy wraps them."""
        parts = key if isinstance(key, tuple) else (key,)
        masks = [k for k in parts if isinstance(k, FakeArray) and k.dtype == bool]
        if len(masks) > 1:
            raise NotInCupyError("CuPy takes one mask at a time")
        if masks:
            array._device.waits()
        plain = array._device.unwrap(key)
        if masks or not any(isinstance(k, FakeArray) for k in parts):
            return plain
        return self._wrapped(array.shape, plain if isinstance(plain, tuple) else (plain,))

    def _wrapped(self, shape: tuple[int, ...], parts: tuple) -> tuple:
        axis, found = 0, []
        for part in parts:
            if part is Ellipsis:
                rest = [p for p in parts if p is not None and p is not Ellipsis]
                axis += len(shape) - len(rest)
            elif isinstance(part, np.ndarray) and part.dtype.kind in "iu" and shape[axis]:
                part = part.astype(np.int64) % shape[axis]
            found.append(part)
            axis += part is not None and part is not Ellipsis
        return tuple(found)

    def writes(self, array: FakeArray, key: Any, value: Any) -> None:
        """Repeated indices are undefined, unless all of them write the same."""
        parts = key if isinstance(key, tuple) else (key,)
        rows = [k._data for k in parts if isinstance(k, FakeArray) and k.dtype.kind in "iu"]
        if len(rows) != len(parts) or not getattr(value, "shape", ()):
            return
        if not value.size:
            return
        places = np.ravel_multi_index(
            np.broadcast_arrays(*rows), array.shape[: len(rows)], mode="wrap").reshape(-1)
        written = np.broadcast_to(
            value._data, (*np.broadcast_shapes(*(r.shape for r in rows)),
                          *array.shape[len(rows):])).reshape(places.size, -1)
        _, first, which = np.unique(places, return_index=True, return_inverse=True)
        same = written[first][which.reshape(-1)]
        if first.size != places.size and written.tobytes() != same.tobytes():
            raise NotInCupyError("of repeated indices any may win")
