"""GradientDescentOptimizer."""

from __future__ import annotations

from hpcflow.graph.indexed_slices import IndexedSlices
from hpcflow.graph.likes import Hyperparameter
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.state.handle_variables import updated
from hpcflow.ops.state.state import scatter_sub
from hpcflow.ops.state.variables import Variable
from hpcflow.optimizers.optimizer import Optimizer


class GradientDescentOptimizer(Optimizer):
    """``var -= learning_rate * gradient``.

    Args:
        learning_rate: a number or a scalar tensor.
        use_locking: accepted; updates always hold the variable's lock.
        name: name of the update operations.
    """

    def __init__(self, learning_rate: Hyperparameter, use_locking: bool = False,
                 name: str = "GradientDescent") -> None:
        super().__init__(use_locking, name)
        self._keep(learning_rate=learning_rate)

    def _apply_dense(self, grad: Tensor, var: Variable) -> Operation:
        return updated("ApplyGradientDescent", [var], *self._scalars(var), grad,
                       use_locking=self._use_locking)

    def _apply_sparse_duplicate_indices(self, grad: IndexedSlices, var: Variable) -> Operation:
        delta = raw_ops.Mul(grad.values, *self._scalars(var))
        return scatter_sub(var, grad.indices, delta, use_locking=self._use_locking).op
