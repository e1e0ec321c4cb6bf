"""Cases of biases, class scores and losses."""

from __future__ import annotations

import numpy as np
from table import FLOATS, REALS, Table, family, ints, scalar


@family
def biases(table: Table) -> None:
    for dtype in table.dtypes("BiasAdd"):
        for shape in ((2, 3), (4, 2, 3), (2, 4, 5, 3), (0, 3), (60, 70)):
            for layout in ("NHWC", "NCHW"):
                size = shape[-1] if layout == "NHWC" else shape[1]
                table.add("BiasAdd", {"value": table.normal(dtype, shape), "bias": table.normal(
                    dtype, (size,))}, {"data_format": layout}, gradient=1)
                table.add("BiasAddGrad", {"out_backprop": table.normal(dtype, shape)},
                          {"data_format": layout}, gradient=1)
            table.add("BiasAddV1", {"value": table.normal(dtype, shape), "bias": table.normal(
                dtype, (shape[-1],))}, gradient=1)
    x = table.normal("float32", (2, 3))
    for op in ("BiasAdd", "BiasAddV1"):
        table.bad(op, {"value": x, "bias": table.normal("float32", (2,))})
        table.bad(op, {"value": x, "bias": x})
        table.bad(op, {"value": table.normal("float32", (3,)), "bias": table.normal(
            "float32", (3,))})
    table.bad("BiasAddGrad", {"out_backprop": table.normal("float32", (3,))})


@family
def scores(table: Table) -> None:
    for dtype in FLOATS:
        for shape in ((2, 3), (1, 1), (0, 4), (30, 100), (4,), (2, 2, 3)):
            for op in ("Softmax", "LogSoftmax"):
                # The gradient is a difference of sums.
                table.add(op, {"logits": table.normal(dtype, shape, 3)}, gradient=1, tolerance=256)
            if len(shape) == 2:
                labels = table.positive(dtype, shape)
                table.add("SoftmaxCrossEntropyWithLogits", {
                    "features": table.normal(dtype, shape, 3),
                    "labels": (labels / labels.sum(1, keepdims=True)).astype(dtype)},
                    gradient=1)
                for kind in ("int32", "int64"):
                    table.add("SparseSoftmaxCrossEntropyWithLogits", {
                        "features": table.normal(dtype, shape, 3),
                        "labels": table.integers(shape[1], (shape[0],), kind)},
                        gradient=1, tolerance=64)
        large = np.array([[1e4, -1e4, 0], [300, 300, -np.inf]]).astype(dtype)
        for op in ("Softmax", "LogSoftmax"):
            table.add(op, {"logits": large}, label="large", tolerance=64)
            table.bad(op, {"logits": scalar(1.0, dtype)})
    x = table.normal("float32", (2, 3))
    for op in ("SoftmaxCrossEntropyWithLogits", "SparseSoftmaxCrossEntropyWithLogits"):
        sparse = op.startswith("Sparse")
        wrong = (ints(0), ints(0, 1, 2), np.zeros((2, 1), "int32"), ints(0, 3), ints(-1, 0)) \
            if sparse else (table.normal("float32", (2, 4)), table.normal("float32", (3, 3)))
        for labels in wrong:
            if sparse and labels.shape == (2,):
                # The reference gives NaN for labels out of range on some devices, else refuses.
                table.bad(op, {"features": x, "labels": labels}, label="range")
            else:
                table.bad(op, {"features": x, "labels": labels}, label="shape")
        table.bad(op, {"features": table.normal("float32", (3,)), "labels": ints(
            0, 1, 2) if sparse else table.normal("float32", (3,))}, label="rank")


@family
def tops(table: Table) -> None:
    for dtype in table.dtypes("TopKV2", REALS):
        for shape, k in (((5,), 3), ((2, 6), 6), ((3, 4), 1), ((2, 3, 5), 2), ((4,), 0), ((0, 3),
                                                                                      2)):
            for values in (table.distinct(dtype, shape), table.normal(dtype, shape).round()):
                table.add("TopKV2", {"input": values, "k": scalar(k)}, gradient=1)
                table.add("TopK", {"input": values}, {"k": k},
                          reference=("TopKV2", {"input": values, "k": scalar(k)}, {}), gradient=1)
    x = table.normal("float32", (2, 3))
    table.bad("TopKV2", {"input": x, "k": scalar(4)})
    table.bad("TopKV2", {"input": x, "k": scalar(-1)})
    table.bad("TopKV2", {"input": scalar(1.0, "float32"), "k": scalar(1)})
    table.bad("TopKV2", {"input": x, "k": ints(1, 2)})
    for kind in ("int32", "int64"):
        for k in (1, 2, 5):
            table.add("InTopK", {"predictions": table.normal("float32", (6, 5)).round(),
                                 "targets": table.integers(5, (6,), kind)}, {"k": k})
        table.add("InTopK", {"predictions": np.array([[1, np.nan, 2], [np.inf, 0, 1], [0, 1, 2]],
                                                     "float32"),
                             "targets": ints(0, 0, 7, dtype=kind)}, {"k": 2}, label="edges")
    table.bad("InTopK", {"predictions": x, "targets": ints(0)}, {"k": 1})
    table.bad("InTopK", {"predictions": table.normal("float32", (3,)), "targets": ints(0, 1, 2)},
              {"k": 1})
