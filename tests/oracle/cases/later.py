"""Cases of op types of later versions, which graphs of other tools hold."""

from __future__ import annotations

import numpy as np
from case import Type, Variable
from table import Table, family, ints, scalar


@family
def generators(table: Table) -> None:
    """Numbers of a sequence whose place is a variable."""
    state = np.array([2**63 - 1, -1, 77], "int64")
    kept = {"resource": Variable(state, True)}
    for delta in (0, 1, 2**33):
        table.add("RngReadAndSkip", {**kept, "alg": scalar(1), "delta": scalar(delta, "uint64")})
        table.add("RngSkip", {**kept, "algorithm": scalar(1, "int64"),
                              "delta": scalar(delta, "int64")})
    table.bad("RngReadAndSkip", {**kept, "alg": scalar(7), "delta": scalar(1, "uint64")})
    short = {"resource": Variable(state[:2], True)}
    table.bad("RngReadAndSkip", {**short, "alg": scalar(1), "delta": scalar(1, "uint64")})
    for dims in ((), (0,), (7,), (3, 5), (1001,)):
        for kind in ("int32", "int64"):
            asked = {**kept, "algorithm": scalar(1, "int64"), "shape": np.array(dims, kind)}
            for name in ("StatefulUniform", "StatefulStandardNormalV2", "StatefulTruncatedNormal"):
                for dtype in ("float16", "float32", "float64"):
                    table.add(name, asked, {"dtype": Type(dtype)},
                              tolerance=0 if name == "StatefulUniform" else 64)
            for dtype in ("int32", "int64"):
                table.add("StatefulUniformFullInt", asked, {"dtype": Type(dtype)})
                table.add("StatefulUniformInt", {**asked, "minval": scalar(-5, dtype),
                                                 "maxval": scalar(100, dtype)})
    for dtype in ("int32", "int64", "uint64"):
        table.add("NonDeterministicInts", {"shape": ints(3, 5)}, {"dtype": Type(dtype)},
                  check="shapes")


@family
def stateless_parameters(table: Table) -> None:
    key = {"key": np.array([5], "uint64"), "counter": np.array([2**64 - 2, 5], "uint64"),
           "alg": scalar(1)}
    for dtype in ("float16", "float32", "float64"):
        for dims, given in (((50,), ()), ((4, 3), (3,)), ((0, 2), (2,)), ((2, 3, 2), (3, 2))):
            alpha = table.positive(dtype, given)
            shape, seed = ints(*dims), {"seed": ints(3, -7)}
            # A rejection turns on the last bit of logarithms.
            options = {"tolerance": 64, "gradient": int(dtype != "float16")}
            table.add("StatelessRandomGammaV2", {"shape": shape, **seed, "alpha": alpha}, **options)
            table.add("StatelessRandomGammaV3", {"shape": shape, **key, "alpha": alpha}, **options)
            for kind in ("int32", "float32"):
                table.add("StatelessRandomPoisson", {"shape": shape, **seed, "lam": 5 * alpha},
                          {"dtype": Type(kind)})
    table.bad("StatelessRandomGammaV2", {"shape": ints(4, 2), **seed, "alpha": table.positive(
        "float32", (3,))})


_FILTERS = ("lanczos1", "lanczos3", "lanczos5", "gaussian", "box", "triangle", "keyscubic",
            "mitchellcubic")


@family
def scaled_images(table: Table) -> None:
    for kernel in _FILTERS:
        for antialias in (False, True):
            attrs = {"kernel_type": kernel, "antialias": antialias}
            for shape, size, scale, move in (
                    ((2, 7, 9, 3), (4, 5), (4 / 7, 5 / 9), (0, 0)),
                    ((1, 4, 3, 2), (9, 8), (9 / 4, 8 / 3), (0, 0)),
                    ((1, 6, 5, 1), (5, 7), (0.7, 1.3), (1.5, -2.25))):
                where = {"scale": np.array(scale, "float32"),
                         "translation": np.array(move, "float32")}
                table.add("ScaleAndTranslate", {"images": table.normal("float32", shape),
                                                "size": ints(*size), **where}, attrs, gradient=1,
                          tolerance=32)
                table.add("ScaleAndTranslateGrad", {
                    "grads": table.normal("float32", (shape[0], *size, shape[3])),
                    "original_image": table.normal("float32", shape), **where}, attrs,
                    tolerance=32)
    even = {"scale": np.ones(2, "float32"), "translation": np.zeros(2, "float32")}
    for dtype in ("uint8", "int16", "int32", "int64", "float16", "float64"):
        table.add("ScaleAndTranslate", {"images": table.normal(dtype, (1, 4, 5, 2)),
                                        "size": ints(3, 6), **even}, tolerance=32)
    x = table.normal("float32", (1, 4, 5, 2))
    table.bad("ScaleAndTranslate", {"images": x, "size": ints(3, 6), **even},
              {"kernel_type": "other"})
    table.bad("ScaleAndTranslate", {"images": x, "size": ints(3, 0), **even})
    table.bad("ScaleAndTranslate", {"images": x[0], "size": ints(3, 6), **even})


