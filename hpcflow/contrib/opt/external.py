"""Optimizers outside of the graph, such as SciPy's, that ask a session for losses and gradients."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from hpcflow.autodiff.gradients import gradients
from hpcflow.graph.defaults import get_default_session
from hpcflow.graph.likes import SessionLike
from hpcflow.graph.operation import Tensor
from hpcflow.ops.arrays.constants import placeholder, zeros_like
from hpcflow.ops.state.variable_lists import trainable_variables
from hpcflow.ops.state.variables import Variable
from hpcflow.platform import logging


class ExternalOptimizerInterface:
    """Base of interfaces to optimizers that are functions of a loss and its gradient.

    A subclass has ``_minimize``, which gets the initial values of all variables as one array, and
    functions of such arrays, and returns the values found.

    Args:
        loss: a scalar tensor to be minimized.
        var_list: the variables; the trainable ones if None.
        equalities: scalar tensors to be held at 0.
        inequalities: scalar tensors to be held at 0 or above.
        var_to_bounds: variable -> (lowest, highest) values, numbers or arrays.
        **optimizer_kwargs: arguments of the optimizer.
    """

    def __init__(self, loss: Tensor, var_list: Sequence[Variable] | None = None,
                 equalities: Sequence[Tensor] | None = None,
                 inequalities: Sequence[Tensor] | None = None,
                 var_to_bounds: Mapping[Variable, tuple] | None = None,
                 **optimizer_kwargs: Any) -> None:
        self._vars = trainable_variables() if var_list is None else list(var_list)
        self._kwargs = optimizer_kwargs
        self._bounds = None if var_to_bounds is None else self._packed_bounds(var_to_bounds)
        self._loss = self._with_gradients(loss)
        self._equalities = [self._with_gradients(t) for t in equalities or ()]
        self._inequalities = [self._with_gradients(t) for t in inequalities or ()]
        self._values = [placeholder(v.dtype.base_dtype, v.get_shape()) for v in self._vars]
        self._updates = [v.assign(x) for v, x in zip(self._vars, self._values)]
        sizes: Any = [v.get_shape().num_elements() for v in self._vars]
        self._first: list = list(self._vars)
        self._ends = np.cumsum(sizes)[:-1].tolist()

    def _with_gradients(self, value: Tensor) -> list[Tensor]:
        grads = gradients(value, [v._ref() for v in self._vars])
        return [value, *(zeros_like(v) if g is None else g
                         for g, v in zip(grads, self._vars))]

    def _packed_bounds(self, bounds: Mapping[Variable, tuple]) -> list[tuple]:
        packed: list[tuple] = []
        for var in self._vars:
            low, high = bounds.get(var, (-np.inf, np.inf))
            shape: Any = var.get_shape().as_list()
            packed += zip(np.broadcast_to(low, shape).ravel().tolist(),
                          np.broadcast_to(high, shape).ravel().tolist(), strict=True)
        return packed

    def minimize(self, session: SessionLike | None = None, feed_dict: dict | None = None,
                 fetches: Sequence | None = None, step_callback: Callable | None = None,
                 loss_callback: Callable | None = None, **run_kwargs: Any) -> None:
        """Find values of the variables and assign them.

        Args:
            session: the session; the default one if None.
            feed_dict: what is fed whenever the loss is asked for.
            fetches: what is fetched with it, for `loss_callback`.
            step_callback: called with the values of all variables, as one array, at each step.
            loss_callback: called with the values of `fetches` at each loss.
            **run_kwargs: arguments of ``Session.run``.
        """
        session = session or get_default_session()
        fed, fetched = dict(feed_dict or {}), list(fetches or ())

        def evaluator(tensors: list, extra: list, callback: Callable | None) -> Callable:
            def evaluate(packed: np.ndarray) -> tuple[Any, np.ndarray]:
                given = dict(zip(self._values, self._unpacked(packed)))
                session.run(self._updates, given)
                found, others = session.run([tensors, extra], fed, **run_kwargs)
                if callback is not None:
                    callback(*others)
                return found[0], self._packed(found[1:])
            return evaluate

        def separate(groups: list[list]) -> tuple[list, list]:
            both = [evaluator(group, [], None) for group in groups]
            return ([lambda x, f=f: f(x)[0] for f in both],
                    [lambda x, f=f: f(x)[1] for f in both])

        begin = self._packed(session.run(self._first))
        equal, equal_grads = separate(self._equalities)
        unequal, unequal_grads = separate(self._inequalities)
        found = self._minimize(
            initial_val=begin, loss_grad_func=evaluator(self._loss, fetched, loss_callback),
            equality_funcs=equal, equality_grad_funcs=equal_grads, inequality_funcs=unequal,
            inequality_grad_funcs=unequal_grads, packed_bounds=self._bounds,
            step_callback=step_callback, optimizer_kwargs=self._kwargs)
        session.run(self._updates, dict(zip(self._values, self._unpacked(np.asarray(found)))))

    def _packed(self, values: list) -> np.ndarray:
        return np.concatenate([np.ravel(x) for x in values]).astype(np.float64)

    def _unpacked(self, packed: np.ndarray) -> list[np.ndarray]:
        return [part.reshape(v.get_shape().as_list()).astype(v.dtype.as_numpy_dtype)
                for part, v in zip(np.split(packed, self._ends), self._vars)]

    def _minimize(self, initial_val: np.ndarray, loss_grad_func: Callable,
                  equality_funcs: list[Callable], equality_grad_funcs: list[Callable],
                  inequality_funcs: list[Callable], inequality_grad_funcs: list[Callable],
                  packed_bounds: list[tuple] | None, step_callback: Callable | None,
                  optimizer_kwargs: dict) -> np.ndarray:
        """Return the values of all variables, as one array, that the optimizer finds."""
        raise NotImplementedError("To be implemented by a subclass")


class ScipyOptimizerInterface(ExternalOptimizerInterface):
    """``scipy.optimize.minimize`` of a loss: L-BFGS-B unless `method` says otherwise.

    Args: as of :class:`ExternalOptimizerInterface`; ``method``, ``options`` and others are those
    of ``scipy.optimize.minimize``. Needs SciPy.
    """

    def _minimize(self, initial_val: np.ndarray, loss_grad_func: Callable,
                  equality_funcs: list[Callable], equality_grad_funcs: list[Callable],
                  inequality_funcs: list[Callable], inequality_grad_funcs: list[Callable],
                  packed_bounds: list[tuple] | None, step_callback: Callable | None,
                  optimizer_kwargs: dict) -> np.ndarray:
        optimize = importlib.import_module("scipy.optimize")
        constraints = [{"type": kind, "fun": f, "jac": jac} for kind, functions, jacs in (
            ("eq", equality_funcs, equality_grad_funcs),
            ("ineq", inequality_funcs, inequality_grad_funcs))
            for f, jac in zip(functions, jacs)]
        wanted = {"method": "L-BFGS-B", "callback": step_callback, "bounds": packed_bounds,
                  **optimizer_kwargs}
        for taken in ("jac", "constraints"):
            if taken in optimizer_kwargs:
                raise ValueError(f"Optimizer keyword arg '{taken}' is set automatically and cannot "
                                 "be injected manually")
        result = optimize.minimize(loss_grad_func, initial_val, jac=True, constraints=constraints,
                                   **wanted)
        logging.info("Optimization terminated with:\n  Message: %s\n  Objective function value: "
                     "%f\n  Number of iterations: %d\n  Number of functions evaluations: %d",
                     result.message, result.fun, getattr(result, "nit", 0), result.nfev)
        return result.x
