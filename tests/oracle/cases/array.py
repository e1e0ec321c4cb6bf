"""Cases of ops that take tensors apart, join them and move their elements."""

from __future__ import annotations

import numpy as np
from case import Shape, Type
from table import ALL, COMPLEXES, FLOATS, NUMBERS, PAIRS, SHAPES, Table, family, ints, scalar

# begin, end, strides, and the masks that say how to read them.
STRIDED = (
    ((7,), (1,), (5,), (1,), {}), ((7,), (1,), (7,), (2,), {}), ((7,), (-2,), (0,), (-1,), {}),
    ((7,), (0,), (0,), (-2,), {"begin_mask": 1, "end_mask": 1}), ((7,), (9,), (3,), (-1,), {}),
    ((7,), (-20,), (20,), (3,), {}), ((7,), (5,), (2,), (1,), {}), ((0,), (0,), (5,), (1,), {}),
    ((7,), (3,), (4,), (1,), {"shrink_axis_mask": 1}), ((7,), (-1,), (0,), (1,),
                                                       {"shrink_axis_mask": 1}),
    ((3, 4), (0, 1), (3, 3), (1, 1), {}), ((3, 4), (1, 0), (2, 4), (1, 2),
                                          {"shrink_axis_mask": 1}),
    ((3, 4), (0, 1), (0, 2), (1, 1), {"ellipsis_mask": 1}),
    ((3, 4), (0, 0, 1), (0, 0, 2), (1, 1, 1), {"new_axis_mask": 1, "ellipsis_mask": 2}),
    ((3, 4), (2, 0), (0, 4), (-1, 1), {"begin_mask": 2, "end_mask": 3}),
    ((2, 3, 4), (1, 0, 2), (0, 0, 3), (1, 1, 1), {"ellipsis_mask": 2, "shrink_axis_mask": 5}),
    ((2, 3, 4), (0,), (0,), (1,), {"new_axis_mask": 1}), ((), (), (), (), {}),
    ((), (0,), (0,), (1,), {"new_axis_mask": 1}), ((5, 6), (3, 5), (0, 0), (-1, -2), {}),
)  # fmt: skip


@family
def slices(table: Table) -> None:
    for dtype in ALL:
        for shape, begin, size in (((5,), (1,), (3,)), ((3, 4), (0, 1), (2, -1)), ((), (), ()),
                                   ((3, 4), (3, 0), (0, 4)), ((2, 3, 4), (1, 0, 2), (1, 3, 2))):
            for kind in ("int32", "int64"):
                table.add("Slice", {"input": table.normal(dtype, shape),
                                    "begin": np.array(begin, kind), "size": np.array(size, kind)},
                          gradient=1)
        for shape, begin, end, strides, masks in STRIDED:
            kind = table.rng.choice(["int32", "int64"])
            parts = {"begin": np.array(begin, kind), "end": np.array(end, kind),
                     "strides": np.array(strides, kind)}
            value = table.normal(dtype, shape)
            table.add("StridedSlice", {"input": value, **parts}, masks, gradient=1)
    x = table.normal("float32", (3, 4))
    for begin, size in (((0, 0), (4, 1)), ((-1, 0), (1, 1)), ((0,), (1,)), ((0, 2), (1, 3)),
                        ((0, 0), (-2, 1))):
        table.bad("Slice", {"input": x, "begin": ints(*begin), "size": ints(*size)})
    for begin, end, strides, masks in (((0,), (1,), (0,), {}), ((5,), (6,), (1,),
                                                               {"shrink_axis_mask": 1}),
                                       ((0, 0, 0), (1, 1, 1), (1, 1, 1), {}),
                                       ((0,), (1,), (-1,), {"shrink_axis_mask": 1}),
                                       ((0, 0), (1, 1), (1, 1), {"ellipsis_mask": 3})):
        table.bad("StridedSlice", {"input": x, "begin": ints(*begin), "end": ints(*end),
                                   "strides": ints(*strides)}, masks)


