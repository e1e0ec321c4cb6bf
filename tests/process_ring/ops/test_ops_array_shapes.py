"""Constants, placeholders, identities, and ops that ask for or change shapes, run."""

from __future__ import annotations

import numpy as np
import pytest
from op_forms import evaluate, failing

import hpcflow as hf
from hpcflow import raw_ops

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def equal(value, expected):
    np.testing.assert_array_equal(value, expected)


# ---------------------------------------------------------------- constants


@pytest.mark.parametrize("value", [3, 2.5, True, [1, 2], [[1.0], [2.0]], [], "text", ["a", "bc"],
                                   np.float16(2), np.zeros((0, 3), np.int8), 1 + 2j])
def test_constant_value(value):
    got = evaluate(lambda: hf.constant(value))
    expected = np.asarray(value)
    if expected.dtype.kind == "U":
        expected = np.array([s.encode() for s in expected.reshape(-1)], object).reshape(
            expected.shape)
    equal(got, expected)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "uint8", "int16",
                                   "uint16", "int32", "int64", "bool", "complex64", "complex128"])
def test_zeros_ones_fill(dtype):
    for shape in ([], [0], [2, 3], [40, 50]):
        np_type = hf.as_dtype(dtype).np
        equal(evaluate(lambda s=shape: hf.zeros(s, dtype)), np.zeros(shape, np_type))
        equal(evaluate(lambda s=shape: hf.ones(s, dtype)), np.ones(shape, np_type))
        value = np_type.type(1)
        equal(evaluate(lambda d, v: hf.fill(d, v), np.array(shape, np.int32), value),
              np.full(shape, value))
    x = np.ones((3, 2), np_type)
    equal(evaluate(hf.zeros_like, x), np.zeros_like(x))
    equal(evaluate(hf.ones_like, x), np.ones_like(x))
    equal(evaluate(raw_zeros_like, x), np.zeros_like(x))


def raw_zeros_like(x):
    return hf.raw_ops.ZerosLike(x=x)


def test_fill_of_strings_and_wrong_dims():
    equal(evaluate(lambda d, v: hf.fill(d, v), np.array([2], np.int32), b"ab"), [b"ab", b"ab"])
    equal(evaluate(hf.zeros_like, [b"a", b"b"]), [b"", b""])
    equal(evaluate(raw_zeros_like, b"a"), b"")
    assert evaluate(lambda: hf.zeros([2], hf.string)).tolist() == [b"", b""]
    with pytest.raises(TypeError, match="string"):
        hf.ones([2], hf.string)
    failing(lambda d: hf.fill(d, 1.0), np.array([-1, 2], np.int32), forms=("static", "unknown"))


def test_zeros_of_a_dynamic_shape():
    x = np.ones((2, 5), np.float32)
    equal(evaluate(lambda x: hf.zeros(hf.shape(x), hf.int64), x), np.zeros((2, 5), np.int64))
    equal(evaluate(lambda x: hf.zeros_like(x, hf.int32), x), np.zeros((2, 5), np.int32))
    equal(evaluate(lambda x: hf.ones_like(x, hf.bool, optimize=False), x), np.ones((2, 5), bool))


def test_placeholder_must_be_fed():
    with hf.Graph().as_default(), hf.Session() as session:
        x = hf.placeholder("float32", [None, 784], name="image")
        with pytest.raises(hf.errors.InvalidArgumentError) as e:
            session.run(x + 1.0)
        assert ("You must feed a value for placeholder tensor 'image' with dtype float and shape "
                "[?,784]") in str(e.value)
        y = hf.placeholder("int64", name="label")
        with pytest.raises(hf.errors.InvalidArgumentError, match="'label' with dtype int64"):
            session.run(y)


