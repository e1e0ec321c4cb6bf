"""Cases of array op types of later writers."""

from __future__ import annotations

import numpy as np
from arrays import strings
from case import FORMS, Shape, Type
from table import ALL, COMPLEXES, FLOATS, NUMBERS, REALS, SHAPES, Table, family, ints, scalar


@family
def later_orders(table: Table) -> None:
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
def later_distinct_rows(table: Table) -> None:
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
def later_rows(table: Table) -> None:
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


@family
def later_elementwise(table: Table) -> None:
    for dtype in table.dtypes("ApproximateEqual", REALS):
        for shape in SHAPES:
            x = table.normal(dtype, shape)
            y = (x + table.normal(dtype, shape, 1e-5)).astype(dtype)
            table.add("ApproximateEqual", {"x": x, "y": y})
            table.add("ApproximateEqual", {"x": x, "y": table.normal(dtype, shape)},
                      {"tolerance": 1.5})
    for dtype in ("float32", "float64"):
        x = table.special(dtype)
        table.add("NextAfter", {"x1": x, "x2": x[::-1].copy()})
        table.add("NextAfter", {"x1": table.normal(dtype, (2, 1)), "x2": table.normal(
            dtype, (3,))}, gradient=1)
    for dtype in table.dtypes("PopulationCount"):
        table.add("PopulationCount", {"x": table.special(dtype)})
        table.add("PopulationCount", {"x": table.normal(dtype, ())})


@family
def later_running_sums(table: Table) -> None:
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
def later_segments(table: Table) -> None:
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


@family
def later_forms(table: Table) -> None:
    for dtype in ("float32", "int32"):
        values = [table.normal(dtype, (2, 3)) for _ in range(3)]
        table.add("AccumulateNV2", {"inputs": values}, {"shape": Shape((2, 3))}, gradient=1)
    for dtype in ("uint8", "int64", "float32", "string"):
        for dims in ((3,), (2, 4)):
            if dtype != "string" or len(dims) == 1:
                table.add("Fingerprint", {"data": table.normal(dtype, dims),
                                          "method": np.array(b"farmhash64", object)})
    table.bad("Fingerprint", {"data": ints(1, 2), "method": np.array(b"other", object)})


# ---------------------------------------------------------------- strings


@family
def later_strings(table: Table) -> None:
    words = strings([b"a b  c ", b"", b"  x\ty\n z", b"a,b,,c", b",", b"\xff \xfe"])
    for separator in (b"", b",", b"  ", b"b,"):
        for most in (-1, 0, 1, 2):
            table.add("StringSplitV2", {"input": words, "sep": np.array(separator, object)},
                      {"maxsplit": most})
    table.bad("StringSplitV2", {"input": words[0], "sep": np.array(b"", object)})
    for template, values in (
            ("x", []), ("%s", [scalar(3)]), ("<%s|%s>", [table.normal("int32", (9,)), scalar(
                2.5, "float32")]), ("%s", [np.array([[1.5, 1e-9], [1e20, -0.0]])]),
            ("%s %s", [strings([b"a", b"b"]), np.array(b"c", object)]),
            ("%s", [np.array([True, False])]), ("%s", [table.normal("int32", (2, 8, 2))])):
        for most in (3, 1, -1):
            table.add("StringFormat", {"inputs": values}, {"template": template,
                                                           "summarize": most})
    for widths in ([1], [2], [1, 3], [4]):
        for pads in (-1, 0, 1):
            for short in (False, True):
                for kind in ("int32", "int64"):
                    table.add("StringNGrams", {
                        "data": strings([b"a", b"b", b"c", b"d", b"e"]),
                        "data_splits": ints(0, 3, 3, 5, dtype=kind)}, {
                        "separator": "|", "ngram_widths": widths, "left_pad": "<",
                        "right_pad": ">", "pad_width": pads, "preserve_short_sequences": short})


@family
def later_unicode(table: Table) -> None:
    good = strings([["Gr\u00fc\u00dfe".encode(), b""], ["\u20ac\U0001f600".encode(), b"a\tb\x7f"]])
    bad = strings([b"a\xffb", b"\xc3", b"\xe2\x82x"])
    for x in (good, bad, good[0, 0]):
        for errors in ("replace", "ignore", "strict"):
            for controls in (False, True):
                attrs = {"input_encoding": "UTF-8", "errors": errors, "replacement_char": 63,
                         "replace_control_characters": controls}
                add = table.bad if errors == "strict" and x is bad else table.add
                add("UnicodeDecode", {"input": x}, {**attrs, "Tsplits": Type("int32")})
                add("UnicodeDecodeWithOffsets", {"input": x}, attrs)
                if errors == "strict" and controls and x is good:
                    add = table.bad
                for target in ("UTF-8", "UTF-16-BE", "UTF-32-BE"):
                    add("UnicodeTranscode", {"input": x}, {**attrs, "output_encoding": target})
    for points in ((72, 0x20AC, 0x1F600), (65, 0xD800, 66), (0x110000,)):
        for errors in ("replace", "ignore"):
            for target in ("UTF-8", "UTF-16-BE", "UTF-32-BE"):
                table.add("UnicodeEncode", {
                    "input_values": ints(*points), "input_splits": ints(0, 1, len(points))},
                    {"errors": errors, "output_encoding": target})
    table.bad("UnicodeEncode", {"input_values": ints(0xD800), "input_splits": ints(0, 1)},
              {"errors": "strict", "output_encoding": "UTF-8"})


# ---------------------------------------------------------------- ragged rows


