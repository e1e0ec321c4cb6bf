"""Cases of windows that slide: convolutions, pools, dilations, patches; and of normalizations."""

from __future__ import annotations

import numpy as np
from case import Type
from table import FLOATS, Table, family, ints

# Input, filter (height, width, output channels), stride, padding.
CONVOLUTIONS = (
    ((2, 5, 6, 3), (3, 3, 4), (1, 1), "SAME"), ((2, 5, 6, 3), (3, 2, 4), (2, 2), "VALID"),
    ((1, 7, 7, 2), (1, 1, 3), (1, 1), "VALID"), ((1, 7, 8, 1), (5, 3, 2), (2, 3), "SAME"),
    ((2, 4, 4, 2), (4, 4, 2), (1, 1), "VALID"), ((0, 5, 5, 2), (3, 3, 2), (1, 1), "SAME"),
    ((1, 3, 3, 2), (2, 2, 1), (3, 3), "SAME"), ((3, 16, 16, 8), (3, 3, 16), (1, 1), "SAME"),
)  # fmt: skip
TOLERANCE = 32


def _out(size: int, window: int, stride: int, padding: str) -> int:
    return -(-size // stride) if padding == "SAME" else -(-(size - window + 1) // stride)


def _filters_of_groups(table: Table) -> None:
    for dtype in FLOATS:
        for dims, filters, stride in (((2, 5, 6, 4), (3, 3, 2, 6), 1),
                                      ((1, 7, 7, 6), (2, 2, 1, 6), 2),
                                      ((2, 3, 3, 6), (1, 1, 3, 4), 1)):
            attrs = {"strides": [1, stride, stride, 1], "padding": "SAME"}
            x, w = table.normal(dtype, dims), table.normal(dtype, filters)
            table.add("Conv2D", {"input": x, "filter": w}, attrs, gradient=1, tolerance=TOLERANCE)
    for filters in ((3, 3, 4, 6), (3, 3, 2, 5)):
        table.bad("Conv2D", {"input": x, "filter": table.normal("float32", filters)}, attrs,
                  label=str(filters))


@family
def convolutions(table: Table) -> None:
    for dtype in FLOATS:
        for shape, (h, w, channels), (sh, sw), padding in CONVOLUTIONS:
            attrs = {"strides": [1, sh, sw, 1], "padding": padding}
            x = table.normal(dtype, shape)
            # The reference leaves the gradient by the filters undefined for no images.
            options = {"gradient": int(shape[0] > 0), "tolerance": TOLERANCE}
            for op, filters, depth in (("Conv2D", (h, w, shape[3], channels), channels),
                                       ("DepthwiseConv2dNative", (h, w, shape[3], 2),
                                        2 * shape[3])):
                if dtype not in table.dtypes(op) or op[0] == "D" and sh != sw:
                    continue
                kernel = table.normal(dtype, filters)
                table.add(op, {"input": x, "filter": kernel}, attrs, **options)
                back = table.normal(dtype, (shape[0], _out(shape[1], h, sh, padding),
                                            _out(shape[2], w, sw, padding), depth))
                if not shape[0]:
                    continue
                table.add(op + "BackpropInput", {"input_sizes": ints(*shape), "filter": kernel,
                                                 "out_backprop": back}, attrs, **options)
                table.add(op + "BackpropFilter", {"input": x, "filter_sizes": ints(*filters),
                                                  "out_backprop": back}, attrs, **options)
    _filters_of_groups(table)
    x = table.normal("float32", (1, 5, 5, 2))
    attrs = {"strides": [1, 1, 1, 1], "padding": "VALID"}
    for op in ("Conv2D", "DepthwiseConv2dNative"):
        for filters in ((3, 3, 3, 2), (7, 3, 2, 2), (3, 3, 2)):
            table.bad(op, {"input": x, "filter": table.normal("float32", filters)}, attrs,
                      label=str(filters))
        table.bad(op, {"input": x[0], "filter": table.normal("float32", (3, 3, 2, 2))}, attrs)
    table.bad("Conv2DBackpropInput", {"input_sizes": ints(1, 5, 5, 2), "filter": table.normal(
        "float32", (3, 3, 2, 2)), "out_backprop": table.normal("float32", (1, 4, 4, 2))}, attrs)
    table.bad("Conv2DBackpropFilter", {"input": x, "filter_sizes": ints(3, 3, 2, 2),
                                       "out_backprop": table.normal("float32", (1, 4, 4, 2))},
              attrs)


@family
def volumes(table: Table) -> None:
    for dtype in ("float32", "float64"):
        for shape, filters, stride, padding in (((1, 4, 5, 3, 2), (2, 3, 2, 2, 3), 1, "SAME"),
                                                ((2, 5, 4, 5, 1), (3, 2, 2, 1, 2), 2, "VALID")):
            attrs = {"strides": [1, stride, stride, stride, 1], "padding": padding}
            x, kernel = table.normal(dtype, shape), table.normal(dtype, filters)
            options = {"gradient": 1, "tolerance": TOLERANCE}
            table.add("Conv3D", {"input": x, "filter": kernel}, attrs, **options)
            dims = [_out(n, k, stride, padding) for n, k in zip(shape[1:4], filters)]
            back = table.normal(dtype, (shape[0], *dims, filters[4]))
            table.add("Conv3DBackpropInputV2", {"input_sizes": ints(*shape), "filter": kernel,
                                                "out_backprop": back}, attrs, **options)
            table.add("Conv3DBackpropFilterV2", {"input": x, "filter_sizes": ints(*filters),
                                                 "out_backprop": back}, attrs, **options)
            for op, replaced, sizes in (("Conv3DBackpropInput", "input", shape),
                                        ("Conv3DBackpropFilter", "filter", filters)):
                inputs = {"input": x, "filter": kernel, "out_backprop": back}
                newer = {f"{k}_sizes" if k == replaced else k: ints(*sizes) if k == replaced else v
                         for k, v in inputs.items()}
                table.add(op, inputs, attrs, tolerance=TOLERANCE,
                          reference=(op + "V2", newer, attrs))
            window = {"ksize": [1, 2, 2, 2, 1], **attrs}
            table.add("AvgPool3D", {"input": x}, window, **options)
            table.add("MaxPool3D", {"input": table.distinct(dtype, shape)}, window, gradient=1)
            dims = [_out(n, 2, stride, padding) for n in shape[1:4]]
            table.add("AvgPool3DGrad", {"orig_input_shape": ints(*shape), "grad": table.normal(
                dtype, (shape[0], *dims, shape[4]))}, window, **options)
    x = table.distinct("float32", (1, 4, 4, 2, 2))
    most = x.reshape(1, 2, 2, 2, 2, 1, 2, 2).max((2, 4, 6))
    window = {"ksize": [1, 2, 2, 2, 1], "strides": [1, 2, 2, 2, 1], "padding": "VALID"}
    table.add("MaxPool3DGrad", {"orig_input": x, "orig_output": most,
                                "grad": table.normal("float32", most.shape)}, window,
              gradient=1)
    table.add("MaxPool3DGradGrad", {"orig_input": x, "orig_output": most,
                                    "grad": table.normal("float32", x.shape)}, window, gradient=1)


POOLS = (((2, 5, 6, 3), (2, 2), (2, 2), "VALID"), ((2, 5, 6, 3), (3, 2), (2, 1), "SAME"),
         ((1, 4, 4, 1), (4, 4), (1, 1), "SAME"), ((1, 7, 7, 2), (3, 3), (2, 2), "VALID"),
         ((1, 5, 5, 2), (1, 1), (2, 2), "SAME"))  # fmt: skip


@family
def pools(table: Table) -> None:
    for dtype in FLOATS:
        for shape, (h, w), (sh, sw), padding in POOLS:
            attrs = {"ksize": [1, h, w, 1], "strides": [1, sh, sw, 1], "padding": padding}
            table.add("MaxPool", {"input": table.distinct(dtype, shape)}, attrs, gradient=1)
            table.add("AvgPool", {"value": table.normal(dtype, shape)}, attrs, gradient=1,
                      tolerance=TOLERANCE)
            table.add("MaxPoolWithArgmax", {"input": table.distinct(dtype, shape)},
                      {**attrs, "Targmax": Type("int64")}, gradient=1)
            table.add("AvgPoolGrad", {"orig_input_shape": ints(*shape), "grad": table.normal(
                dtype, (shape[0], _out(shape[1], h, sh, padding), _out(shape[2], w, sw, padding),
                        shape[3]))}, attrs, gradient=1, tolerance=TOLERANCE)
        x = table.distinct(dtype, (2, 4, 6, 3))
        most = x.reshape(2, 2, 2, 3, 2, 3).max((2, 4))
        window = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}
        table.add("MaxPoolGrad", {"orig_input": x, "orig_output": most,
                                  "grad": table.normal(dtype, most.shape)}, window, gradient=1)
        table.add("MaxPoolGradGrad", {"orig_input": x, "orig_output": most,
                                      "grad": table.normal(dtype, x.shape)}, window, gradient=1)
        where = _argmax(x)
        table.add("MaxPoolGradWithArgmax", {"input": x, "grad": table.normal(dtype, most.shape),
                                            "argmax": where}, window)
        table.add("MaxPoolGradGradWithArgmax", {"input": x, "grad": table.normal(dtype, x.shape),
                                                "argmax": where}, window)
    x = table.normal("float32", (1, 4, 4, 2))
    for op, name in (("MaxPool", "input"), ("AvgPool", "value")):
        table.bad(op, {name: x}, {"ksize": [1, 7, 7, 1], "strides": [1, 1, 1, 1],
                                  "padding": "VALID"}, label="window")
        table.bad(op, {name: x[0]}, {"ksize": [1, 2, 2, 1], "strides": [1, 1, 1, 1],
                                     "padding": "VALID"}, label="rank")


