"""Collective operations on all types: rounding, overflow, IndexedSlices."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from collective_cases import deliver, part, run_all

import hpcflow as hf
from hpcflow.comm import reduction


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int8", "uint8", "int16",
                                   "int32", "int64", "complex64", "complex128"])
def test_types(dtype):
    kind = hf.as_dtype(dtype)
    data = [np.abs(10 * part(i)).astype(kind.np) for i in range(3)]
    got = run_all(3, lambda i: hf.mpi.allreduce(hf.constant(data[i])))
    want = sum(d.astype(np.complex128 if kind.is_complex else np.float64) for d in data)
    assert got[0].dtype == kind.np
    np.testing.assert_allclose(got[1].astype(want.dtype), want, rtol={2: 1e-2}.get(kind.size, 1e-6),
                               atol=0.05)


def test_narrow_types_are_rounded_once():
    """2048 + 1 + 1 in float16: the ones would be lost one by one."""
    got = run_all(3, lambda i: hf.mpi.allreduce(
        hf.constant(np.array([2048 if not i else 1], np.float16))))
    assert got[0][0] == np.float16(2050)
    third = np.array([1, 2, 3], ml_dtypes.bfloat16)
    got = run_all(3, lambda i: hf.mpi.allreduce(hf.constant(third[i : i + 1]), "mean"))
    assert got[0][0] == ml_dtypes.bfloat16(2)


def test_booleans():
    data = [np.array([True, i == 0, False]) for i in range(2)]
    got = run_all(2, lambda i: [hf.mpi.allreduce(hf.constant(data[i]), r) for r in ("min", "max")])
    np.testing.assert_array_equal(got[0][0], [True, False, False])
    np.testing.assert_array_equal(got[1][1], [True, True, False])


@pytest.mark.parametrize("op_type", ["MpiAllreduce", "MpiAllreduceSlices", "MpiReduceScatter"])
@pytest.mark.parametrize(("value", "reduction"), [(True, "sum"), (True, "mean"), (1j, "min"),
                                                  (1j, "max")])
def test_operations_without_a_builder_refuse_what_a_type_does_not_have(op_type, value, reduction):
    rows = hf.constant(np.array([value, value]))
    with pytest.raises(TypeError, match=f"no {reduction} of {rows.dtype.name} values"):
        if op_type == "MpiReduceScatter":
            hf.raw_ops.MpiReduceScatter(input=rows, reduction=reduction)
        elif op_type == "MpiAllreduce":
            hf.raw_ops.MpiAllreduce(inputs=[rows], reduction=reduction)
        else:
            hf.raw_ops.MpiAllreduceSlices(inputs=[rows], N=1, slices=1, reduction=reduction)


@pytest.mark.parametrize(("dtype", "reduction"), [("bool", "sum"), ("complex64", "max")])
def test_imported_graphs_refuse_what_a_type_does_not_have(dtype, reduction):
    with hf.Graph().as_default() as graph:
        hf.mpi.allreduce(hf.placeholder(hf.int32, [2], name="x"), reduction, name="found")
    graph_def = graph.as_graph_def()
    for node in graph_def.node:
        key = "dtype" if node.name == "x" else "T"
        if key in node.attr:
            node.attr[key].type = hf.as_dtype(dtype).as_datatype_enum
    with pytest.raises((TypeError, ValueError), match=f"no {reduction} of {dtype} values"):
        hf.import_graph_def(graph_def, name="")


INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]


def extreme_integers(index, dtype, shape):
    """Values near both ends of the type: a sum of two of them overflows."""
    info = np.iinfo(dtype)
    near = np.random.default_rng(index).integers(0, 100, shape)
    low = np.random.default_rng(9).integers(0, 2, shape, dtype=bool)
    wide = info.bits == 64  # here a sum of all has to fit
    top, bottom = (info.max // 8, info.min // 8) if wide else (info.max, info.min)
    return np.where(low, bottom + near.astype(dtype), (top - near.astype(dtype))).astype(dtype)


def truncated_mean(parts):
    """Of Python integers, rounded towards zero."""
    total = sum(p.astype(object) for p in parts)
    return np.where(total < 0, -(-total // len(parts)), total // len(parts)).astype(parts[0].dtype)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_means_of_integers(count, dtype):
    """Rounded towards zero, as reduce_mean does, and without overflow: short and long tensors."""
    kind = np.dtype(dtype)
    data = [(extreme_integers(i, kind, (6, 5)), extreme_integers(i, kind, (40_001,)))
            for i in range(count)]

    def build(index):
        x, y = map(hf.constant, data[index])
        rows = hf.mpi.allgather(hf.expand_dims(x, 0))
        return [hf.mpi.allreduce(x, "mean"), hf.mpi.allreduce(y, "mean"),
                hf.mpi.reduce_scatter(hf.tile(x, [count, 1]), "mean"), hf.reduce_mean(rows, 0)]

    for short, long, scattered, alike in run_all(count, build):
        want = truncated_mean([x for x, _ in data])
        assert short.dtype == kind
        np.testing.assert_array_equal(short, want)
        np.testing.assert_array_equal(scattered, want)
        np.testing.assert_array_equal(alike, want)
        np.testing.assert_array_equal(long, truncated_mean([y for _, y in data]))


@pytest.mark.parametrize("dtype", ["int8", "uint64"])
def test_means_of_integers_over_slices(dtype):
    """In a fixed tree, whose sums are of the type itself; alone, too."""
    assert reduction.divided(np.array([-7, 7, 8], np.int8), 4).tolist() == [-1, 1, 2]
    assert reduction.divided(np.int8(-7), 2) == -3
    assert reduction.divided(np.array([127, -128], np.int8), 200).tolist() == [0, 0]
    value = np.arange(5).astype(dtype)
    reducer = reduction.Reducer("mean", value.dtype, 2, nodes=[[(0, 0)], [(0, 1)]], leaves=2)
    out = np.empty_like(value)
    reducer.reduce([value, value + value.dtype.type(1)], out)
    np.testing.assert_array_equal(out, value)


@pytest.mark.parametrize("dtype", ["int8", "int64"])
def test_means_of_integers_on_two_nodes(dtype):
    """A sum within a node need not fit into the type: then there is one level."""
    from hpcflow.runtime.collective.collective_parts import Layout
    from hpcflow.runtime.collective.collective_work import Allreduce

    kind = np.dtype(dtype)
    data = [extreme_integers(i, kind, (20_001,)) for i in range(4)]
    works = [Allreduce(Layout(i, [[0, 2], [1, 3]]), "mean", kind, [(20_001,)]) for i in range(4)]
    jobs = [w.open([d]) for w, d in zip(works, data, strict=True)]
    deliver([job.lanes[0] for job in jobs])
    for job in jobs:
        np.testing.assert_array_equal(job.result()[0], truncated_mean(data))


# ---------------------------------------------------------------- IndexedSlices


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_indexed_slices(reduction):
    def build(index):
        slices = hf.IndexedSlices(hf.constant(part(index, (index + 1, 2))),
                                  hf.constant(np.arange(index + 1)), hf.constant([4, 2]))
        return hf.convert_to_tensor(hf.mpi.allreduce(slices, reduction))

    want = np.zeros((4, 2))
    for i in range(3):
        want[: i + 1] += part(i, (i + 1, 2))
    for value in run_all(3, build):
        np.testing.assert_allclose(value, want / (3 if reduction == "mean" else 1), rtol=1e-5)


def rows_of(index, dtype):
    """Rows that all ranks have, some of them, or one; row 1 of rank 0 in two parts."""
    rows = np.array([[1, 5, 1], [1, 7], [7, 3, 1, 0]][index])
    values = np.random.default_rng(index).integers(0, 40, (len(rows), 2))
    return rows, (values % 2 if dtype == "bool" else values).astype(hf.as_dtype(dtype).np)


@pytest.mark.parametrize(("dtype", "form"), [
    *[(dtype, "mean") for dtype in INTEGERS],
    *[(dtype, form) for dtype in (*INTEGERS, "float16", "bfloat16", "float32", "bool")
      for form in ("min", "max")]])
def test_indexed_slices_of_all_types(dtype, form):
    def build(index):
        rows, values = rows_of(index, dtype)
        found = hf.mpi.allreduce(
            hf.IndexedSlices(hf.constant(values), hf.constant(rows), hf.constant([9, 2])), form)
        return found.indices, found.values

    want: dict = {}
    for i in range(3):
        rows, values = rows_of(i, dtype)
        for row in sorted(set(rows.tolist())):
            mine = values[rows == row].astype(int)
            whole = mine.sum(0) if dtype != "bool" else getattr(mine, form)(0)
            want.setdefault(row, []).append(whole)
    for rows, values in run_all(3, build):
        assert values.dtype == hf.as_dtype(dtype).np
        assert sorted(rows.tolist()) == sorted(want)
        for row, value in zip(rows.tolist(), values.astype(int), strict=True):
            parts = np.stack(want[row])
            expected = parts.sum(0) // 3 if form == "mean" else getattr(parts, form)(0)
            np.testing.assert_array_equal(value, expected)


def test_indexed_slices_of_negative_integers_are_rounded_once():
    def build(index):
        slices = hf.IndexedSlices(hf.constant([[-1, -100]], hf.int8), hf.constant([2 + index // 2]))
        return hf.mpi.allreduce(slices, "mean").values

    for value in run_all(3, build):  # -2 / 3, -200 / 3 where two ranks have it
        np.testing.assert_array_equal(value, [[0, -66], [0, -33]])


@pytest.mark.parametrize("width", [1, 70_000])
def test_extremes_of_slices_keep_infinities(width):
    def build(index):
        ends = hf.constant(np.array([[-np.inf], [np.inf], [index]], np.float32))
        slices = hf.IndexedSlices(hf.tile(ends, [1, width]), hf.constant([4, 2, 4 + index]))
        return [hf.mpi.allreduce(slices, r).values for r in ("min", "max")]

    # Row 4: -inf + 0 on rank 0, -inf on rank 1; row 2: inf on both; row 5: 1 on rank 1 alone.
    for low, high in run_all(2, build):
        for found in (low, high):
            np.testing.assert_array_equal(found[:, 0], [-np.inf, np.inf, 1])
            np.testing.assert_array_equal(found[:, 0], found[:, -1])


def test_extremes_of_no_rows():
    def build(index):
        slices = hf.IndexedSlices(hf.zeros([0, 3]), hf.zeros([0], hf.int32), hf.constant([4, 3]))
        found = hf.mpi.allreduce(slices, "max")
        return found.values, found.indices, hf.convert_to_tensor(found)

    for values_, rows, dense in run_all(2, build):
        assert values_.shape == (0, 3) and rows.shape == (0,)
        np.testing.assert_array_equal(dense, np.zeros((4, 3)))


def test_gradients_of_extremes_of_slices():
    """They go to the rank that has the extreme."""
    def build(index):
        x = hf.constant([[1.0 + index], [5.0 - index]])
        slices = hf.IndexedSlices(x, hf.constant([0, 3]), hf.constant([4, 1]))
        return hf.gradients(hf.mpi.allreduce(slices, "max").values * 2.0, x)[0]

    got = run_all(2, build)  # the losses of both ranks count
    np.testing.assert_array_equal(got[0], [[0], [4]])
    np.testing.assert_array_equal(got[1], [[4], [0]])
