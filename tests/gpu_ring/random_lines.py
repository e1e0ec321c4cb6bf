"""Random graphs of element-wise ops and reductions, as a GPU's programs are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import hpcflow as hf

ROWS, COLUMNS = 6, 5


class RandomLines:
    """`size` random ops over arrays of six rows and five columns, their rows, columns, numbers.

    Values stay small, so that no dtype loses them. With `is_open` the number of rows is unknown
    when the step is compiled.
    """

    def __init__(self, seed: int, size: int, dtype: Any, is_open: bool = False) -> None:
        self.random = np.random.default_rng(seed)
        self.dtype = dtype
        self.feeds: dict[Any, np.ndarray] = {}
        self.values: list[Any] = []
        rows = None if is_open else ROWS
        for shape in ((rows, COLUMNS), (rows, COLUMNS), (rows, 1), (COLUMNS,), ()):
            self._feed(shape)
        self.wanted: list[Any] = []
        for _ in range(size):
            self._op()
        self.wanted += self.values[-3:]

    def _feed(self, shape: tuple) -> None:
        fed = hf.placeholder(self.dtype, shape)
        dims = [ROWS if d is None else d for d in shape]
        drawn = self.random.standard_normal(dims)
        self.feeds[fed] = np.asarray(drawn, self.dtype.as_numpy_dtype)
        self.values.append(fed)

    def _pick(self) -> Any:
        recent = self.values[-8:] + self.values[:5]
        return recent[self.random.integers(len(recent))]

    def _op(self) -> None:
        kinds: list[Callable[[], Any]] = [self._unary, self._binary, self._binary, self._binary,
                                          self._choice, self._reduction, self._rows, self._parts]
        made = kinds[self.random.integers(len(kinds))]()
        if made is None:
            return
        self.values.append(made)
        if self.random.random() < 0.2:
            self.wanted.append(made)

    def _number(self, value: float) -> Any:
        return hf.constant(value, self.dtype)

    def _unary(self) -> Any:
        x = self._pick()
        return [hf.tanh, hf.sigmoid, hf.nn.relu, hf.square, hf.negative, hf.abs, hf.nn.softsign,
                lambda v: hf.sqrt(hf.abs(v) + self._number(0.5)), lambda v: hf.exp(hf.tanh(v)),
                lambda v: hf.cast(hf.cast(v, hf.float32), self.dtype), hf.nn.elu,
                lambda v: hf.clip_by_value(v, -1.0, 1.0)][self.random.integers(12)](x)

    def _binary(self) -> Any:
        x, y = self._pick(), self._pick()
        function = [hf.add, hf.subtract, hf.multiply, hf.maximum, hf.minimum,
                    hf.squared_difference,
                    lambda a, b: hf.divide(a, hf.abs(b) + self._number(1.0))][
                        self.random.integers(7)]
        try:
            np.broadcast_shapes(*([d or ROWS for d in v.shape.as_list()] for v in (x, y)))
            return hf.tanh(function(x, y)) if self.random.random() < 0.5 else function(x, y)
        except ValueError:
            return None  # their shapes do not broadcast

    def _choice(self) -> Any:
        x = self._pick()
        test = hf.logical_or(hf.greater(x, self._number(0.3)), hf.less(x, self._number(-0.5)))
        return hf.where(test, x, hf.zeros_like(x))

    def _reduction(self) -> Any:
        x = self._pick()
        if not x.shape.ndims:
            return None
        axis = [None, 0, x.shape.ndims - 1][self.random.integers(3)]
        function = [hf.reduce_mean, hf.reduce_max, hf.reduce_min][self.random.integers(3)]
        return function(x, axis, keepdims=bool(self.random.integers(2)))

    def _parts(self) -> Any:
        """Several arrays put together, or the parts of what was so."""
        x, y = self._pick(), self._pick()
        if x.shape.as_list() != y.shape.as_list() or not x.shape.ndims:
            return None
        axis = int(self.random.integers(x.shape.ndims))
        if x.shape[axis].value is None:
            return None
        if self.random.random() < 0.5:
            whole = hf.concat([x, hf.tanh(y), x * y], axis)
            self.wanted.append(whole)
            first, second, third = hf.split(hf.tanh(whole), 3, axis)
        else:
            whole = hf.stack([x, hf.tanh(y), x * y], axis)
            self.wanted.append(whole)
            first, second, third = hf.unstack(hf.sigmoid(whole), axis=axis)
        return first * second + third

    def _rows(self) -> Any:
        x = self._pick()
        if x.shape.ndims != 2 or x.shape[1] != COLUMNS:
            return None
        if self.random.random() < 0.5:
            return [hf.nn.softmax, hf.nn.log_softmax][self.random.integers(2)](x)
        labels = hf.constant(np.arange(ROWS) % COLUMNS, hf.int32) + hf.cast(
            hf.reduce_max(hf.nn.relu(x)) * self._number(0.0), hf.int32)
        if x.shape[0] != ROWS:
            return None
        return hf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=x)
