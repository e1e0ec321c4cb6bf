"""Element-wise functions of one and two inputs, comparisons, casts and selections, run."""

from __future__ import annotations

import math

import numpy as np
import pytest
from op_forms import evaluate, failing

import hpcflow as hf
from hpcflow import raw_ops

pytestmark = pytest.mark.filterwarnings("error")
FLOATS = [np.float16, np.float32, np.float64]
COMPLEX = [np.complex64, np.complex128]
RNG = np.random.default_rng(3)
TOLERANCE = {2: 2e-3, 4: 2e-6, 8: 1e-13}


def close(got, expected, dtype=None):
    got, expected = np.asarray(got), np.asarray(expected)
    size = got.dtype.itemsize // (2 if got.dtype.kind == "c" else 1)
    tolerance = TOLERANCE[size]
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)


def sample(dtype, low=-3.0, high=3.0, shape=(3, 4)):
    values = RNG.uniform(low, high, size=shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * RNG.uniform(low, high, size=shape)
    return values.astype(dtype)


# ---------------------------------------------------------------- one input

# op type -> (what it computes in double precision, range of the inputs)
FUNCTIONS = {
    "Abs": (np.abs, -3, 3), "Neg": (np.negative, -3, 3), "Reciprocal": (lambda x: 1 / x, 0.2, 3),
    "Inv": (lambda x: 1 / x, 0.2, 3), "Square": (np.square, -3, 3), "Sqrt": (np.sqrt, 0, 3),
    "Rsqrt": (lambda x: 1 / np.sqrt(x), 0.2, 3), "Round": (np.rint, -3, 3),
    "Exp": (np.exp, -3, 3), "Expm1": (np.expm1, -3, 3), "Log": (np.log, 0.1, 3),
    "Log1p": (np.log1p, -0.9, 3), "Tanh": (np.tanh, -3, 3),
    "Sigmoid": (lambda x: 1 / (1 + np.exp(-x)), -3, 3), "Sin": (np.sin, -3, 3),
    "Cos": (np.cos, -3, 3), "Tan": (np.tan, -1, 1), "Asin": (np.arcsin, -0.9, 0.9),
    "Acos": (np.arccos, -0.9, 0.9), "Atan": (np.arctan, -3, 3), "Sign": (np.sign, -3, 3),
    "Floor": (np.floor, -3, 3), "Ceil": (np.ceil, -3, 3),
}  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op_type", FUNCTIONS)
def test_functions(op_type, dtype):
    function, low, high = FUNCTIONS[op_type]
    build = getattr(raw_ops, op_type)
    for shape in ((3, 4), (), (0, 2)):
        x = sample(dtype, low, high, shape)
        close(evaluate(lambda v: build(v), x), function(x.astype(np.float64)))


@pytest.mark.parametrize("dtype", COMPLEX)
@pytest.mark.parametrize("op_type", ["Neg", "Reciprocal", "Square", "Sqrt", "Rsqrt", "Exp", "Log",
                                     "Tanh", "Sigmoid", "Sin", "Cos", "Tan", "Asin", "Atan"])
def test_functions_of_complex_numbers(op_type, dtype):
    build = getattr(raw_ops, op_type)
    x = sample(dtype, 0.2, 0.8)
    close(evaluate(lambda v: build(v), x), FUNCTIONS[op_type][0](x.astype(np.complex128)))


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_functions_of_integers(dtype):
    x = np.array([[-3, 0, 5]], dtype)
    for build, expected in ((hf.abs, [[3, 0, 5]]), (hf.negative, [[3, 0, -5]]),
                            (hf.square, [[9, 0, 25]]), (hf.sign, [[-1, 0, 1]]),
                            (hf.round, [[-3, 0, 5]])):
        np.testing.assert_array_equal(evaluate(build, x), expected)


def test_rounding_halves_to_even():
    x = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5], np.float32)
    for build in (hf.round, hf.rint):
        np.testing.assert_array_equal(evaluate(build, x), [-2, -2, 0, 0, 2, 2])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_special_values():
    x = np.array([np.nan, np.inf, -np.inf, 0, 1], np.float32)
    np.testing.assert_array_equal(evaluate(hf.is_nan, x), np.isnan(x))
    np.testing.assert_array_equal(evaluate(hf.is_inf, x), np.isinf(x))
    np.testing.assert_array_equal(evaluate(hf.is_finite, x), np.isfinite(x))
    np.testing.assert_array_equal(evaluate(hf.sigmoid, x), np.float32(
        [np.nan, 1, 0, 0.5, 1 / (1 + math.exp(-1))]))
    np.testing.assert_array_equal(evaluate(hf.nn.relu, x), np.float32([np.nan, np.inf, 0, 0, 1]))