@family
def strided_gradients(table: Table) -> None:
    for dtype in ("float32", "int64", "complex64"):
        for shape, begin, end, strides, masks in STRIDED:
            index = _index(shape, begin, end, strides, masks)
            dims = np.zeros(shape)[index].shape
            table.add("StridedSliceGrad", {
                "shape": np.array(shape, "int32"), "begin": np.array(begin, "int32"),
                "end": np.array(end, "int32"), "strides": np.array(strides, "int32"),
                "dy": table.normal(dtype, dims)}, masks, gradient=1)
    table.bad("StridedSliceGrad", {"shape": ints(5), "begin": ints(0), "end": ints(3),
                                   "strides": ints(1), "dy": table.normal("float32", (4,))})


def _index(shape, begin, end, strides, masks) -> tuple:
    """The same selection as an index of NumPy."""
    items: list = []
    for i, (b, e, s) in enumerate(zip(begin, end, strides)):
        on = {name for name, mask in masks.items() if mask >> i & 1}
        if "ellipsis_mask" in on:
            items.append(Ellipsis)
        elif "new_axis_mask" in on:
            items.append(None)
        elif "shrink_axis_mask" in on:
            items.append(b)
        else:
            items.append(slice(None if "begin_mask" in on else b,
                               None if "end_mask" in on else e, s))
    return tuple(items)


@family
def joins(table: Table) -> None:
    for dtype in ALL:
        for shapes, axis in ((((2, 3), (4, 3)), 0), (((2, 3), (2, 1), (2, 0)), 1), (((3,),), 0),
                             (((2, 3), (2, 3)), -1), (((0, 2), (3, 2)), -2),
                             (((30, 40), (30, 50)), 1)):
            values = [table.normal(dtype, s) for s in shapes]
            for kind in ("int32", "int64"):
                table.add("ConcatV2", {"values": values, "axis": scalar(axis, kind)}, gradient=1)
            if axis >= 0 and len(values) > 1:
                table.add("Concat", {"concat_dim": scalar(axis), "values": values}, gradient=1)
        for shape, axis, count in (((), 0, 3), ((2, 3), 0, 2), ((2, 3), 2, 1), ((2, 3), -1, 3),
                                   ((0,), 1, 2), ((4, 1), -3, 2)):
            values = [table.normal(dtype, shape) for _ in range(count)]
            table.add("Pack", {"values": values}, {"axis": axis}, gradient=1)
        for shape, axis in (((3,), 0), ((2, 3), 1), ((2, 3), -2), ((0, 2), 0), ((2, 0), 0)):
            table.add("Unpack", {"value": table.normal(dtype, shape)},
                      {"num": shape[axis], "axis": axis}, gradient=1, forms=("constant", "static",
                                                                            "unknown"))
    a, b = table.normal("float32", (2, 3)), table.normal("float32", (2, 4))
    table.bad("ConcatV2", {"values": [a, b], "axis": scalar(0)})
    table.bad("ConcatV2", {"values": [a, a], "axis": scalar(2)})
    table.bad("ConcatV2", {"values": [a, a], "axis": scalar(-3)})
    table.bad("ConcatV2", {"values": [a, table.normal("float32", (2,))], "axis": scalar(0)})
    table.bad("Concat", {"concat_dim": scalar(0), "values": [a, b]})
    table.bad("Pack", {"values": [a, b]})
    table.bad("Pack", {"values": [a, a]}, {"axis": 3})
    table.bad("Unpack", {"value": a}, {"num": 3})
    table.bad("Unpack", {"value": a}, {"num": 2, "axis": 2})
    table.bad("Unpack", {"value": scalar(1.0, "float32")}, {"num": 1})
    table.add("ConcatOffset", {"concat_dim": scalar(1), "shape": [ints(2, 3), ints(2, 4),
                                                                  ints(2, 1)]})
    table.bad("ConcatOffset", {"concat_dim": scalar(1), "shape": [ints(2, 3), ints(3, 4)]})
    for dtype in ("float32", "int32"):
        table.add("ParallelConcat", {"values": [table.normal(dtype, (1, 3)) for _ in range(2)]},
                  {"shape": Shape((2, 3))}, forms=("constant", "static"))


