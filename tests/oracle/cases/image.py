"""Cases of images: resizing, crops, colours, boxes, files."""

from __future__ import annotations

import numpy as np
from case import Type
from table import FLOATS, Table, family, ints, scalar

IMAGES = ("uint8", "int8", "int16", "int32", "int64", *FLOATS)
# Positions are float32 on both sides; weights may differ by an ulp of the position.
TOLERANCE = 128
# The reference computes float64 gradients in float32.
SINGLE = 3.4e10
RESIZES = (((2, 4, 5, 3), (8, 10)), ((1, 7, 6, 2), (3, 4)), ((1, 5, 5, 1), (5, 5)),
           ((2, 3, 3, 4), (1, 1)), ((1, 1, 1, 2), (3, 2)), ((0, 3, 3, 2), (4, 4)),
           ((1, 40, 50, 3), (13, 77)), ((1, 64, 48, 3), (7, 5)))  # fmt: skip


def _pixels(table: Table, dtype: str, shape: tuple) -> np.ndarray:
    if dtype == "uint8":
        return table.integers(256, shape, dtype)
    return table.integers(100, shape, dtype, low=-100) if dtype[0] == "i" else table.normal(
        dtype, shape)


@family
def resizes(table: Table) -> None:
    for op in ("ResizeBilinear", "ResizeNearestNeighbor", "ResizeBicubic", "ResizeArea"):
        for dtype in IMAGES:
            for number, (shape, size) in enumerate(RESIZES):
                if number % 3 and dtype not in ("float32", "uint8"):
                    continue
                for align in (False, True):
                    smooth = dtype == "float32" and op != "ResizeArea" and shape[0]
                    table.add(op, {"images": _pixels(table, dtype, shape), "size": ints(*size)},
                              {"align_corners": align}, tolerance=TOLERANCE,
                              gradient=int(bool(smooth)))
        x = table.normal("float32", (1, 3, 3, 2))
        for size in ((0, 2), (-1, 2), (2, 2, 2)):
            table.bad(op, {"images": x, "size": ints(*size)}, label=str(size))
        table.bad(op, {"images": x[0], "size": ints(2, 2)}, label="rank")
        table.bad(op, {"images": x[:, :0], "size": ints(2, 2)}, label="empty")
    for shape, size in RESIZES[:5]:
        for align in (False, True):
            attrs = {"align_corners": align}
            for dtype in FLOATS:
                grads = table.normal("float32", (shape[0], *size, shape[3]))
                original = table.normal(dtype, shape)
                for op in ("ResizeBilinearGrad", "ResizeBicubicGrad"):
                    if dtype in table.dtypes(op):
                        table.add(op, {"grads": grads, "original_image": original}, attrs,
                                  tolerance=SINGLE if dtype == "float64" else TOLERANCE)
            for dtype in table.dtypes("ResizeNearestNeighborGrad", IMAGES):
                grads = _pixels(table, dtype, (shape[0], *size, shape[3]))
                table.add("ResizeNearestNeighborGrad", {"grads": grads % 8 if dtype[0] in "iu"
                                                        else grads, "size": ints(*shape[1:3])},
                          attrs, tolerance=TOLERANCE)


BOXES = np.array([[0, 0, 1, 1], [0.1, 0.2, 0.7, 0.9], [0.8, 0.7, 0.1, 0.2],
                  [-0.3, 0.2, 1.4, 0.8], [0.25, 0.25, 0.25, 0.25]], "float32")


@family
def crops(table: Table) -> None:
    for dtype in IMAGES:
        for shape, size in (((2, 5, 6, 3), (4, 3)), ((1, 3, 4, 1), (1, 5)), ((2, 8, 7, 2), (2, 1))):
            image = _pixels(table, dtype, shape)
            where = {"boxes": BOXES, "box_ind": table.integers(shape[0], (5,))}
            table.add("CropAndResize", {"image": image, **where, "crop_size": ints(*size)},
                      {"extrapolation_value": 2.5}, tolerance=TOLERANCE,
                      gradient=int(dtype == "float32"))
            table.add("CropAndResize", {"image": image, **where, "crop_size": ints(*size)},
                      {"method": "nearest"}, tolerance=TOLERANCE)
            grads = table.normal("float32", (5, *size, shape[3]))
            table.add("CropAndResizeGradBoxes", {"grads": grads, "image": image, **where},
                      tolerance=TOLERANCE)
            if dtype in FLOATS:
                table.add("CropAndResizeGradImage", {"grads": grads, **where, "image_size": ints(
                    *shape)}, {"T": Type(dtype)}, tolerance=SINGLE if dtype == "float64" else (
                        TOLERANCE))
    image = table.normal("float32", (2, 4, 4, 1))
    for boxes, indices, size, label in ((BOXES, ints(0, 1, 2, 0, 0), (2, 2), "index"),
                                        (BOXES, ints(0, 1, -1, 0, 0), (2, 2), "index"),
                                        (BOXES, ints(0, 1), (2, 2), "number"),
                                        (BOXES[:, :3], ints(0, 0, 0, 0, 0), (2, 2), "box"),
                                        (BOXES, ints(0, 0, 0, 0, 0), (0, 2), "size")):
        table.bad("CropAndResize", {"image": image, "boxes": boxes, "box_ind": indices,
                                    "crop_size": ints(*size)}, label=label)


