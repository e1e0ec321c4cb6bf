"""Boxes: drawn, selected, sampled; glimpses around points."""

from __future__ import annotations

from collections.abc import Sequence

from hpcflow.base.keywords import also_ordered
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.random.random_ops import get_seed


def draw_bounding_boxes(images: TensorLike, boxes: TensorLike, name: str | None = None,
                        colors: TensorLike | None = None) -> Tensor:
    """Return images with the outlines of boxes.

    Args:
        images: ``[batch, height, width, channels]``, float32 or float16, of 1, 3 or 4 channels.
        boxes: ``[batch, number, 4]`` float32: ``y1, x1, y2, x2`` as parts of the sides.
        name: name of the operation.
        colors: ``[number, channels]`` float32, used in turn; a fixed list by default.
    """
    if colors is None:
        return raw_ops.DrawBoundingBoxes(images=images, boxes=boxes, name=name)
    return raw_ops.DrawBoundingBoxesV2(images=images, boxes=boxes, colors=colors, name=name)


@also_ordered("score_threshold", "name")
def non_max_suppression(boxes: TensorLike, scores: TensorLike, max_output_size: TensorLike,
                        iou_threshold: TensorLike | None = None, name: str | None = None,
                        score_threshold: TensorLike | None = None) -> Tensor:
    """Return the indices of the boxes with the highest scores that overlap little.

    Args:
        boxes: ``[number, 4]`` float32: two opposite corners each.
        scores: ``[number]`` float32.
        max_output_size: how many boxes at most; a scalar int32.
        iou_threshold: leave out a box whose intersection with a better one is more than this part
            of their union (0.5 by default); a number or a tensor.
        name: name of the operation.
        score_threshold: leave out boxes of lower scores; none by default.

    Returns:
        int32 indices, the best first.
    """
    overlap = 0.5 if iou_threshold is None else iou_threshold
    if score_threshold is None and not isinstance(overlap, Tensor):
        return raw_ops.NonMaxSuppression(boxes=boxes, scores=scores, iou_threshold=overlap,
                                         max_output_size=max_output_size, name=name)
    lowest = float("-inf") if score_threshold is None else score_threshold
    return raw_ops.NonMaxSuppressionV3(
        boxes=boxes, scores=scores, max_output_size=max_output_size, iou_threshold=overlap,
        score_threshold=lowest, name=name)


