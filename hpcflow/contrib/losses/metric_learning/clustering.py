"""The clustering loss: centres as good as those of the labels (arXiv:1612.01213)."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

import hpcflow as hf
from hpcflow.contrib.losses.metric_learning.pairs import pairwise_distance
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor

_ROUNDS = 5  # how often centres are moved
_SCORES = {"nmi": "normalized_mutual_info_score", "ami": "adjusted_mutual_info_score",
           "ari": "adjusted_rand_score", "vmeasure": "v_measure_score"}


def cluster_loss(labels: TensorLike, embeddings: TensorLike, margin_multiplier: float,
                 enable_pam_finetuning: bool = True, margin_type: str = "nmi",
                 print_losses: bool = False) -> Tensor:
    """Return max(e(c) + m (1 - s(c)) - e(labels), 0), where e is minus the sum of the distances of
    the rows to the nearest of some centres, s how well clusters around them agree with the labels.

    The centres c are rows, one for each label, that are chosen greedily to make ``e + m (1 - s)``
    large; those of the labels are the best ones for each label. Needs scikit-learn.

    Args:
        labels: integers ``[rows]`` or ``[rows, 1]``.
        embeddings: float32 ``[rows, columns]``, usually of norm 1.
        margin_multiplier: m.
        enable_pam_finetuning: move the centres within their clusters, where that is better.
        margin_type: s: "nmi", "ami" (normalized and adjusted mutual information), "ari" (adjusted
            Rand index), "vmeasure", or "const": 1 for equal numbers of clusters, else 0.
        print_losses: print the loss at every step.

    Raises ``ValueError`` for another type, ``ImportError`` without scikit-learn.
    """
    score = _score(margin_type)
    distances = pairwise_distance(embeddings)
    labels = hf.reshape(labels, [-1])

    def search(distances: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found = _Search(distances, labels, float(margin_multiplier), score)
        centres = found.greedy()
        if enable_pam_finetuning:
            for _ in range(_ROUNDS):
                centres = found.moved(centres)
        return (np.array(centres, np.int32),
                np.array(score(labels, found.clusters(centres)), np.float32))

    centres, agreement = hf.py_func(search, [distances, labels], [hf.int32, hf.float32])
    energy: Any = -hf.reduce_sum(hf.reduce_min(hf.gather(distances, centres), 0))
    wanted = _energy_of_labels(distances, labels)
    loss = hf.maximum(energy + margin_multiplier * (1.0 - agreement) - wanted, 0.0,
                      name="clustering_loss")
    loss.set_shape([])
    for name, value in (("score_pred", energy), (margin_type, agreement), ("score_gt", wanted)):
        hf.summary.scalar(f"losses/{name}", value)
    return hf.Print(loss, ["clustering_loss: ", loss]) if print_losses else loss


def _score(margin_type: str) -> Callable:
    if margin_type == "const":
        return lambda labels, clusters: float(np.array_equal(labels, clusters))
    if margin_type not in _SCORES:
        raise ValueError(f"Unrecognized margin_type: {margin_type}")
    of = getattr(importlib.import_module("sklearn.metrics"), _SCORES[margin_type])
    return lambda labels, clusters: max(of(labels, clusters), 0.0)


def _energy_of_labels(distances: Any, labels: Any) -> Any:
    """The energy of the row of each label whose distances to the others of that label are least."""
    same = hf.cast(hf.equal(labels, hf.expand_dims(labels, 1)), distances.dtype)
    sums = hf.reduce_sum(distances * same, 1)
    kinds, kind = hf.unique(labels)
    return -hf.reduce_sum(hf.unsorted_segment_min(sums, kind, hf.size(kinds)))


class _Search:
    """Looks for rows that as centres make energy and disagreement with the labels large."""

    def __init__(self, distances: np.ndarray, labels: np.ndarray, margin: float,
                 score: Callable) -> None:
        self._distances, self._labels = distances, labels
        self._margin, self._score = margin, score

    def clusters(self, centres: list[int]) -> np.ndarray:
        """For each row the place of its nearest centre; a centre's is its own."""
        nearest = np.argmin(self._distances[centres], 0)
        nearest[centres] = np.arange(len(centres))
        return nearest

    def _disagreement(self, centres: list[int]) -> float:
        return self._margin * (1.0 - self._score(self._labels, self.clusters(centres)))

    def greedy(self) -> list[int]:
        """As many centres as there are labels, each the best one beside those before."""
        centres: list[int] = []
        nearest = np.full(len(self._distances), np.inf)
        for _ in np.unique(self._labels):
            free = np.setdiff1d(np.arange(len(self._distances)), centres)
            energies = -np.minimum(self._distances[free], nearest).sum(1)
            gains = [self._disagreement([*centres, row]) for row in free]
            best = int(free[np.argmax(energies + gains)])
            centres.append(best)
            nearest = np.minimum(nearest, self._distances[best])
        return centres

    def moved(self, centres: list[int]) -> list[int]:
        """Each centre, one after the other, at the best row of the cluster that it has now."""
        clusters = self.clusters(centres)
        for place in range(len(centres)):
            rows = np.flatnonzero(clusters == place)
            energies = -self._distances[np.ix_(rows, rows)].sum(1)
            gains = [self._disagreement([*centres[:place], int(row), *centres[place + 1:]])
                     for row in rows]
            centres = [*centres[:place], int(rows[np.argmax(energies + gains)]),
                       *centres[place + 1:]]
        return centres
