"""Quantization: integers and their ranges against exact arithmetic, fake quantization."""

from __future__ import annotations

import numpy as np
import pytest
from gradcheck import check_gradient
from pairs import pairs

import hpcflow as hf
from hpcflow import raw_ops

Invalid = hf.errors.InvalidArgumentError
TYPES = {"qint8": np.int8, "quint8": np.uint8, "qint16": np.int16, "quint16": np.uint16,
         "qint32": np.int32}


@pytest.fixture(autouse=True)
def session():
    with hf.Graph().as_default(), hf.Session() as s:
        yield s


def data(*shape, seed=0, scale=2.0):
    return (np.random.RandomState(seed).randn(*shape) * scale).astype(np.float32)


def quantized(x, low=-4.0, high=4.0, kind=hf.quint8):
    return hf.quantize_v2(x, low, high, kind, "MIN_FIRST")


def numbers(session, outputs):
    """What (integers, low, high) stand for."""
    return session.run(hf.dequantize(*outputs, mode="MIN_FIRST"))


@pairs(
    ("kind", TYPES),
    ("mode", ["MIN_COMBINED", "MIN_FIRST"]),
    ("low,high", [(-3.0, 4.0), (0.0, 5.0), (-5.0, 0.5)]),
)
def test_there_and_back(session, kind, mode, low, high):
    x = data(50)
    outputs = hf.quantize_v2(x, low, high, getattr(hf, kind), mode)
    assert outputs[0].dtype == getattr(hf, kind) and outputs[0].shape == [50]
    value, least, most = session.run(list(outputs))
    assert value.dtype == TYPES[kind] and (least, most) == (low, high)
    back = session.run(hf.dequantize(*outputs, mode=mode))
    step = (high - low) / (2.0 ** (8 * value.itemsize) - 1)
    np.testing.assert_allclose(back, np.clip(x, low, high), atol=max(1.01 * step, 2e-6))


def test_zero_is_exact_with_min_first(session):
    outputs = quantized(np.zeros(3, np.float32), -1.7, 3.1)
    np.testing.assert_allclose(numbers(session, outputs), 0, atol=1e-7)


def test_empty_and_wrong_ranges(session):
    value, least, most = session.run(list(quantized(np.zeros(2, np.float32), 0.0, 0.0)))
    assert least == 0 and most == np.float32(0.01) and not value.any()
    with pytest.raises(Invalid, match="max_range must be larger"):
        session.run(quantized(data(3), 2.0, 1.0)[0])
    with pytest.raises(ValueError, match="rank 0"):
        hf.quantize_v2(data(3), [1.0, 2.0], 3.0, hf.quint8)


def test_narrow_numbers_of_unusual_ranges(session):
    wide = hf.bitcast(np.int32([-5, 0, 2**31 - 1]), hf.qint32)
    for reach, least, most, expected in ((1e10, -1e-5, 1e-5, [0, 128, 255]),
                                         (1e4, -1e-4, 1e-4, [98, 128, 255]),
                                         (1e4, 0.0, 1.0, [0, 0, 255])):
        narrow = raw_ops.Requantize(input=wide, input_min=-reach, input_max=reach,
                                    requested_output_min=least, requested_output_max=most,
                                    out_type=hf.quint8)[0]
        found = session.run(hf.bitcast(narrow, hf.uint8)).tolist()
        assert found[::2] == expected[::2] and abs(found[1] - expected[1]) <= 1
    flat = hf.bitcast(np.int32([-5, -5]), hf.qint32)
    narrow = raw_ops.QuantizeDownAndShrinkRange(input=flat, input_min=0.0, input_max=0.0,
                                                out_type=hf.quint8)[0]
    assert session.run(hf.bitcast(narrow, hf.uint8)).tolist() == [0, 0]


def test_products_are_exact_integers(session):
    a, b = quantized(data(4, 6)), quantized(data(6, 5, seed=1), -3.0, 2.0)
    out, low, high = raw_ops.QuantizedMatMul(a=a[0], b=b[0], min_a=a[1], max_a=a[2], min_b=b[1],
                                             max_b=b[2])
    x, y, found, least, most = session.run([a[0], b[0], out, low, high])
    zero_a, zero_b = round(255 * 4 / 8), round(255 * 3 / 5)
    exact = (x.astype(int) - zero_a) @ (y.astype(int) - zero_b)
    np.testing.assert_array_equal(found, exact)
    assert found.dtype == np.int32 and most / (2**31 - 1) == pytest.approx(
        8 / 255 * 5 / 255, rel=1e-6) and least < 0
    floats = numbers(session, a) @ numbers(session, b)
    np.testing.assert_allclose(numbers(session, (out, low, high)), floats, atol=2e-3)


