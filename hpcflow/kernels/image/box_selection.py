"""Kernels that select boxes: NonMaxSuppression in all its versions, BipartiteMatch."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown

_F = np.float32


class _Rule(NamedTuple):
    """When a box is left out.

    Attributes:
        overlap: the part of the union that it may share with a better one, without a sigma.
        score: what its score must exceed.
        sigma: of the Gaussian that lowers the scores of boxes that overlap chosen ones; 0 for none.
    """

    overlap: float
    score: float = -np.inf
    sigma: float = 0.0


def _checked_rule(overlap: Any, score: Any = -np.inf, sigma: Any = 0.0) -> _Rule:
    for what, value in (("iou_threshold", overlap), ("score_threshold", score),
                        ("soft_nms_sigma", sigma)):
        if np.ndim(value):
            raise invalid(f"{what} must be a scalar, got shape {list(np.shape(value))}")
    if not 0 <= overlap <= 1:
        raise invalid(f"iou_threshold must be in [0, 1], got {overlap}")
    if not sigma >= 0:
        raise invalid(f"soft_nms_sigma must not be negative, got {sigma}")
    return _Rule(float(overlap), float(score), float(sigma))


def _check_boxes(boxes: Any, scores: Any, limit: Any) -> None:
    if np.ndim(limit) or limit < 0:
        raise invalid(f"max_output_size must be a scalar that is not negative, got {limit}")
    if boxes.ndim != 2 or boxes.shape[1] != 4:
        raise invalid(f"boxes must have shape [number, 4], got {shown(boxes)}")
    if scores.shape != boxes.shape[:1]:
        raise invalid(f"scores must have shape [{boxes.shape[0]}], got {shown(scores)}")


def select_boxes(boxes: np.ndarray, scores: np.ndarray, limit: int,
                 rule: _Rule) -> tuple[np.ndarray, np.ndarray]:
    """Greedy: the best box that overlaps no chosen one too much, until there are enough.

    With a sigma, boxes that overlap chosen ones get lower scores instead.

    Returns:
        the indices of the chosen boxes, int32, and their scores.
    """
    boxes = boxes.astype(_F, copy=False)
    low, high = np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])
    areas = (high - low).prod(1)
    if rule.sigma:
        return _select_softly((low, high, areas), scores, limit, rule)
    scores = scores.astype(_F)
    left = np.flatnonzero(scores > rule.score)
    left = left[np.argsort(-scores[left], kind="stable")]
    chosen: list[int] = []
    while left.size and len(chosen) < limit:
        best, left = int(left[0]), left[1:]
        chosen.append(best)
        left = left[_shared(low, high, areas, best, left) <= rule.overlap]
    found = np.array(chosen, np.int32)
    return found, scores[found]


def _select_softly(sides: tuple, scores: np.ndarray, limit: int,
                   rule: _Rule) -> tuple[np.ndarray, np.ndarray]:
    """The boxes, of these low and high sides and areas, in the order in which a queue yields them.

    A box's score is multiplied by a weight for each chosen box, once, when its turn comes. Unless
    that leaves it as it was the box is queued again. Where scores are negative, and weights raise
    them, the order depends on the turns.
    """
    dtype = scores.dtype.type  # every step is rounded to it
    scale = dtype(-0.5) / dtype(rule.sigma)
    # Score, the higher the sooner; number, the lower the sooner; how many chosen ones have counted.
    queue = [(-float(scores[i]), int(i), 0) for i in np.flatnonzero(scores > rule.score)]
    heapq.heapify(queue)
    chosen = np.zeros(min(limit, len(queue)), np.int32)
    values: list[float] = []
    low, high, areas = sides
    while queue and len(values) < limit:
        negated, box, counted = heapq.heappop(queue)
        new = chosen[counted:len(values)][::-1]
        shared = _shared(low, high, areas, box, new).astype(dtype)
        steps = np.append(dtype(-negated), np.exp(scale * shared * shared))
        steps = np.multiply.accumulate(steps, dtype=dtype)
        score = float(steps[-1])
        if score == -negated:
            chosen[len(values)] = box
            values.append(score)
        elif (steps > rule.score).all():
            heapq.heappush(queue, (-score, box, len(values)))
    return chosen[:len(values)], np.array(values, dtype)


def _shared(low: np.ndarray, high: np.ndarray, areas: np.ndarray, best: int,
            left: np.ndarray) -> np.ndarray:
    """The intersections with one box as parts of the unions; 0 where a box has no area."""
    sides = np.minimum(high[left], high[best]) - np.maximum(low[left], low[best])
    both = np.maximum(sides, 0).prod(1)
    union = areas[left] + areas[best] - both
    solid = (areas[left] > 0) & (areas[best] > 0)
    return np.where(solid, both / np.where(solid, union, 1), 0)


def _padded(values: np.ndarray, limit: int) -> np.ndarray:
    out = np.zeros((limit, *values.shape[1:]), values.dtype)
    out[: len(values)] = values
    return out


# ---------------------------------------------------------------- one image


@kernel("NonMaxSuppression", fresh=True, device="CPU")
def _suppress(node: KernelNode) -> Callable:
    threshold = node.attr("iou_threshold")

    def run(boxes: Any, scores: Any, limit: Any) -> Any:
        rule = _checked_rule(threshold)
        _check_boxes(boxes, scores, limit)
        return select_boxes(boxes, scores, int(limit), rule)[0]

    return run


@kernel("NonMaxSuppressionV2", "NonMaxSuppressionV3", fresh=True, device="CPU")
def _suppress_by_inputs(node: KernelNode) -> Callable:
    def run(boxes: Any, scores: Any, limit: Any, *rule: Any) -> Any:
        checked = _checked_rule(*rule)
        _check_boxes(boxes, scores, limit)
        return select_boxes(boxes, scores, int(limit), checked)[0]

    return run


@kernel("NonMaxSuppressionV4", "NonMaxSuppressionV5", fresh=True, device="CPU")
def _suppress_padded(node: KernelNode) -> Callable:
    pads, with_scores = node.attr("pad_to_max_output_size"), len(node.output_dtypes) == 3
    dtype = node.input_dtypes[1].np

    def run(boxes: Any, scores: Any, limit: Any, *rule: Any) -> tuple:
        checked = _checked_rule(*rule)
        _check_boxes(boxes, scores, limit)
        found, values = select_boxes(boxes, scores, int(limit), checked)
        outputs = [found, values.astype(dtype)] if with_scores else [found]
        if pads:
            outputs = [_padded(v, int(limit)) for v in outputs]
        return (*outputs, np.int32(len(found)))

    return run


@kernel("NonMaxSuppressionWithOverlaps", fresh=True, device="CPU")
def _suppress_by_overlaps(node: KernelNode) -> Callable:
    """The overlaps are given, of each item with each other."""

    def run(overlaps: Any, scores: Any, limit: Any, overlap: Any, score: Any) -> Any:
        if overlaps.ndim != 2 or overlaps.shape[0] != overlaps.shape[1]:
            raise invalid(f"overlaps must be square, got shape {shown(overlaps)}")
        if scores.shape != overlaps.shape[:1]:
            raise invalid(f"scores must have shape [{overlaps.shape[0]}], got {shown(scores)}")
        left = np.flatnonzero(scores > score)
        left = left[np.argsort(-scores[left], kind="stable")]
        chosen: list[int] = []
        while left.size and len(chosen) < int(limit):
            best, left = int(left[0]), left[1:]
            chosen.append(best)
            left = left[~(overlaps[left, best] > overlap)]
        return np.array(chosen, np.int32)

    return run


# ---------------------------------------------------------------- classes and batches


@kernel("CombinedNonMaxSuppression", fresh=True, device="CPU")
def _suppress_combined(node: KernelNode) -> Callable:
    """Of each image the best boxes of all classes, each class selected by itself."""
    pads, clips = node.attr("pad_per_class"), node.attr("clip_boxes")

    def run(boxes: Any, scores: Any, per_class: Any, total: Any, overlap: Any,
            least: Any) -> tuple:
        rule = _checked_rule(overlap, least)
        if boxes.ndim != 4 or scores.ndim != 3 or boxes.shape[:2] != scores.shape[:2] or (
                boxes.shape[2] not in (1, scores.shape[2]) or boxes.shape[3] != 4):
            raise invalid("boxes must have shape [batch, number, 1 or classes, 4] and scores "
                          f"[batch, number, classes], got {shown(boxes)} and "
                          f"{shown(scores)}")
        if per_class <= 0 or total <= 0:
            raise invalid("max_output_size_per_class and max_total_size must be positive, got "
                          f"{per_class} and {total}")
        each, every = int(per_class), int(total)
        size = min(every, each * scores.shape[2]) if pads else every
        found = [_best_of_image(b, s, each, size, rule) for b, s in zip(boxes, scores)]
        chosen = np.stack([_padded(f[0], size) for f in found]) if found else (
            np.zeros((0, size, 4), _F))
        values, classes = (np.array([_padded(f[i], size) for f in found], _F).reshape(-1, size)
                           for i in (1, 2))
        counts = np.array([len(f[1]) for f in found], np.int32)
        return np.clip(chosen, 0, 1) if clips else chosen, values, classes, counts

    return run


def _best_of_image(boxes: np.ndarray, scores: np.ndarray, per_class: int, total: int,
                   rule: _Rule) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Boxes, scores and classes of one image, the best first."""
    chosen, values, classes = [], [], []
    for number in range(scores.shape[1]):
        of_class = boxes[:, min(number, boxes.shape[1] - 1)]
        found, best = select_boxes(of_class, scores[:, number], per_class, rule)
        chosen.append(of_class[found])
        values.append(best)
        classes.append(np.full(len(found), number, _F))
    joined = np.concatenate(values) if values else np.zeros(0, _F)
    order = np.argsort(-joined, kind="stable")[:total]
    if not len(order):
        return np.zeros((0, 4), _F), joined, np.zeros(0, _F)
    return np.concatenate(chosen)[order], joined[order], np.concatenate(classes)[order]


@kernel("BipartiteMatch", fresh=True, device="CPU")
def _match(node: KernelNode) -> Callable:
    """Greedy: of the pairs whose row and column are free, the one of the least distance."""
    most = node.attr("top_k")

    def run(distances: Any, valid: Any) -> Any:
        if distances.ndim != 2:
            raise invalid(f"distance_mat should be 2-dimensional, but got {shown(distances)}")
        if np.size(valid) != 1:
            raise invalid("num_valid_rows argument should be a tensor with 1 element, but got "
                          f"{np.size(valid)}")
        rows, columns = distances.shape
        count = int(np.ravel(valid)[0])
        if count > rows:
            raise invalid(f"There should be at least {count} rows in distance_mat, but only got "
                          f"{rows} rows.")
        count = rows if count < 0 else count
        limit = min(count, columns) if most <= 0 else min(most, count, columns)
        of_row, of_column = np.full(rows, -1, np.int32), np.full(columns, -1, np.int32)
        for pair in np.argsort(distances[:count], axis=None, kind="stable"):
            if limit == 0:
                break
            row, column = divmod(int(pair), columns)
            if of_row[row] < 0 and of_column[column] < 0:
                of_row[row], of_column[column] = column, row
                limit -= 1
        return of_row, of_column

    return run
