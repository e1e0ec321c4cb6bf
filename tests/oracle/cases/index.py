"""Cases of gathers, scatters, partitions, sets and segments."""

from __future__ import annotations

import numpy as np
from case import Type, Variable
from table import ALL, COMPLEXES, NUMBERS, REALS, Table, family, ints, scalar


@family
def gathers(table: Table) -> None:
    for dtype in ALL:
        for kind in ("int32", "int64"):
            for shape, dims in (((5,), (3,)), ((5, 2), (2, 2)), ((5, 2, 3), ()), ((4, 0), (3,)),
                                ((5,), (0,)), ((300, 4), (200,))):
                params, indices = table.normal(dtype, shape), table.integers(shape[0], dims, kind)
                table.add("Gather", {"params": params, "indices": indices}, gradient=1)
                axis = table.integers(len(shape), (), kind)
                table.add("GatherV2", {"params": params, "indices": table.integers(
                    max(shape[int(axis)], 1), dims if shape[int(axis)] else (0,), kind),
                    "axis": axis}, gradient=1)
            for shape, dims in (((5,), (3, 1)), ((3, 4), (2, 2)), ((3, 4), (2, 1)),
                                ((2, 3, 4), (2, 2, 2)), ((3,), (2, 0)), ((4,), (0, 1))):
                count = dims[-1]
                index = np.stack([table.integers(n, dims[:-1], kind) for n in shape[:count]], -1) \
                    if count else np.zeros(dims, kind)
                table.add("GatherNd", {"params": table.normal(dtype, shape), "indices": index},
                          gradient=1)
    x = table.normal("float32", (3, 4))
    for index in (3, -1):
        table.bad("Gather", {"params": x, "indices": ints(0, index)}, label="range")
        table.bad("GatherV2", {"params": x, "indices": ints(0, index), "axis": scalar(0)})
        table.bad("GatherNd", {"params": x, "indices": np.array([[index, 0]], "int32")})
        table.bad("ResourceGather", {"resource": Variable(x, True), "indices": ints(index)},
                  {"dtype": Type("float32")})
    table.bad("Gather", {"params": scalar(1.0, "float32"), "indices": ints(0)}, label="rank")
    table.bad("GatherV2", {"params": x, "indices": ints(0), "axis": scalar(2)}, label="axis")
    table.bad("GatherNd", {"params": x, "indices": np.zeros((1, 3), "int32")}, label="rank")
    for batch, axis in ((1, 1), (1, 2), (-1, 1)):
        table.add("GatherV2", {"params": table.normal("float32", (2, 3, 4)), "indices":
                               table.integers(3, (2, 2)), "axis": scalar(axis)},
                  {"batch_dims": batch}, gradient=1)
    for dtype in ("float32", "int64", "string"):
        table.add("ResourceGather", {"resource": Variable(table.normal(dtype, (4, 3)), True),
                                     "indices": table.integers(4, (2, 2))}, {"dtype": Type(dtype)})


@family
def scatter_nd(table: Table) -> None:
    for dtype in ALL:
        for kind in ("int32", "int64"):
            for shape, count, dims in (((5,), 1, (3,)), ((3, 4), 2, (2, 3)), ((3, 4), 1, (2,)),
                                       ((6,), 1, (0,)), ((0,), 1, (0,))):
                index = np.stack([table.integers(max(n, 1), dims, kind) for n in shape[:count]], -1)
                table.add("ScatterNd", {"indices": index, "updates": table.normal(
                    dtype, (*dims, *shape[count:])), "shape": np.array(shape, kind)}, gradient=1)
    u = table.normal("float32", (2,))
    table.bad("ScatterNd", {"indices": np.array([[0], [5]], "int32"), "updates": u,
                            "shape": ints(5)})
    table.bad("ScatterNd", {"indices": np.array([[0], [-1]], "int32"), "updates": u,
                            "shape": ints(5)})
    table.bad("ScatterNd", {"indices": np.array([[0], [1]], "int32"), "updates": table.normal(
        "float32", (3,)), "shape": ints(5)})
    table.bad("ScatterNd", {"indices": np.array([[0], [1]], "int32"), "updates": u,
                            "shape": ints(0)})
    table.bad("ScatterNd", {"indices": np.array([[0], [1]], "int32"), "updates": table.normal(
        "string", ()), "shape": ints(5)}, label="scalar")