@family
def colors(table: Table) -> None:
    for dtype in ("float32", "float64"):
        for shape in ((3,), (4, 5, 3), (2, 3, 3, 3), (0, 3), (500, 3)):
            x = table.rng.random(shape).astype(dtype)
            for op in ("RGBToHSV", "HSVToRGB"):
                table.add(op, {"images": x}, gradient=int(op == "RGBToHSV"))
    # Grey, black, and colours of which two parts are equal.
    edges = np.array([[0, 0, 0], [1, 1, 1], [1, 0, 0], [1, 1, 0], [0, 1, 1], [1, 0, 1],
                      [0.5, 0.5, 0.2], [0, 0.1, 0.1]], "float32")
    table.add("RGBToHSV", {"images": edges})
    # Where a channel is zero the reference has no gradient of the saturation.
    table.add("RGBToHSV", {"images": (0.8 * edges + 0.1).astype("float32")}, gradient=1)
    table.add("HSVToRGB", {"images": edges})
    for shape in ((4, 5, 3), (2, 3, 3, 3), (0, 2, 3), (2, 1, 4, 5, 3)):
        x = table.rng.random(shape).astype("float32")
        for value in (0.0, 0.3, -0.4, 1.0):
            table.add("AdjustHue", {"images": x, "delta": scalar(value, "float32")})
            table.add("AdjustSaturation", {"images": x, "scale": scalar(abs(3 * value),
                                                                        "float32")})
            if shape[0]:
                inputs = {"images": x, "contrast_factor": scalar(2 * value, "float32")}
                table.add("AdjustContrastv2", inputs)
    x = table.rng.random((2, 2, 4)).astype("float32")
    for op, name in (("AdjustHue", "delta"), ("AdjustSaturation", "scale"),
                     ("AdjustContrastv2", "contrast_factor")):
        table.bad(op, {"images": x[0], name: scalar(0.5, "float32")}, label="rank")
        table.bad(op, {"images": x[..., :3], name: np.ones(2, "float32")}, label="scalar")
        if op != "AdjustContrastv2":
            table.bad(op, {"images": x, name: scalar(0.5, "float32")}, label="channels")
    table.bad("RGBToHSV", {"images": x})


@family
def boxes(table: Table) -> None:
    for dtype in ("float32", "float16"):
        for depth in (1, 3, 4):
            table.add("DrawBoundingBoxes", {
                "images": table.normal(dtype, (2, 9, 12, depth)),
                "boxes": table.rng.uniform(-0.3, 1.3, (2, 12, 4)).astype("float32")})
    x = table.normal("float32", (1, 4, 4, 3))
    table.bad("DrawBoundingBoxes", {"images": x, "boxes": BOXES}, label="rank")
    table.bad("DrawBoundingBoxes", {"images": x, "boxes": BOXES[None, :, :3]}, label="shape")
    for number in (0, 1, 50, 400):
        corners = table.rng.random((number, 4)).astype("float32")
        scores = table.rng.permutation(number).astype("float32")
        for threshold in (0.0, 0.2, 0.5, 1.0):
            for limit in (0, 3, 1000):
                table.add("NonMaxSuppression", {"boxes": corners, "scores": scores,
                                                "max_output_size": scalar(limit)},
                          {"iou_threshold": threshold})
    corners, scores = table.rng.random((3, 4)).astype("float32"), np.ones(3, "float32")
    table.bad("NonMaxSuppression", {"boxes": corners, "scores": scores[:2], "max_output_size":
                                    scalar(2)}, label="scores")
    table.bad("NonMaxSuppression", {"boxes": corners[:, :3], "scores": scores, "max_output_size":
                                    scalar(2)}, label="boxes")
    table.bad("NonMaxSuppression", {"boxes": corners, "scores": scores, "max_output_size":
                                    scalar(2)}, {"iou_threshold": 1.5}, label="threshold")