def test_ranges_of_products_follow_from_float32_steps(session):
    one = raw_ops.Bitcast(input=np.zeros((1, 1), np.uint8), type=hf.quint8)
    ranges = np.random.RandomState(0).rand(50, 4).astype(np.float32) * [-5, 7, -3, 9]
    for low_a, high_a, low_b, high_b in ranges.astype(np.float32):
        _, *found = raw_ops.QuantizedMatMul(a=one, b=one, min_a=low_a, max_a=high_a, min_b=low_b,
                                            max_b=high_b)
        step = (high_a - low_a) / np.float32(255) * ((high_b - low_b) / np.float32(255))
        assert session.run(found) == [step * np.float32(-2**31), step * np.float32(2**31)]


def test_transposed_products_and_shapes(session):
    a, b = quantized(data(6, 4)), quantized(data(5, 6))
    one = raw_ops.QuantizedMatMul(a=a[0], b=b[0], min_a=a[1], max_a=a[2], min_b=b[1], max_b=b[2],
                                  transpose_a=True, transpose_b=True)
    assert one[0].shape == [4, 5] and session.run(one[0]).shape == (4, 5)
    with pytest.raises(ValueError):
        raw_ops.QuantizedMatMul(a=a[0], b=b[0], min_a=a[1], max_a=a[2], min_b=b[1], max_b=b[2])


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("stride", [1, 2])
def test_convolution_against_floats(session, padding, stride):
    x, w = quantized(data(2, 7, 6, 3), -4.0, 4.0), quantized(data(3, 3, 3, 4, seed=2), -4.0, 4.0)
    found = hf.nn.quantized_conv2d(x[0], w[0], x[1], x[2], w[1], w[2], [1, stride, stride, 1],
                                   padding)
    expected = hf.nn.conv2d(numbers(session, x), numbers(session, w), [1, stride, stride, 1],
                            padding)
    assert found[0].shape == expected.shape and found[0].dtype == hf.qint32
    np.testing.assert_allclose(numbers(session, found), session.run(expected), atol=5e-3,
                               rtol=1e-4)


def test_a_small_network_end_to_end(session):
    """Convolution, bias, requantization, relu, pooling: near the floats of the same network."""
    x, w = quantized(data(1, 8, 8, 2, scale=1.0)), quantized(data(3, 3, 2, 4, seed=3, scale=1.0))
    bias = quantized(data(4, seed=4, scale=1.0))
    y = hf.nn.quantized_conv2d(x[0], w[0], x[1], x[2], w[1], w[2], [1, 1, 1, 1], "SAME")
    y = raw_ops.QuantizeDownAndShrinkRange(input=y[0], input_min=y[1], input_max=y[2],
                                           out_type=hf.quint8)
    y = raw_ops.QuantizedBiasAdd(input=y[0], bias=bias[0], min_input=y[1], max_input=y[2],
                                 min_bias=bias[1], max_bias=bias[2], out_type=hf.qint32)
    limits = raw_ops.RequantizationRange(input=y[0], input_min=y[1], input_max=y[2])
    y = raw_ops.Requantize(input=y[0], input_min=y[1], input_max=y[2],
                           requested_output_min=limits[0], requested_output_max=limits[1],
                           out_type=hf.quint8)
    y = raw_ops.QuantizedRelu(features=y[0], min_features=y[1], max_features=y[2])
    y = hf.nn.quantized_max_pool(y[0], y[1], y[2], [1, 2, 2, 1], [1, 2, 2, 1], "VALID")
    floats = hf.nn.conv2d(numbers(session, x), numbers(session, w), [1, 1, 1, 1], "SAME")
    floats = hf.nn.max_pool(hf.nn.relu(floats + numbers(session, bias)), [1, 2, 2, 1],
                            [1, 2, 2, 1], "VALID")
    expected = session.run(floats)
    np.testing.assert_allclose(numbers(session, y), expected, atol=0.02 * expected.max())


@pytest.mark.parametrize(("op", "top"), [("QuantizedRelu", np.inf), ("QuantizedRelu6", 6.0)])
def test_activations(session, op, top):
    x = quantized(data(40, scale=5.0), -2.0, 9.0)
    found = getattr(raw_ops, op)(features=x[0], min_features=x[1], max_features=x[2])
    np.testing.assert_allclose(numbers(session, found), np.clip(numbers(session, x), 0, top),
                               atol=0.03)
    limited = hf.nn.quantized_relu_x(x[0], 2.0, x[1], x[2])
    assert numbers(session, limited).max() == pytest.approx(2.0, abs=0.03)