@family
def partitions(table: Table) -> None:
    for dtype in ALL:
        for shape, dims in (((6,), (6,)), ((6, 2), (6,)), ((2, 3), (2, 3)), ((0,), (0,)),
                            ((), ())):
            table.add("DynamicPartition", {"data": table.normal(dtype, shape),
                                           "partitions": table.integers(3, dims)},
                      {"num_partitions": 4}, gradient=1)
        for rest in ((), (2,)):
            indices = [ints(0, 2), scalar(5), np.array([[1, 4]], "int32"), ints(3, 0)]
            table.add("DynamicStitch", {"indices": indices, "data": [
                table.normal(dtype, (*i.shape, *rest)) for i in indices]}, gradient=1)
        table.add("DynamicStitch", {"indices": [ints()], "data": [table.normal(dtype, (0, 2))]})
    x = table.normal("float32", (3,))
    table.bad("DynamicPartition", {"data": x, "partitions": ints(0, 2, 1)}, {"num_partitions": 2})
    table.bad("DynamicPartition", {"data": x, "partitions": ints(0, -1, 1)}, {"num_partitions": 2})
    table.bad("DynamicPartition", {"data": x, "partitions": ints(0, 1)}, {"num_partitions": 2})
    table.bad("DynamicStitch", {"indices": [ints(0, -1)], "data": [x[:2]]})
    table.bad("DynamicStitch", {"indices": [ints(0, 1)], "data": [x]})


@family
def sets(table: Table) -> None:
    for dtype in ALL:
        if dtype in ("complex64", "complex128", "bool"):
            continue
        for size in (0, 1, 20):
            x, y = table.normal(dtype, (size,)), table.normal(dtype, (6,))
            if dtype.startswith("float"):
                x, y = x.round() + 0, y.round() + 0
            for out in ("int32", "int64"):
                table.add("Unique", {"x": x}, {"out_idx": Type(out)})
                table.add("UniqueWithCounts", {"x": x}, {"out_idx": Type(out)})
                table.add("ListDiff", {"x": x, "y": y}, {"out_idx": Type(out)})
    table.bad("Unique", {"x": table.integers(2, (2, 2))})
    table.bad("ListDiff", {"x": table.integers(2, (2, 2)), "y": ints(1)})
    for dtype in table.dtypes("Where", (*NUMBERS, "bool")):
        for shape in ((), (0,), (5,), (2, 3), (2, 1, 3)):
            table.add("Where", {"input": table.normal(dtype, shape)})
    for normalize in (True, False):
        for dtype in ("int64", "string", "float32"):
            sides = {}
            for name, index, shape in (("hypothesis", [[0, 0], [0, 1], [1, 0]], (3, 2)),
                                       ("truth", [[0, 0], [1, 0], [1, 1], [2, 0]], (3, 2))):
                sides |= {f"{name}_indices": np.array(index, "int64"),
                          f"{name}_values": table.integers(2, (len(index),), "int64"),
                          f"{name}_shape": np.array(shape, "int64")}
                values = sides[f"{name}_values"]
                sides[f"{name}_values"] = np.array([b"a", b"b"], object)[values] \
                    if dtype == "string" else values.astype(dtype)
            table.add("EditDistance", sides, {"normalize": normalize})
    table.bad("EditDistance", {**sides, "hypothesis_shape": np.array([3], "int64")})


@family
def segments(table: Table) -> None:
    for op in ("SegmentSum", "SegmentMean", "SegmentMin", "SegmentMax", "SegmentProd"):
        for dtype in table.dtypes(op):
            for kind in ("int32", "int64"):
                for ids, rest in (((0, 0, 1, 3), (2,)), ((1, 1, 1), ()), ((), (2,)), ((0, 1), (0,)),
                                  ((0, 0, 2, 2, 2), (2, 3))):
                    table.add(op, {"data": table.distinct(dtype, (len(ids), *rest))
                                   if op[-3:] in ("Min", "Max") else
                                   table.positive(dtype, (len(ids), *rest)),
                                   "segment_ids": np.array(ids, kind)}, gradient=1)
        x = table.normal("float32", (3, 2))
        for wrong in ((0, 1), (1, 0, 2), (-1, 0, 1)):
            table.bad(op, {"data": x, "segment_ids": ints(*wrong)}, label=str(wrong))
    for op in ("UnsortedSegmentSum", "UnsortedSegmentMax"):
        for dtype in table.dtypes(op):
            for kind in ("int32", "int64"):
                for dims, rest in (((4,), (2,)), ((2, 3), (2,)), ((0,), (3,)), ((), ()),
                                   ((5,), ())):
                    table.add(op, {"data": table.distinct(dtype, (*dims, *rest)), "segment_ids":
                                   table.integers(4, dims, kind, -1), "num_segments": scalar(5)},
                              gradient=1)
        table.bad(op, {"data": x, "segment_ids": ints(0, 5, 1), "num_segments": scalar(3)})
        table.bad(op, {"data": x, "segment_ids": ints(0, 1), "num_segments": scalar(3)})
        table.bad(op, {"data": x, "segment_ids": ints(0, 1, 2), "num_segments": scalar(-1)})