def test_placeholder_with_default():
    with hf.Graph().as_default(), hf.Session() as session:
        x = hf.placeholder_with_default(np.float32([1, 2]), [None])
        assert x.shape.as_list() == [None]
        equal(session.run(x), [1, 2])
        equal(session.run(x, {x: [5.0]}), [5])
        with pytest.raises(ValueError):
            hf.placeholder_with_default([1, 2], [3])


# ---------------------------------------------------------------- sequences


@pytest.mark.parametrize("args", [(5,), (0,), (2, 9), (2, 9, 3), (9, 2, -3), (1, 1), (-3, 3, 2)])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_integer_range(args, dtype):
    arrays = [np.asarray(a, dtype) for a in args]
    equal(evaluate(lambda *a: hf.range(*a), *arrays), np.arange(*args, dtype=dtype))


@pytest.mark.parametrize("args", [(0.0, 1.0, 0.25), (1.0, 0.0, -0.3), (0.0, 1.0, 0.3)])
def test_float_range(args):
    for dtype in (np.float32, np.float64):
        arrays = [dtype(a) for a in args]
        got = evaluate(lambda *a: hf.range(*a), *arrays)
        np.testing.assert_allclose(got, np.arange(*args), rtol=1e-6, atol=1e-6)


def test_range_takes_the_widest_type():
    assert hf.range(0, 3.0).dtype is hf.float32
    assert hf.range(np.int64(3)).dtype is hf.int64
    assert hf.range(3, dtype=hf.float64).dtype is hf.float64
    equal(evaluate(lambda n: hf.range(n, dtype=hf.float32), np.int32(3)), [0, 1, 2])
    with pytest.raises(TypeError, match="range takes"):
        hf.range(np.int8(3))


def test_range_refuses_what_never_ends():
    messages = failing(lambda a, b, c: raw_ops.Range(start=a, limit=b, delta=c), np.int32(0),
                       np.int32(3), np.int32(0))
    assert all("delta != 0" in m for m in messages)
    failing(lambda a, b, c: raw_ops.Range(start=a, limit=b, delta=c), np.int32(3), np.int32(0),
            np.int32(1))


@pytest.mark.parametrize("num", [1, 2, 5])
def test_lin_space(num):
    for dtype in (np.float32, np.float64):
        got = evaluate(hf.linspace, dtype(-1), dtype(4), np.int32(num))
        np.testing.assert_allclose(got, np.linspace(-1, 4, num), rtol=1e-6)
    failing(hf.lin_space, 1.0, 2.0, np.int32(0))


# ---------------------------------------------------------------- identities


@pytest.mark.parametrize("value", [np.float32(3), X, np.array([b"a", b"b"], object), b"s",
                                   np.zeros((0, 2), np.int64), np.array([True])])
def test_values_pass_unchanged(value):
    for op in (hf.identity, hf.stop_gradient,
               lambda x: raw_ops.PreventGradient(input=x), lambda x: raw_ops.Copy(input=x),
               lambda x: raw_ops.CopyHost(input=x),
               lambda x: raw_ops.DebugIdentity(input=x, tensor_name="t")):
        equal(evaluate(op, value), value)


def test_no_op_runs():
    with hf.Graph().as_default(), hf.Session() as session:
        assert session.run([hf.no_op(), raw_ops.ControlTrigger()]) == [None, None]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_check_numerics(dtype):
    x = np.array([1, 2], dtype)
    equal(evaluate(lambda x: hf.check_numerics(x, "m"), x), x)
    bad = np.array([1, np.nan], dtype), np.array([np.inf], dtype), np.array([np.nan, np.inf], dtype)
    for value, kinds in zip(bad, ("NaN", "Inf", "Inf and NaN")):
        for message in failing(lambda x: hf.check_numerics(x, "in layer 1"), value):
            assert f"in layer 1 : Tensor had {kinds} values" in message
    equal(evaluate(lambda x: hf.verify_tensor_all_finite(x, "m"), x), x)
    failing(lambda x: hf.verify_tensor_all_finite(x, "m"), bad[0])


