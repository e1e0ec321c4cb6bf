"""AdadeltaOptimizer."""

from __future__ import annotations

from hpcflow.graph.indexed_slices import IndexedSlices
from hpcflow.graph.likes import Hyperparameter, TensorLike
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.ops.state.handle_variables import updated
from hpcflow.ops.state.variables import Variable
from hpcflow.optimizers.optimizer import Optimizer


class AdadeltaOptimizer(Optimizer):
    """Scales steps by running means of squared gradients and squared steps (Zeiler, 2012)::

        accum = rho * accum + (1 - rho) * gradient**2
        step = gradient * sqrt(accum_update + epsilon) / sqrt(accum + epsilon)
        accum_update = rho * accum_update + (1 - rho) * step**2
        var -= learning_rate * step

    Slots: "accum" and "accum_update".

    Args:
        learning_rate: a number or a scalar tensor; 1 is the paper's form.
        rho: decay of the running means.
        epsilon: conditions both roots.
        use_locking: accepted; updates always hold the variable's lock.
        name: name of the update operations and of the slots.
    """

    _tensor_suffix = "_t"

    def __init__(self, learning_rate: Hyperparameter = 0.001, rho: TensorLike = 0.95,
                 epsilon: TensorLike = 1e-8, use_locking: bool = False,
                 name: str = "Adadelta") -> None:
        super().__init__(use_locking, name)
        self._keep(lr=learning_rate, rho=rho, epsilon=epsilon)

    def _create_slots(self, var_list: list[Variable]) -> None:
        for var in var_list:
            self._zeros_slot(var, "accum", self._name)
            self._zeros_slot(var, "accum_update", self._name)

    def _states(self, var: Variable) -> list:
        return [var, *(self.get_slot(var, name) for name in ("accum", "accum_update"))]

    def _apply_dense(self, grad: Tensor, var: Variable) -> Operation:
        return updated("ApplyAdadelta", self._states(var), *self._scalars(var), grad,
                       use_locking=self._use_locking)

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Operation:
        return updated("SparseApplyAdadelta", self._states(var), *self._scalars(var), grad.values,
                       grad.indices, use_locking=self._use_locking)