@pytest.mark.parametrize("dtype", COMPLEX)
def test_complex_parts(dtype):
    z = sample(dtype)
    real = np.float32 if dtype == np.complex64 else np.float64
    for build, expected in ((hf.real, z.real), (hf.imag, z.imag), (hf.abs, np.abs(z))):
        got = evaluate(build, z)
        assert got.dtype == real
        close(got, expected)
    np.testing.assert_array_equal(evaluate(hf.conj, z), z.conj())
    np.testing.assert_array_equal(evaluate(hf.complex, z.real.copy(), z.imag.copy()), z)
    close(evaluate(hf.sign, z), z / np.abs(z))
    np.testing.assert_array_equal(evaluate(hf.sign, np.zeros(2, dtype)), [0, 0])


def test_real_tensors_in_complex_functions():
    x = hf.constant([1.0, 2.0])
    assert hf.real(x) is x
    assert hf.conj(x) is x
    with pytest.raises(TypeError, match="numeric"):
        hf.conj(hf.constant("text"))
    with pytest.raises(TypeError, match="incorrect types"):
        hf.complex(hf.constant(1.0), hf.constant(1.0, hf.float64))


# ---------------------------------------------------------------- two inputs

ARITHMETIC = {
    "Add": np.add, "AddV2": np.add, "Sub": np.subtract, "Mul": np.multiply,
    "RealDiv": np.divide, "Div": np.divide, "Maximum": np.maximum, "Minimum": np.minimum,
    "SquaredDifference": lambda x, y: (x - y) ** 2,
}  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op_type", ARITHMETIC)
def test_arithmetic_broadcasts(op_type, dtype):
    build = getattr(raw_ops, op_type)
    for a, b in (((3, 4), (3, 4)), ((3, 4), (4,)), ((), (3,)), ((3, 1), (1, 4)), ((), ()),
                 ((0, 4), (4,)), ((2, 1, 3), (5, 1))):
        x, y = sample(dtype, 1, 3, a), sample(dtype, 1, 3, b)
        wide = ARITHMETIC[op_type](x.astype(np.float64), y.astype(np.float64))
        close(evaluate(lambda p, q: build(p, q), x, y), wide)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int16, np.int32, np.int64])
