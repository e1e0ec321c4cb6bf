"""DropStaleGradientOptimizer."""

from __future__ import annotations

from typing import Any

from hpcflow import dtypes
from hpcflow.graph.graph import colocate_with, control_dependencies
from hpcflow.graph.indexed_slices import IndexedSlices
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.flow.cond import cond
from hpcflow.ops.io.summary import scalar
from hpcflow.ops.state.initializers import Zeros
from hpcflow.ops.state.state import assign_add
from hpcflow.ops.state.variable_scope import get_variable
from hpcflow.ops.state.variables import Variable
from hpcflow.optimizers.global_step import get_global_step
from hpcflow.optimizers.optimizer import Optimizer


class DropStaleGradientOptimizer(Optimizer):
    """Trains as `opt` does, without gradients of old steps.

    The global step is read before the gradients are computed; where it is more than `staleness`
    steps further when they are applied, they are dropped. The variable ``stale_counter`` counts
    these.

    Args:
        opt: the optimizer.
        staleness: the most steps.
        use_locking: accepted; updates always hold the variable's lock.
        name: of the optimizer.
    """

    def __init__(self, opt: Optimizer, staleness: int, use_locking: bool = False,
                 name: str = "DropStaleGradient") -> None:
        super().__init__(use_locking, name)
        self._opt = opt
        self._staleness = staleness
        self._begun: Any = None

    def compute_gradients(self, loss: Any, *args: Any, **kwargs: Any) -> Any:
        """As of the optimizer inside."""
        with colocate_with(loss):
            self._begun = get_global_step() + 0
        with control_dependencies([self._begun]):
            return self._opt.compute_gradients(raw_ops.Identity(loss), *args, **kwargs)

    def get_slot(self, *args: Any, **kwargs: Any) -> Variable | None:
        """Return a slot of the optimizer inside."""
        return self._opt.get_slot(*args, **kwargs)

    def get_slot_names(self) -> list[str]:
        """Return the names of the slots of the optimizer inside."""
        return self._opt.get_slot_names()

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None,
                        name: str | None = None) -> Any:
        """As of the optimizer inside, where the gradients are not too old; returns the number of
        those that were."""
        pairs = list(grads_and_vars)
        with colocate_with(global_step):
            counter = get_variable("stale_counter", [], initializer=Zeros(), trainable=False)
        self._opt._create_slots([var for grad, var in pairs if grad is not None])
        known = [grad.op if isinstance(grad, IndexedSlices) else grad
                 for grad, _ in pairs if grad is not None]
        with control_dependencies(known), colocate_with(global_step):
            age = raw_ops.Reshape(global_step - self._begun, [])

        def accept() -> Tensor:
            with control_dependencies([self._opt.apply_gradients(pairs, global_step, name)]):
                return raw_ops.Identity(0.0)

        dropped = assign_add(counter, cond(raw_ops.LessEqual(age, self._staleness), accept,
                                           lambda: raw_ops.Identity(1.0)))
        scalar("Gradient staleness percentage",
               counter / raw_ops.Cast(global_step + 1, DstT=dtypes.float32))
        return dropped
