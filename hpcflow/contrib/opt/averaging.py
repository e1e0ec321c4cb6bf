"""MovingAverageOptimizer: averages of what another optimizer trains, for evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hpcflow.graph.graph import control_dependencies
from hpcflow.graph.operation import Operation
from hpcflow.ops.common.grouping import group
from hpcflow.ops.state.variable_lists import global_variables
from hpcflow.ops.state.variables import Variable
from hpcflow.optimizers.moving_averages import ExponentialMovingAverage
from hpcflow.optimizers.optimizer import Optimizer


class MovingAverageOptimizer(Optimizer):
    """Trains as `opt` does and keeps moving averages of the variables.

    Args:
        opt: the optimizer.
        average_decay: the decay of the averages.
        num_updates: see ``train.ExponentialMovingAverage``.
        sequential_update: average after the update, and not at the same time.
    """

    def __init__(self, opt: Optimizer, average_decay: Any = 0.9999, num_updates: Any = None,
                 sequential_update: bool = True) -> None:
        super().__init__(False, f"MovingAverage{opt.get_name()}")
        self._optimizer = opt
        self._ema = ExponentialMovingAverage(average_decay, num_updates=num_updates)
        self._sequential_update = sequential_update
        self._averages: dict[str, Variable] | None = None

    def compute_gradients(self, *args: Any, **kwargs: Any) -> Any:
        """As of the optimizer inside."""
        return self._optimizer.compute_gradients(*args, **kwargs)

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None,
                        name: str | None = None) -> Operation:
        """As of the optimizer inside; the operation averages the variables that have gradients."""
        pairs = list(grads_and_vars)
        update = self._optimizer.apply_gradients(pairs, global_step=global_step)
        variables = [var for grad, var in pairs if grad is not None]
        with control_dependencies([update] if self._sequential_update else []):
            average = self._ema.apply(variables)
        averages = ((var.op.name, self._ema.average(var)) for var in variables)
        self._averages = {name: average for name, average in averages if average is not None}
        return group(update, average, name=name or "train_update")

    def get_slot(self, var: Variable, name: str) -> Variable | None:
        """Return a slot of the optimizer inside."""
        return self._optimizer.get_slot(var, name)

    def get_slot_names(self) -> list[str]:
        """Return the names of the slots of the optimizer inside."""
        return self._optimizer.get_slot_names()

    def variables(self) -> list[Variable]:
        """Return the variables of the optimizer inside, and the averages."""
        return [*self._optimizer.variables(), *(self._averages or {}).values()]

    def swapping_saver(self, var_list: Sequence[Variable] | None = None,
                       name: str = "swapping_saver", **kwargs: Any) -> Any:
        """Return a ``train.Saver`` whose checkpoints have the averages under the variables' names,
        and the variables under those of the averages.

        Args:
            var_list: what ``train.Saver`` takes; all saved variables if None.
            name: name of the saver's operations.
            **kwargs: other arguments of ``train.Saver``.

        Raises ``RuntimeError`` before ``apply_gradients``, ``ValueError`` if an average is not to
        be saved.
        """
        from hpcflow.train.saver import Saver

        if self._averages is None:
            raise RuntimeError("Must call apply_gradients or minimize before creating the "
                               "swapping_saver")
        saved = {v.op.name: v for v in (global_variables() if var_list is None else var_list)} \
            if not isinstance(var_list, dict) else dict(var_list)
        swapped = dict(saved)
        for key, var in saved.items():
            average = self._averages.get(var.op.name)
            if average is None:
                continue
            key_of_average = next((k for k, v in saved.items() if v is average), None)
            if key_of_average is None:
                raise ValueError(f"Variable to swap {average.op.name} is not in variables to save")
            swapped[key], swapped[key_of_average] = average, var
        return Saver(swapped, name=name, **kwargs)
