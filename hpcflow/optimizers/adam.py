"""AdamOptimizer."""

from __future__ import annotations

from typing import Any

from hpcflow.graph.graph import colocate_with, control_dependencies
from hpcflow.graph.indexed_slices import IndexedSlices
from hpcflow.graph.likes import Hyperparameter, TensorLike
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.common.grouping import group
from hpcflow.ops.state.handle_variables import updated
from hpcflow.ops.state.state import assign, assign_sub, scatter_add
from hpcflow.ops.state.variables import Variable
from hpcflow.optimizers.optimizer import Optimizer, cast, hyperparameter


class AdamOptimizer(Optimizer):
    """Steps by running means of the gradient and of its square (Kingma and Ba, 2014)::

        rate = learning_rate * sqrt(1 - beta2**t) / (1 - beta1**t)
        m = beta1 * m + (1 - beta1) * gradient
        v = beta2 * v + (1 - beta2) * gradient**2
        var -= rate * m / (sqrt(v) + epsilon)

    Slots: "m" and "v"; the variables ``beta1_power`` and ``beta2_power`` hold the powers. A sparse
    gradient counts as 0 in the rows it lacks: these decay and move too.

    Args:
        learning_rate: a number or a scalar tensor.
        beta1: decay of the first moment.
        beta2: decay of the second moment.
        epsilon: added to the root for numerical stability.
        use_locking: accepted; updates always hold the variable's lock.
        name: name of the update operations and of the slots.
    """

    def __init__(self, learning_rate: Hyperparameter = 0.001, beta1: TensorLike = 0.9,
                 beta2: TensorLike = 0.999, epsilon: TensorLike = 1e-08, use_locking: bool = False,
                 name: str = "Adam") -> None:
        super().__init__(use_locking, name)
        self._lr, self._beta1, self._beta2, self._epsilon = learning_rate, beta1, beta2, epsilon
        self._lr_t: Any = None
        self._beta1_t: Any = None
        self._beta2_t: Any = None
        self._epsilon_t: Any = None

    def _create_slots(self, var_list: list[Variable]) -> None:
        self._create_non_slot_variable(self._beta1, "beta1_power", var_list[0])
        self._create_non_slot_variable(self._beta2, "beta2_power", var_list[0])
        for var in var_list:
            self._zeros_slot(var, "m", self._name)
            self._zeros_slot(var, "v", self._name)

    def _get_beta_accumulators(self) -> tuple[Any, Any]:
        """The powers of the decays: variables that a checkpoint must hold."""
        return (self._get_non_slot_variable("beta1_power"),
                self._get_non_slot_variable("beta2_power"))

    def _prepare(self) -> None:
        self._lr_t, self._beta1_t, self._beta2_t, self._epsilon_t = (
            hyperparameter(value, name) for value, name in (
                (self._lr, "learning_rate"), (self._beta1, "beta1"), (self._beta2, "beta2"),
                (self._epsilon, "epsilon")))

    def _scalars(self, var: Variable) -> list[Any]:
        """beta1_power, beta2_power, learning rate, beta1, beta2 and epsilon in the var's type."""
        return [cast(x, var.dtype) for x in (*self._get_beta_accumulators(), self._lr_t,
                                             self._beta1_t, self._beta2_t, self._epsilon_t)]

    def _apply_dense(self, grad: Tensor, var: Variable) -> Operation:
        return updated(
            "ApplyAdam", [var, self.get_slot(var, "m"), self.get_slot(var, "v")],
            *self._scalars(var), grad, use_locking=self._use_locking)

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Operation:
        scalars = self._scalars(var)
        rate, m, v = self._moved(var, grad, scalars)
        step = assign_sub(var, rate * m / (raw_ops.Sqrt(v) + scalars[-1]),
                          use_locking=self._use_locking)
        return group(step, m, v)

    def _moved(self, var: Variable, grad: IndexedSlices, scalars: list) -> tuple[Any, Any, Any]:
        """The corrected rate, and both slots once they have decayed and taken a gradient's rows."""
        values: Any = grad.values
        power1, power2, rate, beta1, beta2, _ = scalars
        corrected = rate * raw_ops.Sqrt(1 - power2) / (1 - power1)
        return (corrected,
                self._decayed(var, "m", beta1, grad.indices, values * (1 - beta1)),
                self._decayed(var, "v", beta2, grad.indices, values * values * (1 - beta2)))

    def _decayed(self, var: Variable, slot: str, decay: Tensor, indices: Tensor,
                 values: Tensor) -> Any:
        """The slot after decaying all of it and adding `values` to the rows `indices`."""
        moment: Any = self.get_slot(var, slot)
        decayed = assign(moment, moment * decay, use_locking=self._use_locking)
        return scatter_add(decayed, indices, values, use_locking=self._use_locking)

    def _finish(self, update_ops: list[Operation], name_scope: str) -> Operation:
        power1, power2 = self._get_beta_accumulators()
        with control_dependencies(update_ops), colocate_with(power1):
            powers = [power.assign(power * beta, use_locking=self._use_locking)
                      for power, beta in ((power1, self._beta1_t), (power2, self._beta2_t))]
        return group(*update_ops, *powers, name=name_scope)
