"""L-BFGS over the whole data set, whose loss and gradients may be those of all ranks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hpcflow.contrib.opt.external import ExternalOptimizerInterface
from hpcflow.contrib.opt.line_search import Point, wolfe_step
from hpcflow.graph.operation import Tensor
from hpcflow.mpi.operations import allreduce, broadcast
from hpcflow.ops.state.variables import Variable
from hpcflow.platform import logging

Pairs = deque[tuple[np.ndarray, np.ndarray, float]]


class LBFGSOptimizer(ExternalOptimizerInterface):
    """Minimizes a loss by L-BFGS with a line search (Nocedal and Wright, algorithm 7.5)::

        optimizer = hf.contrib.opt.LBFGSOptimizer(loss, max_iterations=200)
        optimizer.minimize(session)

    The loss is that of the whole data set and the same whenever it is asked for. With a `reduction`
    every rank has a part of the data: losses and gradients are reduced over the ranks, which all
    begin with the values of rank 0, call ``minimize`` together, and end with the same values.

    Args:
        loss: a scalar tensor to be minimized.
        var_list: the variables; the trainable ones if None.
        max_iterations: steps at most.
        history: how many of the last steps shape the next one.
        gradient_tolerance: the end where no derivative is larger than this.
        loss_tolerance: the end where a step makes the loss smaller by less than this part of it.
        reduction: "mean" or "sum" over the ranks; None for the loss of this process alone.

    Attributes:
        iterations, evaluations: how many steps and losses the last ``minimize`` took.
        loss: the value that it found.

    Raises ``ValueError`` for numbers that are not positive, or another reduction.
    """

    def __init__(self, loss: Tensor, var_list: Sequence[Variable] | None = None,
                 max_iterations: int = 100, history: int = 10, gradient_tolerance: float = 1e-5,
                 loss_tolerance: float = 1e-9, reduction: str | None = None) -> None:
        if max_iterations <= 0 or history <= 0:
            raise ValueError("LBFGSOptimizer: max_iterations and history must be positive, got "
                             f"{max_iterations} and {history}")
        if reduction not in (None, "mean", "sum"):
            raise ValueError("LBFGSOptimizer: expected the reduction 'mean', 'sum' or None, got "
                             f"{reduction!r}")
        self._reduction = reduction
        self._limits = max_iterations, gradient_tolerance, loss_tolerance
        self._history = history
        self.iterations = self.evaluations = 0
        self.loss = np.nan
        super().__init__(loss, var_list)
        if reduction is not None:
            self._first = [broadcast(v.value()) for v in self._vars]

    def _with_gradients(self, value: Tensor) -> list[Tensor]:
        found = super()._with_gradients(value)
        return found if self._reduction is None else [
            allreduce(x, self._reduction) for x in found]

    def _minimize(self, initial_val: np.ndarray,  # type: ignore[override]
                  loss_grad_func: Callable, **others: Any) -> np.ndarray:
        most, gradient_tolerance, loss_tolerance = self._limits
        callback = others["step_callback"]
        self.iterations = self.evaluations = 0

        def evaluate(x: np.ndarray) -> tuple[float, np.ndarray]:
            self.evaluations += 1
            return loss_grad_func(x)

        x, pairs = initial_val, Pairs(maxlen=self._history)
        loss, gradient = evaluate(x)
        self.loss, reason = float(loss), "the gradient is zero"
        while np.max(np.abs(gradient), initial=0) > gradient_tolerance:
            if self.iterations == most:
                reason = "the last iteration was made"
                break
            new, reached = _step(evaluate, x, self.loss, gradient, pairs)
            before, self.loss = self.loss, reached.loss
            _remember(pairs, new - x, reached.gradient - gradient)
            x, gradient = new, reached.gradient
            self.iterations += 1
            if callback is not None:
                callback(x)
            if before - self.loss <= loss_tolerance * max(abs(before), abs(self.loss), 1e-300):
                reason = "the loss no longer falls"
                break
        logging.info("L-BFGS ends: %s, loss %g after %d iterations and %d evaluations", reason,
                     self.loss, self.iterations, self.evaluations)
        return x


def _step(evaluate: Callable, x: np.ndarray, loss: float, gradient: np.ndarray,
          pairs: Pairs) -> tuple[np.ndarray, Point]:
    """Make a step; if none goes down, forget the history and try that of the gradient alone."""
    while True:
        direction = _direction(gradient, pairs)
        slope = float(gradient @ direction)
        first = 1.0 if pairs else min(1.0, 1.0 / float(np.sum(np.abs(gradient))))
        start = Point(0.0, loss, slope, gradient)
        found = wolfe_step(evaluate, x, direction, start, first) if slope < 0 else start
        if found.step or not pairs:
            return x + found.step * direction, found
        pairs.clear()


def _direction(gradient: np.ndarray, pairs: Pairs) -> np.ndarray:
    """The product of the approximate inverse Hessian with the negative gradient."""
    found, factors = -gradient, []
    for moved, changed, product in reversed(pairs):
        factors.append(float(moved @ found) / product)
        found = found - factors[-1] * changed
    if pairs:
        _, changed, product = pairs[-1]
        found = found * (product / float(changed @ changed))
    for (moved, changed, product), factor in zip(pairs, reversed(factors), strict=True):
        found = found + (factor - float(changed @ found) / product) * moved
    return found


def _remember(pairs: Pairs, moved: np.ndarray, changed: np.ndarray) -> None:
    """Keep a step whose curvature is positive."""
    product = float(moved @ changed)
    if product > 1e-10 * float(np.linalg.norm(moved) * np.linalg.norm(changed)):
        pairs.append((moved, changed, product))