def non_max_suppression_with_scores(boxes: TensorLike, scores: TensorLike,
                                    max_output_size: TensorLike, iou_threshold: TensorLike = 0.5,
                                    score_threshold: TensorLike = float("-inf"),
                                    soft_nms_sigma: TensorLike = 0.0,
                                    name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return the indices of :func:`non_max_suppression`, and the scores of their boxes.

    With a `soft_nms_sigma` boxes that overlap better ones are not left out: their scores are
    lowered, by a Gaussian of the overlap (Bodla et al., 2017).
    """
    indices, chosen, _ = raw_ops.NonMaxSuppressionV5(
        boxes=boxes, scores=scores, max_output_size=max_output_size, iou_threshold=iou_threshold,
        score_threshold=score_threshold, soft_nms_sigma=soft_nms_sigma,
        pad_to_max_output_size=False, name=name)
    return indices, chosen


def non_max_suppression_padded(boxes: TensorLike, scores: TensorLike, max_output_size: TensorLike,
                               iou_threshold: TensorLike = 0.5,
                               score_threshold: TensorLike = float("-inf"),
                               pad_to_max_output_size: bool = False,
                               name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return the indices of :func:`non_max_suppression`, and how many there are.

    With `pad_to_max_output_size` zeros follow them up to `max_output_size`.
    """
    indices, count = raw_ops.NonMaxSuppressionV4(
        boxes=boxes, scores=scores, max_output_size=max_output_size, iou_threshold=iou_threshold,
        score_threshold=score_threshold, pad_to_max_output_size=pad_to_max_output_size, name=name)
    return indices, count


def combined_non_max_suppression(
        boxes: TensorLike, scores: TensorLike, max_output_size_per_class: TensorLike,
        max_total_size: TensorLike, iou_threshold: TensorLike = 0.5,
        score_threshold: TensorLike = float("-inf"), pad_per_class: bool = False,
        clip_boxes: bool = True, name: str | None = None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the best boxes of each image of a batch that overlap no better one of their class.

    Args:
        boxes: ``[batch, number, classes or 1, 4]`` float32: two opposite corners each.
        scores: ``[batch, number, classes]`` float32.
        max_output_size_per_class: how many boxes of a class at most; a scalar int32.
        max_total_size: how many boxes of an image at most; a scalar int32.
        iou_threshold: leave out a box whose intersection with a better one is more than this part
            of their union.
        score_threshold: leave out boxes of lower scores.
        pad_per_class: results have ``max_output_size_per_class * classes`` rows if that is less
            than `max_total_size`; else always `max_total_size` rows.
        clip_boxes: cut the boxes to [0, 1].
        name: name of the operation.

    Returns:
        Boxes ``[batch, rows, 4]``, scores and classes ``[batch, rows]`` as float32, the best
        first and zeros at the end, and the number of valid rows, ``[batch]`` int32.
    """
    return raw_ops.CombinedNonMaxSuppression(
        boxes=boxes, scores=scores, max_output_size_per_class=max_output_size_per_class,
        max_total_size=max_total_size, iou_threshold=iou_threshold,
        score_threshold=score_threshold, pad_per_class=pad_per_class, clip_boxes=clip_boxes,
        name=name)


def non_max_suppression_overlaps(overlaps: TensorLike, scores: TensorLike,
                                 max_output_size: TensorLike, overlap_threshold: TensorLike = 0.5,
                                 score_threshold: TensorLike = float("-inf"),
                                 name: str | None = None) -> Tensor:
    """Return the indices of the best items that overlap little, by a matrix of the overlaps.

    Args:
        overlaps: ``[number, number]`` float32.
        scores: ``[number]`` float32.
        max_output_size: how many at most; a scalar int32.
        overlap_threshold: leave out what overlaps a better one more than this.
        score_threshold: leave out lower scores.
        name: name of the operation.
    """
    return raw_ops.NonMaxSuppressionWithOverlaps(
        overlaps=overlaps, scores=scores, max_output_size=max_output_size,
        overlap_threshold=overlap_threshold, score_threshold=score_threshold, name=name)


def sample_distorted_bounding_box(image_size: TensorLike, bounding_boxes: TensorLike,
                                  seed: int | None = None, seed2: int | None = None,
                                  min_object_covered: TensorLike | None = None,
                                  aspect_ratio_range: Sequence[float] | None = None,
                                  area_range: Sequence[float] | None = None,
                                  max_attempts: int | None = None,
                                  use_image_if_no_bounding_boxes: bool | None = None,
                                  name: str | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Return a random part of an image that shows enough of some object.

    Args:
        image_size: ``[height, width, channels]``, integers.
        bounding_boxes: the objects, ``[batch, number, 4]`` float32: ``y1, x1, y2, x2`` in [0, 1].
        seed: of the random numbers, which are TensorFlow's for the same two seeds.
        seed2: the other seed; without either both follow from the graph's seed.
        min_object_covered: at least this part of an object must lie inside (0.1 by default).
        aspect_ratio_range: the limits of width divided by height (0.75, 1.33).
        area_range: the limits of the part of the image's area (0.05, 1).
        max_attempts: after this many the whole image is returned (100).
        use_image_if_no_bounding_boxes: take the whole image as object if there is none.
        name: name of the operation.

    Returns:
        ``begin`` and ``size`` for ``slice`` and the part as a box ``[1, 1, 4]`` for
        :func:`draw_bounding_boxes`.
    """
    if seed is None and seed2 is None:
        seed, seed2 = get_seed(None)
    begin, size, box = raw_ops.SampleDistortedBoundingBoxV2(
        image_size=image_size, bounding_boxes=bounding_boxes, seed=seed or 0, seed2=seed2 or 0,
        min_object_covered=0.1 if min_object_covered is None else min_object_covered,
        aspect_ratio_range=list(aspect_ratio_range or (0.75, 1.33)),
        area_range=list(area_range or (0.05, 1.0)),
        max_attempts=100 if max_attempts is None else max_attempts,
        use_image_if_no_bounding_boxes=bool(use_image_if_no_bounding_boxes), name=name)
    return begin, size, box


def extract_glimpse(input: TensorLike, size: TensorLike, offsets: TensorLike,
                    centered: bool | None = None, normalized: bool | None = None,
                    uniform_noise: bool | None = None, name: str | None = None,
                    noise: str = "uniform") -> Tensor:
    """Return windows of images around points; noise where a window leaves its image.

    Args:
        input: ``[batch, height, width, channels]`` float32.
        size: the height and width of the windows: two int32.
        offsets: ``[batch, 2]`` float32: the centres of the windows, ``y, x``.
        centered: count offsets from the centre of the image, to the corners at -1 and 1
            (default); else from the upper left corner.
        normalized: offsets are parts of the image's size (default); else pixels.
        uniform_noise: uniform between the image's extremes (default); else what `noise` says.
        name: name of the operation.
        noise: "uniform", "gaussian" (with the image's mean and deviation) or "zero".

    Raises ``ValueError`` for `uniform_noise` with another kind of `noise`.
    """
    return raw_ops.ExtractGlimpse(
        input=input, size=size, offsets=offsets, centered=centered is not False,
        normalized=normalized is not False, noise=noise, name=name,
        uniform_noise=noise == "uniform" if uniform_noise is None else uniform_noise)
