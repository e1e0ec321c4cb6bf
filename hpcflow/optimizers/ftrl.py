"""FtrlOptimizer."""

from __future__ import annotations

from typing import Any

from hpcflow.graph.indexed_slices import IndexedSlices
from hpcflow.graph.likes import Hyperparameter
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.ops.state.handle_variables import updated
from hpcflow.ops.state.variables import Variable
from hpcflow.optimizers.optimizer import Optimizer


class FtrlOptimizer(Optimizer):
    """Follow the regularized leader, with l1 and l2 penalties (McMahan et al., 2013).

    Slots: "accum" (squared gradients) and "linear".

    Args:
        learning_rate: a number or a scalar tensor.
        learning_rate_power: at most 0; how the rate falls over the steps.
        initial_accumulator_value: where "accum" begins, positive.
        l1_regularization_strength: at least 0.
        l2_regularization_strength: at least 0.
        use_locking: accepted; updates always hold the variable's lock.
        name: name of the update operations and of the slots.
        accum_name: name of the slot "accum", if not the optimizer's.
        linear_name: name of the slot "linear", if not the optimizer's.
        l2_shrinkage_regularization_strength: at least 0; the penalty of the size of the weights
            where the gradient is not 0, which leaves the accumulators alone.

    Raises ``ValueError`` for values out of range.
    """

    def __init__(self, learning_rate: Hyperparameter, learning_rate_power: float = -0.5,
                 initial_accumulator_value: float = 0.1, l1_regularization_strength: float = 0.0,
                 l2_regularization_strength: float = 0.0, use_locking: bool = False,
                 name: str = "Ftrl", accum_name: str | None = None,
                 linear_name: str | None = None,
                 l2_shrinkage_regularization_strength: float = 0.0) -> None:
        super().__init__(use_locking, name)
        _check("initial_accumulator_value", initial_accumulator_value > 0, "positive",
               initial_accumulator_value)
        _check("learning_rate_power", learning_rate_power <= 0, "negative or zero",
               learning_rate_power)
        _check("l1_regularization_strength", l1_regularization_strength >= 0, "positive or zero",
               l1_regularization_strength)
        _check("l2_regularization_strength", l2_regularization_strength >= 0, "positive or zero",
               l2_regularization_strength)
        _check("l2_shrinkage_regularization_strength", l2_shrinkage_regularization_strength >= 0,
               "positive or zero", l2_shrinkage_regularization_strength)
        self._accum_name, self._linear_name = accum_name, linear_name
        self._initial_accumulator_value = initial_accumulator_value
        self._version = "V2" if l2_shrinkage_regularization_strength > 0 else ""
        self._keep(learning_rate=learning_rate,
                   l1_regularization_strength=l1_regularization_strength,
                   l2_regularization_strength=l2_regularization_strength,
                   l2_shrinkage_regularization_strength=l2_shrinkage_regularization_strength,
                   learning_rate_power=learning_rate_power)

    def _create_slots(self, var_list: list[Variable]) -> None:
        for var in var_list:
            self._filled_slot(var, self._initial_accumulator_value, "accum",
                              self._accum_name or self._name)
            self._zeros_slot(var, "linear", self._linear_name or self._name)

    def _states(self, var: Variable) -> list:
        return [var, self.get_slot(var, "accum"), self.get_slot(var, "linear")]

    def _scalars(self, var: Variable) -> list[Any]:
        rate, l1, l2, shrinkage, power = super()._scalars(var)
        return [rate, l1, l2, shrinkage, power] if self._version else [rate, l1, l2, power]

    def _apply_dense(self, grad: Tensor, var: Variable) -> Operation:
        return updated(f"ApplyFtrl{self._version}", self._states(var), grad, *self._scalars(var),
                       use_locking=self._use_locking)

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Operation:
        return updated(f"SparseApplyFtrl{self._version}", self._states(var), grad.values,
                       grad.indices, *self._scalars(var), use_locking=self._use_locking)


def _check(name: str, fits: bool, expected: str, value: float) -> None:
    if not fits:
        raise ValueError(f"{name} {value} needs to be {expected}")
