"""ShampooOptimizer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import hpcflow as hf
from hpcflow.contrib.opt.matrix_roots import matrix_inverse_pth_root, matrix_square_root
from hpcflow.graph.indexed_slices import IndexedSlices
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.ops.state.variables import Variable
from hpcflow.optimizers.optimizer import Optimizer

_Number = float | Callable[[Any], Any]


class ShampooOptimizer(Optimizer):
    """Adagrad with a matrix for each dimension of a variable (Gupta, Koren and Singer,
    arXiv:1802.09568).

    Of a gradient g, b = gbar_decay b + gbar_weight g, and for each dimension i the matrix
    G_i = mat_gbar_decay G_i + mat_gbar_weight g g', the product over all other dimensions. The
    step is learning_rate times b, multiplied along each of n dimensions by the matrix
    (G_i / size)^(-alpha / n). A dimension above `max_matrix_size` has the diagonal only.

    Slots: "gbar", "Gbar_<i>"; "H_<i>", the powers, where `svd_interval` is above 1.

    Args:
        global_step: the step; updates are those of the one after it.
        max_matrix_size: of dimensions with a matrix.
        gbar_decay, gbar_weight, mat_gbar_decay, mat_gbar_weight, learning_rate, alpha: numbers, or
            functions of the step.
        svd_interval, precond_update_interval: how many steps use the same powers, and the same
            matrices: numbers, or functions of the step.
        epsilon: added to the diagonal, and the least eigenvalue.
        use_iterative_root: compute powers by products instead of SVD; `alpha / n` has then to be
            1 / p for an integer p.
        use_locking: accepted.
        name: name of the slots.
    """

    def __init__(self, global_step: Any = 0, max_matrix_size: int = 768,
                 gbar_decay: _Number = 0.0, gbar_weight: _Number = 1.0,
                 mat_gbar_decay: _Number = 1.0, mat_gbar_weight: _Number = 1.0,
                 learning_rate: _Number = 1.0, svd_interval: _Number = 1,
                 precond_update_interval: _Number = 1, epsilon: float = 1e-4,
                 alpha: _Number = 0.5, use_iterative_root: bool = False,
                 use_locking: bool = False, name: str = "Shampoo") -> None:
        super().__init__(use_locking, name)
        self._step: Any = hf.cast(global_step, hf.float32) + 1.0
        self._largest = max_matrix_size
        self._gbar = gbar_decay, gbar_weight
        self._mat_gbar = mat_gbar_decay, mat_gbar_weight
        self._learning_rate = learning_rate
        self._svd_interval, self._update_interval = svd_interval, precond_update_interval
        self._epsilon, self._alpha = epsilon, alpha
        self._iterates = use_iterative_root

    def _now(self, value: Any) -> Any:
        return value(self._step) if callable(value) else value

    @property
    def _keeps_powers(self) -> bool:
        return callable(self._svd_interval) or self._svd_interval > 1

    def _create_slots(self, var_list: list[Variable]) -> None:
        for var in var_list:
            self._zeros_slot(var, "gbar", self._name)
            for axis, size in enumerate(_sizes(var)):
                small, kind = size <= self._largest, var.dtype.base_dtype
                self._get_or_make_slot(var, hf.zeros([size, size] if small else [size], kind),
                                       f"Gbar_{axis}", self._name)
                if small and self._keeps_powers:
                    self._get_or_make_slot(var, hf.eye(size, dtype=kind), f"H_{axis}", self._name)

    def _apply_dense(self, grad: Any, var: Variable) -> Operation:
        decay, weight = self._gbar
        mean = self._averaged(self.get_slot(var, "gbar"), decay, self._now(weight) * grad)
        step = self._now(self._learning_rate) * self._shaped(mean, grad, var, None)
        return hf.assign_sub(var, step).op

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Operation:
        if _sizes(var)[0] <= self._largest or self._gbar[0] != 0.0:
            return self._apply_dense(hf.convert_to_tensor(grad), var)
        if self._mat_gbar[0] != 1.0:
            raise ValueError("ShampooOptimizer: rows of large variables need mat_gbar_decay=1.0")
        step = self._now(self._learning_rate) * self._shaped(grad.values, grad.values, var,
                                                             grad.indices)
        return hf.scatter_sub(var, grad.indices, step).op

    def _averaged(self, kept: Any, decay: Any, new: Any) -> Any:
        """The slot `kept` after its update; `new` itself where nothing is kept."""
        if decay == 0.0:
            return new
        return hf.assign_add(kept, new if decay == 1.0 else (self._now(decay) - 1) * kept + new)

    def _shaped(self, direction: Any, grad: Any, var: Variable, rows: Tensor | None) -> Any:
        """`direction` multiplied along each dimension by the power of what `grad` adds to.

        Each time the first dimension becomes the last one, so that all come to their place.
        """
        sizes = _sizes(var)
        power = -self._now(self._alpha) / len(sizes)
        for axis, size in enumerate(sizes):
            others = [n for n in range(len(sizes)) if n != axis]
            slot: Any = self.get_slot(var, f"Gbar_{axis}")
            if size <= self._largest:
                matrix = self._matrix(slot, grad, others) / float(size)
                direction = hf.tensordot(direction, self._power(var, matrix, axis, size, power),
                                         [[0], [0]])
                continue
            inside = rows if axis == 0 else None
            squares = hf.reduce_sum(grad * grad, others) if others else grad * grad
            squares = squares / (1.0 if rows is not None or not others else float(size))
            sums = self._diagonal(slot, squares, inside)
            factor = hf.where(sums > 0, hf.pow(sums, power), hf.zeros_like(sums))
            direction = hf.transpose(direction, [*range(1, len(sizes)), 0]) * factor
        return direction

    def _diagonal(self, slot: Any, squares: Any, rows: Tensor | None) -> Any:
        decay, weight = self._mat_gbar
        if rows is None:
            return self._averaged(slot, decay, self._now(weight) * squares)
        return hf.gather(hf.scatter_add(slot, rows, self._now(weight) * squares), rows)

    def _matrix(self, slot: Any, grad: Any, others: Sequence[int]) -> Any:
        decay, weight = self._mat_gbar
        interval = self._now(self._update_interval)

        def updated() -> Any:
            product = hf.tensordot(grad, grad, [others, others])
            return hf.identity(self._averaged(slot, decay,
                                              self._now(weight) * interval * product))

        return hf.cond(hf.mod(self._step, float(interval) if isinstance(interval, int) else
                              interval) < 1, updated, lambda: hf.identity(slot))

    def _power(self, var: Variable, matrix: Any, axis: int, size: int, power: Any) -> Any:
        if not self._keeps_powers:
            return self._root(matrix, size, power)
        kept: Any = self.get_slot(var, f"H_{axis}")
        interval = self._now(self._svd_interval)
        return hf.cond(
            hf.mod(self._step, float(interval) if isinstance(interval, int) else interval) < 1,
            lambda: hf.identity(hf.assign(kept, self._root(matrix, size, power))),
            lambda: hf.identity(kept))

    def _root(self, matrix: Any, size: int, power: Any) -> Any:
        """``(matrix + epsilon)**power``."""
        if self._iterates:
            root = matrix_square_root(matrix, size, 100, self._epsilon)
            return matrix_inverse_pth_root(root, size, 2 * power, 100, ridge_epsilon=0.0)
        if size == 1:
            return hf.pow(matrix + self._epsilon, power)
        values, left, right = hf.svd(matrix + self._epsilon * hf.eye(size, dtype=matrix.dtype),
                                     full_matrices=True)
        return hf.matmul(right * hf.pow(hf.maximum(values, self._epsilon), power), left,
                         transpose_b=True)


def _sizes(var: Variable) -> list[int]:
    sizes: list = var.shape.as_list()
    return sizes
