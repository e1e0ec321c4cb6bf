"""Cases of ragged rows, and of sparse matrices whose empty rows are filled."""

from __future__ import annotations

import numpy as np
from case import FORMS, Type
from table import ALL, FLOATS, Table, family, ints, scalar


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
