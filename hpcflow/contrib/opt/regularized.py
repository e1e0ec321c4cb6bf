"""RegAdagradOptimizer: Adagrad whose updates may leave its sums of squares as they are."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from hpcflow.graph.indexed_slices import IndexedSlices
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.ops.state.handle_variables import updated
from hpcflow.ops.state.variables import Variable
from hpcflow.optimizers.adagrad import AdagradOptimizer
from hpcflow.optimizers.optimizer import cast


class RegAdagradOptimizer(AdagradOptimizer):
    """Adagrad for losses with a regularization that is not to change the learning rates.

    Updates made under ``with optimizer.avoid_updating_slots()`` use the sums of squares without
    adding to them. Arguments and slots are those of ``train.AdagradOptimizer``.
    """

    def __init__(self, learning_rate: Any, initial_accumulator_value: float = 0.1,
                 use_locking: bool = False, name: str = "RegAdagrad") -> None:
        super().__init__(learning_rate, initial_accumulator_value, use_locking, name)
        self._updates_slots = True

    @contextlib.contextmanager
    def avoid_updating_slots(self) -> Iterator[None]:
        """Return a scope whose updates leave the slots as they are."""
        before, self._updates_slots = self._updates_slots, False
        try:
            yield
        finally:
            self._updates_slots = before

    def _apply_dense(self, grad: Tensor, var: Variable) -> Operation:
        if self._updates_slots:
            return super()._apply_dense(grad, var)
        return self._without_slots("ApplyAdagradV2", var, grad)

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Operation:
        if self._updates_slots:
            return super()._apply_sparse(grad, var)
        return self._without_slots("SparseApplyAdagradV2", var, grad.values, grad.indices)

    def _without_slots(self, op_type: str, var: Variable, *grad: Tensor) -> Operation:
        return updated(op_type, [var, self.get_slot(var, "accumulator")],
                       *self._scalars(var), cast(0.0, var.dtype), *grad,
                       use_locking=self._use_locking, update_slots=False)