def _argmax(x: np.ndarray) -> np.ndarray:
    """Positions of the maxima of 2 x 2 windows, flat within each image."""
    batch, height, width, depth = x.shape
    flat = np.arange(height * width * depth).reshape(1, height, width, depth)
    windows = (batch, height // 2, 2, width // 2, 2, depth)
    order = (0, 1, 3, 5, 2, 4)
    values = x.reshape(windows).transpose(order).reshape(*[windows[i] for i in order[:4]], 4)
    places = np.broadcast_to(flat, x.shape).reshape(windows).transpose(order).reshape(values.shape)
    return np.take_along_axis(places, values.argmax(-1)[..., None], -1)[..., 0].astype("int64")


@family
def dilations(table: Table) -> None:
    for dtype in table.dtypes("Dilation2D", ("float32", "float64", "int32", "uint8")):
        for stride, rate, padding in ((1, 1, "SAME"), (2, 1, "VALID"), (1, 2, "SAME")):
            attrs = {"strides": [1, stride, stride, 1], "rates": [1, rate, rate, 1],
                     "padding": padding}
            x, kernel = table.normal(dtype, (2, 6, 7, 2)), table.normal(dtype, (2, 3, 2))
            table.add("Dilation2D", {"input": x, "filter": kernel}, attrs,
                      gradient=int(dtype in FLOATS))
            dims = [_out(n, (k - 1) * rate + 1, stride, padding) for n, k in ((6, 2), (7, 3))]
            back = table.normal(dtype, (2, *dims, 2))
            for op in ("Dilation2DBackpropInput", "Dilation2DBackpropFilter"):
                table.add(op, {"input": x, "filter": kernel, "out_backprop": back}, attrs)
            patches = {"ksizes": [1, 2, 3, 1], **attrs}
            table.add("ExtractImagePatches", {"images": x}, patches,
                      gradient=int(dtype in ("float32", "float64")), forms=("constant", "static"))
    _sized(table)
    table.bad("Dilation2D", {"input": x, "filter": table.normal(dtype, (2, 3, 3))}, attrs)


def _sized(table: Table) -> None:
    """Patches of volumes, and max pooling whose sizes are tensors."""
    volume = table.normal("float32", (2, 3, 4, 5, 2))
    for padding in ("SAME", "VALID"):
        table.add("ExtractVolumePatches", {"input": volume}, {
            "ksizes": [1, 2, 2, 3, 1], "strides": [1, 1, 2, 1, 1], "padding": padding}, gradient=1,
            forms=("constant", "static"))
        x = table.normal("float32", (2, 4, 6, 3))
        sizes = {"ksize": np.array([1, 2, 2, 1], np.int32),
                 "strides": np.array([1, 2, 2, 1], np.int32)}
        table.add("MaxPoolV2", {"input": x, **sizes}, {"padding": padding}, gradient=1)
        y = x.reshape(2, 2, 2, 3, 2, 3).max(axis=(2, 4))
        for op, grad in (("MaxPoolGradV2", y), ("MaxPoolGradGradV2", x)):
            table.add(op, {"orig_input": x, "orig_output": y, "grad": grad, **sizes},
                      {"padding": padding})


def response_of(x: np.ndarray, depth_radius: int, bias: float, alpha: float,
                beta: float) -> np.ndarray:
    """The result of LRN: its gradient is defined for that alone."""
    squares = np.pad(x.astype(np.float64) ** 2, ((0, 0),) * 3 + ((depth_radius, depth_radius),))
    sums = sum(squares[..., k : k + x.shape[3]] for k in range(2 * depth_radius + 1))
    return (x * (bias + alpha * sums) ** -beta).astype(x.dtype)


@family
def local_responses(table: Table) -> None:
    for dtype in table.dtypes("LRN"):
        for depth, radius in ((6, 2), (3, 5), (10, 1)):
            attrs = {"depth_radius": radius, "bias": 2.0, "alpha": 0.1, "beta": 0.75}
            x = table.normal(dtype, (2, 3, 2, depth))
            table.add("LRN", {"input": x}, attrs, gradient=1, tolerance=TOLERANCE)
            table.add("LRNGrad", {"input_grads": table.normal(dtype, x.shape), "input_image": x,
                                  "output_image": response_of(x, **attrs)}, attrs,
                      tolerance=TOLERANCE)
    table.bad("LRN", {"input": table.normal("float32", (2, 3))})


@family
def batch_norms(table: Table) -> None:
    def vector() -> np.ndarray:
        return table.positive("float32", (3,))

    empty = np.zeros(0, "float32")
    options = {"forms": ("unknown", "static", "strided")}
    for training in (True, False):
        for shape in ((4, 5, 2, 3), (2, 3, 3, 3)):
            for op in ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"):
                for dtype in ("float32", "float16") if op[-1] in "23" else ("float32",):
                    moments = (empty, empty) if training else (vector(), vector())
                    table.add(op, {"x": table.normal(dtype, shape), "scale": vector(),
                                   "offset": vector(), "mean": moments[0],
                                   "variance": moments[1]},
                              {"is_training": training, "epsilon": 1e-3}, gradient=2, **options)
            for op in ("FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3"):
                inputs = {"y_backprop": table.normal("float32", shape),
                          "x": table.normal("float32", shape), "scale": vector(),
                          "reserve_space_1": vector(), "reserve_space_2": vector()}
                if op[-1] == "3":
                    inputs["reserve_space_3"] = vector()
                # In training the reference takes the moments of x for those reserved.
                table.add(op, inputs, {"is_training": training, "epsilon": 1e-3},
                          gradient=int(not training), **options)


@family
def fused_convolutions(table: Table) -> None:
    for dtype in FLOATS:
        for mode in ("REFLECT", "SYMMETRIC"):
            for padding, stride in (("SAME", 1), ("VALID", 2)):
                attrs = {"mode": mode, "padding": padding, "strides": [1, stride, stride, 1]}
                # The reference pads further images than the first one wrongly.
                x, w = table.normal(dtype, (1, 6, 7, 3)), table.normal(dtype, (3, 2, 3, 4))
                paddings = np.array([[0, 0], [2, 1], [1, 3], [0, 0]], "int32")
                table.add("FusedPadConv2D", {"input": x, "paddings": paddings, "filter": w},
                          attrs, tolerance=TOLERANCE, forms=("constant", "static"))
                for align in (False, True):
                    table.add("FusedResizeAndPadConv2D", {
                        "input": x, "size": ints(9, 5), "paddings": paddings, "filter": w},
                        {**attrs, "resize_align_corners": align}, tolerance=TOLERANCE,
                        forms=("constant", "static"))
    x, w = x.astype("float32"), w.astype("float32")
    for bad, label in ((paddings[:3], "rows"), (paddings + 9, "too much"), (paddings - 2, "less")):
        table.bad("FusedPadConv2D", {"input": x, "paddings": bad, "filter": w}, attrs, label)
    table.bad("FusedPadConv2D", {"input": x, "paddings": paddings, "filter": w[:, :, :2]}, attrs,
              "depth")
    table.bad("FusedResizeAndPadConv2D", {"input": x, "size": ints(0, 4), "paddings": paddings,
                                          "filter": w}, attrs, "size")


@family
def fractional_pools(table: Table) -> None:
    for dtype in ("float32", "float64", "int32", "int64"):
        for overlapping in (False, True):
            attrs = {"overlapping": overlapping, "pooling_ratio": [1.0, 1.5, 2.0, 1.0]}
            for op in ("FractionalMaxPool", "FractionalAvgPool"):
                for pseudo in (False, True):
                    table.add(op, {"value": table.normal(dtype, (2, 9, 8, 3))}, {
                        **attrs, "pseudo_random": pseudo, "deterministic": pseudo,
                        "seed": 3 * pseudo}, check="shapes")
            _fractional_gradients(table, dtype, overlapping)
    x = table.normal("float32", (1, 6, 6, 1))
    for ratios in ([1.0, 0.5, 1.5, 1.0], [2.0, 1.5, 1.5, 1.0], [1.0, 1.5, 1.5, 2.0], [1.0, 1.5]):
        table.bad("FractionalMaxPool", {"value": x}, {"pooling_ratio": ratios}, str(ratios))
    table.bad("FractionalMaxPool", {"value": x}, {"pooling_ratio": [1.0, 1.5, 1.5, 1.0],
                                                  "seed": 3}, "seed")
    table.bad("FractionalAvgPool", {"value": x[0]}, {"pooling_ratio": [1.0, 1.5, 1.5, 1.0]}, "rank")


def _fractional_gradients(table: Table, dtype: str, overlapping: bool) -> None:
    x = table.distinct(dtype, (2, 7, 6, 2))
    rows, columns = ints(0, 2, 3, 5, 7, dtype="int64"), ints(0, 1, 3, 6, dtype="int64")
    most = np.empty((2, 4, 3, 2), x.dtype)
    for i, j in np.ndindex(4, 3):
        below, right = (int(n) + overlapping for n in (rows[i + 1], columns[j + 1]))
        most[:, i, j] = x[:, rows[i]:below, columns[j]:right].max((1, 2))
    back = {"out_backprop": table.normal(dtype, most.shape), "row_pooling_sequence": rows,
            "col_pooling_sequence": columns}
    table.add("FractionalMaxPoolGrad", {"orig_input": x, "orig_output": most, **back},
              {"overlapping": overlapping})
    if dtype in FLOATS:
        table.add("FractionalAvgPoolGrad", {"orig_input_tensor_shape": ints(
            *x.shape, dtype="int64"), **back}, {"overlapping": overlapping})
