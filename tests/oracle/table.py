"""The table that families of cases fill: random inputs, dtypes, and the forms of a case."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from arrays import named, strings
from case import FORMS, Case, Type, Variable

# Of ops with more cases than this the pinned sample has every second one.
OFTEN = 40

FAMILIES: list[Callable[[Table], None]] = []

FLOATS = ("float16", "float32", "float64")
COMPLEXES = ("complex64", "complex128")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16")
REALS = (*INTEGERS, *FLOATS)
NUMBERS = (*REALS, *COMPLEXES)
ALL = (*NUMBERS, "bool", "string")

SHAPES = ((), (0,), (7,), (2, 3), (3, 0, 2), (2, 1, 3, 2), (1500,))
# Pairs of shapes that broadcast.
PAIRS = (((), ()), ((5,), ()), ((), (2, 3)), ((2, 3), (2, 3)), ((3,), (2, 3)), ((2, 1), (1, 3)),
         ((2, 1, 3), (4, 1)), ((0,), (1,)), ((3, 0), (3, 1)), ((40, 50), (50,)))

SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, np.inf, -np.inf, np.nan, 1e-3, -1e-3,
           20.0, -20.0)


def family(fill: Callable[[Table], None]) -> Callable[[Table], None]:
    """Decorator: `fill` adds cases to every table."""
    FAMILIES.append(fill)
    return fill


class Table:
    """Cases, and what is needed to write them.

    Args:
        ops: op type -> allowed dtypes by attribute, as the worker describes them.
        seed: of the random inputs.
        every: all forms of every case, and second derivatives; else one form each, in turn.
        wanted: only ops whose type this matches.
    """

    def __init__(self, ops: dict, seed: int, every: bool, wanted: str = "") -> None:
        self.ops = ops
        self.every = every
        self.wanted = re.compile(wanted)
        self.cases: list[Case] = []
        self._seed = seed
        self._turns: dict[str, int] = {}
        self.rng = np.random.default_rng(seed)

    def fill(self) -> list[Case]:
        """The cases of all families; each draws from numbers of its own."""
        for fill in FAMILIES:
            own = zlib.crc32(fill.__name__.encode())
            self.rng = np.random.default_rng([self._seed, own])
            fill(self)
        return self.cases

    def dtypes(self, op: str, among: Iterable[str] = NUMBERS, attr: str = "T") -> list[str]:
        """The dtypes `among` those that `op` takes."""
        allowed = self.ops.get(op, {"allowed": {}})["allowed"].get(attr)
        return [d for d in among if allowed is None or d in allowed]

    def add(self, op: str, inputs: dict[str, Any], attrs: dict[str, Any] | None = None,
            forms: Iterable[str] = FORMS, **options: Any) -> None:
        """Add a case in its forms, if its op is wanted."""
        if not self.wanted.fullmatch(op) and self.wanted.pattern:
            return
        forms = tuple(forms)
        inputs = self._ordered(op, inputs)
        if not self.every:
            turn = self._turns[op] = self._turns.get(op, -1) + 1
            if turn > OFTEN and turn % 2 and not options.get("bad"):
                return
            forms = (forms[turn % len(forms)],)
        if self.every and options.get("gradient") == 1:
            options["gradient"] = 2
        self.cases += [Case(op, inputs, attrs or {}, form=form, **options) for form in forms]
        # bfloat16 is served as float16 is: often by the kernel of float32.
        if self._takes_bfloat16(op) and options.get("reference") is None:
            narrow, kinds = _in_bfloat16(inputs), _in_bfloat16(attrs or {})
            if narrow is not inputs or kinds != (attrs or {}):
                self.cases.append(Case(op, narrow, kinds, form=forms[0], **options))

    def _takes_bfloat16(self, op: str) -> bool:
        """True if `op` takes bfloat16 wherever it takes float16."""
        lists = [a for a in self.ops[op]["allowed"].values() if "float16" in a]
        return bool(lists) and all("bfloat16" in a for a in lists)

    def _ordered(self, op: str, inputs: dict[str, Any]) -> dict[str, Any]:
        """`inputs` in the order of the signature: the reference may call them by other names."""
        names = list(self.ops[op]["inputs"])
        if sorted(names) != sorted(inputs):
            raise ValueError(f"{op}: has inputs {names}, the case {list(inputs)}")
        return {name: inputs[name] for name in names}

    def bad(self, op: str, inputs: dict[str, Any], attrs: dict[str, Any] | None = None,
            label: str = "", **options: Any) -> None:
        """Add a case that must be refused: by the graph if it knows the shapes, and in a step."""
        forms = ("constant", "unknown") if self.every else ("unknown",)
        for form in forms:
            self.add(op, inputs, attrs, (form,), bad=True, label=f"bad {label}", **options)

    # ------------------------------------------------------------ random values

    def normal(self, dtype: str, shape: Iterable[int] = (), scale: float = 1.0) -> np.ndarray:
        """Values of both signs, small integers, short strings."""
        shape, rng = tuple(shape), self.rng
        kind = named(dtype)
        if dtype == "string":
            size = int(np.prod(shape))
            letters = list(b"abcXYZ 09\0\xff")
            words = [bytes(rng.choice(letters, rng.integers(0, 6)).tolist()) for _ in range(size)]
            return strings(words).reshape(shape) if size else np.empty(shape, object)
        if dtype == "bool":
            return rng.integers(0, 2, shape).astype(bool)
        if kind.kind in "iu":
            return rng.integers(0 if kind.kind == "u" else -6, 7, shape).astype(kind)
        values = scale * rng.normal(size=shape)
        if kind.kind == "c":
            values = values + 1j * scale * rng.normal(size=shape)
        return np.asarray(values).astype(kind)

    def positive(self, dtype: str, shape: Iterable[int] = (), low: float = 0.2,
                 high: float = 3.0) -> np.ndarray:
        """Values above zero (of positive real part)."""
        kind = named(dtype)
        if kind.kind in "iu":
            return self.rng.integers(1, 7, tuple(shape)).astype(kind)
        values = self.rng.uniform(low, high, tuple(shape))
        if kind.kind == "c":
            values = values + 1j * self.rng.normal(size=tuple(shape))
        return np.asarray(values).astype(kind)

    def unit(self, dtype: str, shape: Iterable[int] = ()) -> np.ndarray:
        """Values within (-0.95, 0.95)."""
        if named(dtype).kind in "iu":
            return self.rng.integers(0, 2, tuple(shape)).astype(dtype)
        values = self.rng.uniform(-0.95, 0.95, tuple(shape))
        if named(dtype).kind == "c":
            values = values + 1j * self.rng.uniform(-0.95, 0.95, tuple(shape))
        return np.asarray(values).astype(named(dtype))

    def part(self, dtype: str, shape: Iterable[int] = ()) -> np.ndarray:
        """Values within (0, 1), as of probabilities."""
        return self.rng.uniform(0.01, 0.99, tuple(shape)).astype(named(dtype))

    def nonzero(self, dtype: str, shape: Iterable[int] = ()) -> np.ndarray:
        """Values of both signs that keep away from zero."""
        values = self.positive(dtype, shape)
        if named(dtype).kind == "u":
            return values
        return (values * self.rng.choice([-1, 1], tuple(shape))).astype(named(dtype))

    def integers(self, high: int, shape: Iterable[int] = (), dtype: str = "int32",
                 low: int = 0) -> np.ndarray:
        """Integers in [low, high)."""
        return self.rng.integers(low, high, tuple(shape)).astype(dtype)

    def distinct(self, dtype: str, shape: Iterable[int]) -> np.ndarray:
        """Different values in random order (of integers, small ones)."""
        size = int(np.prod(tuple(shape)))
        values = self.rng.permutation(size)
        if named(dtype).kind == "f":
            values = values / 8.0 - size / 20.0
        return np.asarray(values).astype(named(dtype)).reshape(tuple(shape))

    def special(self, dtype: str) -> np.ndarray:
        """Zeros of both signs, infinities, NaN and usual values; or the extremes of integers."""
        kind = named(dtype)
        if kind.kind in "iu":
            info = np.iinfo(kind)
            return np.array([0, 1, 2, 3, info.max, info.min, info.max - 1, info.min + 1], kind)
        return np.array(SPECIAL).astype(kind)


def _in_bfloat16(value: Any) -> Any:
    """`value` with bfloat16 for float16 in arrays and types; itself if there is none."""
    if isinstance(value, dict):
        found = {k: _in_bfloat16(v) for k, v in value.items()}
        return value if all(found[k] is value[k] for k in value) else found
    if isinstance(value, list):
        items = [_in_bfloat16(v) for v in value]
        return value if all(a is b for a, b in zip(items, value)) else items
    if isinstance(value, Variable):
        array = _in_bfloat16(value.value)
        return value if array is value.value else value._replace(value=array)
    if isinstance(value, Type):
        return Type("bfloat16") if value.name == "float16" else value
    if getattr(value, "dtype", None) == np.float16:
        return value.astype(named("bfloat16"))
    return value


def ints(*values: int, dtype: str = "int32") -> np.ndarray:
    """A vector of integers."""
    return np.array(values, dtype)


def scalar(value: Any, dtype: str = "int32") -> np.ndarray:
    """A value of rank 0."""
    return np.array(value, named(dtype))
