"""Cases of reductions, running sums, products, positions and linear algebra."""

from __future__ import annotations

import numpy as np
from case import FORMS, Shape, Type
from table import FLOATS, REALS, Table, family, ints, scalar

REDUCTIONS = (((), ()), ((5,), (0,)), ((2, 3), (1,)), ((2, 3), (0, 1)), ((2, 3), (-2,)),
              ((2, 3), ()), ((0, 3), (0,)), ((3, 0), (0,)), ((2, 3, 4), (0, 2)),
              ((2, 3, 4), (1,)), ((200, 30), (0,)), ((4000,), (0,)))


@family
def reductions(table: Table) -> None:
    for op in ("Sum", "Prod", "Mean", "Max", "Min"):
        for dtype in table.dtypes(op):
            for shape, axes in REDUCTIONS:
                if (dtype == "float16" or op == "Prod") and np.prod(shape) > 100:
                    continue
                if op == "Mean" and dtype not in FLOATS and 0 in shape:
                    continue
                value = table.positive(dtype, shape, 0.9, 1.1) if op == "Prod" else (
                    table.distinct(dtype, shape) if op in ("Max", "Min") and dtype in REALS
                    else table.normal(dtype, shape))
                table.add(op, {"input": value, "reduction_indices": np.array(
                    axes, table.rng.choice(["int32", "int64"]))},
                    {"keep_dims": bool(table.rng.integers(2))},
                    gradient=int(dtype not in ("complex64", "complex128") or op in (
                        "Sum", "Mean", "Prod")), tolerance=64 if op == "Mean" else None)
            if dtype in FLOATS:
                table.add(op, {"input": table.special(dtype)[None], "reduction_indices": ints(1)},
                          label="special values")
                for value in (np.nan, np.inf):
                    table.add(op, {"input": np.array([[1, value], [value, 2], [-value, value]],
                                                     dtype), "reduction_indices": ints(1)})
        x = table.normal("float32", (2, 3))
        for axes in ((2,), (-3,), (0, 0)):
            table.bad(op, {"input": x, "reduction_indices": ints(*axes)}, label=str(axes))
    for op in ("All", "Any"):
        for shape, axes in REDUCTIONS:
            table.add(op, {"input": table.rng.random(shape) < 0.8 if shape else table.normal(
                "bool"), "reduction_indices": ints(*axes)}, {"keep_dims": bool(
                    table.rng.integers(2))})
        table.bad(op, {"input": table.normal("bool", (2,)), "reduction_indices": ints(1)})
    for dtype in table.dtypes("L2Loss", FLOATS):
        for shape in ((), (0,), (2, 3), (500,)):
            table.add("L2Loss", {"t": table.normal(dtype, shape)}, gradient=1)


@family
def positions(table: Table) -> None:
    for op in ("ArgMax", "ArgMin"):
        for dtype in table.dtypes(op):
            for shape, axis in (((5,), 0), ((3, 4), 1), ((3, 4), 0), ((3, 4), -1), ((2, 3, 4), 1),
                                ((2, 0, 4), 2), ((0, 3), 1)):
                for kind in ("int32", "int64"):
                    table.add(op, {"input": table.normal(dtype, shape).round() if dtype in FLOATS
                                   else table.normal(dtype, shape),
                                   "dimension": scalar(axis, kind)},
                              {"output_type": Type(table.rng.choice(["int32", "int64"]))})
        x = table.normal("float32", (3, 4))
        edges = [[1, np.nan, 3], [np.nan, np.nan, 0], [np.inf, -np.inf, 0]]
        table.add(op, {"input": np.array(edges, "float32"), "dimension": scalar(1)}, label="NaN")
        table.bad(op, {"input": x, "dimension": scalar(2)})
        table.bad(op, {"input": x, "dimension": scalar(-3)})
        table.bad(op, {"input": table.normal("float32", (0, 3)), "dimension": scalar(0)},
                  label="empty")


@family
def running(table: Table) -> None:
    for op in ("Cumsum", "Cumprod"):
        for dtype in table.dtypes(op):
            for shape, axis in (((6,), 0), ((3, 4), 1), ((3, 4), -2), ((2, 0), 1), ((2, 3, 4), 1)):
                for exclusive in (False, True):
                    for reverse in (False, True):
                        table.add(op, {"x": table.positive(dtype, shape, 0.5, 1.5),
                                       "axis": scalar(axis)},
                                  {"exclusive": exclusive, "reverse": reverse}, gradient=1)
        x = table.normal("float32", (2, 3))
        table.bad(op, {"x": x, "axis": scalar(2)})
        table.bad(op, {"x": x, "axis": ints(0, 1)})


