"""MultitaskOptimizerWrapper: gradients that are all zero change nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from hpcflow.graph.graph import control_dependencies
from hpcflow.graph.indexed_slices import IndexedSlices
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.arrays.constants import zeros
from hpcflow.ops.arrays.identities import no_op
from hpcflow.ops.flow.cond import cond
from hpcflow.ops.math.clipping import clip_by_global_norm, global_norm
from hpcflow.ops.math.reductions import reduce_any
from hpcflow.optimizers.optimizer import Optimizer

_UPDATES = ("_apply_dense", "_apply_sparse", "_resource_apply_dense", "_resource_apply_sparse")


class MultitaskOptimizerWrapper:
    """Lets `opt` leave out updates by gradients that are 0 in all elements.

    Losses of several tasks have such gradients where a batch has nothing of a task; slots, such as
    moving averages, are not to follow them. It has the methods of `opt`, whose updates it changes.
    Use :func:`clip_gradients_by_global_norm` for clipping. Raises ``TypeError`` unless `opt` is
    an optimizer.
    """

    def __init__(self, opt: Optimizer) -> None:
        if not isinstance(opt, Optimizer):
            raise TypeError("Supplied optimizer must be an instance of tf.train.Optimizer")
        self._opt = opt
        for name in _UPDATES:
            if getattr(type(opt), name) is not getattr(Optimizer, name):
                setattr(opt, name, _unless_zero(getattr(opt, name)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._opt, name)


def _is_zero(grad: Any) -> Tensor:
    values = grad.values if isinstance(grad, IndexedSlices) else grad
    return raw_ops.LogicalNot(reduce_any(raw_ops.NotEqual(values, raw_ops.ZerosLike(values))))


def _unless_zero(update: Callable) -> Callable:
    def guarded(grad: Any, *args: Any) -> Any:
        def run() -> Any:
            with control_dependencies([update(grad, *args)]):
                return no_op()

        return cond(_is_zero(grad), no_op, run)

    return guarded


def clip_gradients_by_global_norm(gradients_variables: Iterable[tuple[Any, Any]],
                                  clip_norm: TensorLike = 20.0) -> tuple[list, Tensor]:
    """Return pairs of gradients, clipped to `clip_norm` together, and variables; and the norm."""
    gradients, variables = zip(*gradients_variables, strict=True)
    present = [None if grad is None else cond(
        _is_zero(grad), lambda grad=grad: zeros([], grad.dtype), lambda grad=grad: grad)
        for grad in gradients]
    norm = global_norm(present)
    clipped, _ = clip_by_global_norm(list(gradients), clip_norm, use_norm=norm)
    return list(zip(clipped, variables, strict=True)), norm
