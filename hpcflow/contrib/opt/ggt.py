"""GGTOptimizer."""

from __future__ import annotations

from typing import Any

import hpcflow as hf
from hpcflow.graph.indexed_slices import IndexedSlices
from hpcflow.graph.likes import Hyperparameter
from hpcflow.graph.operation import Operation
from hpcflow.ops.state.variables import Variable
from hpcflow.optimizers.optimizer import Optimizer, cast, hyperparameter


class GGTOptimizer(Optimizer):
    """Adagrad with the full matrix of the last steps' gradients (Agarwal et al., arXiv:1806.02958).

    All gradients together are one vector g: m = beta1 m + (1 - beta1) g. With the last `window`
    means as the columns of M, over the root of their number, and M'M + svd_eps = U diag(s) U', the
    step is learning_rate times M U diag(√s + sigma_eps)^-3 U' M' m; where the least √s is above
    `eps`, also what of m is outside of M, over that √s.

    Args:
        learning_rate, beta1: numbers or scalar tensors.
        use_locking: accepted.
        name: name of the update operations.
        window: how many means are kept.
        eps, svd_eps, sigma_eps: as above.

    The state is in the variables ``grad_buffer``, ``moment1`` and ``global_step``, the last
    gradient in ``flat_grad``. Raises ``NotImplementedError`` (when built) for gradients that are
    ``IndexedSlices``.
    """

    def __init__(self, learning_rate: Hyperparameter = 0.001, beta1: Hyperparameter = 0.9,
                 use_locking: bool = False, name: str = "GGT", window: int = 10,
                 eps: float = 1e-4, svd_eps: float = 1e-6, sigma_eps: float = 1e-2) -> None:
        super().__init__(use_locking, name)
        self._given = learning_rate, beta1
        self._window = window
        self._eps, self._svd_eps, self._sigma_eps = eps, svd_eps, sigma_eps
        self._variables: list[Variable] = []

    def _create_slots(self, var_list: list[Variable]) -> None:
        self._variables = sorted(var_list, key=lambda var: var.name)
        first, kind = var_list[0], var_list[0].dtype.base_dtype
        size = sum(var.shape.num_elements() or 0 for var in var_list)
        self._create_non_slot_variable(hf.zeros([], kind), "global_step", first)
        self._create_non_slot_variable(hf.zeros([self._window, size], kind), "grad_buffer", first)
        self._create_non_slot_variable(hf.zeros([size], kind), "moment1", first)
        self._create_non_slot_variable(hf.zeros([size], kind), "flat_grad", first)

    def _prepare(self) -> None:
        self._rate, self._beta1 = (hyperparameter(value, name) for value, name in zip(
            self._given, ("learning_rate", "beta1"), strict=True))
        self._gradients: dict[str, Any] = {}

    def _apply_dense(self, grad: Any, var: Variable) -> Operation:
        self._gradients[var.name] = hf.reshape(grad, [-1])
        return self._gradients[var.name].op

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Operation:
        raise NotImplementedError("Sparse gradient updates are not supported.")

    def _finish(self, update_ops: list[Operation], name_scope: str) -> Operation:
        """Make the step of all variables together."""
        kind = self._variables[0].dtype
        step = self._step(hf.assign(self._get_non_slot_variable("flat_grad"), hf.concat(
            [self._gradients[var.name] for var in self._variables], 0)))
        scaled: Any = cast(self._rate, kind) * step
        parts = hf.split(scaled, [var.shape.num_elements() for var in self._variables])
        return hf.group(*update_ops, *[
            hf.assign_sub(var, hf.reshape(part, var.shape)) for var, part in zip(
                self._variables, parts, strict=True)], name=name_scope)

    def _step(self, gradient: Any) -> Any:
        kind, window = gradient.dtype, self._window
        count, means, mean = (self._get_non_slot_variable(name) for name in (
            "global_step", "grad_buffer", "moment1"))
        beta1: Any = cast(self._beta1, kind)
        steps: Any = hf.assign_add(count, hf.ones([], kind))
        m: Any = hf.assign(mean, beta1 * mean + (1 - beta1) * gradient)
        place = hf.floormod(hf.cast(steps - 1, hf.int32), window)
        columns: Any = hf.transpose(hf.scatter_update(means, place, m)) / hf.sqrt(
            hf.minimum(steps, hf.constant(window, kind)))
        column = hf.expand_dims(m, 1)
        s, u, _ = hf.svd(hf.matmul(columns, columns, transpose_a=True)
                         + hf.eye(window, dtype=kind) * self._svd_eps)
        roots: Any = hf.sqrt(s)
        basis = hf.matmul(columns, u)
        inside = hf.matmul(basis, column, transpose_a=True)
        head = hf.matmul(basis, inside / hf.expand_dims(hf.pow(roots + self._sigma_eps, 3), 1))
        least = hf.reduce_min(roots)
        tail = (column - hf.matmul(basis, inside / hf.expand_dims(s, 1))) / least
        return hf.squeeze(hf.cond(least > self._eps, lambda: head + tail,
                                  lambda: hf.identity(head)), [1])
