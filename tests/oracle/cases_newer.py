"""Cases of op types that came after 1.0, which graphs of later writers hold."""

from __future__ import annotations

import numpy as np
from case import FORMS, Shape, Type
from table import (
    ALL,
    COMPLEXES,
    FLOATS,
    INTEGERS,
    NUMBERS,
    PAIRS,
    SHAPES,
    Table,
    family,
    ints,
    scalar,
)

UNARY = {"Sinh": "normal", "Cosh": "normal", "Asinh": "normal", "Acosh": "positive",
         "Atanh": "unit"}  # fmt: skip
NO_NAN = ("DivNoNan", "MulNoNan", "Xdivy", "Xlogy", "Xlog1py")
BITS = ("BitwiseAnd", "BitwiseOr", "BitwiseXor", "LeftShift", "RightShift")
SCATTERS = ("TensorScatterUpdate", "TensorScatterAdd", "TensorScatterSub", "TensorScatterMin",
            "TensorScatterMax")  # fmt: skip


@family
def newer_elementwise(table: Table) -> None:
    for op, domain in UNARY.items():
        for dtype in table.dtypes(op):
            for shape in SHAPES:
                x = getattr(table, domain)(dtype, shape)
                x = (x + 1).astype(dtype) if op == "Acosh" else x
                table.add(op, {"x": x}, gradient=1, tolerance=128)
            if dtype not in COMPLEXES:
                table.add(op, {"x": table.special(dtype)}, label="special values", tolerance=128)
    for op in NO_NAN:
        for dtype in table.dtypes(op):
            for a, b in PAIRS:
                x, y = table.normal(dtype, a), table.positive(dtype, b)
                table.add(op, {"x": x, "y": y}, gradient=1, tolerance=64)
            x = np.array([0, 0, 1, -1, 2], dtype)
            y = np.array([0, 2, 0, 3, 0] if op in ("DivNoNan", "MulNoNan") else [0, 2, 1, 3, 1],
                         dtype)
            table.add(op, {"x": x, "y": y}, label="zeros", tolerance=64)
        table.bad(op, {"x": table.normal("float32", (2,)), "y": table.positive("float32", (3,))})
    for dtype in table.dtypes("Atan2"):
        for a, b in PAIRS:
            table.add("Atan2", {"y": table.nonzero(dtype, a), "x": table.nonzero(dtype, b)},
                      gradient=1, tolerance=64)
    for dtype in table.dtypes("Selu"):
        for shape in SHAPES:
            table.add("Selu", {"features": table.normal(dtype, shape)}, gradient=1, tolerance=64)
            for alpha in (0.2, 0.0, 1.5):
                table.add("LeakyRelu", {"features": table.normal(dtype, shape)}, {"alpha": alpha},
                          gradient=1)
        values = [table.normal(dtype, (2, 3)) for _ in range(2)]
        table.add("SeluGrad", {"gradients": values[0], "outputs": values[1]}, gradient=1,
                  tolerance=64)
        table.add("LeakyReluGrad", {"gradients": values[0], "features": values[1]}, gradient=1)


@family
def bits(table: Table) -> None:
    for dtype in INTEGERS:
        info = np.iinfo(dtype)
        for a, b in PAIRS:
            x, y = (table.rng.integers(info.min, info.max, s, endpoint=True).astype(dtype)
                    for s in (a, b))
            shifts = table.integers(info.bits, b, dtype)
            for op in BITS:
                table.add(op, {"x": x, "y": shifts if "Shift" in op else y})
        table.add("Invert", {"x": table.special(dtype)})


@family
def newer_strings(table: Table) -> None:
    words = np.array([[b"Hello 12", b"", b" \tx y\n"], [b"aab", "\u00c4\u00e4Z".encode(), b"12-3"]],
                     object)
    for x in (words, words[0, 0], words[:0]):
        table.add("StringLower", {"input": x})
        table.add("StringUpper", {"input": x})
        table.add("StringStrip", {"input": x})
        for unit in ("BYTE", "UTF8_CHAR"):
            table.add("StringLength", {"input": x}, {"unit": unit})
        for encoding in ("utf-8",):
            table.add("StringLower", {"input": x}, {"encoding": encoding})
            table.add("StringUpper", {"input": x}, {"encoding": encoding})
        for pattern in ("a+b", "[0-9]+.*", "", ".*"):
            table.add("RegexFullMatch", {"input": x, "pattern": pattern.encode()})
            table.add("StaticRegexFullMatch", {"input": x}, {"pattern": pattern})
        for pattern, rewrite in (("([a-z])", r"<\1>"), ("[0-9]", "#"), ("l+", "")):
            for everywhere in (True, False):
                table.add("RegexReplace", {"input": x, "pattern": pattern.encode(),
                                           "rewrite": rewrite.encode()},
                          {"replace_global": everywhere})
                table.add("StaticRegexReplace", {"input": x}, {
                    "pattern": pattern, "rewrite": rewrite, "replace_global": everywhere})
    table.bad("RegexFullMatch", {"input": words, "pattern": b"(a"}, label="pattern")
    table.bad("RegexReplace", {"input": words, "pattern": b"(a", "rewrite": b""}, label="pattern")


