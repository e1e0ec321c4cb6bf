"""Random nested conditionals and loops: built as a graph, and computed by NumPy.

A :class:`Program` is a list of instructions over values of one shape. It is made once, from random
numbers, and then both built and computed, so what it gives is known. Every instruction is on a
device of its own. All values are small whole numbers, so that floats are exact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from async_ops import later

import hpcflow as hf

LIMIT = 64.0
DEVICES = 6  # a device is a number below this


def clip(value: Any) -> Any:
    """Between the limits."""
    return np.minimum(np.maximum(value, np.float32(-LIMIT)), np.float32(LIMIT))


def clipped(tensor: Any) -> Any:
    """The same as operations."""
    return hf.minimum(hf.maximum(tensor, -LIMIT), LIMIT)


# Name, operands, as operations, and by NumPy.
OPERATIONS: list[tuple[int, Callable, Callable]] = [
    (2, hf.add, np.add), (2, hf.subtract, np.subtract), (2, hf.multiply, np.multiply),
    (2, hf.maximum, np.maximum), (1, hf.negative, np.negative), (1, hf.nn.relu,
                                                                 lambda x: np.maximum(x, 0)),
    (1, lambda x: x + 1.0, lambda x: x + 1), (1, hf.identity, lambda x: x),
]
RARE = (1, later, lambda x: x)


class Operation:
    """An operation on values that are there."""

    def __init__(self, random: Any, count: int) -> None:
        arity, self._build, self._compute = RARE if random.rand() < 0.04 else (
            OPERATIONS[random.randint(len(OPERATIONS))])
        self.operands = [random.randint(count) for _ in range(arity)]

    def build(self, values: list, on: Callable) -> list:
        return [clipped(self._build(*[values[i] for i in self.operands]))]

    def compute(self, values: list) -> list:
        return [clip(self._compute(*[values[i] for i in self.operands]))]


class Conditional:
    """One of two programs, by the sum of a value."""

    def __init__(self, random: Any, count: int, depth: int) -> None:
        self.subject = random.randint(count)
        self.bound = float(random.randint(-3, 4))
        self.device = random.randint(DEVICES)
        self.branches = [Program(random, count, depth - 1) for _ in range(2)]

    def build(self, values: list, on: Callable) -> list:
        with on(self.device):
            above = hf.reduce_sum(values[self.subject]) > self.bound
        first, second = self.branches
        return [hf.cond(above, lambda: first.build(values, on)[-1],
                        lambda: second.build(values, on)[-1])]

    def compute(self, values: list) -> list:
        branch = self.branches[0 if np.sum(values[self.subject]) > self.bound else 1]
        return [branch.compute(values)[-1]]


class Loop:
    """A program over loop variables, a fixed number of times or while a sum is small."""

    def __init__(self, random: Any, count: int, depth: int) -> None:
        self.start = [random.randint(count) for _ in range(random.randint(1, 3))]
        self.times = random.randint(4)
        self.bound = float(random.randint(20, 80)) if random.rand() < 0.4 else None
        self.parallel = int([1, 2, 10][random.randint(3)])
        self.device = random.randint(DEVICES)
        self.body = Program(random, count + len(self.start), depth - 1)
        # Where the next values of the variables are, from the end of what the body gives.
        total = count + len(self.start) + 1
        self.picks = [-1, *(-random.randint(1, total) for _ in self.start[1:])]

    def build(self, values: list, on: Callable) -> list:
        def goes_on(i: Any, *variables: Any) -> Any:
            with on(self.device):
                small = i < self.times
                if self.bound is not None:
                    small = hf.logical_and(small, hf.reduce_sum(variables[0]) < self.bound)
                return small

        def body(i: Any, *variables: Any) -> list:
            given = self.body.build([*values, *variables], on)
            following = [hf.identity(given[p]) for p in self.picks]
            for tensor, variable in zip(following, variables, strict=True):
                tensor.set_shape(variable.get_shape())
            return [i + 1, *following]

        return hf.while_loop(goes_on, body, [0, *(values[s] for s in self.start)],
                             parallel_iterations=self.parallel)[1:]

    def compute(self, values: list) -> list:
        variables = [values[s] for s in self.start]
        for _ in range(self.times):
            if self.bound is not None and not np.sum(variables[0]) < self.bound:
                break
            given = self.body.compute([*values, *variables])
            variables = [given[p] for p in self.picks]
        return variables


class Program:
    """Instructions over `count` values: each adds its results to them."""

    def __init__(self, random: Any, count: int, depth: int) -> None:
        self.instructions: list[tuple[int, Any]] = []
        for _ in range(random.randint(1, 4 if depth < 2 else 3)):
            made = self._instruction(random, count, depth)
            self.instructions.append((random.randint(DEVICES), made))
            count += len(made.start) if isinstance(made, Loop) else 1

    def _instruction(self, random: Any, count: int, depth: int) -> Any:
        kind = random.rand()
        if depth and kind < 0.3:
            return Conditional(random, count, depth)
        return Loop(random, count, depth) if depth and kind < 0.6 else Operation(random, count)

    def build(self, values: list, on: Callable) -> list:
        """The values and what the instructions add to them; ``on(k)`` is the scope of device k."""
        values = list(values)
        for device, instruction in self.instructions:
            with on(device):
                values += instruction.build(values, on)
        return values

    def compute(self, values: list) -> list:
        """The same, of arrays."""
        values = list(values)
        for _, instruction in self.instructions:
            values += instruction.compute(values)
        return values