@family
def splits(table: Table) -> None:
    for dtype in ALL:
        for shape, axis, count in (((4, 6), 0, 2), ((4, 6), 1, 3), ((6,), -1, 1), ((0, 2), 0, 3),
                                   ((2, 0), 0, 2)):
            table.add("Split", {"split_dim": scalar(axis), "value": table.normal(dtype, shape)},
                      {"num_split": count}, gradient=1)
        for shape, axis, sizes in (((5, 2), 0, (2, 3)), ((5, 2), 0, (1, -1, 2)), ((2, 5), 1, (5,)),
                                   ((2, 5), -1, (0, 5)), ((0,), 0, (0, 0))):
            for kind in ("int32", "int64"):
                table.add("SplitV", {"value": table.normal(dtype, shape), "size_splits": np.array(
                    sizes, kind), "split_dim": scalar(axis)}, {"num_split": len(sizes)},
                    gradient=1)
    x = table.normal("float32", (4, 6))
    for axis, count in ((0, 3), (2, 2), (-3, 2)):
        table.bad("Split", {"split_dim": scalar(axis), "value": x}, {"num_split": count})
    for sizes, axis in (((1, 2), 0), ((-1, -1), 0), ((5, -1), 0), ((2, 2), 2), ((6, -2), 0)):
        table.bad("SplitV", {"value": x, "size_splits": ints(*sizes), "split_dim": scalar(axis)},
                  {"num_split": 2})


@family
def padding(table: Table) -> None:
    for dtype in (*NUMBERS, "bool"):
        for shape, pads in (((3,), ((1, 2),)), ((2, 3), ((0, 1), (2, 0))), ((), np.zeros((0, 2))),
                            ((0, 2), ((1, 0), (0, 0))), ((2, 1, 2), ((0, 0), (1, 1), (2, 3)))):
            for kind in ("int32", "int64"):
                paddings = np.array(pads, kind).reshape(-1, 2)
                table.add("Pad", {"input": table.normal(dtype, shape), "paddings": paddings},
                          gradient=1)
                table.add("PadV2", {"input": table.normal(dtype, shape), "paddings": paddings,
                                    "constant_values": table.normal(dtype)}, gradient=1)
    for dtype in ("float32", "int32", "float64", "complex64", "uint8", "bool", "string"):
        for mode in ("REFLECT", "SYMMETRIC"):
            for shape, pads in (((4,), ((3, 2),)), ((2, 3), ((1, 0), (2, 1))), ((3, 3), ((0, 0),
                                                                                      (0, 0)))):
                paddings = np.array(pads, "int32")
                table.add("MirrorPad", {"input": table.normal(dtype, shape), "paddings": paddings},
                          {"mode": mode}, gradient=1)
                if dtype in ("float32", "int32", "complex64"):
                    padded = np.array(shape) + paddings.sum(1)
                    table.add("MirrorPadGrad", {"input": table.normal(dtype, padded),
                                                "paddings": paddings}, {"mode": mode}, gradient=1)
    x = table.normal("float32", (2, 3))
    table.bad("Pad", {"input": x, "paddings": np.array([[1, 0]], "int32")})
    table.bad("Pad", {"input": x, "paddings": np.array([[-1, 0], [0, 0]], "int32")})
    table.bad("Pad", {"input": x, "paddings": np.array([[1, 0, 1], [0, 0, 1]], "int32")})
    for mode, pads in (("REFLECT", [[2, 0], [0, 0]]), ("SYMMETRIC", [[3, 0], [0, 0]]),
                       ("REFLECT", [[-1, 0], [0, 0]])):
        table.bad("MirrorPad", {"input": x, "paddings": np.array(pads, "int32")}, {"mode": mode})
    table.bad("MirrorPadGrad", {"input": x, "paddings": np.array([[2, 2], [0, 0]], "int32")},
              {"mode": "REFLECT"})


