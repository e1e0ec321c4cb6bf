"""CrossShardOptimizer: gradients averaged over the cores of a TPU, of which there are none."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hpcflow.graph.operation import Operation
from hpcflow.losses import Reduction
from hpcflow.ops.state.variables import Variable
from hpcflow.optimizers.optimizer import Optimizer


class CrossShardOptimizer(Optimizer):
    """Does what `opt` does: there is one shard.

    Args:
        opt: the optimizer.
        reduction: ``losses.Reduction.SUM`` or ``MEAN``: of the losses of shards.
        name: name of this optimizer.
        group_assignment: accepted, of no effect.

    Raises ``ValueError`` for another reduction.
    """

    def __init__(self, opt: Optimizer, reduction: str = Reduction.MEAN,
                 name: str = "CrossShardOptimizer", group_assignment: object = None) -> None:
        if reduction not in (Reduction.SUM, Reduction.MEAN):
            raise ValueError(f"Unsupported reduction: {reduction}.")
        super().__init__(False, name)
        self._opt = opt

    def compute_gradients(self, *args: Any, **kwargs: Any) -> Any:
        """As of the optimizer inside."""
        return self._opt.compute_gradients(*args, **kwargs)

    def apply_gradients(self, grads_and_vars: Iterable[tuple[Any, Any]], global_step: Any = None,
                        name: str | None = None) -> Operation:
        """As of the optimizer inside."""
        return self._opt.apply_gradients(grads_and_vars, global_step, name)

    def get_slot(self, var: Variable, name: str) -> Variable | None:
        """Return a slot of the optimizer inside."""
        return self._opt.get_slot(var, name)

    def get_slot_names(self) -> list[str]:
        """Return the names of the slots of the optimizer inside."""
        return self._opt.get_slot_names()

    def variables(self) -> list[Variable]:
        """Return the variables of the optimizer inside."""
        return self._opt.variables()