@family
def ragged(table: Table) -> None:
    for dtype in ("int32", "int64", "float32", "float64"):
        for kind in ("int32", "int64"):
            for bounds in ((2, 7, 2), ([0, 5, 3], [3, 5, 0], [1, 1, -1]), (0, [3, 0, 4], 1)):
                starts, limits, deltas = (np.array(b, dtype) for b in bounds)
                table.add("RaggedRange", {"starts": starts, "limits": limits, "deltas": deltas},
                          {"Tsplits": Type(kind)})
    one, three = np.array(1, "int32"), np.array([1, 2, 3], "int32")
    table.bad("RaggedRange", {"starts": one, "limits": three, "deltas": scalar(0)})
    table.bad("RaggedRange", {"starts": three, "limits": three[:2], "deltas": one})
    for dtype in ALL:
        for kind in ("int32", "int64"):
            outer, inner = ints(0, 2, 2, 3, dtype=kind), ints(0, 1, 4, 6, dtype=kind)
            for splits, dims in (([outer, inner], (6,)), ([inner], (6, 2))):
                values = table.normal(dtype, dims)
                for indices in (ints(2, 0, 2), ints(1, dtype="int64"), np.array([[0, 2], [1, 1]]),
                                scalar(2), np.zeros(0, "int64")):
                    table.add("RaggedGather", {
                        "params_nested_splits": splits, "params_dense_values": values,
                        "indices": indices}, {"OUTPUT_RAGGED_RANK": len(splits) + indices.ndim - 1},
                        gradient=1)
                table.add("RaggedTensorToSparse", {
                    "rt_nested_splits": splits, "rt_dense_values": values}, gradient=1)
            for types, parts in ((["ROW_SPLITS", "ROW_SPLITS"], [outer, inner]),
                                 (["FIRST_DIM_SIZE", "VALUE_ROWIDS"], [
                                     scalar(4, kind), ints(0, 0, 1, 3, 3, 3, dtype=kind)])):
                levels = 1 + sum(t != "FIRST_DIM_SIZE" for t in types)
                for shape in (scalar(-1), ints(*[-1] * levels), ints(2, *[1] * (levels - 1))):
                    # A scalar must be known, or of unknown rank.
                    forms = FORMS if shape.ndim else ("constant", "unknown", "strided")
                    table.add("RaggedTensorToTensor", {
                        "shape": shape, "values": table.normal(dtype, (6,)),
                        "default_value": table.normal(dtype), "row_partition_tensors": parts},
                        {"row_partition_types": types}, forms, gradient=1)
    table.bad("RaggedGather", {"params_nested_splits": [inner], "params_dense_values": values,
                               "indices": ints(3)}, {"OUTPUT_RAGGED_RANK": 1})


@family
def filled_rows(table: Table) -> None:
    for dtype in ALL:
        for places, dims in (([[1, 0], [1, 2], [3, 1]], (5, 3)), ([[0], [2]], (3,)),
                             (np.zeros((0, 2)), (2, 2))):
            indices = np.array(places, "int64")
            table.add("SparseFillEmptyRows", {
                "indices": indices, "values": table.normal(dtype, (len(indices),)),
                "dense_shape": np.array(dims, "int64"), "default_value": table.normal(dtype)},
                gradient=1)
    for places in ([[5, 0]], [[-1, 0]]):
        table.bad("SparseFillEmptyRows", {
            "indices": np.array(places, "int64"), "values": table.normal("float32", (1,)),
            "dense_shape": np.array((5, 3), "int64"), "default_value": scalar(0, "float32")})
    for dtype in ("int32", *FLOATS):
        table.add("SparseFillEmptyRowsGrad", {
            "reverse_index_map": np.array([0, 3, 2], "int64"),
            "grad_values": table.normal(dtype, (5,))}, tolerance=4)


@family
def rounded_and_back(table: Table) -> None:
    ranges = ((-1.5, 2.0), (-3.0, 1.0), (0.0, 2.5))
    for version in ("V2", "V3", "V4"):
        op = f"QuantizeAndDequantize{version}"
        for dtype in ("float32", "float64"):
            for axis in (-1, 0, 2):
                x = table.normal(dtype, (2, 3, 4), 2)
                for low, high in ranges:
                    size = () if axis < 0 else (x.shape[axis],)
                    bounds = {"input_min": np.full(size, low, dtype),
                              "input_max": np.full(size, high, dtype)}
                    for signed in (True, False):
                        for given in (True, False):
                            attrs = {"signed_input": signed, "range_given": given, "axis": axis,
                                     "narrow_range": signed and axis == 0}
                            bits: dict = {"num_bits": scalar(6)} if version == "V3" else {}
                            if version != "V3":
                                attrs |= {"num_bits": 5, "round_mode": (
                                    "HALF_UP" if low == 0 else "HALF_TO_EVEN")}
                            table.add(op, {"input": x, **bounds, **bits}, attrs, gradient=1,
                                      tolerance=4)
        flat = {"input": table.normal("float32", (3,)), "input_min": scalar(2, "float32"),
                "input_max": scalar(1, "float32")}
        if version == "V3":
            flat["num_bits"] = scalar(8)
        table.bad(op, flat, {"range_given": True}, label="range")
    table.add("QuantizeAndDequantizeV4Grad", {
        "gradients": table.normal("float32", (4, 3)), "input": table.normal("float32", (4, 3)),
        "input_min": scalar(-0.5, "float32"), "input_max": scalar(0.7, "float32")}, gradient=1)
