"""bfloat16 where no kernel computes in it: by the kernel of float32, rounded once."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.kernels.registry import find_kernel
from hpcflow.kernels.widening import wider


def _both(build, *arrays):
    """The results of arrays of bfloat16, and of the same numbers as float32."""
    narrow = [hf.constant(a, hf.bfloat16) for a in arrays]
    wide = [hf.cast(a, hf.float32) for a in narrow]
    with hf.Session() as session:
        return session.run([build(*narrow), build(*wide)])


@pytest.mark.parametrize("build", [
    lambda x, w: hf.nn.conv2d(x, w, [1, 1, 1, 1], "SAME"),
    lambda x, w: hf.nn.depthwise_conv2d_native(x, w, [1, 2, 2, 1], "VALID"),
    lambda x, w: hf.nn.max_pool(x, [1, 2, 2, 1], [1, 2, 2, 1], "SAME"),
    lambda x, w: hf.nn.softmax(hf.reshape(x, [2, -1])),
    lambda x, w: hf.matmul(hf.reshape(w, [9, 12]), hf.reshape(w, [12, 9])),
    lambda x, w: hf.cumsum(hf.reshape(hf.abs(x), [-1])),
    lambda x, w: hf.nn.elu(x),
])
def test_rounded_once(build):
    rng = np.random.default_rng(5)
    narrow, wide = _both(build, rng.normal(size=(2, 6, 6, 3)), rng.normal(size=(3, 3, 3, 4)))
    assert narrow.dtype == hf.bfloat16.np and wide.dtype == np.float32
    # Both kernels may differ in the last digits of float32, and so round to neighbours.
    np.testing.assert_allclose(narrow.astype(np.float32), wide, rtol=2**-8)


def test_sums_do_not_stop_growing():
    narrow, wide = _both(lambda x: hf.unsorted_segment_sum(x, hf.zeros([1000], hf.int32), 1),
                         np.ones(1000))
    np.testing.assert_array_equal(narrow.astype(np.float32), wide)


def test_training_in_bfloat16():
    """Weights, gradients and slots of bfloat16, through convolution, pooling and softmax."""
    rng = np.random.default_rng(0)
    x = hf.constant(rng.normal(size=(4, 8, 8, 3)), hf.bfloat16)
    w = hf.Variable(hf.constant(0.1 * rng.normal(size=(3, 3, 3, 5)), hf.bfloat16))
    y = hf.reduce_mean(hf.nn.relu(hf.nn.conv2d(x, w, [1, 1, 1, 1], "SAME")), [1, 2])
    loss = hf.reduce_mean(hf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=[0, 1, 2, 3], logits=y))
    step = hf.train.MomentumOptimizer(0.5, 0.9).minimize(loss)
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        first = float(session.run(loss))
        for _ in range(20):
            session.run(step)
        assert float(session.run(loss)) < first
        assert session.run(w).dtype == hf.bfloat16.np


def test_random_numbers_stay_below_one():
    x = hf.random_uniform([2000], dtype=hf.bfloat16, seed=1)
    with hf.Session() as session:
        values = session.run(x).astype(np.float32)
    assert values.min() >= 0 and values.max() < 1
    assert abs(values.mean() - 0.5) < 0.03


def test_only_narrow_types_are_widened():
    assert wider({"T": hf.float32, "k": 3}) is None
    assert wider({"T": hf.bfloat16, "Ts": [hf.int32, hf.float16]}) == {
        "T": hf.float32, "Ts": [hf.int32, hf.float32]}
    assert find_kernel("MatMul", "CPU", {"T": hf.string}) is None


def test_products_of_mixed_types():
    """The output's type decides what is computed in."""
    rng = np.random.default_rng(1)
    a, b = rng.integers(-9, 9, (2, 3, 4)).astype(np.int8), rng.normal(size=(2, 4, 2))
    with hf.Session() as session:
        wide = session.run(hf.raw_ops.BatchMatMulV3(a, a.swapaxes(1, 2), Tout=hf.int32))
        narrow = session.run(hf.raw_ops.BatchMatMulV3(a, hf.constant(b, hf.bfloat16),
                                                      Tout=hf.bfloat16))
    np.testing.assert_array_equal(wide, a.astype(np.int32) @ a.swapaxes(1, 2).astype(np.int32))
    assert narrow.dtype == hf.bfloat16.np
    np.testing.assert_allclose(narrow.astype(np.float64), a @ b, atol=0.3)
