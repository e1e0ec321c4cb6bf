"""LARSOptimizer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hpcflow.graph.indexed_slices import IndexedSlices
from hpcflow.graph.likes import Hyperparameter, TensorLike
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.ops.arrays.indexing import where
from hpcflow.ops.linalg.norms import norm
from hpcflow.ops.state.handle_variables import updated
from hpcflow.ops.state.variables import Variable
from hpcflow.optimizers.momentum import MomentumOptimizer


class LARSOptimizer(MomentumOptimizer):
    """Momentum with a rate of its own for each variable, for large batches (You, Gitman and
    Ginsburg, 2017).

    The rate is multiplied by eeta |w| / (|g| + weight_decay |w| + epsilon), or by 1 where one of
    the norms is 0, and then the gradient g + weight_decay w by the rate; both before the momentum.
    Slot: "momentum".

    Args:
        learning_rate: a number or a scalar tensor.
        momentum: a number or a scalar tensor.
        weight_decay: a number.
        eeta: the factor of the ratio of norms.
        epsilon: added to the denominator.
        name: name of the update operations and of the slot.
        skip_list: parts of names: variables whose names have one are updated by plain momentum.
        use_nesterov: use Nesterov's form.

    Raises ``ValueError`` if `momentum` is a negative number, ``TypeError`` (when built) for
    gradients that are ``IndexedSlices``, which have no norm of the whole.
    """

    def __init__(self, learning_rate: Hyperparameter, momentum: TensorLike = 0.9,
                 weight_decay: float = 0.0001, eeta: float = 0.001, epsilon: float = 0.0,
                 name: str = "LARSOptimizer", skip_list: Sequence[str] | None = None,
                 use_nesterov: bool = False) -> None:
        if isinstance(momentum, (int, float)) and momentum < 0:
            raise ValueError(f"momentum should be positive: {momentum}")
        super().__init__(learning_rate, momentum, False, name, use_nesterov)
        self._weight_decay, self._eeta, self._epsilon = weight_decay, eeta, epsilon
        self._skip_list = skip_list or ()

    def _apply_dense(self, grad: Any, var: Variable) -> Operation:
        rate, momentum = self._scalars(var)
        if not any(part in var.op.name for part in self._skip_list):
            rate = rate * self._trust(grad, var)
            value: Any = var
            grad = grad + self._weight_decay * value
        one = np.ones([], var.dtype.base_dtype.np)  # the rate is in what is accumulated
        return updated("ApplyMomentum", [var, self.get_slot(var, "momentum")], one, rate * grad,
                       momentum, use_locking=self._use_locking,
                       use_nesterov=self._use_nesterov)

    def _trust(self, grad: Tensor, var: Variable) -> Tensor:
        """The ratio of the norms of the variable and of its gradient."""
        of_var: Any = norm(var)
        of_grad: Any = norm(grad)
        ratio = self._eeta * of_var / (of_grad + self._weight_decay * of_var + self._epsilon)
        one = of_var * 0 + 1
        return where(of_var > 0, where(of_grad > 0, ratio, one), one)

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Operation:
        raise TypeError(f"LARSOptimizer needs dense gradients; that of {var.op.name!r} is "
                        "IndexedSlices: use hf.convert_to_tensor on it")
