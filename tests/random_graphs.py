"""Random graphs with the values they must have.

A :class:`RandomGraph` is built operation by operation; beside every tensor stands a NumPy function
of the step's state that gives its value, so that the order of construction is the reference.
Variables are read and written in that order: control edges say so, and nothing else is promised.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from async_ops import later
from raw_control_flow import branches

import hpcflow as hf

N = 3  # everything is a scalar, or of shape [N] or [N, N]
SHAPES = [(), (N,), (N, N)]


class Value:
    """A tensor, its dtype kind ("f" or "i"), its shape, and its value in a step of the oracle."""

    def __init__(self, tensor: Any, kind: str, shape: tuple,
                 compute: Callable[[dict], Any]) -> None:
        self.tensor = tensor
        self.kind = kind
        self.shape = shape
        self.compute = compute


class Variable:
    """A variable, and the operations that the next access has to wait for."""

    def __init__(self, variable: Any, kind: str, shape: tuple, index: int) -> None:
        self.variable = variable
        self.kind = kind
        self.shape = shape
        self.index = index
        self.last_write: list = []
        self.reads: list = []


class RandomGraph:
    """``size`` random operations on random devices; see the module."""

    def __init__(self, seed: int, size: int) -> None:
        self.random = np.random.RandomState(seed)
        self.values: list[Value] = []
        self.variables: list[Variable] = []
        self.placeholders: list[Value] = []
        self.updates: list = []
        self.program: list[Callable[[dict], None]] = []  # the oracle, in order
        self.predicate = hf.placeholder(hf.bool, [], name="predicate")
        for kind in "ffii":
            self._placeholder(kind)
        for kind in "ffi":
            self._variable(kind)
            self._constant(kind)
        steps = [self._unary, self._binary, self._binary, self._matmul, self._reduce, self._reshape,
                 self._slice, self._read, self._read, self._write, self._write, self._select,
                 self._branch, self._cast, self._asynchronous]
        for _ in range(size):
            with hf.device(f"/cpu:{self.random.randint(3)}"):
                steps[self.random.randint(len(steps))]()

    # ------------------------------------------------------------ the oracle

    def expected(self, feeds: dict, state: list) -> list:
        """The values of all tensors in one step; changes `state` (of the variables)."""
        step = {"feeds": feeds, "state": state, "values": {}}
        with np.errstate(all="ignore"):
            for run in self.program:
                run(step)
        return [step["values"][id(v)] for v in self.values]

    def _add(self, tensor: Any, kind: str, shape: tuple, compute: Callable[[dict], Any]) -> Value:
        value = Value(tensor, kind, shape, compute)
        self.values.append(value)
        self.program.append(lambda step: step["values"].update({id(value): compute(step)}))
        return value

    # ------------------------------------------------------------ sources

    def feeds(self) -> dict:
        """Random values of the placeholders, by the index of the placeholder."""
        return {i: self._array(p.kind, p.shape) for i, p in enumerate(self.placeholders)}

    def _array(self, kind: str, shape: tuple) -> np.ndarray:
        array = self.random.randint(-5, 6, shape)
        return np.asarray(array, np.float32 if kind == "f" else np.int32)

    def _shape(self) -> tuple:
        return SHAPES[self.random.randint(3)]

    def _placeholder(self, kind: str) -> None:
        shape = self._shape()
        static = None if self.random.rand() < 0.2 else [
            None if self.random.rand() < 0.3 else d for d in shape]
        tensor = hf.placeholder(hf.float32 if kind == "f" else hf.int32, static)
        index = len(self.placeholders)
        self.placeholders.append(self._add(tensor, kind, shape, lambda s: s["feeds"][index]))

    def _constant(self, kind: str) -> None:
        array = self._array(kind, self._shape())
        self._add(hf.constant(array), kind, array.shape, lambda s: array)

    def _variable(self, kind: str) -> None:
        shape = self._shape()
        initial = hf.zeros(shape, hf.float32 if kind == "f" else hf.int32)
        with hf.device(f"/cpu:{self.random.randint(3)}"):
            self.variables.append(Variable(hf.Variable(initial), kind, shape,
                                           len(self.variables)))

    def initial_state(self) -> list:
        """The values of the variables before the first step."""
        return [np.zeros(v.shape, np.float32 if v.kind == "f" else np.int32)
                for v in self.variables]

    # ------------------------------------------------------------ operations

    def _pick(self, test: Callable[[Value], bool] = lambda v: True) -> Value | None:
        found = [v for v in self.values if test(v)]
        # Mostly recent values, so that chains form.
        recent = found[-6:] if self.random.rand() < 0.7 else found
        return recent[self.random.randint(len(recent))] if recent else None

    def _apply(self, kind: str, shape: tuple, build: Callable, compute: Callable,
               *inputs: Value) -> None:
        dtype = np.float32 if kind == "f" else np.int32
        ids = [id(v) for v in inputs]
        self._add(build(*[v.tensor for v in inputs]), kind, shape,
                  lambda s: np.asarray(compute(*[s["values"][i] for i in ids]), dtype))

    def _bounded(self, kind: str, tensor: Any) -> Any:
        """Keep floats small, so that they stay exact."""
        return hf.minimum(hf.maximum(tensor, -64.0), 64.0) if kind == "f" else tensor

    def _unary(self) -> None:
        x = self._pick()
        choices = [(hf.negative, np.negative), (hf.abs, np.abs), (hf.square, np.square),
                   (hf.identity, lambda v: v), (hf.nn.relu, lambda v: np.maximum(v, 0))]
        build, compute = choices[self.random.randint(len(choices))]
        clip = _clip if x.kind == "f" else lambda v: v
        self._apply(x.kind, x.shape, lambda t: self._bounded(x.kind, build(t)),
                    lambda v: clip(compute(v)), x)

    def _binary(self) -> None:
        x = self._pick()
        y = self._pick(lambda v: v.kind == x.kind)
        choices = [(hf.add, np.add), (hf.subtract, np.subtract), (hf.multiply, np.multiply),
                   (hf.maximum, np.maximum), (hf.minimum, np.minimum)]
        build, compute = choices[self.random.randint(len(choices))]
        clip = _clip if x.kind == "f" else lambda v: v
        shape = np.broadcast_shapes(x.shape, y.shape)
        self._apply(x.kind, shape, lambda a, b: self._bounded(x.kind, build(a, b)),
                    lambda a, b: clip(compute(a, b)), x, y)

    def _matmul(self) -> None:
        x = self._pick(lambda v: v.shape == (N, N))
        if x is None:
            return
        y = self._pick(lambda v: v.shape == (N, N) and v.kind == x.kind)
        clip = _clip if x.kind == "f" else lambda v: v
        self._apply(x.kind, (N, N), lambda a, b: self._bounded(x.kind, hf.matmul(a, b)),
                    lambda a, b: clip(a @ b), x, y)

    def _reduce(self) -> None:
        x = self._pick(lambda v: v.shape)
        axis = self.random.randint(len(x.shape))
        build, compute = [(hf.reduce_sum, np.sum), (hf.reduce_max, np.max)][self.random.randint(2)]
        self._apply(x.kind, x.shape[:axis] + x.shape[axis + 1:], lambda t: build(t, axis),
                    lambda v: compute(v, axis), x)

    def _reshape(self) -> None:
        x = self._pick(lambda v: v.shape == (N, N))
        if x is None:
            return
        if self.random.rand() < 0.5:
            self._apply(x.kind, (N, N), hf.transpose, np.transpose, x)
        else:
            self._apply(x.kind, (N, N),
                        lambda t: hf.reshape(hf.reshape(t, [N * N]), [N, N]), lambda v: v, x)

    def _slice(self) -> None:
        x = self._pick(lambda v: v.shape)
        i = self.random.randint(N)
        self._apply(x.kind, x.shape[1:], lambda t: t[i], lambda v: v[i], x)

    def _cast(self) -> None:
        x = self._pick()
        kind = "i" if x.kind == "f" else "f"
        dtype = hf.int32 if kind == "i" else hf.float32
        clip = _clip if kind == "f" else lambda v: v
        self._apply(kind, x.shape, lambda t: self._bounded(kind, hf.cast(t, dtype)),
                    lambda v: clip(v.astype(dtype.np)), x)

    def _select(self) -> None:
        x = self._pick()
        y = self._pick(lambda v: v.kind == x.kind and v.shape == x.shape)
        self._apply(x.kind, x.shape, lambda a, b: hf.where(hf.less(a, b), a + b, b),
                    lambda a, b: np.where(a < b, a + b, b), x, y)

    def _branch(self) -> None:
        x = self._pick()
        self._apply(x.kind, x.shape,
                    lambda t: branches(self.predicate, t, lambda a: a + a,
                                       lambda b: hf.negative(b) + b * 2),
                    lambda v: v + v, x)
        taken, untaken = self.values[-1].compute, id(x)
        value = self.values[-1]
        self.program[-1] = lambda step: step["values"].update({
            id(value): taken(step) if step["feeds"]["predicate"] else step["values"][untaken]})

    def _asynchronous(self) -> None:
        x = self._pick()
        self._apply(x.kind, x.shape, later, lambda v: v, x)

    # ------------------------------------------------------------ variables

    def _read(self) -> None:
        v = self.variables[self.random.randint(len(self.variables))]
        with hf.control_dependencies(v.last_write):
            tensor = v.variable.read_value()
        v.reads.append(tensor)
        self._add(tensor, v.kind, v.shape, lambda s: s["state"][v.index].copy())

    def _write(self) -> None:
        v = self.variables[self.random.randint(len(self.variables))]
        x = self._pick(lambda x: x.kind == v.kind and x.shape == v.shape)
        if x is None:
            return
        build, compute = [(v.variable.assign, lambda old, new: new),
                          (v.variable.assign_add, lambda old, new: old + new),
                          (v.variable.assign_sub, lambda old, new: old - new),
                          ][self.random.randint(3)]
        with hf.control_dependencies([*v.last_write, *v.reads]):
            update = build(x.tensor)
        v.last_write, v.reads = [update.op], []
        self.updates.append(update.op)
        source = id(x)

        def write(step: dict) -> None:
            old = step["state"][v.index]
            step["state"][v.index] = np.array(compute(old, step["values"][source]), old.dtype)

        self.program.append(write)


def _clip(value: Any) -> Any:
    return np.minimum(np.maximum(value, np.float32(-64)), np.float32(64))