@family
def tiles(table: Table) -> None:
    for dtype in ALL:
        for shape, times in (((3,), (2,)), ((2, 3), (1, 2)), ((2, 3), (0, 2)), ((), ()),
                             ((0, 2), (3, 1)), ((2, 1, 3), (2, 3, 1))):
            table.add("Tile", {"input": table.normal(dtype, shape),
                               "multiples": np.array(times, table.rng.choice(["int32", "int64"]))},
                      gradient=1)
        for shape, axes in (((3,), (0,)), ((2, 3), (1,)), ((2, 3), (0, -1)), ((2, 3), ()),
                            ((0, 2), (0,)), ((2, 1, 3), (2, 0))):
            if "ReverseV2" in table.ops and dtype in table.dtypes("ReverseV2", ALL):
                table.add("ReverseV2", {"tensor": table.normal(dtype, shape),
                                        "axis": np.array(axes, "int32")}, gradient=1)
                flags = np.zeros(len(shape), bool)
                flags[list(axes)] = True
                table.add("Reverse", {"tensor": table.normal(dtype, shape), "dims": flags},
                          gradient=1)
    x = table.normal("float32", (2, 3))
    table.bad("Tile", {"input": x, "multiples": ints(2)})
    table.bad("Tile", {"input": x, "multiples": ints(2, -1)})
    for axes in ((2,), (-3,), (0, 0), (0, -2)):
        table.bad("ReverseV2", {"tensor": x, "axis": ints(*axes)})
    table.bad("Reverse", {"tensor": x, "dims": np.array([True])})
    for dtype in ("float32", "int32", "string", "bool", "complex64"):
        for kind in ("int32", "int64"):
            table.add("ReverseSequence", {"input": table.normal(dtype, (3, 4, 2)), "seq_lengths":
                                          ints(0, 4, 2, dtype=kind)}, {"seq_dim": 1}, gradient=1)
            table.add("ReverseSequence", {"input": table.normal(dtype, (4, 3)), "seq_lengths":
                                          ints(1, 3, 4, dtype=kind)},
                      {"seq_dim": 0, "batch_dim": 1}, gradient=1)
    y = table.normal("float32", (3, 4))
    table.bad("ReverseSequence", {"input": y, "seq_lengths": ints(1, 5, 2)}, {"seq_dim": 1})
    table.bad("ReverseSequence", {"input": y, "seq_lengths": ints(1, -1, 2)}, {"seq_dim": 1})
    table.bad("ReverseSequence", {"input": y, "seq_lengths": ints(1, 2)}, {"seq_dim": 1})
    table.bad("ReverseSequence", {"input": y, "seq_lengths": ints(1, 2, 3)}, {"seq_dim": 0})
    table.bad("ReverseSequence", {"input": y, "seq_lengths": ints(1, 2, 3)}, {"seq_dim": 2})


