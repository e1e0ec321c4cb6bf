"""Cases of sparse tensors, sets, and connectionist temporal classification."""

from __future__ import annotations

from typing import Any

import numpy as np
from case import Type
from table import ALL, FLOATS, NUMBERS, REALS, Table, family, ints, scalar

# Shapes and numbers of elements.
SIZES = (((6,), 3), ((3, 4), 5), ((3, 4), 0), ((2, 3, 4), 9), ((40, 30), 300), ((0, 2), 0))


def _places(table: Table, shape: tuple, count: int, ordered: bool = True) -> np.ndarray:
    """Different places within `shape`, in row-major order if `ordered`."""
    size = int(np.prod(shape))
    flat = table.rng.permutation(size)[:count] if size else np.zeros(0, int)
    flat = np.sort(flat) if ordered else flat
    return np.stack(np.unravel_index(flat, shape), 1).astype("int64").reshape(count, len(shape)) \
        if size else np.zeros((0, len(shape)), "int64")


def _parts(table: Table, dtype: str, shape: tuple, count: int, prefix: str = "",
           ordered: bool = True, values: Any = None) -> dict[str, np.ndarray]:
    """The three inputs of a random sparse tensor."""
    return {f"{prefix}indices": _places(table, shape, count, ordered),
            f"{prefix}values": table.normal(dtype, (count,)) if values is None else values,
            f"{prefix}shape": np.array(shape, "int64")}


def _wrong_parts(table: Table, op: str, prefix: str, rest: dict, attrs: dict | None = None) -> None:
    """Refused everywhere: places outside, and parts that do not fit."""
    good = _parts(table, "float32", (3, 4), 3, prefix)
    for name, value in (("indices", np.zeros((2, 2), "int64")), ("values", np.zeros((3, 1), "f4")),
                        ("shape", np.array([3], "int64"))):
        table.bad(op, {**good, **rest, prefix + name: value}, attrs, label=name)


@family
def sparse_layouts(table: Table) -> None:
    for dtype in ALL:
        for shape, count in SIZES:
            for kind in ("int32", "int64"):
                if np.prod(shape) == 0:
                    continue
                p = _parts(table, dtype, shape, count)
                dense = {"sparse_indices": p["indices"].astype(kind), "output_shape":
                         np.array(shape, kind), "default_value": table.normal(dtype)}
                grad = int(dtype in FLOATS)
                table.add("SparseToDense", {**dense, "sparse_values": p["values"]}, gradient=grad)
                table.add("SparseToDense", {**dense, "sparse_values": table.normal(dtype)})
            grad = int(dtype in FLOATS and count > 0)
            table.add("SparseReorder", _parts(table, dtype, shape, count, "input_", False),
                      gradient=grad)
            for axis in range(-1, len(shape)):
                parts = [_parts(table, dtype, shape, count) for _ in range(3)]
                table.add("SparseConcat", {
                    "indices": [q["indices"] for q in parts],
                    "values": [q["values"] for q in parts],
                    "shapes": [q["shape"] for q in parts]}, {"concat_dim": axis}, gradient=grad)
            for axis, size in enumerate(shape):
                for pieces in (1, 2, 3):
                    if pieces <= size:
                        table.add("SparseSplit", {"split_dim": scalar(axis, "int64"), **_parts(
                            table, dtype, shape, count)}, {"num_split": pieces})
    vector = {"sparse_indices": ints(1, 3), "output_shape": ints(5), "default_value": scalar(0)}
    table.add("SparseToDense", {**vector, "sparse_values": ints(7, 8)})
    table.add("SparseToDense", {**vector, "sparse_indices": scalar(2), "sparse_values": scalar(7)})
    table.add("SparseToDense", {**vector, "sparse_indices": ints(3, 1), "sparse_values":
                                ints(7, 8)}, {"validate_indices": False})
    for indices in (ints(3, 1), ints(1, 1), ints(1, 5), ints(-1, 2), ints(1, 2, 3)):
        table.bad("SparseToDense", {**vector, "sparse_indices": indices, "sparse_values":
                                    ints(7, 8)}, label=str(indices))
    places = _places(table, (4, 6), 7)
    for target in ((6, 4), (24,), (2, 3, 4), (-1, 8), (4, 6), (24, -1, 1)):
        table.add("SparseReshape", {"input_indices": places, "input_shape": ints(4, 6, dtype="i8"),
                                    "new_shape": ints(*target, dtype="i8")})
    for target in ((5, 5), (-1, -1), (-1, 7), (-2, 12)):
        table.bad("SparseReshape", {"input_indices": places, "input_shape": ints(4, 6, dtype="i8"),
                                    "new_shape": ints(*target, dtype="i8")}, label=str(target))
    for axis, pieces in ((2, 1), (0, 4)):
        table.bad("SparseSplit", {"split_dim": scalar(axis, "int64"), **_parts(
            table, "float32", (3, 4), 2)}, {"num_split": pieces}, label="range")
    a, b = _parts(table, "float32", (3, 4), 2), _parts(table, "float32", (3, 5), 2)
    both = {"indices": [a["indices"], b["indices"]], "values": [a["values"], b["values"]],
            "shapes": [a["shape"], b["shape"]]}
    table.add("SparseConcat", both, {"concat_dim": 1}, gradient=1)
    table.bad("SparseConcat", both, {"concat_dim": 0}, label="sizes")
    table.bad("SparseConcat", both, {"concat_dim": 2}, label="axis")
    _wrong_parts(table, "SparseReorder", "input_", {})


