"""AdagradOptimizer and AdagradDAOptimizer."""

from __future__ import annotations

from hpcflow import dtypes
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import device
from hpcflow.graph.indexed_slices import IndexedSlices
from hpcflow.graph.likes import Hyperparameter, TensorLike
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.state.handle_variables import updated
from hpcflow.ops.state.variables import Variable
from hpcflow.optimizers.optimizer import Optimizer, cast


class Accumulating(Optimizer):
    """An optimizer with the slot "accumulator", whose op types are called by its `_rule`."""

    _rule: str

    def __init__(self, initial: float, use_locking: bool, name: str,
                 **hyperparameters: Hyperparameter) -> None:
        if initial <= 0.0:
            raise ValueError(f"initial_accumulator_value must be positive: {initial}")
        super().__init__(use_locking, name)
        self._keep(**hyperparameters)
        self._initial_accumulator_value = initial

    def _create_slots(self, var_list: list[Variable]) -> None:
        for var in var_list:
            self._filled_slot(var, self._initial_accumulator_value, "accumulator", self._name)

    def _apply_dense(self, grad: Tensor, var: Variable) -> Operation:
        return updated(
            f"Apply{self._rule}", [var, self.get_slot(var, "accumulator")],
            *self._scalars(var), grad, use_locking=self._use_locking)

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Operation:
        return updated(
            f"SparseApply{self._rule}", [var, self.get_slot(var, "accumulator")],
            *self._scalars(var), grad.values, grad.indices, use_locking=self._use_locking)


class AdagradOptimizer(Accumulating):
    """``accum += gradient**2; var -= learning_rate * gradient / sqrt(accum)``.

    Duchi, Hazan and Singer, 2011. Slot: "accumulator".

    Args:
        learning_rate: a number or a scalar tensor.
        initial_accumulator_value: where the accumulators begin, positive.
        use_locking: accepted; updates always hold the variable's lock.
        name: name of the update operations and of the slot.

    Raises ``ValueError`` if `initial_accumulator_value` is not positive.
    """

    _rule = "Adagrad"

    def __init__(self, learning_rate: Hyperparameter, initial_accumulator_value: float = 0.1,
                 use_locking: bool = False, name: str = "Adagrad") -> None:
        super().__init__(initial_accumulator_value, use_locking, name, learning_rate=learning_rate)


class AdagradDAOptimizer(Optimizer):
    """Adagrad by dual averaging, for sparse models with l1 and l2 penalties.

    Unlike Adagrad it knows the number of steps, so that rows that were not seen for long get the
    regularization they missed. Slots: "gradient_accumulator", "gradient_squared_accumulator".

    Args:
        learning_rate: a number or a scalar tensor.
        global_step: the integer variable that counts the steps.
        initial_gradient_squared_accumulator_value: where the sums of squares begin, positive.
        l1_regularization_strength: at least 0.
        l2_regularization_strength: at least 0.
        use_locking: accepted; updates always hold the variable's lock.
        name: name of the update operations and of the slots.

    Raises ``ValueError`` if the initial value is not positive.
    """

    def __init__(self, learning_rate: Hyperparameter, global_step: TensorLike,
                 initial_gradient_squared_accumulator_value: float = 0.1,
                 l1_regularization_strength: float = 0.0, l2_regularization_strength: float = 0.0,
                 use_locking: bool = False, name: str = "AdagradDA") -> None:
        initial = initial_gradient_squared_accumulator_value
        if initial <= 0.0:
            raise ValueError(f"initial_gradient_squared_accumulator_value must be positive: "
                             f"{initial}")
        super().__init__(use_locking, name)
        self._keep(learning_rate=learning_rate)
        self._global_step = global_step
        self._initial_gradient_squared_accumulator_value = initial
        self._l1_regularization_strength = l1_regularization_strength
        self._l2_regularization_strength = l2_regularization_strength

    def _create_slots(self, var_list: list[Variable]) -> None:
        for var in var_list:
            self._zeros_slot(var, "gradient_accumulator", self._name)
            self._filled_slot(var, self._initial_gradient_squared_accumulator_value,
                              "gradient_squared_accumulator", self._name)

    def _slots_of(self, var: Variable) -> list:
        return [self.get_slot(var, "gradient_accumulator"),
                self.get_slot(var, "gradient_squared_accumulator")]

    def _scalars(self, var: Variable) -> list:
        with device(var.device):
            step = raw_ops.Identity(self._global_step)
            step = raw_ops.Add(cast(step, dtypes.int64), 1)
        (rate,) = super()._scalars(var)
        l1 = convert_to_tensor(self._l1_regularization_strength, var.dtype.base_dtype)
        l2 = convert_to_tensor(self._l2_regularization_strength, var.dtype.base_dtype)
        return [rate, l1, l2, step]

    def _apply_dense(self, grad: Tensor, var: Variable) -> Operation:
        return updated("ApplyAdagradDA", [var, *self._slots_of(var)], grad, *self._scalars(var),
                       use_locking=self._use_locking)

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Operation:
        return updated(
            "SparseApplyAdagradDA", [var, *self._slots_of(var)], grad.values, grad.indices,
            *self._scalars(var), use_locking=self._use_locking)