@family
def newer_products(table: Table) -> None:
    shapes = (((2, 3), (3, 4)), ((5, 2, 3), (5, 3, 4)), ((2, 1, 2, 3), (5, 3, 2)),
              ((0, 2, 3), (3, 1)), ((2, 0), (0, 3)))
    for dtype in table.dtypes("BatchMatMulV2"):
        for a, b in shapes:
            x, y = table.normal(dtype, a), table.normal(dtype, b)
            table.add("BatchMatMulV2", {"x": x, "y": y}, gradient=1, tolerance=64)
            table.add("BatchMatMulV2", {"x": x.swapaxes(-1, -2).conj(), "y": y.swapaxes(
                -1, -2).conj()}, {"adj_x": True, "adj_y": True}, gradient=1, tolerance=64)
            if dtype in ("float32", "float64", "int32"):
                table.add("BatchMatMulV3", {"x": x, "y": y}, {"Tout": Type(dtype)}, tolerance=64,
                          gradient=1)
    x = table.normal("float32", (2, 3))
    table.bad("BatchMatMulV2", {"x": x, "y": x}, label="inner")
    table.bad("BatchMatMulV2", {"x": table.normal("float32", (2, 2, 3)),
                                "y": table.normal("float32", (3, 3, 2))}, label="batches")
    for dtype in ("float32", "float64", "complex64"):
        for equation, dims in (("ij,jk->ik", ((2, 3), (3, 4))), ("bij,bjk->bki", (
                (2, 3, 1), (2, 1, 4))), ("ii->i", ((3, 3),)), ("ij->", ((2, 3),)),
                ("i,j->ij", ((2,), (3,))), ("...ij,jk->...ik", ((4, 2, 3), (3, 2))),
                ("...ij,...jk->...ik", ((4, 1, 2, 3), (5, 3, 2))), ("i...->...", ((2, 3, 4),)),
                ("b...i,i...->b...", ((2, 3, 4), (4, 1))), ("iji->j", ((2, 3, 2),)),
                ("ij,ij->j", ((2, 3), (2, 3)))):
            # The ranks of inputs with an ellipsis must be known when a graph is imported.
            table.add("Einsum", {"inputs": [table.normal(dtype, d) for d in dims]},
                      {"equation": equation}, ("constant",) if "..." in equation else FORMS,
                      gradient=1, tolerance=64)
    table.bad("Einsum", {"inputs": [x, x]}, {"equation": "ij,jk->ik"})


@family
def newer_arrays(table: Table) -> None:
    for dtype in ALL:
        for a, b in PAIRS[:8]:
            table.add("SelectV2", {"condition": table.normal("bool", a), "t": table.normal(
                dtype, b), "e": table.normal(dtype, ())}, gradient=1)
        x = table.normal(dtype, (3, 4))
        for kind in ("int32", "int64"):
            for shift, axis in ((scalar(1, kind), scalar(0)), (ints(1, -5, dtype=kind), ints(0, 1)),
                                (ints(1, 2, dtype=kind), ints(1, 1)), (scalar(0, kind), scalar(
                                    -1))):
                table.add("Roll", {"input": x, "shift": shift, "axis": axis}, gradient=1)
        table.add("Snapshot", {"input": x}, gradient=1)
        table.add("IdentityN", {"input": [x, table.normal("int32", (2,))]}, gradient=1)
        for dims in ((3, 4), (-1, 4), None):
            table.add("EnsureShape", {"input": x}, {"shape": Shape(dims)}, gradient=1)
        for form in ("constant", "unknown"):
            table.add("ParallelDynamicStitch", {
                "indices": [ints(0, 3), np.array([[1], [2]], "int32")],
                "data": [table.normal(dtype, (2, 2)), table.normal(dtype, (2, 1, 2))]}, {},
                (form,), gradient=1)
    x = table.normal("float32", (3, 4))
    table.bad("EnsureShape", {"input": x}, {"shape": Shape((3, 5))})
    table.bad("Roll", {"input": x, "shift": scalar(1), "axis": scalar(2)}, label="axis")
    table.bad("Roll", {"input": scalar(1, "float32"), "shift": scalar(1), "axis": scalar(0)})
    table.bad("SelectV2", {"condition": table.normal("bool", (2,)), "t": x, "e": x})


