"""Scatter updates of variables, by rows and by coordinates; variables by resource handle."""

from __future__ import annotations

import numpy as np
import pytest
from pairs import pairs

import hpcflow as hf

UFUNCS = {"update": None, "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}


def scattered(function, start, indices, updates):
    """The variable `start` after ``function(variable, indices, updates)``."""
    with hf.Graph().as_default(), hf.Session() as session:
        v = hf.Variable(start)
        op = function(v, indices, updates)
        session.run(v.initializer)
        result = session.run(op)
        np.testing.assert_array_equal(result, session.run(v))
        return result


def one_by_one(kind, start, indices, updates):
    expected = np.array(start)
    rows = np.reshape(updates, (-1, *expected.shape[1:]))
    for i, row in zip(np.ravel(indices), rows):
        ufunc = UFUNCS[kind]
        expected[i] = row if ufunc is None else ufunc(expected[i], row)
    return expected


@pairs(
    ("kind", UFUNCS),
    ("dtype", ["float16", "float32", "float64", "complex64"]),
    ("index_dtype", ["int32", "int64"]),
    ("shape, indices", [
    ((6,), [4, 1]), ((6, 3), [5, 0, 2]), ((6, 3), [1, 1, 4, 1]), ((6, 2, 2), [[1, 2], [2, 1]]),
    ((6, 3), []), ((6, 3), 2), ((4, 5), [1] * 100),
]),
)
def test_rows(kind, dtype, index_dtype, shape, indices):
    rng = np.random.default_rng(0)
    np_type = hf.as_dtype(dtype).np
    start = rng.integers(1, 4, shape).astype(np_type)
    indices = np.array(indices, index_dtype)
    updates = rng.choice([0.5, 1.0, 2.0], indices.shape + shape[1:]).astype(np_type)
    function = getattr(hf, f"scatter_{kind}")
    got = scattered(function, start, indices, updates)
    assert got.dtype == np_type
    with np.errstate(all="ignore"):
        expected = one_by_one(kind, start, indices, updates)
    np.testing.assert_allclose(got, expected, rtol=1e-3 if dtype == "float16" else 1e-6)


@pytest.mark.parametrize("kind", UFUNCS)
def test_integer_rows(kind):
    start = np.array([[7, -7], [9, -9], [1, 2]], np.int32)
    updates = np.array([[2, 2], [-2, 2]], np.int32)
    got = scattered(getattr(hf, f"scatter_{kind}"), start, [1, 1], updates)
    expected = {"update": [-2, 2], "add": [9, -5], "sub": [9, -13], "mul": [-36, -36],
                "div": [-2, -2]}[kind]
    np.testing.assert_array_equal(got, [[7, -7], expected, [1, 2]])


def test_scalar_update_and_other_types():
    np.testing.assert_array_equal(scattered(hf.scatter_add, np.zeros((3, 2)), [0, 2], 5.0),
                                  [[5, 5], [0, 0], [5, 5]])
    np.testing.assert_array_equal(
        scattered(hf.scatter_update, [True, True, True], [1], [False]), [True, False, True])
    np.testing.assert_array_equal(
        scattered(hf.scatter_update, ["a", "b"], [1], ["new"]), [b"a", b"new"])


@pytest.mark.parametrize("indices, where", [([0, 3], r"\[1\] = 3"), ([-1], r"\[0\] = -1"),
                                            ([[0, 1], [7, 1]], r"\[1,0\] = 7")])
def test_rows_out_of_range(indices, where):
    updates = np.zeros(np.shape(indices) + (2,))
    for kind in UFUNCS:
        with pytest.raises(hf.errors.InvalidArgumentError, match=where + r" is not in \[0, 3\)"):
            scattered(getattr(hf, f"scatter_{kind}"), np.zeros((3, 2)), indices, updates)


def test_row_shapes():
    with hf.Graph().as_default(), hf.Session() as session:
        v = hf.Variable(np.zeros((3, 2), np.float32))
        with pytest.raises(ValueError, match=r"ref \[3,2\], indices \[2\], updates \[3,2\]"):
            hf.scatter_add(v, [0, 1], np.zeros((3, 2), np.float32))
        with pytest.raises(ValueError):
            hf.scatter_add(hf.Variable(1.0), [0], [1.0])
        updates = hf.placeholder(hf.float32)
        op = hf.scatter_add(v, [0, 1], updates)
        with pytest.raises(hf.errors.FailedPreconditionError):
            session.run(op, {updates: np.zeros((2, 2))})
        session.run(v.initializer)
        with pytest.raises(hf.errors.InvalidArgumentError, match="updates"):
            session.run(op, {updates: np.zeros((2, 3))})


def test_integer_division_by_zero():
    with pytest.raises(hf.errors.InvalidArgumentError, match="division by zero"):
        scattered(hf.scatter_div, [1, 2], [0], [0])


def test_method(session_graph=None):
    with hf.Graph().as_default(), hf.Session() as session:
        v = hf.Variable(np.ones((3, 2), np.float32))
        slices = hf.IndexedSlices(hf.constant([[1.0, 2.0], [1.0, 2.0]]), hf.constant([2, 2]))
        op = v.scatter_sub(slices)
        session.run(v.initializer)
        np.testing.assert_array_equal(session.run(op), [[1, 1], [1, 1], [-1, -3]])
        with pytest.raises(ValueError, match="IndexedSlices"):
            v.scatter_sub([1.0])


# ---------------------------------------------------------------- coordinates


@pytest.mark.parametrize("kind", ["update", "add", "sub"])
@pytest.mark.parametrize("shape, indices", [
    ((8,), [[4], [3], [1], [4]]), ((3, 4), [[0, 1], [2, 3]]), ((3, 4), [[2], [0]]),
    ((2, 3, 4), [[[0, 1]], [[1, 2]]]), ((3, 4), np.zeros((0, 2))), ((2, 2), [[1, 1], [1, 1]]),
])
def test_coordinates(kind, shape, indices):
    rng = np.random.default_rng(1)
    indices = np.array(indices, np.int32)
    depth = indices.shape[-1]
    start = rng.standard_normal(shape)
    updates = rng.standard_normal(indices.shape[:-1] + shape[depth:])
    got = scattered(getattr(hf, f"scatter_nd_{kind}"), start, indices, updates)
    expected = start.copy()
    for where in np.ndindex(*indices.shape[:-1]):
        at = tuple(indices[where])
        ufunc = UFUNCS[kind]
        expected[at] = updates[where] if ufunc is None else ufunc(expected[at], updates[where])
    np.testing.assert_allclose(got, expected, rtol=1e-12)


def test_coordinates_out_of_range_and_shapes():
    for bad in ([[0, 4]], [[-1, 0]]):
        with pytest.raises(hf.errors.InvalidArgumentError, match="does not index"):
            scattered(hf.scatter_nd_add, np.zeros((3, 4)), bad, [1.0])
    with pytest.raises(ValueError, match="coordinates"):
        scattered(hf.scatter_nd_add, np.zeros((3, 4)), [[0, 1, 2]], [1.0])
    with pytest.raises(ValueError, match=r"updates\.shape=\[1\]"):
        scattered(hf.scatter_nd_add, np.zeros((3, 4)), [[0]], [1.0])


# ---------------------------------------------------------------- handles


def test_resource_variables():
    ops = hf.raw_ops
    with hf.Graph().as_default(), hf.Session() as session:
        handle = ops.VarHandleOp(dtype=hf.float32, shape=[3, 2], shared_name="r")
        exists, read = ops.VarIsInitializedOp(handle), ops.ReadVariableOp(handle, dtype=hf.float32)
        assert read.shape.as_list() == [3, 2]
        assert not session.run(exists)
        with pytest.raises(hf.errors.FailedPreconditionError, match="uninitialized value r"):
            session.run(read)
        session.run(ops.AssignVariableOp(handle, np.ones((3, 2), np.float32)))
        assert session.run(exists)
        session.run(ops.AssignAddVariableOp(handle, np.full((3, 2), 2, np.float32)))
        session.run(ops.AssignSubVariableOp(handle, np.full((3, 2), 1, np.float32)))
        np.testing.assert_array_equal(session.run(read), np.full((3, 2), 2))
        session.run(ops.ResourceScatterAdd(handle, [1, 1], np.ones((2, 2), np.float32)))
        np.testing.assert_array_equal(session.run(read), [[2, 2], [4, 4], [2, 2]])
        gathered = ops.ResourceGather(handle, [1, 0], dtype=hf.float32)
        assert gathered.shape.as_list() == [2, 2]
        np.testing.assert_array_equal(session.run(gathered), [[4, 4], [2, 2]])
        np.testing.assert_array_equal(session.run(ops.VariableShape(handle)), [3, 2])
        session.run(ops.ResourceApplyGradientDescent(handle, 0.5, np.ones((3, 2), np.float32)))
        np.testing.assert_array_equal(session.run(read), [[1.5, 1.5], [3.5, 3.5], [1.5, 1.5]])
        session.run(ops.DestroyResourceOp(handle))
        with pytest.raises(hf.errors.FailedPreconditionError):
            session.run(read)
        with pytest.raises(hf.errors.NotFoundError):
            session.run(ops.DestroyResourceOp(handle, ignore_lookup_error=False))
        session.run(ops.AssignVariableOp(handle, np.ones((3, 2), np.float32)))
        np.testing.assert_array_equal(session.run(read), np.ones((3, 2)))
        with pytest.raises(ValueError, match=r"\[3,2\].*\[2,2\]"):
            ops.AssignVariableOp(handle, np.ones((2, 2), np.float32))


@pytest.mark.parametrize("op_type", ["AssignVariableOp", "AssignAddVariableOp",
                                     "AssignSubVariableOp"])
def test_a_value_of_another_type_than_the_handle(op_type):
    with hf.Graph().as_default():
        handle = hf.raw_ops.VarHandleOp(dtype=hf.float32, shape=[2])
        with pytest.raises(ValueError, match="holds float32, but int32 is to be written"):
            getattr(hf.raw_ops, op_type)(resource=handle, value=hf.constant([1, 2]))


def test_rows_by_batch_have_static_shapes():
    with hf.Graph().as_default():
        handle = hf.get_variable("v", [2, 3, 4, 5], use_resource=True).handle
        indices = np.zeros((2, 3, 7), np.int32)
        for batch, dims in ((1, [2, 3, 7, 4, 5]), (2, [2, 3, 7, 5])):
            rows = hf.raw_ops.ResourceGather(resource=handle, indices=indices, dtype=hf.float32,
                                             batch_dims=batch)
            assert rows.shape.as_list() == dims
