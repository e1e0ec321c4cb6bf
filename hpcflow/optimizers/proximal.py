"""ProximalGradientDescentOptimizer and ProximalAdagradOptimizer."""

from __future__ import annotations

from hpcflow.graph.indexed_slices import IndexedSlices
from hpcflow.graph.likes import Hyperparameter
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.ops.state.handle_variables import updated
from hpcflow.ops.state.variables import Variable
from hpcflow.optimizers.adagrad import Accumulating
from hpcflow.optimizers.optimizer import Optimizer


class ProximalGradientDescentOptimizer(Optimizer):
    """A gradient step, then the proximal step of the l1 and l2 penalties (Duchi and Singer, 2009).

    Args:
        learning_rate: a number or a scalar tensor.
        l1_regularization_strength: at least 0.
        l2_regularization_strength: at least 0.
        use_locking: accepted; updates always hold the variable's lock.
        name: name of the update operations.
    """

    def __init__(self, learning_rate: Hyperparameter, l1_regularization_strength: float = 0.0,
                 l2_regularization_strength: float = 0.0, use_locking: bool = False,
                 name: str = "ProximalGradientDescent") -> None:
        super().__init__(use_locking, name)
        self._keep(learning_rate=learning_rate,
                   l1_regularization_strength=l1_regularization_strength,
                   l2_regularization_strength=l2_regularization_strength)

    def _apply_dense(self, grad: Tensor, var: Variable) -> Operation:
        return updated("ApplyProximalGradientDescent", [var], *self._scalars(var), grad,
                       use_locking=self._use_locking)

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Operation:
        return updated(
            "SparseApplyProximalGradientDescent", [var], *self._scalars(var), grad.values,
            grad.indices, use_locking=self._use_locking)


class ProximalAdagradOptimizer(Accumulating):
    """Adagrad's step, then the proximal step of the l1 and l2 penalties (Duchi and Singer, 2009).

    Slot: "accumulator".

    Args:
        learning_rate: a number or a scalar tensor.
        initial_accumulator_value: where the accumulators begin, positive.
        l1_regularization_strength: at least 0.
        l2_regularization_strength: at least 0.
        use_locking: accepted; updates always hold the variable's lock.
        name: name of the update operations and of the slot.

    Raises ``ValueError`` if `initial_accumulator_value` is not positive.
    """

    _rule = "ProximalAdagrad"

    def __init__(self, learning_rate: Hyperparameter, initial_accumulator_value: float = 0.1,
                 l1_regularization_strength: float = 0.0, l2_regularization_strength: float = 0.0,
                 use_locking: bool = False, name: str = "ProximalAdagrad") -> None:
        super().__init__(initial_accumulator_value, use_locking, name, learning_rate=learning_rate,
                         l1_regularization_strength=l1_regularization_strength,
                         l2_regularization_strength=l2_regularization_strength)