@family
def clipped(table: Table) -> None:
    for dtype in ("int32", "int64", *FLOATS):
        for shape in SHAPES:
            x = table.normal(dtype, shape, 3)
            table.add("ClipByValue", {"t": x, "clip_value_min": scalar(-1, dtype),
                                      "clip_value_max": scalar(2, dtype)}, gradient=1)
        x = table.normal(dtype, (2, 3), 3)
        table.add("ClipByValue", {"t": x, "clip_value_min": np.full((2, 3), -1, dtype),
                                  "clip_value_max": scalar(2, dtype)}, gradient=1)
    table.bad("ClipByValue", {"t": x, "clip_value_min": np.zeros(2, dtype),
                              "clip_value_max": scalar(2, dtype)})


@family
def counted(table: Table) -> None:
    for dtype in table.dtypes("Bincount"):
        values = table.integers(5, (20,))
        for weights in (np.zeros(0, dtype), table.positive(dtype, (20,))):
            for size in (0, 3, 9):
                table.add("Bincount", {"arr": values, "size": scalar(size), "weights": weights})
                for kind in ("int32", "int64"):
                    table.add("DenseBincount", {
                        "input": values.astype(kind), "size": scalar(size, kind), "weights": weights
                    }, {"binary_output": weights.size == 0 and size == 9})
        rows = table.integers(4, (3, 5))
        table.add("DenseBincount", {"input": rows, "size": scalar(4), "weights": table.positive(
            dtype, (3, 5))})
    table.bad("Bincount", {"arr": ints(1, -1), "size": scalar(3), "weights": np.zeros(
        0, "float32")}, label="negative")
    table.bad("Bincount", {"arr": ints(1), "size": scalar(-3), "weights": np.zeros(0, "float32")})
    table.bad("DenseBincount", {"input": ints(1, -1), "size": scalar(3), "weights": np.zeros(
        0, "float32")}, label="negative")
    for dtype in table.dtypes("HistogramFixedWidth"):
        for shape in ((), (0,), (40,), (3, 5)):
            for kind in ("int32", "int64"):
                table.add("HistogramFixedWidth", {
                    "values": table.normal(dtype, shape, 3),
                    "value_range": np.array([-3, 5], dtype), "nbins": scalar(7)},
                    {"dtype": Type(kind)})
    x = table.normal("float32", (4,))
    table.bad("HistogramFixedWidth", {"values": x, "value_range": np.array([2, 2], "float32"),
                                      "nbins": scalar(7)})
    table.bad("HistogramFixedWidth", {"values": x, "value_range": np.array([2, 3], "float32"),
                                      "nbins": scalar(0)})


@family
def searched(table: Table) -> None:
    for dtype in ("int32", "int64", "float32", "float64"):
        rows = np.sort(table.normal(dtype, (2, 6)), 1)
        values = table.normal(dtype, (2, 5))
        values[:, :2] = rows[:, 1:3]
        for op in ("LowerBound", "UpperBound"):
            for kind in ("int32", "int64"):
                table.add(op, {"sorted_inputs": rows, "values": values}, {"out_type": Type(kind)})
                table.add(op, {"sorted_inputs": rows[:, :0], "values": values},
                          {"out_type": Type(kind)})
        for shape in ((), (0,), (3, 4)):
            table.add("Bucketize", {"input": table.normal(dtype, shape, 3)},
                      {"boundaries": [-2.0, 0.0, 1.0]})
    table.bad("Bucketize", {"input": values}, {"boundaries": [1.0, 0.0]}, label="order")
    table.bad("LowerBound", {"sorted_inputs": rows, "values": values[:1]}, label="rows")
    for kind in ("int32", "int64"):
        for k in (1, 2, 9):
            table.add("InTopKV2", {"predictions": table.normal("float32", (6, 5)).round(),
                                   "targets": table.integers(5, (6,), kind),
                                   "k": scalar(k, kind)})
    table.bad("InTopKV2", {"predictions": table.normal("float32", (2, 3)), "targets": ints(0),
                           "k": scalar(1)})


