"""Losses of the distances between pairs and triples of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hpcflow import dtypes
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.sparse_tensor import SparseTensor
from hpcflow.nn.losses import softmax_cross_entropy_with_logits
from hpcflow.ops.arrays.layout import transpose
from hpcflow.ops.flow.checks import Print
from hpcflow.ops.linalg.matmul import matmul
from hpcflow.ops.math.reductions import reduce_max, reduce_mean, reduce_min, reduce_sum
from hpcflow.ops.sparse.sparse_layout import sparse_tensor_to_dense

_COLUMN = np.array([-1, 1], np.int32)


class _Pairs(NamedTuple):
    """Which rows have the same label: ones and zeros, ``[rows, rows]``."""

    same: Tensor
    other: Tensor
    positive: Tensor  # the same, but not the row itself


def _pairs_of(labels: TensorLike) -> _Pairs:
    labels = convert_to_tensor(labels)
    labels.get_shape().with_rank(1)
    column = raw_ops.Reshape(labels, _COLUMN)
    equal = raw_ops.Equal(column, transpose(column))
    same = raw_ops.Cast(equal, DstT=dtypes.float32)
    other = raw_ops.Cast(raw_ops.LogicalNot(equal), DstT=dtypes.float32)
    return _Pairs(same, other, raw_ops.MatrixSetDiag(
        same, raw_ops.ZerosLike(raw_ops.MatrixDiagPart(same))))


def pairwise_distance(feature: TensorLike, squared: bool = False) -> Tensor:
    """Return the distances of the rows from each other, ``[rows, rows]``, or their squares.

    `feature` is float32 ``[rows, columns]``. The derivative of a distance of zero is zero.
    """
    rows = convert_to_tensor(feature, dtypes.float32)
    norms = reduce_sum(raw_ops.Square(rows), [1], keep_dims=True)
    found = raw_ops.Sub(raw_ops.Add(norms, transpose(norms)),
                        matmul(raw_ops.Add(rows, rows), rows, transpose_b=True))
    found = raw_ops.Maximum(found, np.float32(0))
    apart = raw_ops.Greater(found, np.float32(0))
    if not squared:
        safe = raw_ops.Select(apart, found, raw_ops.OnesLike(found))
        found = raw_ops.Select(apart, raw_ops.Sqrt(safe), raw_ops.ZerosLike(found))
    return raw_ops.MatrixSetDiag(found, raw_ops.ZerosLike(raw_ops.MatrixDiagPart(found)))


def contrastive_loss(labels: TensorLike, embeddings_anchor: TensorLike,
                     embeddings_positive: TensorLike, margin: float = 1.0) -> Tensor:
    """Return the mean over pairs of rows of d² where the label is 1, else max(margin - d, 0)².

    d is the distance of the rows (Hadsell et al., CVPR 2006).

    Args:
        labels: 0 or 1 for each pair.
        embeddings_anchor: float ``[pairs, columns]``.
        embeddings_positive: float, the same shape.
        margin: distance from which two rows of different labels cost nothing.
    """
    with name_scope(None, "contrastive_loss", [labels, embeddings_anchor, embeddings_positive]):
        distances = raw_ops.Sqrt(reduce_sum(raw_ops.SquaredDifference(
            embeddings_anchor, embeddings_positive), 1))
        near = raw_ops.Cast(labels, DstT=distances.dtype)
        gaps = raw_ops.Maximum(margin - distances, 0.0)
        return reduce_mean(near * raw_ops.Square(distances)
                           + (1.0 - near) * raw_ops.Square(gaps))


def triplet_semihard_loss(labels: TensorLike, embeddings: TensorLike,
                          margin: float = 1.0) -> Tensor:
    """Return the mean over pairs of the same label of max(d² + margin - n², 0).

    n is the distance to the nearest row of another label that is farther than d; if none is, to
    the farthest of those (Schroff et al., CVPR 2015).

    Args:
        labels: integers ``[rows]``.
        embeddings: float32 ``[rows, columns]``, usually of norm 1.
        margin: by how much other labels are to be farther.
    """
    with name_scope(None, "triplet_semihard_loss", [labels, embeddings]):
        pairs = _pairs_of(labels)
        squares = pairwise_distance(embeddings, squared=True)
        # [anchor, positive, negative]
        negatives = raw_ops.ExpandDims(squares, 1)
        farther = raw_ops.Cast(raw_ops.Greater(negatives, raw_ops.ExpandDims(squares, 2)),
                               DstT=dtypes.float32)
        outside = raw_ops.Mul(farther, raw_ops.ExpandDims(pairs.other, 1))
        farthest = reduce_max(negatives, 2, keep_dims=True)
        nearest = reduce_min((negatives - farthest) * outside, 2, keep_dims=True) + farthest
        lowest = reduce_min(squares, 1, keep_dims=True)
        inside = reduce_max((squares - lowest) * pairs.other, 1, keep_dims=True) + lowest
        found = raw_ops.Select(
            raw_ops.Greater(reduce_sum(outside, 2), np.float32(0)), raw_ops.Squeeze(
                nearest, squeeze_dims=[2]), raw_ops.Add(inside, raw_ops.ZerosLike(squares)))
        costs = raw_ops.Sub(raw_ops.Add(squares, margin), found)
        losses = raw_ops.Maximum(raw_ops.Mul(costs, pairs.positive), np.float32(0))
        return raw_ops.RealDiv(reduce_sum(losses), reduce_sum(pairs.positive))


def npairs_loss(labels: TensorLike, embeddings_anchor: TensorLike,
                embeddings_positive: TensorLike, reg_lambda: float = 0.002,
                print_losses: bool = False) -> Tensor:
    """Return the cross entropy of the anchors' products with all positives (Sohn, NIPS 2016).

    Args:
        labels: integers ``[pairs]``; positives of an anchor's label share its target.
        embeddings_anchor: float32 ``[pairs, columns]``.
        embeddings_positive: float32, the same shape.
        reg_lambda: weight of the rows' squares, of which a quarter of the means is added.
        print_losses: print both parts at every step.
    """
    with name_scope(None, "npairs_loss", [labels, embeddings_anchor, embeddings_positive]):
        same = _pairs_of(labels).same
        return _npairs(same, embeddings_anchor, embeddings_positive, reg_lambda, print_losses)


def npairs_loss_multilabel(sparse_labels: Sequence[SparseTensor], embeddings_anchor: TensorLike,
                           embeddings_positive: TensorLike, reg_lambda: float = 0.002,
                           print_losses: bool = False) -> Tensor:
    """Return :func:`npairs_loss` of pairs with several labels each: the target of two pairs is the
    number of labels that both have.

    Args:
        sparse_labels: for each pair a sparse vector over the classes, 1 for each label it has.

    The others are as of :func:`npairs_loss`. Raises ``TypeError`` for labels that are not sparse.
    """
    if not all(isinstance(label, SparseTensor) for label in sparse_labels):
        raise TypeError(f"sparse_labels must be a list of SparseTensors, but got {sparse_labels}")
    with name_scope(None, "NpairsLossMultiLabel"):
        rows = raw_ops.Pack([sparse_tensor_to_dense(
            SparseTensor(label.indices, raw_ops.Cast(label.values, DstT=dtypes.float32),
                         label.dense_shape), validate_indices=False) for label in sparse_labels])
        return _npairs(matmul(rows, rows, transpose_b=True), embeddings_anchor,
                       embeddings_positive, reg_lambda, print_losses)


def _npairs(alike: Tensor, anchor: TensorLike, positive: TensorLike, reg_lambda: float,
            print_losses: bool) -> Tensor:
    """The loss of pairs, of which `alike` says how many labels two of them share."""
    means = [reduce_mean(reduce_sum(raw_ops.Square(rows), 1)) for rows in (anchor, positive)]
    penalty = raw_ops.Mul(0.25 * reg_lambda, raw_ops.Add(*means), name="l2loss")
    products = matmul(anchor, positive, transpose_b=True)
    targets = raw_ops.RealDiv(alike, reduce_sum(alike, 1, keep_dims=True))
    entropy = reduce_mean(softmax_cross_entropy_with_logits(labels=targets, logits=products))
    if print_losses:
        entropy = Print(entropy, ["cross entropy:", entropy, "l2loss:", penalty])
    return raw_ops.Add(penalty, entropy)


def lifted_struct_loss(labels: TensorLike, embeddings: TensorLike,
                       margin: float = 1.0) -> Tensor:
    """Return half the mean over pairs of the same label of max(d + log Σ exp(margin - n), 0)².

    The sum is taken over the distances n of both rows to all rows of other labels (Song et al.,
    CVPR 2016). Arguments as of :func:`triplet_semihard_loss`.
    """
    with name_scope(None, "lifted_struct_loss", [labels, embeddings]):
        pairs = _pairs_of(labels)
        distances = pairwise_distance(embeddings)
        gaps = raw_ops.Sub(margin, distances)
        lowest = reduce_min(gaps, 1, keep_dims=True)
        highest = reduce_max((gaps - lowest) * pairs.other, 1, keep_dims=True) + lowest
        both = raw_ops.Maximum(highest, transpose(highest))
        terms = raw_ops.Exp(raw_ops.ExpandDims(gaps, 1) - raw_ops.ExpandDims(both, 2))
        sums = reduce_sum(terms * raw_ops.ExpandDims(pairs.other, 1), 2)
        costs = both + raw_ops.Log(sums + transpose(sums)) + distances
        costs = raw_ops.Square(raw_ops.Maximum(costs * pairs.positive, np.float32(0)))
        return raw_ops.RealDiv(0.5 * reduce_sum(costs), reduce_sum(pairs.positive))