@family
def sparse_arithmetic(table: Table) -> None:
    for dtype in table.dtypes("SparseAdd", NUMBERS):
        real = {"complex64": "float32", "complex128": "float64"}.get(dtype, dtype)
        for shape, count in SIZES[:5]:
            a = _parts(table, dtype, shape, count, "a_")
            b = _parts(table, dtype, shape, max(count - 2, 0), "b_")
            for thresh in (0, 1):
                table.add("SparseAdd", {**a, **b, "thresh": scalar(thresh, real)},
                          gradient=int(dtype in FLOATS and count > 2))
            if dtype in REALS:
                table.add("SparseSparseMaximum", {**a, **b})
                table.add("SparseSparseMinimum", {**a, **b})
            if len(shape) < 5:
                table.add("SparseTensorDenseAdd", {**a, "b": table.normal(dtype, shape)},
                          gradient=int(dtype in FLOATS and count > 0))
        for shape, dims in (((3, 4), (3, 4)), ((3, 4), (4,)), ((3, 4), (1,)), ((3, 4), (3, 1)),
                            ((3, 4), ()), ((2, 3, 4), (3, 4)), ((2, 3, 4), (2, 1, 4))):
            for op in ("Add", "Mul", "Div"):
                if dtype == "uint8" and op == "Div":
                    continue
                table.add(f"SparseDenseCwise{op}", {
                    **_parts(table, dtype, shape, 6, "sp_"), "dense": table.nonzero(dtype, dims)},
                    gradient=int(dtype in FLOATS and op != "Add" and len(dims) > 0))
        for shape, count in SIZES[:5]:
            for axes in ([0], [-1], [], list(range(len(shape)))):
                for keep in (False, True):
                    # Positive values: nothing cancels.
                    values = table.positive(dtype, (count,))
                    table.add("SparseReduceSum", {
                        **_parts(table, dtype, shape, count, "input_", values=values),
                        "reduction_axes": ints(*axes)}, {"keep_dims": keep},
                        gradient=int(dtype in FLOATS and count > 0 and not keep))
                    for op in ("SumSparse", "Max", "MaxSparse") if dtype in REALS else (
                            "SumSparse",):
                        table.add(f"SparseReduce{op}", {
                            **_parts(table, dtype, shape, count, "input_", values=values),
                            "reduction_axes": ints(*axes)}, {"keep_dims": keep})
    for dtype in ("float32", "float64", "int32"):
        every = _places(table, (6, 7), 20)
        table.add("SparseAddGrad", {"backprop_val_grad": table.normal(dtype, (18,)), "a_indices":
                                    every[::2], "b_indices": every[5:], "sum_indices": every[:18]})
    for dtype in ("int32", "float32", "float64", "complex64", "complex128"):
        for adjoint_a in (False, True):
            for adjoint_b in (False, True):
                for shape, count in (((3, 4), 5), ((3, 4), 0), ((40, 30), 200)):
                    inner = shape[0] if adjoint_a else shape[1]
                    dims = (6, inner) if adjoint_b else (inner, 6)
                    table.add("SparseTensorDenseMatMul", {
                        **_parts(table, dtype, shape, count, "a_"),
                        "b": table.normal(dtype, dims)},
                        {"adjoint_a": adjoint_a, "adjoint_b": adjoint_b},
                        gradient=int(dtype in FLOATS and count > 0))
    for dtype in ("float32", "float64"):
        for shape, count in SIZES[1:5]:
            table.add("SparseSoftmax", _parts(table, dtype, shape, count, "sp_"),
                      gradient=int(count > 0))