def test_average_pooling(session):
    x = quantized(data(2, 5, 5, 3))
    found = hf.nn.quantized_avg_pool(x[0], x[1], x[2], [1, 2, 2, 1], [1, 1, 1, 1], "SAME")
    expected = hf.nn.avg_pool(numbers(session, x), [1, 2, 2, 1], [1, 1, 1, 1], "SAME")
    np.testing.assert_allclose(numbers(session, found), session.run(expected), atol=8 / 255)


def test_concat_brings_ranges_together(session):
    one, two = quantized(data(3, 2), -1.0, 1.0), quantized(data(3, 4, seed=1), -4.0, 2.0)
    out = hf.quantized_concat(1, [one[0], two[0]], [one[1], two[1]], [one[2], two[2]])
    assert out[0].shape == [3, 6] and session.run(list(out[1:])) == [-4.0, 2.0]
    parts = np.concatenate([numbers(session, one), numbers(session, two)], 1)
    np.testing.assert_allclose(numbers(session, out), parts, atol=6 / 255)
    with pytest.raises(ValueError):
        hf.quantized_concat(5, [one[0], two[0]], [one[1], two[1]], [one[2], two[2]])


def test_normalizations(session):
    x = quantized(data(2, 4, 4, 3))
    y = raw_ops.QuantizedInstanceNorm(x=x[0], x_min=x[1], x_max=x[2])
    floats = numbers(session, x)
    mean, var = floats.mean((1, 2), keepdims=True), floats.var((1, 2), keepdims=True)
    np.testing.assert_allclose(numbers(session, y), (floats - mean) / np.sqrt(var + 1e-5),
                               atol=0.03)
    parts = [quantized(abs(data(3, seed=i)), 0.0, 5.0) for i in range(4)]
    given = {f"{n}{end}": p[i] for n, p in zip(("m", "v", "beta", "gamma"), parts, strict=True)
             for i, end in enumerate(("", "_min", "_max"))}
    z = raw_ops.QuantizedBatchNormWithGlobalNormalization(
        t=x[0], t_min=x[1], t_max=x[2], **given, out_type=hf.qint32, variance_epsilon=0.01,
        scale_after_normalization=True)
    m, v, beta, gamma = (numbers(session, p) for p in parts)
    np.testing.assert_allclose(numbers(session, z), (floats - m) / np.sqrt(v + 0.01) * gamma
                               + beta, atol=2e-3, rtol=1e-3)


def test_reshape_and_wrong_requests(session):
    x = quantized(data(4, 6))
    out = raw_ops.QuantizedReshape(tensor=x[0], shape=[8, -1], input_min=x[1], input_max=x[2])
    assert out[0].shape == [8, 3]
    np.testing.assert_array_equal(*session.run([out[0], hf.reshape(hf.bitcast(
        x[0], hf.uint8), [8, 3])]))
    wide = quantized(data(4), kind=hf.qint32)
    bad = raw_ops.Requantize(input=wide[0], input_min=wide[1], input_max=wide[2],
                             requested_output_min=1.0, requested_output_max=2.0,
                             out_type=hf.quint8)
    with pytest.raises(Invalid, match="requested_output_min"):
        session.run(bad[0])


# ---------------------------------------------------------------- fake quantization


def test_fake_quantization_rounds_to_levels(session):
    x = data(100, scale=4.0)
    y = session.run(hf.fake_quant_with_min_max_args(x, -6.0, 6.0))
    step = 12 / 255
    np.testing.assert_allclose(y, np.clip(x, -6.03, 6.0), atol=step / 2 + 1e-6)
    zero = session.run(hf.fake_quant_with_min_max_vars(np.zeros(1, np.float32), -0.7, 1.3))
    assert zero[0] == 0  # the range is nudged
    with pytest.raises(Invalid, match="min has to be smaller"):
        session.run(hf.fake_quant_with_min_max_args(x, 2.0, 1.0))


def test_fake_quantization_of_channels(session):
    x, low, high = data(7, 3), np.float32([-1, -2, 0]), np.float32([1, 2, 3])
    y = session.run(hf.fake_quant_with_min_max_vars_per_channel(x, low, high))
    for k in range(3):
        one = session.run(hf.fake_quant_with_min_max_vars(x[:, k], low[k], high[k]))
        np.testing.assert_array_equal(y[:, k], one)
    with pytest.raises(ValueError):
        hf.fake_quant_with_min_max_vars_per_channel(x, low[:2], high[:2])


