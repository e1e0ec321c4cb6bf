"""Programs over quantized tensors, whose types NumPy arrays do not tell apart.

Integers of results are shifted to floats of their range, so that one step of rounding is within
the tolerance of a comparison, and a wrong range is not.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from scenarios import _outcome, scenario

_TYPES = ("qint8", "quint8", "qint16", "quint16", "qint32")
_RANGES = ((-3.0, 4.0), (0.0, 5.0), (1.0, 2.0), (-5.0, -1.0))


def _data(*shape: int, seed: int = 0, scale: float = 2.0) -> np.ndarray:
    return (np.random.RandomState(seed).randn(*shape) * scale).astype(np.float32)


def _quantized(tf: Any, x: np.ndarray, low: float, high: float, kind: str = "quint8") -> Any:
    return tf.raw_ops.QuantizeV2(input=x, min_range=low, max_range=high, T=getattr(tf, kind),
                                 mode="MIN_FIRST")


def _floats(tf: Any, outputs: Any) -> Any:
    """The numbers that (integers, low, high) stand for, and the range."""
    value, low, high = outputs
    return [tf.raw_ops.Dequantize(input=value, min_range=low, max_range=high, mode="MIN_FIRST"),
            low, high]


@scenario
def quantize(tf: Any, session: Any) -> list:
    x, fetches = _data(3, 5), []
    for kind in _TYPES:
        for mode in ("MIN_COMBINED", "MIN_FIRST"):
            for low, high in _RANGES:
                if kind == "qint32" and mode == "MIN_COMBINED":
                    continue  # the reference leaves the integers' range
                value, *limits = tf.raw_ops.QuantizeV2(
                    input=x, min_range=low, max_range=high, T=getattr(tf, kind), mode=mode)
                fetches += [limits, tf.raw_ops.Dequantize(
                    input=value, min_range=limits[0], max_range=limits[1], mode=mode)]
                if kind in ("qint8", "quint8"):
                    fetches.append(tf.cast(tf.bitcast(value, _plain(tf, kind)), tf.int32))
    wrong = tf.raw_ops.QuantizeV2(input=x, min_range=3.0, max_range=1.0, T=tf.quint8)
    return [*session.run(fetches), _outcome(session, wrong[0])]


def _plain(tf: Any, kind: str) -> Any:
    return getattr(tf, kind.replace("qu", "u").replace("qi", "i"))


@scenario
def fake_quantization(tf: Any, session: Any) -> list:
    x, fetches = _data(4, 5, scale=3.0), []
    for low, high in ((-6.0, 6.0), (0.0, 1.0), (-0.1, 63.65), (0.1, 1.0), (-1.0, -0.2)):
        lows = np.full(5, low, np.float32) - np.arange(5, dtype=np.float32) / 10
        highs = np.full(5, high, np.float32) + np.arange(5, dtype=np.float32) / 7
        fetches += [
            tf.fake_quant_with_min_max_args(x, low, high),
            tf.raw_ops.FakeQuantWithMinMaxArgsGradient(gradients=x + 1, inputs=x, min=low,
                                                       max=high),
            tf.fake_quant_with_min_max_vars(x, low, high),
            list(tf.raw_ops.FakeQuantWithMinMaxVarsGradient(gradients=x + 1, inputs=x, min=low,
                                                            max=high)),
            tf.fake_quant_with_min_max_vars_per_channel(x, lows, highs),
            list(tf.raw_ops.FakeQuantWithMinMaxVarsPerChannelGradient(
                gradients=x + 1, inputs=x, min=lows, max=highs))]
    return session.run(fetches)


@scenario
def quantized_products(tf: Any, session: Any) -> list:
    raw, fetches = tf.raw_ops, []
    a, b = (_quantized(tf, _data(*s, seed=i), -2.5, 3.0) for i, s in enumerate(((4, 6), (6, 5))))
    product = raw.QuantizedMatMul(a=a[0], b=b[0], min_a=a[1], max_a=a[2], min_b=b[1], max_b=b[2])
    fetches += list(product)[1:] + [tf.bitcast(product[0], tf.int32)]
    image = _quantized(tf, _data(2, 7, 6, 3, seed=3), -1.0, 3.0)
    taps = _quantized(tf, _data(3, 3, 3, 4, seed=4), -3.0, 3.0)
    for stride in (1, 2):
        for padding in ("SAME", "VALID"):
            found = raw.QuantizedConv2D(
                input=image[0], filter=taps[0], min_input=image[1], max_input=image[2],
                min_filter=taps[1], max_filter=taps[2], strides=[1, stride, stride, 1],
                padding=padding)
            fetches += list(found)[1:] + [tf.bitcast(found[0], tf.int32)]
            for size in (2, 3):
                fetches += _floats(tf, raw.QuantizedMaxPool(
                    input=image[0], min_input=image[1], max_input=image[2],
                    ksize=[1, size, size, 1], strides=[1, stride, stride, 1], padding=padding))
    bias = _quantized(tf, _data(3, seed=5), -2.0, 2.5)
    fetches += _floats(tf, raw.QuantizedBiasAdd(
        input=image[0], bias=bias[0], min_input=image[1], max_input=image[2], min_bias=bias[1],
        max_bias=bias[2], out_type=tf.qint32))
    for op in (raw.QuantizedAdd, raw.QuantizedMul):  # of the same shape, a vector, a scalar
        for y in (image, bias, _quantized(tf, _data(1, seed=6)[0], -3.0, 4.0)):
            found = op(x=image[0], y=y[0], min_x=image[1], max_x=image[2], min_y=y[1], max_y=y[2])
            fetches += list(found)[1:] + [tf.bitcast(found[0], tf.int32)]
            wide = {"input": found[0], "input_min": found[1], "input_max": found[2]}
            limits = raw.RequantizationRange(**wide)
            for narrow, *ends in (
                    raw.Requantize(**wide, requested_output_min=limits[0],
                                   requested_output_max=limits[1], out_type=tf.quint8),
                    raw.QuantizeDownAndShrinkRange(**wide, out_type=tf.quint8)):
                fetches += [*ends, tf.cast(tf.bitcast(narrow, tf.uint8), tf.int32)]
    return session.run(fetches)


@scenario
def quantized_activations(tf: Any, session: Any) -> list:
    raw = tf.raw_ops
    x = _quantized(tf, _data(2, 5, 4, 3, seed=6), -1.0, 9.0)
    fetches = [_floats(tf, op(features=x[0], min_features=x[1], max_features=x[2],
                              out_type=tf.quint8)) for op in (raw.QuantizedRelu,
                                                              raw.QuantizedRelu6)]
    for given in (False, True):
        fetches.append(list(raw.QuantizedInstanceNorm(
            x=x[0], x_min=x[1], x_max=x[2], output_range_given=given, given_y_min=-2.0,
            given_y_max=2.0))[1:])
    fetches.append(_floats(tf, raw.QuantizedReshape(
        tensor=x[0], shape=[10, -1], input_min=x[1], input_max=x[2])))
    one, two = _quantized(tf, _data(4, 6), -2.5, 3.0), _quantized(tf, _data(4, 2), -2.5, 3.0)
    fetches.append(_floats(tf, raw.QuantizedConcat(
        concat_dim=1, values=[one[0], two[0]], input_mins=[one[1], two[1]],
        input_maxes=[one[2], two[2]])))
    wide = _quantized(tf, _data(3, 4), -1.0, 9.0, "qint32")
    bad = raw.Requantize(input=wide[0], input_min=wide[1], input_max=wide[2],
                         requested_output_min=1.0, requested_output_max=12.0, out_type=tf.quint8)
    return [*session.run(fetches), _outcome(session, bad[0])]