@family
def sparse_segments(table: Table) -> None:
    for op in ("SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN"):
        for dtype in table.dtypes(op, REALS):
            for kind in ("int32", "int64"):
                for ids in ((0, 0, 1, 3), (1, 1), ()):
                    x = table.normal(dtype, (5, 2))
                    # The reference does not fill the gradient of nothing.
                    table.add(op, {"data": x, "indices": table.integers(5, (len(ids),), kind),
                                   "segment_ids": np.array(ids, "int32")},
                              gradient=int(len(ids) > 0))
        x = table.normal("float32", (5, 2))
        for indices, ids in (((0, 5), (0, 0)), ((0, -1), (0, 0)), ((0, 1), (1, 0)), ((0, 1), (0,)),
                             ((0, 1), (-1, 0))):
            table.bad(op, {"data": x, "indices": ints(*indices), "segment_ids": ints(*ids)},
                      label=f"{indices} {ids}")
    for op in ("SparseSegmentMeanGrad", "SparseSegmentSqrtNGrad"):
        for dtype in table.dtypes(op):
            for kind in ("int32", "int64"):
                table.add(op, {"grad": table.normal(dtype, (3, 2)), "indices": ints(
                    4, 0, 4, 2, dtype=kind), "segment_ids": ints(0, 0, 1, 2),
                    "output_dim0": scalar(6)}, gradient=0)
        g = table.normal("float32", (2, 2))
        for indices, ids in (((0, 6), (0, 1)), ((0, 1), (0, 2)), ((0, 1), (0,))):
            table.bad(op, {"grad": g, "indices": ints(*indices), "segment_ids": ints(*ids),
                           "output_dim0": scalar(6)}, label=f"{indices} {ids}")

SCATTERS = ("TensorScatterUpdate", "TensorScatterAdd", "TensorScatterSub", "TensorScatterMin",
            "TensorScatterMax")  # fmt: skip


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
def segments_in_any_order(table: Table) -> None:
    for op in ("UnsortedSegmentMin", "UnsortedSegmentProd"):
        for dtype in table.dtypes(op):
            for kind in ("int32", "int64"):
                for dims, ids in (((5,), (1, 0, 1, 3, 1)), ((4, 2), (2, -1, 2, 0)),
                                  ((2, 2, 3), ((0, 1), (1, 0))), ((0, 2), ())):
                    table.add(op, {"data": table.normal(dtype, dims), "segment_ids": np.array(
                        ids, kind), "num_segments": scalar(4)}, gradient=1, tolerance=16)
        zeros = np.array([2, 0, 3, 0, 0, 5], "float64")
        table.add(op, {"data": zeros, "segment_ids": ints(0, 0, 0, 1, 1, 2), "num_segments": scalar(
            3)}, label="zeros", gradient=1)
        table.bad(op, {"data": table.normal("float32", (2,)), "segment_ids": ints(0, 4),
                       "num_segments": scalar(4)})
    for dims, ids in (((5,), (1, 0, 1, 3, 1)), ((4, 2), (2, 0, 2, 0))):
        table.add("UnsortedSegmentJoin", {
            "inputs": table.normal("string", dims), "segment_ids": ints(*ids),
            "num_segments": scalar(4)}, {"separator": "-"})
    for kind in ("Sum", "Mean", "SqrtN"):
        for dtype in ("float32", "float64"):
            for index in ("int32", "int64"):
                inputs = {"grad": table.normal(dtype, (4, 2)), "indices": ints(
                    0, 3, 0, 5, 2, dtype=index), "segment_ids": ints(0, 0, 1, 1, 3)}
                table.add(f"SparseSegment{kind}Grad", {**inputs, "output_dim0": scalar(6)},
                          tolerance=8)
                table.add(f"SparseSegment{kind}GradV2", {**inputs, "dense_output_dim0": scalar(6)},
                          tolerance=8)