# ---------------------------------------------------------------- shapes as values


@pytest.mark.parametrize("value", [X, np.float64(1), np.zeros((0, 7), np.int8),
                                   np.array([[b"a"]], object), b"s"])
@pytest.mark.parametrize("out_type", [hf.int32, hf.int64])
def test_shape_size_rank(value, out_type):
    shape = np.shape(value)
    equal(evaluate(lambda x: hf.shape(x, out_type=out_type), value), np.array(shape, int))
    equal(evaluate(lambda x: raw_ops.Shape(input=x, out_type=out_type), value), shape)
    equal(evaluate(lambda x: hf.size(x, out_type=out_type), value), np.prod(shape, dtype=int))
    equal(evaluate(lambda x: raw_ops.Size(input=x, out_type=out_type), value),
          np.prod(shape, dtype=int))
    equal(evaluate(hf.rank, value), len(shape))
    equal(evaluate(lambda x: raw_ops.Rank(input=x), value), len(shape))


def test_shape_n():
    got = evaluate(lambda a, b: hf.shape_n([a, b]), X, np.float32(1))
    assert [g.tolist() for g in got] == [[2, 3, 4], []]
    equal(evaluate(lambda a: hf.shape_n([a])[0], X), [2, 3, 4])


# ---------------------------------------------------------------- reshaping


@pytest.mark.parametrize("shape", [[24], [4, 6], [-1], [2, -1, 2], [1, 24, 1], [2, 3, 4]])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_reshape(shape, index):
    equal(evaluate(hf.reshape, X, np.array(shape, index)), X.reshape(shape))


def test_reshape_of_scalars_strings_and_empty():
    empty = np.zeros(0, np.int32)
    equal(evaluate(hf.reshape, np.float32(3), np.array([1, 1])), [[3]])
    assert evaluate(hf.reshape, np.float32([[3]]), empty).shape == ()
    equal(evaluate(hf.reshape, b"a", np.array([1])), [b"a"])
    assert evaluate(hf.reshape, np.array([[b"a"]], object), empty) == b"a"
    assert evaluate(hf.reshape, np.zeros((0, 3)), np.array([3, 0, 2])).shape == (3, 0, 2)
    assert evaluate(hf.reshape, np.zeros((0, 3)), np.array([0, -1])).shape == (0, 3)
    assert evaluate(hf.reshape, np.zeros((2, 0)), np.array([-1, 0])).shape == (2, 0)


@pytest.mark.parametrize("shape", [[5], [7, -1], [-1, -1], [-2, 12]])
def test_reshape_to_what_does_not_fit(shape):
    failing(hf.reshape, X, np.array(shape, np.int32))


@pytest.mark.parametrize("axis", [0, 1, 3, -1, -4])
def test_expand_dims(axis):
    equal(evaluate(lambda x, a: hf.expand_dims(x, a), X, np.int32(axis)), np.expand_dims(X, axis))
    equal(evaluate(lambda x: hf.expand_dims(x, axis), X), np.expand_dims(X, axis))


def test_expand_dims_of_scalars_and_old_name():
    equal(evaluate(lambda x: hf.expand_dims(x, 0), np.float32(2)), [2])
    equal(evaluate(lambda x: hf.expand_dims(x, -1), b"s"), [b"s"])
    equal(evaluate(lambda x: hf.expand_dims(x, dim=1), X), np.expand_dims(X, 1))
    with pytest.raises(ValueError, match="Cannot specify both"):
        hf.expand_dims(X, 1, dim=1)
    with pytest.raises(ValueError, match="Must specify"):
        hf.expand_dims(X)
    failing(lambda x: hf.expand_dims(x, 4), X)


@pytest.mark.parametrize("axis", [None, 0, [0], [0, 2], [-1], [-1, 0]])
def test_squeeze(axis):
    x = np.ones((1, 3, 1), np.int32)
    expected = np.squeeze(x, None if axis is None else tuple(np.reshape(axis, -1)))
    equal(evaluate(lambda x: hf.squeeze(x, axis), x), expected)
    equal(evaluate(lambda x: hf.squeeze(x, squeeze_dims=axis), x), expected)


