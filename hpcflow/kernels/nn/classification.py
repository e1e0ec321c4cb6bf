"""Kernels of softmax, the softmax cross entropies, TopK and InTopK. Scores are rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.errors import InvalidArgumentError
from hpcflow.host.tuning import kernels as tuning
from hpcflow.kernels import late_errors
from hpcflow.kernels.compiled import array_loops, score_loops
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown
from hpcflow.kernels.widening import NATIVE


class _Rows:
    """Sums and maxima of rows, in the fastest form for an array module."""

    def __init__(self, xp: Any, dtype: np.dtype) -> None:
        self.xp = xp
        self.dtype = dtype
        self._ones = xp.ones(1, dtype)
        self._vecdot = getattr(np, "vecdot", None) if xp is np else None  # NumPy 2 has it

    def maxima(self, x: Any) -> Any:
        """The maximum of each row of the matrix `x`, as a column."""
        if not x.size:
            return self.xp.zeros((x.shape[0], 1), x.dtype)
        if self.xp is np and x.shape[1] <= tuning.CLASS_NARROW:
            return np.maximum.reduce(np.ascontiguousarray(x.T), 0)[:, None]
        return x.max(1, keepdims=True)

    def sums(self, x: Any) -> Any:
        """The sum of each row, as a vector: small ones as a product with ones, by BLAS, whose own
        threads would be in the way of large ones. CUDA graphs take none of CuPy's products."""
        if self.xp is not np:
            return x.sum(1)
        if x.size > tuning.CLASS_FEW or x.shape[1] >= tuning.CLASS_LONG:
            return np.add.reduce(x, 1)
        ones = self._ones
        if ones.shape[0] != x.shape[1]:
            ones = self._ones = self.xp.ones(x.shape[1], self.dtype)
        return x.dot(ones)

    def dots(self, x: Any, y: Any) -> Any:
        """Σ x y of each row, as a vector."""
        if self.xp is np and x.shape[1] >= tuning.CLASS_LONG:
            return np.add.reduce(x * y, 1)
        if self._vecdot is not None:
            return self._vecdot(x, y)
        return np.einsum("ij,ij->i", x, y) if self.xp is np else (x * y).sum(1)

    def shift(self, x: Any, y: Any) -> None:
        """Set `y` to each row of `x` minus its maximum: what exp() never overflows on."""
        self.xp.subtract(x, self.maxima(x), out=y)


