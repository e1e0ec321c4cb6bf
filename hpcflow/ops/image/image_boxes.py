"""Boxes in images: drawn, suppressed by others, sampled, matched; glimpses."""

from __future__ import annotations

from typing import Any

from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation
from hpcflow.graph.shape_inference import known_number, merge_dim, merge_dims, show, with_rank
from hpcflow.ops.image.image_resizing import new_size


def _drawn_shape(op: Operation) -> list[Dims]:
    images = with_rank(op.input_dims(0), 4, "images")
    boxes = with_rank(op.input_dims(1), 3, "boxes")
    merge_dims(boxes[2:], (4,))
    merge_dim(images[0], boxes[0])
    return [images]


def _glimpse_shape(op: Operation) -> list[Dims]:
    images = with_rank(op.input_dims(0), 4, "input")
    offsets = with_rank(op.input_dims(2), 2, "offsets")
    merge_dims(offsets[1:], (2,))
    return [(merge_dim(images[0], offsets[0]), *new_size(op, 1), images[3])]


def _matched_shape(op: Operation) -> list[Dims]:
    distances: Any = with_rank(op.input_dims(0), 2, "distance_mat")
    return [distances[:1], distances[1:]]


def _selected_by_overlaps_shape(op: Operation) -> list[Dims]:
    items: Any = with_rank(op.input_dims(0), 2, "overlaps")
    merge_dim(items[0], items[1])
    merge_dims(with_rank(op.input_dims(1), 1, "scores"), items[:1])
    return [(None,)]


def _selected_shape(op: Operation) -> list[Dims]:
    boxes = with_rank(op.input_dims(0), 2, "boxes")
    merge_dims(boxes[1:], (4,))
    merge_dims(with_rank(op.input_dims(1), 1, "scores"), boxes[:1])
    if op.input_dims(2):
        raise ValueError(f"max_output_size must be a scalar but has shape "
                         f"{show(op.input_dims(2))}")
    return [(None,)]


def _padded_shape(op: Operation) -> list[Dims]:
    """Return the shapes of the chosen boxes, padded to the limit if asked, and of their count."""
    chosen = _selected_shape(op)
    limit = known_number(op, 2)
    if op.attr("pad_to_max_output_size") and limit is not None:
        chosen = [(int(limit),)]
    return [*chosen * (len(op.op_def.outputs) - 1), ()]


def _combined_shape(op: Operation) -> list[Dims]:
    boxes = with_rank(op.input_dims(0), 4, "boxes")
    scores = with_rank(op.input_dims(1), 3, "scores")
    merge_dims(boxes[3:], (4,))
    merge_dims(boxes[:2], scores[:2])
    limits = [known_number(op, i) for i in (2, 3)]
    size = None if limits[1] is None else int(limits[1])
    if op.attr("pad_per_class") and size is not None:
        classes = scores[2]
        size = None if classes is None or limits[0] is None else (
            min(size, int(limits[0]) * classes))
    batch = boxes[0] if scores[0] is None else scores[0]
    return [(batch, size, 4), (batch, size), (batch, size), (batch,)]


def _sampled_shape(op: Operation) -> list[Dims]:
    merge_dims(with_rank(op.input_dims(0), 1, "image_size"), (3,))
    merge_dims(with_rank(op.input_dims(1), 3, "bounding_boxes"), (None, None, 4))
    if len(op.inputs) > 2:
        with_rank(op.input_dims(2), 0, "min_object_covered")
    return [(3,), (3,), (1, 1, 4)]


register_op("DrawBoundingBoxes", "images: T; boxes: float", "output: T",
            "T: {float, half} = float", shape=_drawn_shape)
register_op("DrawBoundingBoxesV2", "images: T; boxes: float; colors: float", "output: T",
            "T: {float, half} = float", shape=_drawn_shape)
register_op("NonMaxSuppressionWithOverlaps",
            "overlaps: float; scores: float; max_output_size: int32; overlap_threshold: float; "
            "score_threshold: float", "selected_indices: int32", shape=_selected_by_overlaps_shape)
register_op("BipartiteMatch", "distance_mat: float; num_valid_rows: float",
            "row_to_col_match_indices: int32; col_to_row_match_indices: int32", "top_k: int = -1",
            shape=_matched_shape, stateful=True)
not_differentiable("DrawBoundingBoxesV2", "NonMaxSuppressionWithOverlaps", "BipartiteMatch")
# Not stateful by its definition, but random: its noise must not be computed once and for all.
register_op("ExtractGlimpse", "input: float; size: int32; offsets: float", "glimpse: float",
            "centered: bool = true; normalized: bool = true; uniform_noise: bool = true; "
            "noise: string = 'uniform'",
            shape=_glimpse_shape, stateful=True)
register_op("NonMaxSuppression", "boxes: float; scores: float; max_output_size: int32",
            "selected_indices: int32", "iou_threshold: float = 0.5", shape=_selected_shape)
_BOXES = "boxes: T; scores: T; max_output_size: int32; iou_threshold: "
_REALS = "T: {half, float} = float"
_PADS = "pad_to_max_output_size: bool = false"
register_op("NonMaxSuppressionV2", f"{_BOXES}T_threshold", "selected_indices: int32",
            f"{_REALS}; T_threshold: {{half, float}} = float", shape=_selected_shape)
register_op("NonMaxSuppressionV3", f"{_BOXES}T_threshold; score_threshold: T_threshold",
            "selected_indices: int32", f"{_REALS}; T_threshold: {{half, float}} = float",
            shape=_selected_shape)
register_op("NonMaxSuppressionV4", f"{_BOXES}T_threshold; score_threshold: T_threshold",
            "selected_indices: int32; valid_outputs: int32",
            f"{_REALS}; T_threshold: {{half, float}} = float; {_PADS}", shape=_padded_shape)
register_op("NonMaxSuppressionV5", f"{_BOXES}T; score_threshold: T; soft_nms_sigma: T",
            "selected_indices: int32; selected_scores: T; valid_outputs: int32",
            f"{_REALS}; {_PADS}", shape=_padded_shape)
register_op("CombinedNonMaxSuppression",
            "boxes: float; scores: float; max_output_size_per_class: int32; max_total_size: int32; "
            "iou_threshold: float; score_threshold: float",
            "nmsed_boxes: float; nmsed_scores: float; nmsed_classes: float; "
            "valid_detections: int32",
            "pad_per_class: bool = false; clip_boxes: bool = true", shape=_combined_shape)
not_differentiable("NonMaxSuppressionV2", "NonMaxSuppressionV3", "NonMaxSuppressionV4",
                   "NonMaxSuppressionV5", "CombinedNonMaxSuppression")
_SAMPLED = ("T: {uint8, int8, int16, int32, int64}; seed: int = 0; seed2: int = 0; "
            "aspect_ratio_range: list(float) = [0.75, 1.33]; "
            "area_range: list(float) = [0.05, 1.0]; max_attempts: int = 100; "
            "use_image_if_no_bounding_boxes: bool = false")
register_op("SampleDistortedBoundingBox", "image_size: T; bounding_boxes: float",
            "begin: T; size: T; bboxes: float", f"{_SAMPLED}; min_object_covered: float = 0.1",
            shape=_sampled_shape, stateful=True)
register_op("SampleDistortedBoundingBoxV2",
            "image_size: T; bounding_boxes: float; min_object_covered: float",
            "begin: T; size: T; bboxes: float", _SAMPLED, shape=_sampled_shape, stateful=True)
not_differentiable("ExtractGlimpse", "NonMaxSuppression", "SampleDistortedBoundingBox",
                   "SampleDistortedBoundingBoxV2")
