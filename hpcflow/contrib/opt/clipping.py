"""VariableClippingOptimizer: bounds of norms, kept after every update."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hpcflow.graph.graph import colocate_with, control_dependencies, name_scope
from hpcflow.graph.indexed_slices import IndexedSlices
from hpcflow.graph.operation import Operation
from hpcflow.ops.arrays.indexing import gather
from hpcflow.ops.common.grouping import group
from hpcflow.ops.math.clipping import clip_by_norm
from hpcflow.ops.state.state import assign, scatter_update
from hpcflow.ops.state.variables import Variable
from hpcflow.optimizers.optimizer import Optimizer, deduplicated

if TYPE_CHECKING:
    from hpcflow.graph.operation import Tensor


class VariableClippingOptimizer(Optimizer):
    """Trains as `opt` does, and clips norms of variables after each update.

    Args:
        opt: the optimizer.
        vars_to_clip_dims: variable -> the dimensions over which its norms are taken.
        max_norm: the largest norm.
        use_locking: accepted; updates always hold the variable's lock.
        colocate_clip_ops_with_vars: place the clipping with the variable.
        name: name of the clipping operations.
    """

    def __init__(self, opt: Optimizer, vars_to_clip_dims: Mapping[Any, Sequence[int]],
                 max_norm: float, use_locking: bool = False,
                 colocate_clip_ops_with_vars: bool = False,
                 name: str = "VariableClipping") -> None:
        super().__init__(use_locking, name)
        self._opt = opt
        self._dims = dict(vars_to_clip_dims)
        self._max_norm = max_norm
        self._colocate = colocate_clip_ops_with_vars

    def compute_gradients(self, *args: Any, **kwargs: Any) -> Any:
        """As of the optimizer inside."""
        return self._opt.compute_gradients(*args, **kwargs)

    def get_slot(self, var: Variable, name: str) -> Variable | None:
        """Return a slot of the optimizer inside."""
        return self._opt.get_slot(var, name)

    def get_slot_names(self) -> list[str]:
        """Return the names of the slots of the optimizer inside."""
        return self._opt.get_slot_names()

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None,
                        name: str | None = None) -> Operation:
        """As of the optimizer inside; the operation clips the variables then."""
        pairs = list(grads_and_vars)
        with name_scope(name, self._name) as scope:
            update = self._opt.apply_gradients(pairs, global_step=global_step)
            with control_dependencies([update]):
                clips = [self._clip(grad, var) for grad, var in pairs
                         if grad is not None and var in self._dims]
            return group(update, *clips, name=scope)

    def _clip(self, grad: Tensor | IndexedSlices, var: Variable) -> Any:
        dims = list(self._dims[var])
        with colocate_with(var, ignore_existing=not self._colocate):
            if not isinstance(grad, IndexedSlices) or 0 in dims:
                return assign(var, clip_by_norm(var.read_value(), self._max_norm, axes=dims),
                              use_locking=self._use_locking)
            indices = deduplicated(grad.values, grad.indices)[1]
            rows = clip_by_norm(gather(var, indices), self._max_norm, axes=dims)
            return scatter_update(var, indices, rows, use_locking=self._use_locking)
