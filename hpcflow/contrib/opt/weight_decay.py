"""Optimizers with decoupled weight decay (Loshchilov and Hutter, 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hpcflow.graph.graph import control_dependencies
from hpcflow.graph.indexed_slices import IndexedSlices
from hpcflow.graph.likes import Hyperparameter, TensorLike
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.ops.arrays.indexing import gather
from hpcflow.ops.state.state import assign_sub, scatter_sub
from hpcflow.ops.state.variables import Variable
from hpcflow.optimizers.adam import AdamOptimizer
from hpcflow.optimizers.momentum import MomentumOptimizer
from hpcflow.optimizers.optimizer import Optimizer, cast, hyperparameter


class DecoupledWeightDecayExtension(Optimizer):
    """A mixin that adds decoupled weight decay to an optimizer, for classes that derive from both:
    before each update the variable loses `weight_decay` times itself, which the optimizer's moments
    do not see.

    Args:
        weight_decay: a number or a scalar tensor, or a function that returns one.
        **kwargs: the arguments of the optimizer.
    """

    def __init__(self, weight_decay: Any, **kwargs: Any) -> None:
        self._decay_var_list: set[Any] | None = None
        self._weight_decay = weight_decay
        super().__init__(**kwargs)

    def minimize(self, loss: Tensor, *args: Any, decay_var_list: Sequence[Variable] | None = None,
                 **kwargs: Any) -> Operation:
        """Minimize `loss` as the optimizer does; only `decay_var_list`, if given, decays."""
        self._decay_only(decay_var_list)
        return super().minimize(loss, *args, **kwargs)

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None,
                        name: str | None = None, decay_var_list: Any = None) -> Operation:
        """Apply gradients as the optimizer does; only `decay_var_list`, if given, decays."""
        if decay_var_list is not None:
            self._decay_only(decay_var_list)
        return super().apply_gradients(grads_and_vars, global_step, name)

    def _decay_only(self, variables: Any) -> None:
        self._decay_var_list = set(variables) if variables else None

    def _prepare(self) -> None:
        self._weight_decay_tensor = hyperparameter(self._weight_decay, "weight_decay")
        super()._prepare()

    def _rate_of_loss(self, var: Variable) -> Any:
        return cast(self._weight_decay_tensor, var.dtype)

    def _decays(self, var: Variable) -> bool:
        return self._decay_var_list is None or var in self._decay_var_list

    def _apply_dense(self, grad: Tensor, var: Variable) -> Operation:
        if not self._decays(var):
            return super()._apply_dense(grad, var)
        lost = self._rate_of_loss(var) * var
        with control_dependencies([grad]):
            decayed = assign_sub(var, lost, use_locking=self._use_locking)
        with control_dependencies([decayed]):
            return super()._apply_dense(grad, var)

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Operation:
        if not self._decays(var):
            return super()._apply_sparse(grad, var)
        lost = self._rate_of_loss(var) * gather(var, grad.indices)
        with control_dependencies([grad.values]):
            decayed = scatter_sub(var, grad.indices, lost, use_locking=self._use_locking)
        with control_dependencies([decayed]):
            return super()._apply_sparse(grad, var)


def extend_with_decoupled_weight_decay(base_optimizer: type[Optimizer]) -> type[Optimizer]:
    """Return a class of `base_optimizer` whose first argument is `weight_decay`; its others are
    given by name: see :class:`DecoupledWeightDecayExtension`."""

    class OptimizerWithDecoupledWeightDecay(DecoupledWeightDecayExtension, base_optimizer):  # type: ignore[misc,valid-type]
        """`base_optimizer` with weights that decay."""

        def __init__(self, weight_decay: Any, *args: Any, **kwargs: Any) -> None:
            names = _argument_names(base_optimizer)
            super().__init__(weight_decay, **dict(zip(names, args)), **kwargs)

    return OptimizerWithDecoupledWeightDecay


def _argument_names(optimizer: type[Optimizer]) -> list[str]:
    code = optimizer.__init__.__code__  # type: ignore[misc]
    return list(code.co_varnames[1:code.co_argcount])


class MomentumWOptimizer(DecoupledWeightDecayExtension, MomentumOptimizer):
    """``train.MomentumOptimizer`` with weights that decay."""

    def __init__(self, weight_decay: Any, learning_rate: Hyperparameter, momentum: TensorLike,
                 use_locking: bool = False, name: str = "MomentumW",
                 use_nesterov: bool = False) -> None:
        super().__init__(weight_decay, learning_rate=learning_rate, momentum=momentum,
                         use_locking=use_locking, name=name, use_nesterov=use_nesterov)


class AdamWOptimizer(DecoupledWeightDecayExtension, AdamOptimizer):
    """``train.AdamOptimizer`` with weights that decay."""

    def __init__(self, weight_decay: Any, learning_rate: Hyperparameter = 0.001,
                 beta1: TensorLike = 0.9, beta2: TensorLike = 0.999, epsilon: TensorLike = 1e-8,
                 use_locking: bool = False, name: str = "AdamW") -> None:
        super().__init__(weight_decay, learning_rate=learning_rate, beta1=beta1, beta2=beta2,
                         epsilon=epsilon, use_locking=use_locking, name=name)
