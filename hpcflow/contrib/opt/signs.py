"""AddSign and PowerSign: optimizers that look at whether gradient and momentum agree."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from hpcflow.graph.indexed_slices import IndexedSlices
from hpcflow.graph.likes import Hyperparameter, TensorLike
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.arrays.indexing import gather
from hpcflow.ops.common.grouping import group
from hpcflow.ops.state.handle_variables import updated
from hpcflow.ops.state.state import scatter_sub, scatter_update
from hpcflow.ops.state.variables import Variable
from hpcflow.optimizers.global_step import get_global_step
from hpcflow.optimizers.optimizer import Optimizer, cast, hyperparameter


class _SignOptimizer(Optimizer):
    """Steps by the gradient times a factor of ``sign(gradient) * sign(m)``, where `m` is the
    gradient's running mean, in the slot "m"."""

    _op_type: str

    def __init__(self, learning_rate: Hyperparameter, strength: TensorLike, beta: TensorLike,
                 sign_decay_fn: Callable | None, use_locking: bool, name: str) -> None:
        super().__init__(use_locking, name)
        self._given = {"learning_rate": learning_rate, "strength": strength, "beta": beta}
        self._sign_decay_fn = sign_decay_fn

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None,
                        name: str | None = None) -> Operation:
        """As of ``train.Optimizer``; the decay of the sign follows `global_step`."""
        step = get_global_step() if global_step is None else global_step
        self._sign_decay: Any = (1.0 if self._sign_decay_fn is None
                                 else self._sign_decay_fn(step))
        return super().apply_gradients(grads_and_vars, global_step, name)

    def _create_slots(self, var_list: list[Variable]) -> None:
        for var in var_list:
            self._zeros_slot(var, "m", self._name)

    def _prepare(self) -> None:
        self._rate, self._strength, self._beta = (
            hyperparameter(value, name) for name, value in self._given.items())

    def _scalars(self, var: Variable) -> list[Any]:
        return [cast(x, var.dtype) for x in (self._rate, self._strength, self._sign_decay,
                                             self._beta)]

    def _apply_dense(self, grad: Tensor, var: Variable) -> Operation:
        return updated(self._op_type, [var, self.get_slot(var, "m")], *self._scalars(var), grad,
                       use_locking=self._use_locking)

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Operation:
        rate, strength, decay, beta = self._scalars(var)
        slot: Any = self.get_slot(var, "m")
        values: Any = grad.values
        m = gather(slot, grad.indices) * beta + values * (1 - beta)
        kept = scatter_update(slot, grad.indices, m, use_locking=self._use_locking)
        signs = decay * raw_ops.Sign(values) * raw_ops.Sign(m)
        step = rate * self._factor(strength, signs) * values
        return group(scatter_sub(var, grad.indices, step, use_locking=self._use_locking), kept)

    def _factor(self, strength: TensorLike, signs: object) -> Any:
        raise NotImplementedError


class AddSignOptimizer(_SignOptimizer):
    """Steps by ``(alpha + decay * sign(gradient) * sign(m)) * gradient`` (Bello et al., 2017).

    Args:
        learning_rate: a number or a scalar tensor.
        alpha: what is added to the product of the signs.
        beta: decay of the running mean of the gradient, the slot "m".
        sign_decay_fn: function of the global step, 1 if None: see ``get_linear_decay_fn``.
        use_locking: accepted; updates always hold the variable's lock.
        name: name of the update operations and of the slots.
    """

    _op_type = "ApplyAddSign"

    def __init__(self, learning_rate: Hyperparameter = 0.1, alpha: TensorLike = 1.0,
                 beta: TensorLike = 0.9, sign_decay_fn: Callable | None = None,
                 use_locking: bool = False, name: str = "AddSignOptimizer") -> None:
        super().__init__(learning_rate, alpha, beta, sign_decay_fn, use_locking, name)

    def _factor(self, strength: Any, signs: Any) -> Any:
        return strength + signs


class PowerSignOptimizer(_SignOptimizer):
    """Steps by ``base**(decay * sign(gradient) * sign(m)) * gradient`` (Bello et al., 2017).

    Args: as of :class:`AddSignOptimizer`; `base` is what is raised to the product of the signs.
    """

    _op_type = "ApplyPowerSign"

    def __init__(self, learning_rate: Hyperparameter = 0.1, base: Any = math.e,
                 beta: TensorLike = 0.9, sign_decay_fn: Callable | None = None,
                 use_locking: bool = False, name: str = "PowerSignOptimizer") -> None:
        super().__init__(learning_rate, math.log(base), beta, sign_decay_fn, use_locking, name)

    def _factor(self, strength: TensorLike, signs: Any) -> Any:
        return raw_ops.Exp(strength * signs)
