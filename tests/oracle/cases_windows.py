"""Cases of ops that slide windows: convolutions, poolings, morphology; and of normalizations."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from table import Table, family

FLOATS = ("float16", "float32", "float64")


def shape_of(dims: tuple) -> np.ndarray:
    return np.array(dims, np.int32)


def outputs(dims: tuple, window: tuple, strides: tuple, padding: str) -> tuple:
    """The sizes of the output in space, by the definition of the two paddings."""
    lost = [0 if padding == "SAME" else w - 1 for w in window]
    return tuple(-(-(d - n) // s) for d, n, s in zip(dims, lost, strides))


WINDOWS = (((2, 7, 6, 3), (3, 2), (2, 1)), ((1, 5, 5, 2), (5, 5), (1, 1)),
           ((3, 4, 9, 2), (1, 1), (1, 1)), ((0, 4, 4, 2), (2, 2), (1, 1)),
           ((2, 11, 8, 4), (4, 3), (3, 3)))  # fmt: skip


def every(empty: bool = True) -> Iterator[tuple]:
    """All windows; without `empty`, none over an empty batch."""
    for dims, window, strides in WINDOWS:
        if not (empty or dims[0]):
            continue
        for padding in ("SAME", "VALID"):
            yield dims, window, strides, padding


@family
def convolutions(table: Table) -> None:
    for dims, window, strides, padding in every():
        attrs = {"strides": [1, *strides, 1], "padding": padding}
        out = outputs(dims[1:3], window, strides, padding)
        for dtype in FLOATS:
            w_dims = (*window, dims[3], 4)
            x, w = table.normal(dtype, dims), table.normal(dtype, w_dims)
            dy = table.normal(dtype, (dims[0], *out, 4))
            options = {"tolerance": 256, "gradient": 1}
            table.add("Conv2D", {"input": x, "filter": w}, attrs, **options)
            table.add("Conv2DBackpropInput", {"input_sizes": shape_of(dims), "filter": w,
                                              "out_backprop": dy}, attrs, **options)
            table.add("Conv2DBackpropFilter", {"input": x, "filter_sizes": shape_of(w_dims),
                                               "out_backprop": dy}, attrs, **options)
    x, w = table.normal("float32", (1, 4, 4, 3)), table.normal("float32", (2, 2, 2, 1))
    attrs = {"strides": [1, 1, 1, 1], "padding": "VALID"}
    table.bad("Conv2D", {"input": x, "filter": w}, attrs)
    table.bad("Conv2D", {"input": x[0], "filter": w}, attrs, label="rank")


@family
def depthwise(table: Table) -> None:
    # Of an empty batch the reference leaves the gradient by the filter uninitialized.
    for dims, window, strides, padding in every(empty=False):
        attrs = {"strides": [1, strides[0], strides[0], 1], "padding": padding}
        out = outputs(dims[1:3], window, (strides[0], strides[0]), padding)
        for dtype in ("float32", "float64"):
            w_dims = (*window, dims[3], 2)
            x, w = table.normal(dtype, dims), table.normal(dtype, w_dims)
            dy = table.normal(dtype, (dims[0], *out, dims[3] * 2))
            options = {"tolerance": 256, "gradient": 1}
            table.add("DepthwiseConv2dNative", {"input": x, "filter": w}, attrs, **options)
            table.add("DepthwiseConv2dNativeBackpropInput", {
                "input_sizes": shape_of(dims), "filter": w, "out_backprop": dy}, attrs, **options)
            table.add("DepthwiseConv2dNativeBackpropFilter", {
                "input": x, "filter_sizes": shape_of(w_dims), "out_backprop": dy}, attrs,
                **options)


@family
def volumes(table: Table) -> None:
    for padding in ("SAME", "VALID"):
        for dtype in ("float32", "float64"):
            dims, w_dims, strides = (2, 5, 4, 6, 2), (2, 3, 2, 2, 3), (2, 1, 2)
            attrs = {"strides": [1, *strides, 1], "padding": padding}
            out = outputs(dims[1:4], w_dims[:3], strides, padding)
            x, w = table.normal(dtype, dims), table.normal(dtype, w_dims)
            dy = table.normal(dtype, (2, *out, 3))
            options = {"tolerance": 256, "gradient": 1}
            table.add("Conv3D", {"input": x, "filter": w}, attrs, **options)
            table.add("Conv3DBackpropInputV2", {"input_sizes": shape_of(dims), "filter": w,
                                                "out_backprop": dy}, attrs, **options)
            table.add("Conv3DBackpropFilterV2", {"input": x, "filter_sizes": shape_of(w_dims),
                                                 "out_backprop": dy}, attrs, **options)
            window = {**attrs, "ksize": [1, 2, 3, 2, 1]}
            table.add("MaxPool3D", {"input": x}, window, gradient=1)
            table.add("AvgPool3D", {"input": x}, window, tolerance=64, gradient=1)
            table.add("AvgPool3DGrad", {"orig_input_shape": shape_of(dims), "grad":
                                        table.normal(dtype, (2, *out, 2))}, window, tolerance=64,
                      gradient=1)


@family
def poolings(table: Table) -> None:
    for dims, window, strides, padding in every():
        attrs = {"ksize": [1, *window, 1], "strides": [1, *strides, 1], "padding": padding}
        out = (dims[0], *outputs(dims[1:3], window, strides, padding), dims[3])
        for dtype in FLOATS:
            x = table.normal(dtype, dims)
            table.add("MaxPool", {"input": x}, attrs, gradient=1)
            table.add("AvgPool", {"value": x}, attrs, tolerance=64, gradient=1)
            table.add("AvgPoolGrad", {"orig_input_shape": shape_of(dims), "grad":
                                      table.normal(dtype, out)}, attrs, tolerance=64, gradient=1)
        # The reference refuses empty batches here.
        for dtype in ("float32", "float64") if dims[0] else ():
            table.add("MaxPoolWithArgmax", {"input": table.normal(dtype, dims)}, attrs,
                      gradient=1)
        for dtype in ("int32", "uint8", "int64"):
            table.add("MaxPool", {"input": table.normal(dtype, dims)}, attrs)


@family
def morphology(table: Table) -> None:
    for dims, window, strides, padding in every():
        for rates in ((1, 1), (2, 1)):
            if padding == "VALID" and (window[0] - 1) * rates[0] >= dims[1]:
                continue
            attrs = {"strides": [1, *strides, 1], "rates": [1, *rates, 1], "padding": padding}
            for dtype in ("float32", "float64", "int32"):
                x, w = table.normal(dtype, dims), table.normal(dtype, (*window, dims[3]))
                real = dtype.startswith("float")
                table.add("Dilation2D", {"input": x, "filter": w}, attrs, gradient=int(real))
                table.add("ExtractImagePatches", {"images": x},
                          {**attrs, "ksizes": [1, *window, 1]})


@family
def normalizations(table: Table) -> None:
    for radius in (0, 2, 5):
        for dtype in ("float16", "float32"):
            attrs = {"depth_radius": radius, "bias": 1.5, "alpha": 0.3, "beta": 0.75}
            table.add("LRN", {"input": table.normal(dtype, (2, 3, 4, 8))}, attrs, tolerance=64,
                      gradient=1)
    for dims in ((2, 3, 4, 5), (3, 1, 2, 1)):
        x, size = table.normal("float32", dims), dims[-1:]
        scale, offset = (table.normal("float32", size) for _ in range(2))
        empty = np.zeros(0, np.float32)
        for op in ("FusedBatchNorm", "FusedBatchNormV2"):
            given = {"x": x, "scale": scale, "offset": offset, "mean": empty, "variance": empty}
            table.add(op, given, {"epsilon": 0.01}, tolerance=256, gradient=1)
