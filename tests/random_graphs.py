"""Random graphs with the values they must have.

A :class:`RandomGraph` is built operation by operation; beside every tensor stands a NumPy function
of the step's state that gives its value, so that the order of construction is the reference.
Variables are read and written in that order: control edges say so, and nothing else is promised.
Each operation is on one of a few devices, given by the caller, so that values go to and fro.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
from async_ops import later
from random_programs import DEVICES, Program, clip
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
    """``size`` random operations on random ones of `devices`; see the module."""

    def __init__(self, seed: int, size: int, devices: list[str]) -> None:
        self.random = np.random.RandomState(seed)
        self.devices = devices
        self.values: list[Value] = []
        self.variables: list[Variable] = []
        self.placeholders: list[Value] = []
        self.updates: list = []
        self.differentiable: list[Value] = []
        self.program: list[Callable[[dict], None]] = []  # the oracle, in order
        self.predicate = hf.placeholder(hf.bool, [], name="predicate")
        for kind in "ffii":
            self._placeholder(kind)
        for kind in "ffi":
            self._variable(kind)
            self._constant(kind)
        steps = [self._unary, self._binary, self._binary, self._matmul, self._reduce, self._reshape,
                 self._slice, self._read, self._read, self._write, self._write, self._select,
                 self._branch, self._cast, self._asynchronous, self._flow, self._flow, self._queue,
                 self._control_flow, self._control_flow, self._write_in_branch,
                 self._write_in_loop]
        for _ in range(size):
            with self._anywhere():
                steps[self.random.randint(len(steps))]()

    def _on(self, device: int) -> Any:
        return hf.device(self.devices[device % len(self.devices)])

    def _anywhere(self) -> Any:
        return self._on(self.random.randint(DEVICES))

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
        with self._anywhere():
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
        bound = clip if x.kind == "f" else lambda v: v
        self._apply(x.kind, x.shape, lambda t: self._bounded(x.kind, build(t)),
                    lambda v: bound(compute(v)), x)

    def _binary(self) -> None:
        x = self._pick()
        y = self._pick(lambda v: v.kind == x.kind)
        choices = [(hf.add, np.add), (hf.subtract, np.subtract), (hf.multiply, np.multiply),
                   (hf.maximum, np.maximum), (hf.minimum, np.minimum)]
        build, compute = choices[self.random.randint(len(choices))]
        bound = clip if x.kind == "f" else lambda v: v
        shape = np.broadcast_shapes(x.shape, y.shape)
        self._apply(x.kind, shape, lambda a, b: self._bounded(x.kind, build(a, b)),
                    lambda a, b: bound(compute(a, b)), x, y)

    def _matmul(self) -> None:
        x = self._pick(lambda v: v.shape == (N, N))
        if x is None:
            return
        y = self._pick(lambda v: v.shape == (N, N) and v.kind == x.kind)
        bound = clip if x.kind == "f" else lambda v: v
        self._apply(x.kind, (N, N), lambda a, b: self._bounded(x.kind, hf.matmul(a, b)),
                    lambda a, b: bound(a @ b), x, y)

    def _reduce(self) -> None:
        x = self._pick(lambda v: v.shape)
        if x is None:
            return
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
        if x is None:
            return
        i = self.random.randint(N)
        self._apply(x.kind, x.shape[1:], lambda t: t[i], lambda v: v[i], x)

    def _cast(self) -> None:
        x = self._pick()
        kind = "i" if x.kind == "f" else "f"
        dtype = hf.int32 if kind == "i" else hf.float32
        bound = clip if kind == "f" else lambda v: v
        self._apply(kind, x.shape, lambda t: self._bounded(kind, hf.cast(t, dtype)),
                    lambda v: bound(v.astype(dtype.np)), x)

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

    def _flow(self) -> None:
        """Conditionals and loops in each other, that read another value and write a variable."""
        x = self._pick()
        y = self._pick(lambda v: v.kind == x.kind and v.shape in ((), x.shape))
        y = x if y is None else y
        writer = _Writer(self, x)
        function, oracle = self._function(x, writer, 3)
        tensor = writer.between(x.tensor, lambda t: function(t, y.tensor))
        if writer.used:
            self.updates.append(tensor.op)
        ids = id(x), id(y)

        def compute(step: dict) -> Any:
            values = [step["values"][i] for i in ids]
            return np.asarray(oracle(step, *values), np.float32 if x.kind == "f" else np.int32)

        self._add(tensor, x.kind, x.shape, compute)

    def _function(self, x: Value, writer: _Writer, depth: int) -> tuple[Callable, Callable]:
        """``f(t, y)`` and ``oracle(step, value, y)``, of the kind and shape of `x`."""
        makers = [self._arithmetic, self._composed, self._if, self._while]
        chosen = makers[self.random.randint(4)] if depth else self._arithmetic
        if self.random.rand() < 0.15 and writer.variable is not None:
            return writer.function()
        return chosen(x, writer, depth)

    def _arithmetic(self, x: Value, writer: _Writer, depth: int) -> tuple[Callable, Callable]:
        bound = clip if x.kind == "f" else lambda v: v
        k = self.random.randint(1, 4)
        pairs = [(lambda t, y: t + y * k, lambda v, y: v + y * k),
                 (lambda t, y: hf.maximum(t, y) - k, lambda v, y: np.maximum(v, y) - k),
                 (lambda t, y: hf.negative(t) - y, lambda v, y: -v - y),
                 (lambda t, y: t, lambda v, y: v)]
        if self.random.rand() < 0.1:
            pairs = [(lambda t, y: later(t) + y, lambda v, y: v + y)]
        build, compute = pairs[self.random.randint(len(pairs))]
        device = self.random.randint(DEVICES) if self.random.rand() < 0.1 else None

        def function(t: Any, y: Any) -> Any:
            with contextlib.nullcontext() if device is None else self._on(device):
                return self._bounded(x.kind, build(t, y))

        return function, lambda step, v, y: bound(compute(v, y))

    def _composed(self, x: Value, writer: _Writer, depth: int) -> tuple[Callable, Callable]:
        f, f_oracle = self._function(x, writer, depth - 1)
        g, g_oracle = self._function(x, writer, depth - 1)
        return (lambda t, y: g(f(t, y), y),
                lambda step, v, y: g_oracle(step, f_oracle(step, v, y), y))

    def _if(self, x: Value, writer: _Writer, depth: int) -> tuple[Callable, Callable]:
        f, f_oracle = self._function(x, writer, depth - 1)
        g, g_oracle = self._function(x, writer, depth - 1)
        if self.random.rand() < 0.4:  # several conditionals of one predicate
            return (lambda t, y: hf.cond(self.predicate, lambda: f(t, y), lambda: g(t, y)),
                    lambda step, v, y: (f_oracle if step["feeds"]["predicate"] else g_oracle)(
                        step, v, y))
        k = int(self.random.randint(-4, 5))
        return (lambda t, y: hf.cond(hf.less(hf.reduce_sum(t), k), lambda: f(t, y),
                                     lambda: g(t, y)),
                lambda step, v, y: f_oracle(step, v, y) if np.sum(v, dtype=v.dtype) < k
                else g_oracle(step, v, y))

    def _while(self, x: Value, writer: _Writer, depth: int) -> tuple[Callable, Callable]:
        f, f_oracle = self._function(x, writer, depth - 1)
        parallel = int(self.random.choice([1, 2, 10]))

        def body(i: Any, v: Any, y: Any) -> list:
            following = hf.identity(f(v, y))
            following.set_shape(v.get_shape())
            return [i + 1, following]

        def function(t: Any, y: Any) -> Any:
            count = hf.floormod(hf.cast(hf.reduce_sum(t), hf.int32), 4)
            return hf.while_loop(lambda i, v: i < count, lambda i, v: body(i, v, y),
                                 [hf.constant(0), t], parallel_iterations=parallel)[1]

        def oracle(step: dict, v: Any, y: Any) -> Any:
            for _ in range(int(np.sum(v, dtype=v.dtype)) % 4):
                v = f_oracle(step, np.asarray(v), y)
            return np.asarray(v)

        return function, oracle

    def _asynchronous(self) -> None:
        x = self._pick()
        self._apply(x.kind, x.shape, later, lambda v: v, x)

    def _queue(self) -> None:
        """A value goes through a queue: one step puts it in and takes it out."""
        x = self._pick()
        dtype = hf.float32 if x.kind == "f" else hf.int32
        with self._anywhere():
            queue = hf.FIFOQueue(1 + self.random.randint(3), dtype, [x.shape])
        self.updates.append(queue.enqueue(x.tensor))
        with self._anywhere():
            element = queue.dequeue()
        self.updates.append(element.op)
        self._apply(x.kind, x.shape, lambda t: hf.identity(element), lambda v: v, x)

    # ------------------------------------------------------------ control flow

    def _control_flow(self) -> None:
        """Nested conditionals and loops over values of one shape."""
        shape = SHAPES[self.random.randint(2)]
        known = [v for v in self.values if v.kind == "f" and v.shape == shape]
        if not known or len(self.differentiable) == 4:
            return
        inputs = known[-4:]
        program = Program(self.random, len(inputs), depth=[1, 2, 2, 3][self.random.randint(4)])
        ids = [id(v) for v in inputs]
        result = program.build([self._bounded("f", v.tensor) for v in inputs], self._on)[-1]
        self.differentiable.append(self._add(
            result, "f", shape,
            lambda s: program.compute([clip(s["values"][i]) for i in ids])[-1]))

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

    def _written(self, v: Variable, update: Any) -> None:
        v.last_write, v.reads = [update], []
        self.updates.append(update)

    def _write_in_branch(self) -> None:
        """A variable that changes if the predicate of the step is true."""
        v = self.variables[self.random.randint(len(self.variables))]
        x = self._pick(lambda x: x.kind == v.kind and x.shape == v.shape)
        if x is None:
            return
        device = self.random.randint(DEVICES)

        def write() -> Any:
            update = v.variable.assign_add(x.tensor)
            with self._on(device), hf.control_dependencies([update.op]):
                return hf.identity(x.tensor)

        with hf.control_dependencies([*v.last_write, *v.reads]):
            self._written(v, hf.cond(self.predicate, write, lambda: x.tensor).op)
        source = id(x)

        def run(step: dict) -> None:
            if step["feeds"]["predicate"]:
                old = step["state"][v.index]
                step["state"][v.index] = np.array(old + step["values"][source], old.dtype)

        self.program.append(run)

    def _write_in_loop(self) -> None:
        """A variable that each iteration adds to, in no order: the sum is exact."""
        v = self.variables[self.random.randint(len(self.variables))]
        x = self._pick(lambda x: x.kind == v.kind and x.shape == v.shape)
        if x is None:
            return
        times, device = self.random.randint(4), self.random.randint(DEVICES)

        def body(i: Any) -> Any:
            update = v.variable.assign_add(x.tensor)
            with self._on(device), hf.control_dependencies([update.op]):
                return i + 1

        with hf.control_dependencies([*v.last_write, *v.reads]):
            self._written(v, hf.while_loop(lambda i: i < times, body, [0]).op)
        source = id(x)

        def run(step: dict) -> None:
            for _ in range(times):
                old = step["state"][v.index]
                step["state"][v.index] = np.array(old + step["values"][source], old.dtype)

        self.program.append(run)


class _Writer:
    """Writes of one variable inside conditionals and loops, in the order of what they depend on."""

    def __init__(self, graph: RandomGraph, x: Value) -> None:
        found = [v for v in graph.variables if v.kind == x.kind and v.shape == x.shape]
        self.variable = found[0] if found else None
        self.kind = x.kind
        self.used = False

    def function(self) -> tuple[Callable, Callable]:
        """A function that writes the variable on its way."""
        self.used = True
        variable = self.variable
        assert variable is not None

        def function(t: Any, y: Any) -> Any:
            with hf.control_dependencies([variable.variable.assign_add(t)]):
                return hf.identity(t)

        def oracle(step: dict, v: Any, y: Any) -> Any:
            old = step["state"][variable.index]
            step["state"][variable.index] = np.array(old + v, old.dtype)
            return v

        return function, oracle

    def between(self, tensor: Any, build: Callable) -> Any:
        """``build(tensor)`` after the accesses so far, and before those to come."""
        variable = self.variable
        if not self.used or variable is None:
            return build(tensor)
        with hf.control_dependencies([*variable.last_write, *variable.reads]):
            start = hf.identity(tensor)
        result = build(start)
        variable.last_write, variable.reads = [result.op], []
        return result