@family
def glimpses(table: Table) -> None:
    x = table.normal("float32", (3, 9, 8, 2))
    for centered in (True, False):
        for normalized in (True, False):
            low, high = (-0.2, 0.2) if centered and normalized else (
                (0.4, 0.6) if normalized else (-1.0, 1.0) if centered else (3.5, 5.0))
            offsets = table.rng.uniform(low, high, (3, 2)).astype("float32")
            table.add("ExtractGlimpse", {"input": x, "size": ints(4, 3), "offsets": offsets},
                      {"centered": centered, "normalized": normalized, "uniform_noise": True})
    offsets = np.zeros((3, 2), "float32")
    table.add("ExtractGlimpse", {"input": x, "size": ints(40, 30), "offsets": offsets},
              {"uniform_noise": False, "noise": b"zero"})
    table.bad("ExtractGlimpse", {"input": x, "size": ints(4, 3), "offsets": offsets},
              {"uniform_noise": False, "noise": b"other"}, label="noise")
    table.bad("ExtractGlimpse", {"input": x, "size": ints(4), "offsets": offsets}, label="size")
    table.bad("ExtractGlimpse", {"input": x, "size": ints(4, 3), "offsets": offsets[:2]},
              label="offsets")
    table.bad("ExtractGlimpse", {"input": x[0], "size": ints(4, 3), "offsets": offsets},
              label="rank")


@family
def random_windows(table: Table) -> None:
    seeds = {"seed": 7, "seed2": 3, "max_attempts": 50}
    one = np.array([[[0.2, 0.3, 0.7, 0.8]]], "float32")
    for dtype in ("int32", "int64", "uint8"):
        size = np.array([90, 120, 3], dtype)
        for covered in (0.0, 0.5, 1.0):
            table.add("SampleDistortedBoundingBox", {"image_size": size, "bounding_boxes": one},
                      {**seeds, "min_object_covered": covered})
            table.add("SampleDistortedBoundingBoxV2",
                      {"image_size": size, "bounding_boxes": one,
                       "min_object_covered": np.float32(covered)}, seeds)
    none = np.zeros((1, 0, 4), "float32")
    table.add("SampleDistortedBoundingBox", {"image_size": ints(9, 9, 3), "bounding_boxes": none},
              {**seeds, "use_image_if_no_bounding_boxes": True})
    for label, size, found, attrs in (
            ("none", ints(9, 9, 3), none, {}), ("size", ints(9, 9), one, {}),
            ("empty", ints(0, 9, 3), one, {}), ("range", ints(9, 9, 3), one + 1, {}),
            ("order", ints(9, 9, 3), one[..., ::-1].copy(), {}),
            ("rank", ints(9, 9, 3), one[0], {}),
            ("area", ints(9, 9, 3), one, {"area_range": [0.1, 1.5]}),
            ("ratio", ints(9, 9, 3), one, {"aspect_ratio_range": [-1.0, 1.0]}),
            ("covered", ints(9, 9, 3), one, {"min_object_covered": -1.0})):
        table.bad("SampleDistortedBoundingBox", {"image_size": size, "bounding_boxes": found},
                  {**seeds, **attrs}, label=label)


@family
def pixels_by_their_centres(table: Table) -> None:
    for op in ("ResizeBilinear", "ResizeBicubic", "ResizeNearestNeighbor"):
        for dtype in ("uint8", "float32"):
            for size in (ints(3, 4), ints(11, 7), ints(1, 1), ints(5, 6)):
                table.add(op, {"images": table.normal(dtype, (2, 5, 6, 3)), "size": size},
                          {"half_pixel_centers": True}, gradient=1, tolerance=64)


@family
def selected_boxes(table: Table) -> None:
    corners = np.sort(table.rng.uniform(size=(12, 2, 2)), axis=1).reshape(12, 4).astype("float32")
    corners[3] = corners[7]
    scores = table.distinct("float32", (12,))
    limits = [{"max_output_size": scalar(n), "iou_threshold": scalar(iou, "float32"),
               "score_threshold": scalar(least, "float32")}
              for n in (3, 20) for iou in (0.1, 0.5) for least in (-9.0, 0.1)]
    for limit in limits:
        inputs = {"boxes": corners, "scores": scores, **limit}
        table.add("NonMaxSuppressionV3", inputs)
        table.add("NonMaxSuppressionV2", {k: v for k, v in inputs.items()
                                          if k != "score_threshold"})
        for pads in (False, True):
            padded = {"pad_to_max_output_size": pads}
            table.add("NonMaxSuppressionV4", inputs, padded)
            for sigma in (0.0, 0.5):
                table.add("NonMaxSuppressionV5", {
                    **inputs, "soft_nms_sigma": scalar(sigma, "float32")}, padded, tolerance=16)
    table.bad("NonMaxSuppressionV3", {**inputs, "boxes": corners[:, :3]})
    for classes in (1, 3):
        for per_class, total in ((2, 4), (5, 3), (9, 30)):
            for attrs in ({}, {"pad_per_class": True}, {"clip_boxes": False}):
                boxes = np.stack([np.roll(corners, i, 0) for i in range(2 * classes)], 1)
                table.add("CombinedNonMaxSuppression", {
                    "boxes": boxes.reshape(12, 2, classes, 4).swapaxes(0, 1),
                    "scores": table.distinct("float32", (2, 12, 3)),
                    "max_output_size_per_class": scalar(per_class),
                    "max_total_size": scalar(total), "iou_threshold": scalar(0.3, "float32"),
                    "score_threshold": scalar(0.0, "float32")}, attrs)