def _as_rows(compute: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Apply a function of a matrix to the last dimension of any shape."""

    def run(x: Any) -> Any:
        if x.ndim == 2:
            return compute(x)
        if not x.ndim:
            raise invalid("logits must have at least one dimension")
        if not x.size:
            return x.copy()
        return compute(x.reshape(-1, x.shape[-1])).reshape(x.shape)

    return run


def _in_float32(compute: Callable, count: int) -> Callable:
    """Compute halves in float32; `count` of the inputs are halves."""

    def run(*inputs: Any) -> Any:
        wide = [x.astype(np.float32) for x in inputs[:count]]
        result = compute(*wide, *inputs[count:])
        if isinstance(result, tuple):
            return tuple(r.astype(np.float16) for r in result)
        return result.astype(np.float16)

    return run


def _working_dtype(node: KernelNode) -> np.dtype:
    dtype = node.np_dtype()
    return np.dtype(np.float32) if dtype == np.float16 else dtype


def _maybe_wide(node: KernelNode, compute: Callable, count: int = 1) -> Callable:
    return _in_float32(compute, count) if node.np_dtype() == np.float16 else compute


def _in_blocks(xp: Any, compute: Callable[..., None], dtype: np.dtype,
               kind: score_loops.Kind) -> Callable:
    """A function of matrices with as many rows: ``compute(*inputs, *outputs)``, block by block,
    or by the loop for this `kind`.

    The outputs, which `compute` writes, are one number per row for a cross entropy, and a matrix of
    the first input's shape.
    """
    has_loss = kind in (score_loops.DENSE, score_loops.SPARSE)

    def run(x: Any, *more: Any) -> Any:
        matrix = xp.empty(x.shape, dtype)
        arrays = [x, *more, *([xp.empty(x.shape[0], dtype)] if has_loss else []), matrix]
        if xp is np:
            score_loops.run_rows(kind, compute, arrays)
        else:
            compute(*arrays)
        return (arrays[-2], matrix) if has_loss else matrix

    return run


@kernel("Softmax", fresh=True, types={"T": NATIVE})
def _softmax(node: KernelNode) -> Any:
    xp, dtype = node.xp, _working_dtype(node)
    rows = _Rows(xp, dtype)

    def compute(x: Any, y: Any) -> None:
        rows.shift(x, y)
        xp.exp(y, out=y)
        xp.true_divide(y, rows.sums(y)[:, None], out=y)

    return _maybe_wide(node, _as_rows(_in_blocks(xp, compute, dtype, score_loops.SOFTMAX)))


@kernel("LogSoftmax", fresh=True, types={"T": NATIVE})
def _log_softmax(node: KernelNode) -> Any:
    xp, dtype = node.xp, _working_dtype(node)
    rows = _Rows(xp, dtype)

    def compute(x: Any, y: Any) -> None:
        rows.shift(x, y)
        total = rows.sums(xp.exp(y))
        xp.subtract(y, xp.log(total)[:, None], out=y)

    return _maybe_wide(node, _as_rows(_in_blocks(xp, compute, dtype, score_loops.LOG_SOFTMAX)))


def _alike(xp: Any, logits: Any, labels: Any) -> tuple:
    """The two as matrices of one shape, rows or columns repeated."""
    pairs = [(m, n) for m, n in zip(logits.shape, labels.shape) if m != n and 1 not in (m, n)]
    if logits.ndim != 2 or labels.ndim != 2 or pairs:
        raise invalid(f"logits and labels must be matrices of one shape, or that broadcast: logits "
                      f"{shown(logits)}, labels {shown(labels)}")
    return tuple(xp.ascontiguousarray(x) for x in xp.broadcast_arrays(logits, labels))


@kernel("SoftmaxCrossEntropyWithLogits", fresh=True, types={"T": NATIVE})
def _cross_entropy(node: KernelNode) -> Any:
    """loss = log Σ exp(x) · Σ labels - Σ labels · x, and its gradient softmax - labels."""
    xp, dtype = node.xp, _working_dtype(node)
    rows = _Rows(xp, dtype)

    def compute(logits: Any, labels: Any, loss: Any, grad: Any) -> None:
        rows.shift(logits, grad)
        expected = rows.dots(grad, labels)
        xp.exp(grad, out=grad)
        total = rows.sums(grad)
        xp.true_divide(grad, total[:, None], out=grad)
        xp.subtract(grad, labels, out=grad)
        xp.multiply(xp.log(total), rows.sums(labels), out=loss)
        xp.subtract(loss, expected, out=loss)

    in_blocks = _in_blocks(xp, compute, dtype, score_loops.DENSE)

    def run(logits: Any, labels: Any) -> tuple:
        if logits.shape != labels.shape or logits.ndim != 2:
            logits, labels = _alike(xp, logits, labels)
        if not logits.size:  # the logarithm of an empty sum is not zero
            return xp.zeros(len(logits), dtype), xp.empty(logits.shape, dtype)
        return in_blocks(logits, labels)

    return _maybe_wide(node, run, 2)


@kernel("SparseSoftmaxCrossEntropyWithLogits", fresh=True, types={"T": NATIVE})
def _sparse_cross_entropy(node: KernelNode) -> Any:
    """As the dense form for labels with a single one, given by its class number."""
    xp, dtype = node.xp, _working_dtype(node)
    rows, one = _Rows(xp, dtype), dtype.type(1)

    def compute(logits: Any, labels: Any, loss: Any, grad: Any) -> None:
        rows.shift(logits, grad)
        at = xp.arange(len(labels)), labels
        chosen = grad[at]
        xp.exp(grad, out=grad)
        total = rows.sums(grad)
        xp.true_divide(grad, total[:, None], out=grad)
        grad[at] -= one
        xp.subtract(xp.log(total), chosen, out=loss)

    in_blocks = _in_blocks(xp, compute, dtype, score_loops.SPARSE)

    def run(logits: Any, labels: Any) -> tuple:
        _check_labels(xp, logits, labels)
        return in_blocks(logits, labels)

    return _maybe_wide(node, run, 1)


class _RowStarts:
    """The flat positions at which the rows of a matrix start: kept while the shape is the same."""

    def __init__(self, xp: Any) -> None:
        self._xp = xp
        self._known = ((0, 0), xp.arange(0))

    def of(self, shape: tuple[int, int]) -> Any:
        """The starts of the rows of a matrix of `shape`."""
        known, starts = self._known
        if known != shape:
            starts = self._xp.arange(shape[0]) * shape[1]
            self._known = (shape, starts)
        return starts


def label_error(labels: Any, classes: int) -> InvalidArgumentError:
    """The error of labels of which one is not the number of a class."""
    wrong = labels[(labels < 0) | (labels >= classes)]
    return invalid(f"Received a label value of {int(wrong[0])} which is outside the valid "
                   f"range of [0, {classes})")


def _check_labels(xp: Any, logits: Any, labels: Any) -> None:
    if logits.ndim != 2 or labels.ndim != 1 or logits.shape[0] != labels.shape[0]:
        raise invalid(f"labels must be 1-D, one class number per row of logits: logits "
                      f"{shown(logits)}, labels {shown(labels)}")
    classes = logits.shape[1]

    def error() -> InvalidArgumentError:
        return label_error(labels, classes)

    # As unsigned numbers the negative ones are the largest: one pass finds both kinds.
    unsigned = labels.view(f"u{labels.itemsize}")
    if xp is not np and classes:
        late_errors.note(xp, (unsigned >= classes).any(), error)
    elif labels.size and unsigned.max() >= classes:
        raise error()


# ---------------------------------------------------------------- TopK, InTopK


@kernel("TopK", fresh=True)
def _top_k(node: KernelNode) -> Any:
    k, find = node.attr("k"), _Largest(node)
    return lambda x: find(x, k)


@kernel("TopKV2", fresh=True, host_inputs=(1,))
def _top_k_v2(node: KernelNode) -> Any:
    find = _Largest(node)
    return lambda x, k: find(x, int(k))


class _Largest:
    """The k largest elements of each row, largest first, and their columns; of equal elements
    the one with the lower column goes first."""

    def __init__(self, node: KernelNode) -> None:
        self._xp = node.xp
        self._starts = _RowStarts(node.xp)
        dtype = node.np_dtype()
        self._lowest = dtype.type(np.iinfo(dtype).min if dtype.kind in "iu" else -np.inf)

    def __call__(self, x: Any, k: int) -> tuple:
        """(values, int32 columns) of the k largest elements along the last dimension of `x`."""
        if k < 0:
            raise invalid(f"Need k >= 0, got {k}")
        if not x.ndim or x.shape[-1] < k:
            raise invalid(f"input must have at least k columns (its last dimension >= k = {k}) "
                          f"but its shape is {shown(x)}")
        rows = x.reshape(-1, x.shape[-1]) if x.size else x.reshape(-1, max(x.shape[-1], 1))
        if self._inserts(rows, k):
            found = array_loops.run_rows(
                _LARGEST, [rows], [((len(rows), k), rows.dtype), ((len(rows), k), np.int32)],
                lambda: self._by_arrays(rows, k))
        else:
            found = self._by_arrays(rows, k)
        shape = (*x.shape[:-1], k)
        return found[0].reshape(shape), found[1].reshape(shape)

    def _inserts(self, rows: Any, k: int) -> bool:
        """One pass is cheaper than k searches, or a sort, unless most of a row is found."""
        return (self._xp is np and 1 < k <= tuning.CLASS_MOST_INSERTED and k * 8 <= rows.shape[1])

    def _by_arrays(self, rows: Any, k: int) -> tuple:
        columns = self._by_search(rows, k) if self._searches(rows, k) else None
        if columns is None:
            columns = self._by_sorting(rows, k)
        values = rows.reshape(-1)[columns + self._starts.of(rows.shape)[:, None]]
        return values, columns.astype(np.int32)

    @staticmethod
    def _searches(rows: Any, k: int) -> bool:
        """A search per element found is cheaper than a sort unless rows are short."""
        return k > 0 and rows.size > 0 and (k <= 2 or k * 8 <= rows.shape[1])

    def _by_search(self, rows: Any, k: int) -> Any:
        """The maximum k times, each replaced by the lowest number; None if that was found itself,
        for it is then not told from what was replaced."""
        starts = self._starts.of(rows.shape)
        columns = self._xp.empty((rows.shape[0], k), np.intp)
        columns[:, 0] = rows.argmax(1)
        if k == 1:
            return columns
        rows = rows.copy()
        flat = rows.reshape(-1)
        for i in range(1, k):
            flat[columns[:, i - 1] + starts] = self._lowest
            columns[:, i] = rows.argmax(1)
        last = flat[columns[:, k - 1] + starts]
        return None if (last == self._lowest).any() else columns

    def _by_sorting(self, rows: Any, k: int) -> Any:
        """A stable sort of the reversed rows: descending order, ties by column."""
        order = self._xp.argsort(rows[:, ::-1], axis=1, kind="stable")[:, ::-1][:, :k]
        return rows.shape[1] - 1 - order


# Numbers that are no larger than the last one found go by; not a number is the largest of all.
_LARGEST = """
def loop(rows, values, columns):
    k = values.shape[1]
    for r in range(rows.shape[0]):
        row, best, where = rows[r], values[r], columns[r]
        count = 0
        for j in range(row.size):
            v = row[j]
            if count == k and v <= best[k - 1]:
                continue
            place = count
            while place > 0:
                other = best[place - 1]
                if not (v > other or (v != v and other == other)):
                    break
                if place < k:
                    best[place], where[place] = other, where[place - 1]
                place -= 1
            if place < k:
                best[place], where[place] = v, j
                count = min(count + 1, k)
"""


@kernel("InTopK", fresh=True)
def _in_top_k(node: KernelNode) -> Any:
    k, find = node.attr("k"), in_top_k(node)
    return lambda predictions, targets: find(predictions, targets, k)


_IS_IN_TOP = """
def loop(scores, targets, found, k):
    for i in range(scores.shape[0]):
        row, target = scores[i], np.int64(targets[i])
        found[i] = False
        if 0 <= target < row.size:
            own, higher, infinite = row[target], 0, 0
            for j in range(row.size):
                higher += row[j] > own
                infinite += row[j] - row[j] != 0
            found[i] = higher < k and infinite == 0
"""


def in_top_k(node: KernelNode) -> Callable:
    """True where fewer than k classes score more than the target; ties count for the target.

    No target out of range, and none in a row with a score that is not finite, is in the top k.
    """
    xp = node.xp

    def run(predictions: Any, targets: Any, k: Any) -> Any:
        if predictions.ndim != 2 or targets.shape != predictions.shape[:1]:
            raise invalid(f"targets must be one class number per row of predictions: predictions "
                          f"{shown(predictions)}, targets {shown(targets)}")
        if xp is not np:
            return by_arrays(predictions, targets, k)
        return array_loops.run_rows(_IS_IN_TOP, [predictions, targets], [(targets.shape, bool)],
                                    lambda: by_arrays(predictions, targets, k), numbers=[int(k)])

    def by_arrays(predictions: Any, targets: Any, k: Any) -> Any:
        classes = predictions.shape[1]
        if not classes:
            return xp.zeros(targets.shape, bool)
        valid = (targets >= 0) & (targets < classes)
        safe = xp.where(valid, targets, 0)
        score = xp.take_along_axis(predictions, safe[:, None], 1)
        valid &= xp.isfinite(predictions).all(1)
        return valid & ((predictions > score).sum(1) < k)

    return run


@kernel("InTopKV2", fresh=True)
def _in_top_k_of_tensor(node: KernelNode) -> Any:
    return in_top_k(node)
