"""Adam by the global step, which needs no variables for the powers of its decays."""

from __future__ import annotations

from typing import Any

from hpcflow import dtypes
from hpcflow.contrib.opt.moments import LazyAdamOptimizer
from hpcflow.graph.operation import Operation
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.common.grouping import group
from hpcflow.ops.state.variables import Variable
from hpcflow.optimizers.adam import AdamOptimizer
from hpcflow.optimizers.optimizer import cast


class AdamGSOptimizer(AdamOptimizer):
    """``train.AdamOptimizer`` with the powers of its decays from the global step.

    Args:
        global_step: the step; updates are those of the one after it.
        learning_rate, beta1, beta2, epsilon, use_locking, name: as of ``train.AdamOptimizer``.
    """

    def __init__(self, global_step: Any = 0, learning_rate: Any = 0.001, beta1: Any = 0.9,
                 beta2: Any = 0.999, epsilon: Any = 1e-8, use_locking: bool = False,
                 name: str = "Adam") -> None:
        super().__init__(learning_rate, beta1, beta2, epsilon, use_locking, name)
        self._global_step = global_step

    def _create_slots(self, var_list: list[Variable]) -> None:
        for var in var_list:
            self._zeros_slot(var, "m", self._name)
            self._zeros_slot(var, "v", self._name)

    def _prepare(self) -> None:
        super()._prepare()
        step = cast(raw_ops.Identity(self._global_step), dtypes.float32)
        self._step: Any = raw_ops.Add(step, 1.0)

    def _get_beta_accumulators(self) -> tuple[Any, Any]:
        """The powers of the decays, as tensors."""
        return raw_ops.Pow(self._beta1_t, self._step), raw_ops.Pow(self._beta2_t, self._step)

    def _finish(self, update_ops: list[Operation], name_scope: str) -> Operation:
        return group(*update_ops, name=name_scope)


class LazyAdamGSOptimizer(AdamGSOptimizer, LazyAdamOptimizer):
    """:class:`LazyAdamOptimizer` with the powers of its decays from the global step, as of
    :class:`AdamGSOptimizer`."""