def test_integer_division_and_remainders(dtype):
    signed = np.dtype(dtype).kind == "i"
    x = np.array([7, 8, 9, 1, 0] + ([-7, -8, -9, -1] if signed else []), dtype)
    for divisor in (3, 4) + ((-3, -4) if signed else ()):
        y = np.full(x.shape, divisor, dtype)
        exact = [(int(a), int(b)) for a, b in zip(x, y)]
        floor = [a // b for a, b in exact]
        cut = [int(a / b) for a, b in exact]
        np.testing.assert_array_equal(evaluate(hf.floordiv, x, y), floor)
        np.testing.assert_array_equal(evaluate(hf.truncatediv, x, y), cut)
        np.testing.assert_array_equal(evaluate(lambda a, b: raw_ops.Div(a, b), x, y), cut)
        if dtype in (np.int32, np.int64):
            np.testing.assert_array_equal(evaluate(hf.floormod, x, y),
                                          [a - b * f for (a, b), f in zip(exact, floor)])
            np.testing.assert_array_equal(evaluate(hf.truncatemod, x, y),
                                          [a - b * c for (a, b), c in zip(exact, cut)])


@pytest.mark.parametrize("build", [hf.floordiv, hf.truncatediv, hf.floormod, hf.truncatemod,
                                   lambda x, y: raw_ops.Div(x, y)])
def test_integer_division_by_zero(build):
    x = np.array([1, 2], np.int32)
    for message in failing(build, x, np.array([1, 0], np.int32)):
        assert "division by zero" in message
    assert evaluate(build, x[:0], np.int32(0)).size == 0


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_floating_division_and_remainders():
    x = np.array([7.5, -7.5, 7.5, -7.5, 1.0], np.float32)
    y = np.array([2, 2, -2, -2, 0], np.float32)
    np.testing.assert_array_equal(evaluate(hf.floordiv, x, y), [3, -4, -4, 3, np.inf])
    np.testing.assert_array_equal(evaluate(hf.truncatediv, x, y), [3, -3, -3, 3, np.inf])
    np.testing.assert_array_equal(evaluate(hf.mod, x, y), [1.5, 0.5, -0.5, -1.5, np.nan])
    np.testing.assert_array_equal(evaluate(hf.truncatemod, x, y), [1.5, -1.5, 1.5, -1.5, np.nan])


@pytest.mark.parametrize("source,quotient", [
    (np.uint8, np.float32), (np.int8, np.float32), (np.int16, np.float32),
    (np.uint16, np.float32), (np.int32, np.float64), (np.int64, np.float64),
    (np.float16, np.float16), (np.float32, np.float32), (np.float64, np.float64)])
def test_true_division(source, quotient):
    x, y = np.array([1, 3], source), np.array([2, 2], source)
    for build in (hf.truediv, hf.divide, lambda a, b: a / b):
        got = evaluate(build, x, y)
        assert got.dtype == quotient
        np.testing.assert_array_equal(got, [0.5, 1.5])


def test_python_2_division():
    np.testing.assert_array_equal(evaluate(hf.div, np.int32([7, -7]), np.int32([2, 2])), [3, -4])
    np.testing.assert_array_equal(evaluate(hf.div, np.float32([7]), np.float32([2])), [3.5])


def test_division_of_different_types():
    with pytest.raises(TypeError, match="same dtype"):
        hf.truediv(hf.constant(1), hf.constant(1.0))


def test_pow():
    x, y = np.array([0, 1, 2, -2], np.int64), np.array([0, 5, 10, 3], np.int64)
    np.testing.assert_array_equal(evaluate(hf.pow, x, y), x**y)
    close(evaluate(hf.pow, sample(np.float32, 0.5, 2), np.float32(1.7)).shape, (3, 4))
    for message in failing(hf.pow, np.int32([2]), np.int32([-1])):
        assert "negative integer powers" in message


def test_strings_are_concatenated_and_compared():
    words = np.array([b"a", b"bc", b""], object)
    assert evaluate(hf.add, words, words).tolist() == [b"aa", b"bcbc", b""]
    assert evaluate(hf.add, words, b"!").tolist() == [b"a!", b"bc!", b"!"]
    assert evaluate(hf.add, b"x", b"y") == b"xy"
    np.testing.assert_array_equal(evaluate(hf.equal, words, b"bc"), [False, True, False])
    np.testing.assert_array_equal(evaluate(hf.not_equal, words, words), [False] * 3)
    assert evaluate(hf.equal, b"x", b"x")


def test_strings_keep_final_zeros():
    words = np.array([b"a\0", b"a"], object)
    assert evaluate(hf.add, words, b"\0").tolist() == [b"a\0\0", b"a\0"]
    assert evaluate(hf.add, b"x\0", b"y\0") == b"x\0y\0"
    assert evaluate(hf.equal, words, b"a\0").tolist() == [True, False]


def test_shapes_that_do_not_broadcast():
    for message in failing(hf.add, np.ones((2, 3), np.float32), np.ones(2, np.float32)):
        assert "3" in message and "2" in message


def test_scalar_mul():
    assert evaluate(lambda x: hf.scalar_mul(3, x), np.int32([1, 2])).tolist() == [3, 6]
    slices = hf.IndexedSlices(hf.constant([[1.0], [2.0]]), hf.constant([0, 3]))
    scaled = hf.scalar_mul(2.0, slices)
    assert isinstance(scaled, hf.IndexedSlices) and scaled.indices is slices.indices
    with pytest.raises(ValueError, match="scalar"):
        hf.scalar_mul([1.0, 2.0], hf.constant([1.0, 2.0]))


# ---------------------------------------------------------------- comparisons, logic


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int32, np.uint8])
def test_comparisons(dtype):
    x, y = np.array([1, 2, 3, 0], dtype), np.array([2, 2, 2, 0], dtype)
    if np.dtype(dtype).kind == "f":
        y[3] = np.nan
    for build, function in ((hf.equal, np.equal), (hf.not_equal, np.not_equal),
                            (hf.less, np.less), (hf.less_equal, np.less_equal),
                            (hf.greater, np.greater), (hf.greater_equal, np.greater_equal)):
        got = evaluate(build, x, y)
        assert got.dtype == bool
        np.testing.assert_array_equal(got, function(x, y))
        np.testing.assert_array_equal(evaluate(build, x, y[0]), function(x, y[0]))


