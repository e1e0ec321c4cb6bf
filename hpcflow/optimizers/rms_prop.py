"""RMSPropOptimizer."""

from __future__ import annotations

from hpcflow.graph.indexed_slices import IndexedSlices
from hpcflow.graph.likes import Hyperparameter, TensorLike
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.ops.state.handle_variables import updated
from hpcflow.ops.state.variables import Variable
from hpcflow.optimizers.optimizer import Optimizer


class RMSPropOptimizer(Optimizer):
    """Divides the gradient by a running root mean square of itself (Tieleman and Hinton, 2012)::

        mean_square = decay * mean_square + (1 - decay) * gradient**2
        mom = momentum * mom + learning_rate * gradient / sqrt(mean_square + epsilon)
        var -= mom

    With `centered` the running variance takes the place of the mean square (Graves, 2013).
    Slots: "rms", "momentum", and "mg" (the mean gradient) if centered.

    Args:
        learning_rate: a number or a scalar tensor.
        decay: of the running means.
        momentum: a number or a scalar tensor.
        epsilon: keeps the division from blowing up.
        use_locking: accepted; updates always hold the variable's lock.
        centered: normalize by the variance.
        name: name of the update operations and of the slots.
    """

    def __init__(self, learning_rate: Hyperparameter, decay: TensorLike = 0.9,
                 momentum: TensorLike = 0.0, epsilon: TensorLike = 1e-10, use_locking: bool = False,
                 centered: bool = False, name: str = "RMSProp") -> None:
        super().__init__(use_locking, name)
        self._keep(learning_rate=learning_rate, decay=decay, momentum=momentum, epsilon=epsilon)
        self._centered = centered

    def _create_slots(self, var_list: list[Variable]) -> None:
        for var in var_list:
            self._filled_slot(var, 1, "rms", self._name)
            if self._centered:
                self._zeros_slot(var, "mg", self._name)
            self._zeros_slot(var, "momentum", self._name)

    def _states(self, var: Variable) -> list:
        names = ["mg", "rms", "momentum"] if self._centered else ["rms", "momentum"]
        return [var, *(self.get_slot(var, name) for name in names)]

    def _apply_dense(self, grad: Tensor, var: Variable) -> Operation:
        op_type = "ApplyCenteredRMSProp" if self._centered else "ApplyRMSProp"
        return updated(op_type, self._states(var), *self._scalars(var), grad,
                       use_locking=self._use_locking)

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Operation:
        op_type = "SparseApplyCenteredRMSProp" if self._centered else "SparseApplyRMSProp"
        return updated(op_type, self._states(var), *self._scalars(var), grad.values, grad.indices,
                       use_locking=self._use_locking)