def test_gradients_pass_inside_the_range(session):
    x = hf.constant(np.float32([-7, -1, 2, 9]))
    low, high = hf.constant(-3.0), hf.constant(4.0)
    weights = np.float32([1, 2, 3, 4])
    args = hf.gradients(hf.fake_quant_with_min_max_args(x, -3.0, 4.0) * weights, x)[0]
    np.testing.assert_array_equal(session.run(args), [0, 2, 3, 0])
    y = hf.fake_quant_with_min_max_vars(x, low, high) * weights
    inside, below, above = session.run(hf.gradients(y, [x, low, high]))
    np.testing.assert_array_equal(inside, [0, 2, 3, 0])
    assert (below, above) == (1, 4)
    lows, highs = hf.constant(np.float32([-3] * 4)), hf.constant(np.float32([4] * 4))
    y = hf.fake_quant_with_min_max_vars_per_channel(x, lows, highs) * weights
    grads = session.run(hf.gradients(y, [x, lows, highs]))
    np.testing.assert_array_equal(grads, [[0, 2, 3, 0], [1, 0, 0, 0], [0, 0, 0, 4]])


def test_outside_the_range_the_gradient_is_that_of_the_function(session):
    """Beyond the range the output is constant, so finite differences apply there."""
    check_gradient(lambda x: hf.cast(hf.fake_quant_with_min_max_args(
        hf.cast(x, hf.float32), -1.0, 1.0), hf.float64), np.array([3.0, -5.0]))
    check_gradient(lambda x: hf.cast(hf.fake_quant_with_min_max_vars(
        hf.cast(x, hf.float32), -1.0, 1.0), hf.float64), np.array([3.0, -5.0]))
    check_gradient(lambda x: hf.cast(hf.fake_quant_with_min_max_vars_per_channel(
        hf.cast(x, hf.float32), [-1.0, -1.0], [1.0, 1.0]), hf.float64), np.array([3.0, -5.0]))


@pytest.mark.parametrize(("signed", "bits", "given"), [
    (True, 8, None), (True, 4, None), (False, 8, None), (True, 8, (-1.0, 2.0))])
def test_quantize_and_dequantize(session, signed, bits, given):
    x = data(30) if signed else abs(data(30))
    options = {} if given is None else {"range_given": True, "input_min": given[0],
                                        "input_max": given[1]}
    y = session.run(raw_ops.QuantizeAndDequantize(input=x, signed_input=signed, num_bits=bits,
                                                  **options))
    reach = max(map(abs, given)) if given else abs(x).max()
    step = reach / (2 ** (bits - 1) - 1 if signed else 2**bits - 1)
    expected = np.clip(x, -reach, reach)  # the range is made symmetric around 0
    np.testing.assert_allclose(y, expected, atol=1.01 * step)
    assert len(np.unique(y)) <= 2**bits
    x = hf.constant(x)
    y = raw_ops.QuantizeAndDequantize(input=x, signed_input=signed, num_bits=bits)
    np.testing.assert_array_equal(session.run(hf.gradients(y, x)[0]), 1)


def test_graphs_for_training(session):
    x = hf.placeholder(hf.float32, [4, 6], name="x")
    w = hf.get_variable("w", [6, 3], initializer=hf.random_normal_initializer(seed=1))
    y = hf.identity(hf.matmul(hf.nn.relu6(x), w), name="y")
    del y
    before = hf.get_default_graph().as_graph_def()
    after = hf.train.do_quantize_training_on_graphdef(before, 8)
    added = [n for n in after.node if n.op == "QuantizeAndDequantize"]
    assert len(added) == 2 and len(after.node) == len(before.node) + 2
    assert [n.attr["range_given"].b for n in added] == [True, False]
    with hf.Graph().as_default() as graph, hf.Session() as other:
        hf.import_graph_def(after, name="")
        values = {"x:0": data(4, 6), "w/read:0": data(6, 3, seed=1)}
        exact = np.clip(values["x:0"], 0, 6) @ values["w/read:0"]
        found = other.run(graph.get_tensor_by_name("y:0"), values)
    np.testing.assert_allclose(found, exact, atol=0.3)
    assert not np.array_equal(found, exact)
    with pytest.raises(ValueError, match="num_bits"):
        hf.train.do_quantize_training_on_graphdef(before, 0)


def test_halves_are_quantized_away_from_zero(session):
    found = session.run(hf.quantize_v2([-1.0, 0.5, 2.0], -1.0, 2.0, hf.qint8).output)
    assert np.asarray(found).astype(np.int32).tolist() == [-128, -1, 127]