@family
def scattered(table: Table) -> None:
    for op in SCATTERS:
        for dtype in NUMBERS:
            if dtype in COMPLEXES and op.endswith(("Min", "Max")):
                continue
            for kind in ("int32", "int64"):
                for rows in ([[0], [2]], [[3], [1]]):
                    table.add(op, {"tensor": table.normal(dtype, (4, 3)),
                                   "indices": np.array(rows, kind),
                                   "updates": table.normal(dtype, (2, 3))}, gradient=1)
                table.add(op, {"tensor": table.normal(dtype, (4, 3)),
                               "indices": np.array([[0, 1], [3, 2]], kind),
                               "updates": table.normal(dtype, (2,))}, gradient=1)
                table.add(op, {"tensor": table.normal(dtype, (4,)),
                               "indices": np.zeros((0, 1), kind),
                               "updates": table.normal(dtype, (0,))}, gradient=1)
                if op == "TensorScatterAdd":
                    table.add("ScatterNdNonAliasingAdd", {
                        "input": table.normal(dtype, (4, 3)), "indices": np.array([[2], [2]], kind),
                        "updates": table.normal(dtype, (2, 3))}, gradient=1)
        x = table.normal("float32", (4, 3))
        for rows, dims, label in (([[4]], (1, 3), "range"), ([[-1]], (1, 3), "negative"),
                                  ([[0]], (1, 2), "updates")):
            table.bad(op, {"tensor": x, "indices": np.array(rows, "int32"),
                           "updates": table.normal("float32", dims)}, label=label)


@family
def diagonals(table: Table) -> None:
    """The main diagonal: others are refused when a graph is imported."""
    k = scalar(0)
    for dtype in ("int32", "int64", *FLOATS, "complex64", "bool"):
        pad = scalar(0, dtype)
        for rows, columns in ((3, 4), (3, 3), (4, 2)):
            x = table.normal(dtype, (2, rows, columns))
            diagonal = table.normal(dtype, (2, min(rows, columns)))
            sizes = {"num_rows": scalar(rows), "num_cols": scalar(columns), "padding_value": pad}
            for version, attrs in (("V2", {}), ("V3", {"align": "LEFT_RIGHT"}), ("V3", {})):
                table.add("MatrixDiagPart" + version, {"input": x, "k": k, "padding_value": pad},
                          attrs, gradient=1)
                table.add("MatrixSetDiag" + version, {"input": x, "diagonal": diagonal, "k": k},
                          attrs, gradient=1)
                table.add("MatrixDiag" + version, {"diagonal": diagonal, "k": k, **sizes}, attrs,
                          gradient=1)


@family
def bands_of_diagonals(table: Table) -> None:
    """Single diagonals beside the main one, and several, aligned in all ways."""
    pad = scalar(3, "float32")
    for align in ("LEFT_RIGHT", "RIGHT_LEFT", "LEFT_LEFT", "RIGHT_RIGHT"):
        for k, longest in ((scalar(1), 3), (scalar(-2), 1), (ints(-1, 2), 3), (ints(0, 1), 3),
                           (ints(-2, -1), 2)):
            x = table.normal("float32", (2, 3, 4))
            band = () if k.ndim == 0 else (int(k[1] - k[0]) + 1,)
            diagonal = table.normal("float32", (2, *band, longest))
            table.add("MatrixDiagPartV3", {"input": x, "k": k, "padding_value": pad},
                      {"align": align}, gradient=1)
            table.add("MatrixSetDiagV3", {"input": x, "diagonal": diagonal, "k": k},
                      {"align": align}, gradient=1)
            for rows, columns in ((-1, -1), (3, 4)):
                table.add("MatrixDiagV3", {
                    "diagonal": diagonal, "k": k, "num_rows": scalar(rows),
                    "num_cols": scalar(columns), "padding_value": pad}, {"align": align},
                    gradient=1)
    table.bad("MatrixDiagPartV3", {"input": x, "k": scalar(4), "padding_value": pad})
    table.bad("MatrixSetDiagV3", {"input": x, "diagonal": diagonal, "k": scalar(1)})


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


@family
def forms_of_older_types(table: Table) -> None:
    for dtype in ("float32", "float64"):
        x = table.normal(dtype, (3, 4, 2))
        for axes in (ints(0), ints(0, 2), ints(-1)):
            for keep in (False, True):
                table.add("EuclideanNorm", {"input": x, "reduction_indices": axes},
                          {"keep_dims": keep}, gradient=1, tolerance=16)
        for kind in ("Sum", "Mean", "SqrtN"):
            table.add(f"SparseSegment{kind}WithNumSegments", {
                "data": x, "indices": ints(0, 2, 1, 2), "segment_ids": ints(0, 0, 2, 3),
                "num_segments": scalar(6)}, gradient=1, tolerance=16)
        table.add("GuaranteeConst", {"input": x})
    table.add("Empty", {"shape": ints(2, 3)}, {"dtype": Type("float32"), "init": True})
    table.add("Angle", {"input": table.normal("complex64", (2, 3))}, {"Tout": Type("float32")},
              tolerance=16)
    for indices in (ints(5, 0, 11), scalar(7)):
        table.add("UnravelIndex", {"indices": indices, "dims": ints(3, 4)}, None,
                  ("constant", "static"))