def test_squeeze_to_scalar_and_errors():
    assert evaluate(hf.squeeze, np.float32([[7]])) == 7
    assert evaluate(hf.squeeze, np.array([b"a"], object)) == b"a"
    assert all("dimension" in m or "squeeze" in m for m in failing(lambda x: hf.squeeze(x, [1]), X))
    failing(lambda x: hf.squeeze(x, [3]), X)


# ---------------------------------------------------------------- bits


@pytest.mark.parametrize("old, new, shape", [
    ("float32", "int32", (2, 3)), ("int64", "float32", (2,)), ("float32", "uint8", (2, 1)),
    ("uint8", "float64", (3, 8)), ("float16", "float32", (4, 2)), ("int32", "int64", (2,)),
    ("float64", "int64", ()), ("float32", "int16", ())])
def test_bitcast(old, new, shape):
    x = np.arange(1, 1 + np.prod(shape, dtype=int)).astype(old).reshape(shape)
    got = evaluate(lambda x: hf.bitcast(x, new), x)
    assert got.dtype == np.dtype(new)
    assert np.asarray(got).tobytes() == x.tobytes()
    back = evaluate(lambda x: hf.bitcast(x, old), got)
    equal(back, x)


def test_bitcast_that_does_not_fit():
    failing(lambda x: hf.bitcast(x, hf.float64), np.zeros(3, np.float32))
    failing(lambda x: hf.bitcast(x, hf.float64), np.float32(1))


# ---------------------------------------------------------------- broadcasts and permutations


def test_broadcast_shapes():
    assert hf.broadcast_static_shape([None, 3], [5, 1, 3]).as_list() == [5, None, 3]
    with pytest.raises(ValueError, match=r"Incompatible shapes.*\(2,\) and \(3,\)"):
        hf.broadcast_static_shape([2], [3])
    a, b = np.array([2, 1], np.int32), np.array([7, 1, 3], np.int32)
    equal(evaluate(hf.broadcast_dynamic_shape, a, b), [7, 2, 3])
    equal(evaluate(hf.broadcast_dynamic_shape, a.astype(np.int64), b.astype(np.int64)), [7, 2, 3])
    failing(hf.broadcast_dynamic_shape, np.array([2], np.int32), np.array([3], np.int32))


@pytest.mark.parametrize("x, y, axes_x, axes_y", [
    ([2, 3], [2, 3], [], []), ([2, 3], [3], [], [0]), ([2, 3], [], [], [0, 1]),
    ([2, 1, 3], [2, 1, 1], [1], [1, 2]), ([1], [1, 1], [0, 1], [0, 1]),
    ([1, 5], [1, 1, 5], [0, 1], [0, 1]), ([0, 1], [1, 1], [1], [0, 1]), ([], [1], [0], [0])])
def test_broadcast_gradient_args(x, y, axes_x, axes_y):
    got = evaluate(lambda a, b: raw_ops.BroadcastGradientArgs(s0=a, s1=b), np.array(x, np.int32),
                   np.array(y, np.int32))
    assert [g.tolist() for g in got] == [axes_x, axes_y]


def test_broadcast_gradient_args_that_do_not_fit():
    failing(lambda a, b: raw_ops.BroadcastGradientArgs(s0=a, s1=b), np.array([2], np.int32),
            np.array([3], np.int32))


def test_invert_permutation():
    for dtype in (np.int32, np.int64):
        equal(evaluate(hf.invert_permutation, np.array([3, 0, 2, 1], dtype)), [1, 3, 2, 0])
    for bad in ([0, 0], [0, 2], [-1, 0]):
        failing(hf.invert_permutation, np.array(bad, np.int32))
