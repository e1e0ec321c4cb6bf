"""Random programs of the form, and arrays to run them over."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow.loops import llvm_functions, llvm_math
from hpcflow.loops.form import DENSE, ONE, PER_COLUMN, PER_ROW, Builder, Map, Program
from hpcflow.loops.meanings import FLOATS, INTEGERS, MEANINGS, NARROW, numpy_dtype

#: What random numbers are drawn from, besides small ones.
SPECIAL = (0.0, -0.0, float("nan"), float("inf"), float("-inf"), 1e-40, 1.0, -1.0)


class RandomProgram:
    """A program of about `size` instructions of `dtypes`, with arrays for `rows` rows.

    Attributes:
        program: it is.
        arrays, arguments: to run it over; those that are written to hold sevens.
        is_loose: a sum, or an approximate function, is part of it.
    """

    def __init__(self, seed: int, size: int, dtypes: tuple[str, ...], rows: int,
                 columns: int, is_special: bool = False) -> None:
        self.random = np.random.default_rng(seed)
        self.dtypes, self.rows, self.columns = dtypes, rows, columns
        self.is_special, self.is_loose = is_special, False
        self.b = Builder(columns)
        self.arrays: list[np.ndarray] = []
        self.arguments: list[Any] = []
        self.values = [self._load() for _ in range(4)]
        for _ in range(size):
            made = self._one()
            if made is not None:
                self.values.append(made)
        self._finish()
        self.program: Program = self.b.program()

    def _draw(self, size: int, dtype: str) -> np.ndarray:
        if dtype not in FLOATS:
            return self.random.integers(0, 2 if dtype == "bool" else 50, size).astype(dtype)
        found = self.random.standard_normal(size)
        if self.is_special:
            chosen = self.random.random(size) < 0.2
            found = np.where(chosen, self.random.choice(SPECIAL, size), found)
        return found.astype(numpy_dtype(dtype))

    def _load(self) -> int:
        dtype = str(self.random.choice(self.dtypes))
        if self.random.random() < 0.15:
            value = self._draw(1, dtype)[0]
            self.arguments.append(value if dtype not in NARROW else np.float32(value))
            return self.b.argument(dtype)
        rows, columns = self.rows, self.columns
        where, size = [(DENSE, rows * columns), (DENSE, rows * columns), (PER_ROW, rows),
                       (PER_COLUMN, columns), (ONE, 1),
                       (Map(2 * columns + 1, 2, 1), rows * (2 * columns + 1) + 2),
                       (Map(1, max(1, rows)), max(1, rows) * columns)][self.random.integers(7)]
        self.arrays.append(self._draw(size, dtype))
        return self.b.load(self.b.array(dtype), where)

    def _pick(self, *dtypes: str) -> int | None:
        fit = [v for v in self.values if not dtypes or self.b.dtype(v) in dtypes]
        return int(self.random.choice(fit[-8:])) if fit else None

    def _one(self) -> int | None:
        kinds = [self._load, self._function, self._function, self._function, self._select,
                 self._cast, self._reduction, self.b.column]
        return kinds[self.random.integers(len(kinds))]()

    def _function(self) -> int | None:
        x = self._pick()
        assert x is not None
        dtype = self.b.dtype(x)
        names = [n for n in MEANINGS if llvm_functions.supports(n, dtype)
                 and (self.is_special is False or MEANINGS[n].ulps == 0)]
        name = str(self.random.choice(names))
        operands = [x] * (2 if "{1}" in MEANINGS[name].cuda else 1)
        operands[-1] = self._pick(dtype)  # type: ignore[assignment]
        self.is_loose |= MEANINGS[name].ulps > 0
        return self.b.apply(name, *operands)

    def _select(self) -> int | None:
        test, x = self._pick("bool"), self._pick()
        assert x is not None
        y = self._pick(self.b.dtype(x))
        return None if test is None or y is None else self.b.select(test, x, y)

    def _cast(self) -> int | None:
        x = self._pick()
        assert x is not None
        source, target = self.b.dtype(x), str(self.random.choice(self.dtypes))
        if target in INTEGERS and source in FLOATS:  # only what has a whole number
            fits = self.b.apply("less", self.b.apply("absolute", x), self.b.constant(100, source))
            x = self.b.select(fits, x, self.b.constant(1, source))
            if target.startswith("u"):
                x = self.b.apply("absolute", x)
        return self.b.cast(x, target) if llvm_math.can_cast(source, target) else None

    def _reduction(self) -> int | None:
        x = self._pick(*(FLOATS | INTEGERS))
        if x is None:
            return None
        name = str(self.random.choice(["sum", "max", "min"]))
        self.is_loose |= name == "sum" and self.b.dtype(x) in FLOATS
        return self.b.reduce_row(name, x)

    def _finish(self) -> None:
        """Store some values, and reductions of columns."""
        from hpcflow.loops.form import extents

        steps = Program(self.columns, (), (), tuple(self.b._steps))
        found = extents(steps)
        for value in self.values[-5:]:
            extent, dtype = found[value], self.b.dtype(value)
            self._store(value, DENSE, self.rows * self.columns)
            if not extent.columns and extent.rows:
                self._store(value, PER_ROW, self.rows)
            if not extent.rows and not extent.phase:
                self._store(value, PER_COLUMN, self.columns)
            if dtype in FLOATS | INTEGERS and self.random.random() < 0.5:
                name = str(self.random.choice(["sum", "max"]))
                self.is_loose |= name == "sum" and dtype in FLOATS
                total = self.b.apply("square", self.b.reduce_columns(name, value))
                self._store(total, PER_COLUMN, self.columns)

    def _store(self, value: int, where: Map, size: int) -> None:
        dtype = self.b.dtype(value)
        self.arrays.append(np.full(size, 7, numpy_dtype(dtype)))
        self.b.store(self.b.array(dtype), where, value)

    def copies(self) -> list[np.ndarray]:
        """The arrays, for a run."""
        return [a.copy() for a in self.arrays]
