"""Kin of Adam: LazyAdam, Nadam, AdaMax."""

from __future__ import annotations

from typing import Any

from hpcflow.graph.graph import colocate_with, control_dependencies
from hpcflow.graph.indexed_slices import IndexedSlices
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.arrays.indexing import gather
from hpcflow.ops.common.grouping import group
from hpcflow.ops.state.handle_variables import updated
from hpcflow.ops.state.state import scatter_sub, scatter_update
from hpcflow.ops.state.variables import Variable
from hpcflow.optimizers.adam import AdamOptimizer


class LazyAdamOptimizer(AdamOptimizer):
    """Adam whose sparse gradients change only the rows that they have: moments of the others do
    not decay meanwhile. Arguments and slots are those of ``train.AdamOptimizer``."""

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Operation:
        power1, power2, rate, beta1, beta2, epsilon = self._scalars(var)
        corrected = rate * raw_ops.Sqrt(1 - power2) / (1 - power1)
        values: Any = grad.values
        m = self._row(var, "m", grad) * beta1 + values * (1 - beta1)
        v = self._row(var, "v", grad) * beta2 + values * values * (1 - beta2)
        step = corrected * m / (raw_ops.Sqrt(v) + epsilon)
        return group(*self._written(var, grad, m, v, step))

    def _row(self, var: Variable, slot: str, grad: IndexedSlices) -> Any:
        """The rows of a slot that the gradient has."""
        return gather(self.get_slot(var, slot), grad.indices)

    def _written(self, var: Variable, grad: IndexedSlices, m: Any, v: Any,
                 step: Any) -> list[Tensor]:
        """The updates of the rows of both slots and of the variable, all known before."""
        with control_dependencies([m, v, step]):
            return [change(target, grad.indices, rows, use_locking=self._use_locking)
                    for change, target, rows in (
                        (scatter_update, self.get_slot(var, "m"), m),
                        (scatter_update, self.get_slot(var, "v"), v), (scatter_sub, var, step))]


class NadamOptimizer(AdamOptimizer):
    """Adam with Nesterov's momentum (Dozat, 2016): it steps by ``beta1 * m + (1 - beta1) *
    gradient`` in place of ``m``. Arguments and slots are those of ``train.AdamOptimizer``; a sparse
    gradient decays all rows of the moments, and moves those that it has."""

    def _apply_dense(self, grad: Tensor, var: Variable) -> Operation:
        return updated(
            "ApplyAdam", [var, self.get_slot(var, "m"), self.get_slot(var, "v")],
            *self._scalars(var), grad, use_locking=self._use_locking, use_nesterov=True)

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Operation:
        scalars = self._scalars(var)
        rate, m, v = self._moved(var, grad, scalars)
        *_, beta1, _, epsilon = scalars
        ahead = grad.values * (1 - beta1) + beta1 * gather(m, grad.indices)
        step = rate * ahead / (raw_ops.Sqrt(gather(v, grad.indices)) + epsilon)
        return group(scatter_sub(var, grad.indices, step, use_locking=self._use_locking), m, v)


class AdaMaxOptimizer(LazyAdamOptimizer):
    """Adam by the largest gradients in place of the mean squares (Kingma and Ba, 2014)::

        m = beta1 * m + (1 - beta1) * gradient
        v = max(beta2 * v, |gradient|)
        var -= learning_rate / (1 - beta1**t) * m / (v + epsilon)

    Slots: "m" and "v". A sparse gradient changes only the rows that it has.
    """

    def __init__(self, learning_rate: Any = 0.001, beta1: Any = 0.9, beta2: Any = 0.999,
                 epsilon: Any = 1e-8, use_locking: bool = False, name: str = "AdaMax") -> None:
        super().__init__(learning_rate, beta1, beta2, epsilon, use_locking, name)

    def _create_slots(self, var_list: list[Variable]) -> None:
        self._create_non_slot_variable(self._beta1, "beta1_power", var_list[0])
        for var in var_list:
            self._zeros_slot(var, "m", self._name)
            self._zeros_slot(var, "v", self._name)

    def _get_beta_accumulators(self) -> tuple[Any, Any]:
        """The power of beta1, twice: no checkpoint has one of beta2."""
        power = self._get_non_slot_variable("beta1_power")
        return power, power

    def _apply_dense(self, grad: Tensor, var: Variable) -> Operation:
        power1, _, *others = self._scalars(var)
        return updated("ApplyAdaMax", [var, self.get_slot(var, "m"), self.get_slot(var, "v")],
                       power1, *others, grad, use_locking=self._use_locking)

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Operation:
        power1, _, rate, beta1, beta2, epsilon = self._scalars(var)
        values: Any = grad.values
        m = self._row(var, "m", grad) * beta1 + values * (1 - beta1)
        v = raw_ops.Maximum(self._row(var, "v", grad) * beta2, raw_ops.Abs(values))
        step = rate / (1 - power1) * m / (v + epsilon)
        return group(*self._written(var, grad, m, v, step))

    def _finish(self, update_ops: list[Operation], name_scope: str) -> Operation:
        power, _ = self._get_beta_accumulators()
        with control_dependencies(update_ops), colocate_with(power):
            decayed = power.assign(power * self._beta1_t, use_locking=self._use_locking)
        return group(*update_ops, decayed, name=name_scope)