@family
def products(table: Table) -> None:
    for dtype in table.dtypes("MatMul"):
        for m, k, n in ((2, 3, 4), (1, 5, 1), (0, 3, 2), (2, 0, 3), (40, 50, 30)):
            for ta in (False, True):
                for tb in (False, True):
                    a = table.normal(dtype, (k, m) if ta else (m, k))
                    b = table.normal(dtype, (n, k) if tb else (k, n))
                    table.add("MatMul", {"a": a, "b": b}, {"transpose_a": ta, "transpose_b": tb},
                              gradient=1)
    for dtype in table.dtypes("BatchMatMul"):
        for batch in ((), (2,), (2, 1, 3), (0,)):
            for ax in (False, True):
                for ay in (False, True):
                    x = table.normal(dtype, (*batch, *((3, 2) if ax else (2, 3))))
                    y = table.normal(dtype, (*batch, *((4, 3) if ay else (3, 4))))
                    table.add("BatchMatMul", {"x": x, "y": y}, {"adj_x": ax, "adj_y": ay},
                              gradient=1)
    import ml_dtypes

    for ta in (False, True):
        a, b = table.normal("float32", (3, 2) if ta else (2, 3)), table.normal("float32", (3, 4))
        attrs = {"transpose_a": ta, "b_is_sparse": True}
        table.add("SparseMatMul", {"a": a, "b": b}, attrs, gradient=1)
        table.add("SparseMatMul", {"a": a.astype(ml_dtypes.bfloat16), "b": b}, attrs)
    a, b = table.normal("float32", (2, 3)), table.normal("float32", (4, 5))
    table.bad("MatMul", {"a": a, "b": b})
    table.bad("MatMul", {"a": a, "b": table.normal("float32", (3,))})
    table.bad("SparseMatMul", {"a": a, "b": b})
    table.bad("BatchMatMul", {"x": a[None], "y": b[None]})
    table.bad("BatchMatMul", {"x": table.normal("float32", (2, 2, 3)),
                              "y": table.normal("float32", (3, 3, 2))}, label="batch")
    for dtype in table.dtypes("Cross"):
        for shape in ((3,), (2, 3), (0, 3)):
            table.add("Cross", {"a": table.normal(dtype, shape), "b": table.normal(dtype, shape)},
                      gradient=1)
    table.bad("Cross", {"a": table.normal("float32", (2,)), "b": table.normal("float32", (2,))})
    table.bad("Cross", {"a": table.normal("float32", (3,)), "b": table.normal("float32", (2, 3))})


@family
def triangles(table: Table) -> None:
    """The signs of Q's columns are free: R of a square matrix is compared where they are fixed."""
    for dtype in table.dtypes("Qr"):
        for shape in ((3, 3), (4, 2), (2, 4), (2, 3, 3)):
            for full in (False, True):
                table.add("Qr", {"input": table.normal(dtype, shape)}, {"full_matrices": full},
                          tolerance=64, gradient=int(not full))
    table.bad("Qr", {"input": table.normal("float32", (3,))})


@family
def batch_products(table: Table) -> None:
    shapes = (((2, 3), (3, 4)), ((5, 2, 3), (5, 3, 4)), ((2, 1, 2, 3), (5, 3, 2)),
              ((0, 2, 3), (3, 1)), ((2, 0), (0, 3)))
    for dtype in table.dtypes("BatchMatMulV2"):
        for a, b in shapes:
            x, y = table.normal(dtype, a), table.normal(dtype, b)
            table.add("BatchMatMulV2", {"x": x, "y": y}, gradient=1)
            table.add("BatchMatMulV2", {"x": x.swapaxes(-1, -2).conj(), "y": y.swapaxes(
                -1, -2).conj()}, {"adj_x": True, "adj_y": True}, gradient=1)
            if dtype in ("float32", "float64", "int32"):
                table.add("BatchMatMulV3", {"x": x, "y": y}, {"Tout": Type(dtype)}, gradient=1)
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
                      gradient=1)
    table.bad("Einsum", {"inputs": [x, x]}, {"equation": "ij,jk->ik"})
    for equation in ("ii->i", "i->", "ijk->"):
        table.bad("Einsum", {"inputs": [table.normal("float32", (2, 3))]}, {"equation": equation})


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
def running_logarithms(table: Table) -> None:
    for dtype in FLOATS:
        for dims, axis in (((5,), 0), ((3, 4), 1), ((2, 3, 2), -2)):
            for exclusive in (False, True):
                for reverse in (False, True):
                    table.add("CumulativeLogsumexp", {
                        "x": table.normal(dtype, dims), "axis": scalar(axis)}, {
                        "exclusive": exclusive, "reverse": reverse},
                        gradient=0 if exclusive else 1, tolerance=64)
    table.bad("CumulativeLogsumexp", {"x": table.normal("float32", (2, 3)), "axis": scalar(2)})


@family
def composed_types(table: Table) -> None:
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
    for dtype in ("float32", "string"):
        table.add("Empty", {"shape": ints(2, 3)}, {"dtype": Type(dtype), "init": True})
    table.add("Angle", {"input": table.normal("complex64", (2, 3))}, {"Tout": Type("float32")},
              tolerance=16)
    for indices in (ints(5, 0, 11), scalar(7)):
        table.add("UnravelIndex", {"indices": indices, "dims": ints(3, 4)}, None,
                  ("constant", "static"))


@family
def sums_and_fingerprints(table: Table) -> None:
    for dtype in ("float32", "int32"):
        values = [table.normal(dtype, (2, 3)) for _ in range(3)]
        table.add("AccumulateNV2", {"inputs": values}, {"shape": Shape((2, 3))}, gradient=1)
    for dtype in ("uint8", "int64", "float32", "string"):
        for dims in ((3,), (2, 4), (0, 3)):
            if dtype != "string" or len(dims) == 1:
                table.add("Fingerprint", {"data": table.normal(dtype, dims),
                                          "method": np.array(b"farmhash64", object)})
    table.bad("Fingerprint", {"data": ints(1, 2), "method": np.array(b"other", object)})


@family
def nearest_centers(table: Table) -> None:
    points, centers = table.normal("float32", (5, 3)), table.normal("float32", (7, 3))
    for k in (1, 3, 9):
        table.add("NearestNeighbors", {"points": points, "centers": centers,
                                       "k": scalar(k, "int64")}, tolerance=16)
    table.bad("NearestNeighbors", {"points": points, "centers": centers[:, :2],
                                   "k": scalar(1, "int64")})