@family
def turned_images(table: Table) -> None:
    maps = np.array([[1, 0.2, 1, -0.1, 0.9, 0.5, 0.001, 0.002],
                     [0.8, 0, -2, 0.3, 1.1, 1, 0, 0]], "float32")
    for mode in ("CONSTANT", "REFLECT", "WRAP", "NEAREST"):
        for interpolation in ("NEAREST", "BILINEAR"):
            attrs = {"interpolation": interpolation, "fill_mode": mode}
            for dtype in ("uint8", "int32", "float16", "float32", "float64"):
                for transforms in (maps, maps[:1]):
                    inputs = {"images": table.positive(dtype, (2, 6, 7, 3)),
                              "transforms": transforms, "output_shape": ints(7, 9)}
                    options = {"gradient": int(dtype == "float32"), "tolerance": 32 if dtype in (
                        "float16", "float32") else 2**32}
                    table.add("ImageProjectiveTransformV2", inputs, attrs, **options)
                    table.add("ImageProjectiveTransformV3", {
                        **inputs, "fill_value": scalar(0.25, "float32")}, attrs, **options)
    x = table.normal("float32", (2, 6, 7, 3))
    inputs = {"images": x, "transforms": maps, "output_shape": ints(7, 9)}
    table.bad("ImageProjectiveTransformV2", {**inputs, "transforms": maps[:, :7]},
              {"interpolation": "NEAREST"})
    table.bad("ImageProjectiveTransformV2", {**inputs, "images": x[:1]},
              {"interpolation": "NEAREST"})


@family
def counted_by_rows(table: Table) -> None:
    places = np.array([[0, 0], [0, 2], [2, 1], [2, 3], [3, 0]], "int64")
    for kind in ("int32", "int64"):
        values = np.array([1, 4, 0, 4, 7], kind)
        for dtype in ("int32", "int64", "float32", "float64"):
            for weights in (np.zeros(0, dtype), table.positive(dtype, (5,))):
                binary = not weights.size and dtype == "int32"
                bins = {"size": scalar(6, kind), "weights": weights}
                for rank in (1, 2):
                    sparse = {"indices": places[:, :rank] if rank == 2 else np.arange(5)[:, None],
                              "values": values, "dense_shape": np.array([5, 4][:rank], "int64")}
                    table.add("SparseBincount", {**sparse, **bins}, {"binary_output": binary})
                    for limits in ({}, {"minlength": 12}, {"maxlength": 5}):
                        table.add("SparseCountSparseOutput", {**sparse, "weights": weights},
                                  {"binary_output": binary, **limits})
                splits = np.array([0, 2, 2, 5], "int64")
                table.add("RaggedBincount", {"splits": splits, "values": values, **bins},
                          {"binary_output": binary})
                for limits in ({}, {"minlength": 12}, {"maxlength": 5}):
                    attrs = {"binary_output": binary, **limits}
                    table.add("RaggedCountSparseOutput", {
                        "splits": splits, "values": values, "weights": weights}, attrs)
                    table.add("DenseCountSparseOutput", {"values": values, "weights": weights},
                              attrs)
                    rows = table.integers(5, (2, 3), kind)
                    table.add("DenseCountSparseOutput", {
                        "values": rows, "weights": weights[:0]}, attrs)
    none = np.zeros(0, "float32")
    table.bad("DenseCountSparseOutput", {"values": ints(1, -1), "weights": none},
              {"binary_output": False})
    table.bad("RaggedBincount", {"splits": np.array([1, 2], "int64"), "values": ints(1, 1),
                                 "size": scalar(3), "weights": none})
    for rank, put in ((1, table.bad), (2, table.add)):
        put("SparseBincount", {
            "indices": places[:, :rank], "values": ints(1, 1, 1, 1, -1), "size": scalar(3),
            "dense_shape": np.array([5, 4][:rank], "int64"), "weights": none})


@family
def renewed(table: Table) -> None:
    """Newer forms of op types that are compared by themselves."""
    for dtype in ("float32", "int64", "string"):
        table.add("SparseSlice", {
            "indices": np.array([[0, 1], [1, 0], [1, 3], [2, 2]], "int64"),
            "values": table.normal(dtype, (4,)), "shape": np.array([3, 4], "int64"),
            "start": np.array([1, 0], "int64"), "size": np.array([5, 3], "int64")}, gradient=1)
        # Where start and size overflow, the reference finds nothing.
        for start, size in (([-1, 0], [2, 3]), ([0, -3], [5, 5]), ([5, 4], [2, 1])):
            table.add("SparseSlice", {
                "indices": np.array([[0, 1], [1, 0], [1, 3], [2, 2]], "int64"),
                "values": table.normal(dtype, (4,)), "shape": np.array([3, 4], "int64"),
                "start": np.array(start, "int64"), "size": np.array(size, "int64")})
        if dtype == "float32":
            table.add("SparseSliceGrad", {
                "backprop_val_grad": table.normal(dtype, (2,)),
                "input_indices": np.array([[0, 1], [1, 0], [1, 3], [2, 2]], "int64"),
                "input_start": np.array([1, 0], "int64"),
                "output_indices": np.array([[0, 0], [1, 2]], "int64")})
    x = table.normal("float32", (3, 2))
    table.add("CheckNumericsV2", {"tensor": x}, {"message": "it"}, gradient=1)
    table.bad("CheckNumericsV2", {"tensor": np.array([1, np.inf], "float32")}, {"message": "it"})