@family
def wrong_sparse_arithmetic(table: Table) -> None:
    a, b = (_parts(table, "float32", (3, 4), 3, prefix) for prefix in ("a_", "b_"))
    for op, rest in (("SparseAdd", {"thresh": scalar(0, "float32")}), ("SparseSparseMaximum", {})):
        table.bad(op, {**a, **b, **rest, "b_shape": ints(3, 5, dtype="int64")}, label="shapes")
        _wrong_parts(table, op, "a_", {**b, **rest})
    dense = table.normal("float32", (3, 4))
    _wrong_parts(table, "SparseTensorDenseAdd", "a_", {"b": dense})
    table.bad("SparseTensorDenseAdd", {**a, "b": dense[:2]}, label="shape")
    for dims in ((2, 4), (3,), (1, 3, 4)):
        table.bad("SparseDenseCwiseMul", {**_parts(table, "float32", (3, 4), 3, "sp_"), "dense":
                                          table.normal("float32", dims)}, label=str(dims))
    table.bad("SparseTensorDenseMatMul", {**a, "b": table.normal("float32", (3, 2))})
    _wrong_parts(table, "SparseTensorDenseMatMul", "a_", {"b": table.normal("float32", (4, 2))})
    outside = {**a, "a_indices": np.array([[0, 0], [1, 1], [2, 9]], "int64")}
    table.bad("SparseTensorDenseMatMul", {**outside, "b": table.normal("float32", (4, 2))})
    table.bad("SparseTensorDenseAdd", {**outside, "b": dense}, label="outside")
    table.bad("SparseSoftmax", _parts(table, "float32", (6,), 2, "sp_"), label="rank")
    for axes in (2, -3):
        table.bad("SparseReduceSum", {**_parts(table, "float32", (3, 4), 3, "input_"),
                                      "reduction_axes": ints(axes)}, label=str(axes))


@family
def sparse_strings(table: Table) -> None:
    for dtype in ALL:
        for shape, count in SIZES[:4]:
            p = _parts(table, dtype, shape, count, "sparse_")
            table.add("SerializeSparse", p, check="shapes")
            if len(shape) > 1:
                table.add("SerializeManySparse", p, check="shapes")
    _wrong_parts(table, "SerializeSparse", "sparse_", {})
    table.bad("SerializeManySparse", _parts(table, "float32", (6,), 3, "sparse_"), label="rank")


@family
def sets_of_rows(table: Table) -> None:
    for dtype in table.dtypes("SetSize", ALL):
        for shape, count in (((3, 5), 8), ((2, 2, 6), 14), ((3, 5), 0)):
            sparse = [_parts(table, dtype, shape, count, f"set{i}_") for i in (1, 2)]
            table.add("SetSize", _parts(table, dtype, shape, count, "set_"))
            for name in ("a-b", "b-a", "intersection", "union"):
                attrs = {"set_operation": name}
                dense = table.normal(dtype, (*shape[:-1], 4))
                table.add("SparseToSparseSetOperation", {**sparse[0], **sparse[1]}, attrs)
                table.add("DenseToSparseSetOperation", {"set1": dense, **sparse[1]}, attrs)
                table.add("DenseToDenseSetOperation", {"set1": dense, "set2": table.normal(
                    dtype, (*shape[:-1], 3))}, attrs)
    x = table.integers(5, (3, 4))
    table.bad("DenseToDenseSetOperation", {"set1": x, "set2": x[:2]}, {"set_operation": "union"})
    table.bad("DenseToDenseSetOperation", {"set1": x, "set2": x}, {"set_operation": "xor"})
    table.bad("DenseToDenseSetOperation", {"set1": x[0], "set2": x[0]}, {"set_operation": "union"})