def test_logic():
    x, y = np.array([True, True, False, False]), np.array([True, False, True, False])
    np.testing.assert_array_equal(evaluate(hf.logical_and, x, y), x & y)
    np.testing.assert_array_equal(evaluate(hf.logical_or, x, y), x | y)
    np.testing.assert_array_equal(evaluate(hf.logical_xor, x, y), x ^ y)
    np.testing.assert_array_equal(evaluate(hf.logical_not, x), ~x)
    with pytest.raises((TypeError, ValueError)):
        hf.logical_and(hf.constant(1), hf.constant(2))


# ---------------------------------------------------------------- Cast, Select

_KINDS = [np.float16, np.float32, np.float64, np.int8, np.uint8, np.int16, np.int32, np.int64,
          np.bool_, np.complex64, np.complex128]


@pytest.mark.parametrize("source", _KINDS)
@pytest.mark.parametrize("target", _KINDS)
def test_cast(source, target):
    x = np.array([[0, 1.7, 100.2]]).astype(source)
    expected = (x.real if x.dtype.kind == "c" and np.dtype(target).kind != "c" else x)
    got = evaluate(lambda v: raw_ops.Cast(v, DstT=target), x)
    assert got.dtype == target
    np.testing.assert_array_equal(got, expected.astype(target))


def test_cast_functions():
    x = hf.constant([1, 2])
    assert hf.cast(x, hf.int32) is x
    for build, dtype in ((hf.to_float, hf.float32), (hf.to_double, hf.float64),
                         (hf.to_int32, hf.int32), (hf.to_int64, hf.int64),
                         (hf.to_bfloat16, hf.bfloat16)):
        assert build(x).dtype == dtype
    slices = hf.cast(hf.IndexedSlices(hf.constant([[1]]), hf.constant([0])), hf.float32)
    assert slices.dtype == hf.float32
    with hf.Session() as session:
        assert session.run(hf.to_bfloat16(hf.constant([1.5]))).astype(np.float32) == [1.5]


def test_saturate_cast():
    x = np.array([-500.0, -1, 100.9, 1e10], np.float32)
    np.testing.assert_array_equal(evaluate(lambda v: hf.saturate_cast(v, hf.uint8), x),
                                  [0, 0, 100, 255])
    np.testing.assert_array_equal(evaluate(lambda v: hf.saturate_cast(v, hf.int8), x),
                                  [-128, -1, 100, 127])


def select(c, x, y):
    return raw_ops.Select(c, x, y)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8, np.int64, np.bool_,
                                   np.complex64, np.complex128])
@pytest.mark.parametrize("size", [7, 5000])
def test_select(dtype, size):
    condition = RNG.random((size, 2)) > 0.5
    x = RNG.integers(0, 100, (size, 2)).astype(dtype)
    y = RNG.integers(0, 100, (size, 2)).astype(dtype)
    np.testing.assert_array_equal(evaluate(select, condition, x, y), np.where(condition, x, y))
    rows = condition[:, 0].copy()
    np.testing.assert_array_equal(evaluate(select, rows, x, y), np.where(rows[:, None], x, y))
    np.testing.assert_array_equal(evaluate(select, np.array(True), x, y), x)
    assert evaluate(select, np.array(False), x[0, 0], y[0, 0]) == y[0, 0]


def test_select_of_strings():
    x, y = np.array([b"a", b"b"], object), np.array([b"c", b"d"], object)
    assert evaluate(select, np.array([True, False]), x, y).tolist() == [b"a", b"d"]
    assert evaluate(select, np.array(False), b"x", b"y") == b"y"


def test_select_of_shapes_that_do_not_fit():
    x = np.ones((3, 2), np.float32)
    failing(select, np.array([True, False]), x, x)
    failing(select, np.array([True, False, True]), x, x[:2])


# ---------------------------------------------------------------- operators


