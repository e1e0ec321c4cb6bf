"""MomentumOptimizer."""

from __future__ import annotations

from hpcflow.graph.indexed_slices import IndexedSlices
from hpcflow.graph.likes import Hyperparameter, TensorLike
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.ops.state.handle_variables import updated
from hpcflow.ops.state.variables import Variable
from hpcflow.optimizers.optimizer import Optimizer


class MomentumOptimizer(Optimizer):
    """``accum = momentum * accum + gradient; var -= learning_rate * accum``.

    With `use_nesterov` the step is taken as if the momentum had already been followed (Sutskever
    et al., 2013). Slot: "momentum", the accumulator.

    Args:
        learning_rate: a number or a scalar tensor.
        momentum: a number or a scalar tensor.
        use_locking: accepted; updates always hold the variable's lock.
        name: name of the update operations and of the slot.
        use_nesterov: use Nesterov's form.
    """

    def __init__(self, learning_rate: Hyperparameter, momentum: TensorLike,
                 use_locking: bool = False, name: str = "Momentum",
                 use_nesterov: bool = False) -> None:
        super().__init__(use_locking, name)
        self._keep(learning_rate=learning_rate, momentum=momentum)
        self._use_nesterov = use_nesterov

    def _create_slots(self, var_list: list[Variable]) -> None:
        for var in var_list:
            self._zeros_slot(var, "momentum", self._name)

    def _apply_dense(self, grad: Tensor, var: Variable) -> Operation:
        rate, momentum = self._scalars(var)
        return updated(
            "ApplyMomentum", [var, self.get_slot(var, "momentum")], rate, grad, momentum,
            use_locking=self._use_locking, use_nesterov=self._use_nesterov)

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Operation:
        rate, momentum = self._scalars(var)
        return updated(
            "SparseApplyMomentum", [var, self.get_slot(var, "momentum")],
            rate, grad.values, grad.indices, momentum,
            use_locking=self._use_locking, use_nesterov=self._use_nesterov)