@family
def blocks(table: Table) -> None:
    for dtype in ("float32", "int32", "float64", "string", "complex64"):
        for shape in ((1, 4, 6, 2), (3, 2, 2, 1), (0, 2, 2, 1)):
            table.add("SpaceToDepth", {"input": table.normal(dtype, shape)}, {"block_size": 2},
                      gradient=1)
            table.add("SpaceToBatch", {"input": table.normal(dtype, shape), "paddings": np.array(
                [[2, 0], [1, 1]], "int32")}, {"block_size": 2}, gradient=1)
        table.add("DepthToSpace", {"input": table.normal(dtype, (2, 2, 3, 8))}, {"block_size": 2},
                  gradient=1)
        table.add("BatchToSpace", {"input": table.normal(dtype, (8, 2, 3, 1)), "crops": np.array(
            [[1, 0], [0, 2]], "int32")}, {"block_size": 2}, gradient=1)
        for shape, block, pads in (((2, 4), (2,), ((1, 1),)), ((1, 4, 3, 2), (2, 3), ((0, 0),
                                                                                   (1, 2))),
                                   ((2, 3), (1,), ((0, 0),)), ((2, 4, 6), (2, 1), ((0, 2),
                                                                                   (0, 0)))):
            kinds = table.rng.choice(["int32", "int64"], 2)
            inputs = {"input": table.normal(dtype, shape), "block_shape": np.array(block, kinds[0]),
                      "paddings": np.array(pads, kinds[1])}
            # The reference wants to know the rank of block_shape.
            forms = ("constant", "static")
            table.add("SpaceToBatchND", inputs, gradient=1, forms=forms)
            padded = [n + sum(p) for n, p in zip(shape[1:], pads)]
            small = [shape[0] * int(np.prod(block)), *[n // b for n, b in zip(padded, block)],
                     *shape[1 + len(block):]]
            table.add("BatchToSpaceND", {"input": table.normal(dtype, small), "block_shape":
                                         np.array(block, kinds[0]), "crops": np.array(
                                             pads, kinds[1])}, gradient=1, forms=forms)
    x = table.normal("float32", (1, 3, 4, 2))
    table.bad("SpaceToDepth", {"input": x}, {"block_size": 2})
    table.bad("DepthToSpace", {"input": x}, {"block_size": 2})
    table.bad("SpaceToBatch", {"input": x, "paddings": np.zeros((2, 2), "int32")},
              {"block_size": 2})
    table.bad("BatchToSpace", {"input": x, "crops": np.zeros((2, 2), "int32")}, {"block_size": 2})
    table.bad("SpaceToBatchND", {"input": x, "block_shape": ints(2), "paddings": np.zeros(
        (1, 2), "int32")})
    table.bad("SpaceToBatchND", {"input": x, "block_shape": ints(0), "paddings": np.zeros(
        (1, 2), "int32")})
    table.bad("BatchToSpaceND", {"input": x, "block_shape": ints(2), "crops": np.zeros(
        (1, 2), "int32")})
    table.bad("BatchToSpaceND", {"input": table.normal("float32", (2, 2)), "block_shape": ints(2),
                                 "crops": np.array([[3, 3]], "int32")})


@family
def matrix_parts(table: Table) -> None:
    for dtype in (*NUMBERS, "bool"):
        for shape in ((3, 3), (2, 4), (4, 2), (2, 3, 2), (0, 2), (2, 0, 3)):
            value, small = table.normal(dtype, shape), min(shape[-2:])
            for low, high in ((0, 0), (-1, 0), (1, -1), (1, 1)):
                if abs(low) <= shape[-2] and high <= shape[-1]:
                    pair = {"num_lower": scalar(low, "int64"), "num_upper": scalar(high, "int64")}
                    _pair(table, "MatrixBandPart", {"input": value, **pair}, 1)
            _pair(table, "MatrixDiagPart", {"input": value}, 1)
            _pair(table, "MatrixSetDiag", {"input": value, "diagonal": table.normal(
                dtype, (*shape[:-2], small))}, 1)
            _pair(table, "MatrixDiag", {"diagonal": table.normal(dtype, shape)}, 1)
    for dtype in table.dtypes("Diag"):
        for shape in ((3,), (2, 3), (0,), (1, 2, 2)):
            table.add("Diag", {"diagonal": table.normal(dtype, shape)}, gradient=1)
            table.add("DiagPart", {"input": table.normal(dtype, shape * 2)}, gradient=1)
    table.bad("DiagPart", {"input": table.normal("float32", (2, 3))})
    table.bad("DiagPart", {"input": table.normal("float32", (2, 2, 2))})
    vector = table.normal("float32", (3,))
    table.bad("MatrixDiagPart", {"input": vector})
    table.bad("MatrixSetDiag", {"input": table.normal("float32", (2, 2)), "diagonal": vector})
    table.bad("MatrixDiag", {"diagonal": scalar(1.0, "float32")})
    table.bad("MatrixBandPart", {"input": vector, "num_lower": scalar(0, "int64"),
                                 "num_upper": scalar(0, "int64")})
    table.bad("MatrixBandPart", {"input": table.normal("float32", (2, 2)), "num_lower": scalar(
        3, "int64"), "num_upper": scalar(0, "int64")})


def _pair(table: Table, op: str, inputs: dict, gradient: int) -> None:
    """An op, and the older one that the reference only has under the new name."""
    table.add(op, inputs, gradient=gradient)
    table.add("Batch" + op, inputs, reference=(op, inputs, {}))


@family
def one_hot(table: Table) -> None:
    for dtype in ("float32", "int32", "bool", "string", "complex64", "uint8", "float64"):
        for kind in ("int32", "int64", "uint8"):
            for shape, axis in (((), -1), ((4,), -1), ((2, 3), 0), ((2, 3), 1), ((0,), -1)):
                table.add("OneHot", {"indices": table.integers(5, shape, kind), "depth": scalar(4),
                                     "on_value": table.normal(dtype),
                                     "off_value": table.normal(dtype)}, {"axis": axis},
                          gradient=int(dtype in FLOATS))
    table.add("OneHot", {"indices": ints(0, -1, 7, 2), "depth": scalar(3), "on_value": scalar(
        5.0, "float32"), "off_value": scalar(-1.0, "float32")}, label="outside")
    table.add("OneHot", {"indices": ints(0, 1), "depth": scalar(0), "on_value": scalar(
        5.0, "float32"), "off_value": scalar(-1.0, "float32")}, label="no depth")
    table.bad("OneHot", {"indices": ints(0), "depth": scalar(-1), "on_value": scalar(
        1.0, "float32"), "off_value": scalar(0.0, "float32")})
    table.bad("OneHot", {"indices": ints(0), "depth": ints(3), "on_value": scalar(
        1.0, "float32"), "off_value": scalar(0.0, "float32")}, label="rank")
    table.bad("OneHot", {"indices": ints(0), "depth": scalar(2), "on_value": scalar(
        1.0, "float32"), "off_value": scalar(0.0, "float32")}, {"axis": 3}, label="axis")


@family
def rolls_and_selections(table: Table) -> None:
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
def orders_of_dimensions(table: Table) -> None:
    for dtype in ALL:
        x = table.normal(dtype, (2, 3, 4))
        for perm in (ints(0, 2, 1), ints(2, 1, 0), ints(1, 2, 0, dtype="int64")):
            table.add("ConjugateTranspose", {"x": x, "perm": perm}, gradient=1)
    table.bad("ConjugateTranspose", {"x": x, "perm": ints(0, 1, 1)})
    for kind in ("int32", "int64"):
        for source, target in (("NHWC", "NCHW"), ("NCHW", "NHWC"), ("NHWC", "HWNC"),
                               ("NDHWC", "NCDHW")):
            formats = {"src_format": source, "dst_format": target}
            rank = len(source)
            for x in (scalar(1, kind), np.arange(-rank, rank, dtype=kind).reshape(2, rank)):
                table.add("DataFormatDimMap", {"x": x}, formats)
            for dims in ((rank,), (rank, 2), (rank - 2,), (rank - 2, 2)):
                table.add("DataFormatVecPermute", {"x": table.integers(9, dims, kind)}, formats)
    table.bad("DataFormatVecPermute", {"x": ints(1, 2, 3)})
    for dtype in table.dtypes("NthElement"):
        for dims, n in (((5,), 0), ((3, 6), 4), ((2, 2, 3), 2), ((0, 3), 1)):
            for backwards in (False, True):
                table.add("NthElement", {"input": table.normal(dtype, dims), "n": scalar(n)},
                          {"reverse": backwards}, gradient=1)
    for n in (3, -1):
        table.bad("NthElement", {"input": table.normal("float32", (2, 3)), "n": scalar(n)})


@family
def distinct_rows(table: Table) -> None:
    for dtype in ALL:
        for dims, axis in (((9,), ()), ((9,), (0,)), ((6, 2), (0,)), ((2, 6), (1,)),
                           ((3, 2, 2), (-2,)), ((0,), ())):
            x = table.normal(dtype, dims)
            x = np.round(x) + 0 if x.dtype.kind in "fc" else x
            for op in ("UniqueV2", "UniqueWithCountsV2"):
                for kind in ("int32", "int64"):
                    table.add(op, {"x": x, "axis": np.array(axis, "int64")},
                              {"out_idx": Type(kind)})
    x = table.normal("float32", (2, 3))
    for axis in ((), (2,), (0, 1)):
        table.bad("UniqueV2", {"x": x, "axis": np.array(axis, "int64")})


@family
def rows_in_place(table: Table) -> None:
    for op in ("InplaceUpdate", "InplaceAdd", "InplaceSub"):
        for dtype in NUMBERS:
            table.add(op, {"x": table.normal(dtype, (4, 3)), "i": ints(2, 0),
                           "v": table.normal(dtype, (2, 3))})
            table.add(op, {"x": table.normal(dtype, (4,)), "i": ints(-1),
                           "v": table.normal(dtype, (1,))})
    for dtype in ("uint16", "float16", "complex64"):
        table.bad("ToBool", {"input": table.normal(dtype, ())}, label=dtype)
    for dtype in ALL:
        table.add("DeepCopy", {"x": table.normal(dtype, (2, 3))})
        if dtype not in ("uint16", "float16", *COMPLEXES):
            table.add("ToBool", {"input": table.normal(dtype, ())})
        table.add("ToBool", {"input": table.normal(dtype, (0,))})
        table.add("ToBool", {"input": table.normal(dtype, (3,))})