def test_operators():
    x, y = np.array([5.0, -7.5], np.float32), np.array([2.0, 2.0], np.float32)
    for build in (lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, lambda a, b: a / b,
                  lambda a, b: a // b, lambda a, b: a % b, lambda a, b: a < b, lambda a, b: a <= b,
                  lambda a, b: a > b, lambda a, b: a >= b, lambda a, b: -a + abs(b)):
        np.testing.assert_array_equal(evaluate(build, x, y), build(x, y))
    np.testing.assert_allclose(evaluate(lambda a, b: abs(a) ** b, x, y), abs(x) ** y, rtol=1e-6)


def test_reflected_operators():
    x = np.array([5.0, -7.5], np.float32)
    two = np.float32(2)
    for build in (lambda a: two + a, lambda a: 2 - a, lambda a: 2.0 * a, lambda a: 2 / a,
                  lambda a: 2 // a, lambda a: 2 % a, lambda a: np.float32([1, 2]) + a,
                  lambda a: [3.0, 4.0] * a):
        np.testing.assert_allclose(evaluate(build, x), build(x), rtol=1e-6)
    np.testing.assert_allclose(evaluate(lambda a: 2.0**a, x), 2.0**x, rtol=1e-6)


def test_boolean_operators():
    x, y = np.array([True, False]), np.array([True, True])
    for build in (lambda a, b: a & b, lambda a, b: a | b, lambda a, b: a ^ b, lambda a, b: ~a):
        np.testing.assert_array_equal(evaluate(build, x, y), build(x, y))
    np.testing.assert_array_equal(evaluate(lambda a: True & a, x), x)


def test_matrix_operator():
    a, b = sample(np.float32, shape=(2, 3)), sample(np.float32, shape=(3, 2))
    np.testing.assert_allclose(evaluate(lambda x, y: x @ y, a, b), a @ b, rtol=1e-6)
    np.testing.assert_allclose(evaluate(lambda y: a @ y, b), a @ b, rtol=1e-6)


def test_names_of_operators():
    with hf.Graph().as_default():
        x = hf.constant([1.0], name="x")
        assert (x + 1).op.name == "add"
        assert (x + 1).op.inputs[1].op.name == "add_1/y"
        assert (2 * x).op.inputs[0].op.name == "mul/x"
        assert (x / x).op.name == "truediv"
        assert (x < 2).op.name == "Less"


def test_numbers_take_the_type_of_the_tensor():
    assert (hf.constant([1.0], hf.float64) * 2).dtype == hf.float64
    with pytest.raises(TypeError, match="int32"):
        hf.constant([1]) * 0.5


def test_operands_of_higher_priority_go_first():
    class Sparse:
        __array_priority__ = 200

        def __rmul__(self, other):
            return "reflected"

    assert hf.constant(1.0) * Sparse() == "reflected"


def test_sparse_values():
    class Sparse:
        def __init__(self, indices, values, dense_shape):
            self.indices, self.values, self.dense_shape = indices, values, dense_shape

    sparse = Sparse(hf.constant([[0]]), hf.constant([-4.0]), hf.constant([3]))
    for build in (hf.abs, hf.square, hf.negative, hf.sign, hf.tanh, hf.erf):
        result = build(sparse)
        assert isinstance(result, Sparse) and result.indices is sparse.indices
    with hf.Session() as session:
        assert session.run(hf.abs(sparse).values) == [4.0]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("size", [0, 5, 4000])
def test_rests_of_zero_keep_the_sign_of_the_dividend(dtype, size):
    tiny = np.finfo(dtype).tiny
    x = np.resize(np.array([-0.0, 0.0, 4.0, -4.0, tiny, -5.0], dtype), size)
    for divisor, rest in ((dtype(2), [-0.0, 0.0, 0.0, -0.0, tiny, 1.0]),
                          (dtype(-2), [-0.0, 0.0, 0.0, -0.0, tiny - 2, -1.0])):
        got = evaluate(lambda a, b: raw_ops.FloorMod(x=a, y=b), x, divisor)
        expected = np.resize(np.array(rest, dtype), size)
        np.testing.assert_array_equal(got, expected)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(expected))


@pytest.mark.parametrize("op_type", ["Elu", "Selu"])
@pytest.mark.parametrize("size", [3, 4000])
def test_a_negative_zero_stays_one(op_type, size):
    got = evaluate(lambda v: getattr(raw_ops, op_type)(v), np.full(size, -0.0, np.float32))
    assert np.signbit(got).all()