@family
def temporal_classification(table: Table) -> None:
    for steps, batch, classes, longest in ((6, 3, 4, 3), (1, 1, 2, 1), (30, 5, 12, 9)):
        inputs = table.normal("float32", (steps, batch, classes), 2.0)
        counts = table.rng.integers(1, longest + 1, batch)
        indices = np.array([[b, i] for b in range(batch) for i in range(counts[b])], "int64")
        labels = {"inputs": inputs, "labels_indices": indices,
                  "labels_values": table.integers(classes - 1, (len(indices),)),
                  "sequence_length": np.maximum(table.integers(steps + 1, (batch,)),
                                                counts).astype("int32")}
        # The reference sums logarithms in float32, ours in float64.
        for collapse in (False, True):
            for merge in (False, True):
                table.add("CTCLoss", labels, {"preprocess_collapse_repeated": collapse,
                                              "ctc_merge_repeated": merge}, tolerance=1000,
                          gradient=1)
        lengths = table.integers(steps + 1, (batch,))
        for merge in (False, True):
            table.add("CTCGreedyDecoder", {"inputs": inputs, "sequence_length": lengths},
                      {"merge_repeated": merge})
            for width, paths in ((1, 1), (4, 1), (20, 1)):
                table.add("CTCBeamSearchDecoder", {"inputs": inputs, "sequence_length": lengths},
                          {"beam_width": width, "top_paths": paths, "merge_repeated": merge},
                          tolerance=64)
    table.add("CTCBeamSearchDecoder", {"inputs": table.normal("float32", (8, 2, 5)),
                                       "sequence_length": ints(8, 5)},
              {"beam_width": 10, "top_paths": 4, "merge_repeated": False}, tolerance=64)
    wrong = {"sequence_length": ints(7, 7, 7)}, {"sequence_length": ints(1, 1)}
    good = {"inputs": table.normal("float32", (6, 3, 4)), "sequence_length": ints(6, 6, 6)}
    labels = {"labels_indices": np.array([[0, 0], [1, 0], [2, 0]]), "labels_values": ints(0, 1, 2)}
    for other in wrong:
        table.bad("CTCGreedyDecoder", {**good, **other})
        table.bad("CTCBeamSearchDecoder", {**good, **other}, {"beam_width": 2, "top_paths": 1})
        table.bad("CTCLoss", {**good, **labels, **other})
    table.bad("CTCBeamSearchDecoder", good, {"beam_width": 1, "top_paths": 2})
    table.bad("CTCLoss", {**good, **labels, "labels_values": ints(0, -1, 2)}, label="negative")
    table.bad("CTCLoss", {**good, **labels, "labels_indices": np.array([[0, 0], [1, 0], [3, 0]])})
    table.bad("CTCLoss", {**good, **labels, "labels_indices": np.array([[0, 0], [0, 1], [2, 0]])})


@family
def crosses(table: Table) -> None:
    places = np.array([[0, 0], [1, 0], [1, 1]], np.int64)
    words = np.array([b"a", b"b", b""], object)
    numbers = np.array([5, -7, 2], np.int64)
    dense = np.array([[b"x", b"y"], [b"z", b"long words " * 9]], object)
    few, none = np.array([[1], [-2]], np.int64), np.zeros((2, 0), np.int64)
    for sparse, others in (([words], [dense]), ([words, numbers], [few]), ([], [dense, few, dense]),
                           ([numbers], [none]), ([words, words], [])):
        inputs = {"indices": [places] * len(sparse), "values": sparse,
                  "shapes": [ints(2, 2, dtype="int64")] * len(sparse), "dense_inputs": others}
        table.add("SparseCrossV2", {**inputs, "sep": np.array(b"_X_", object)})
        for buckets, strong in ((0, False), (100, False), (100, True)):
            if strong and any(x is few for x in others):
                continue  # the reference takes dense numbers for strings, and ends
            table.add("SparseCrossHashed", {
                **inputs, "num_buckets": np.array(buckets), "strong_hash": np.array(strong),
                "salt": np.array([7, -3])})
        kind = "string" if all(x.dtype == object for x in (*sparse, *others)) else "int64"
        for buckets, key in ((0, 956888297470), (100, 1)):
            table.add("SparseCross", inputs, {
                "hashed_output": True, "num_buckets": buckets, "hash_key": key,
                "out_type": Type("int64"), "internal_type": Type(kind)})
        table.add("SparseCross", inputs, {
            "hashed_output": True, "num_buckets": 0, "hash_key": 1,
            "out_type": Type("string"), "internal_type": Type(kind)})
    table.bad("SparseCrossV2", {**inputs, "dense_inputs": [dense[:1]],
                                "sep": np.array(b"", object)})
