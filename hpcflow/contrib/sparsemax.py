"""``hpcflow.contrib.sparsemax``: a softmax whose small probabilities are 0, and its loss (Martins
and Astudillo, 2016)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import hpcflow as hf

if TYPE_CHECKING:
    from hpcflow.graph.likes import TensorLike

__all__ = ["sparsemax", "sparsemax_loss"]


def sparsemax(logits: TensorLike, name: str | None = None) -> Any:
    """Return the nearest point of the probability simplex for each row: max(z - tau, 0), where
    tau is such that the row adds up to 1.

    Args:
        logits: ``[batch, classes]``, floats.
        name: name scope.
    """
    with hf.name_scope(name, "sparsemax", [logits]):
        logits = hf.convert_to_tensor(logits, name="logits")
        kind = logits.dtype
        # A shift changes nothing, and keeps the sums small.
        z: Any = logits - hf.reduce_max(logits, 1, keepdims=True)
        classes = hf.shape(z)[1]
        ordered = hf.nn.top_k(z, classes)[0]
        ranks = hf.cast(hf.range(1, classes + 1), kind)
        sums = hf.cumsum(ordered, axis=1)
        support = hf.cast(1 + ranks * ordered > sums, hf.int32)
        count = hf.reduce_sum(support, 1)
        last = hf.stack([hf.range(hf.shape(z)[0]), count - 1], 1)
        tau = (hf.gather_nd(sums, last) - 1) / hf.cast(count, kind)
        return hf.maximum(z - hf.expand_dims(tau, 1), hf.zeros([], kind))


def sparsemax_loss(logits: TensorLike, sparsemax: TensorLike, labels: TensorLike,
                   name: str | None = None) -> Any:
    """Return the loss of each row, whose gradient by the logits is sparsemax - labels.

    Args:
        logits: ``[batch, classes]``, floats.
        sparsemax: what :func:`sparsemax` gives for them.
        labels: probabilities, the same shape.
        name: name scope.
    """
    with hf.name_scope(name, "sparsemax_loss", [logits, sparsemax, labels]):
        logits, labels = (hf.convert_to_tensor(x) for x in (logits, labels))
        found: Any = hf.convert_to_tensor(sparsemax)
        z: Any = logits - hf.reduce_mean(logits, 1, keepdims=True)
        inside = hf.where(found > 0, found * (z - 0.5 * found), hf.zeros_like(found))
        wanted = hf.cast(labels, found.dtype)
        return hf.reduce_sum(inside + wanted * (0.5 * wanted - z), 1)
