"""Reductions of large arrays whose shapes are not known when the step is compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gpu_ring.test_programs import run
from gpu_ring.test_workloads import gpu_of

import hpcflow as hf

SHAPES = [(40_000,), (300, 70), (5, 40, 90), (4, 6, 50, 20), (3, 7000, 1), (1, 1, 17_000)]


@pytest.mark.parametrize("dtype", [hf.float32, hf.float64, hf.float16, hf.bfloat16, hf.int32])
@pytest.mark.parametrize("shape", SHAPES)
def test_all_axes(shape: tuple[int, ...], dtype: Any) -> None:
    """Leading ones, trailing ones, ones in the middle, ones that lie apart."""
    def build() -> tuple:
        x = hf.placeholder(dtype, [None] * len(shape))
        rank = len(shape)
        axes = [[i for i in range(rank) if number >> i & 1] for number in range(1, 1 << rank)]
        found = [f(x, a, keepdims=a[0] == 0) for a in axes
                 for f in (hf.reduce_sum, hf.reduce_max, hf.reduce_min, hf.reduce_mean)]
        if dtype.is_floating:
            found += [hf.nn.l2_loss(x)]
        random = np.random.default_rng(len(shape))
        return found, {x: random.integers(-2, 3, shape)}

    with np.errstate(over="ignore"):
        pairs = list(zip(run(build, 1), run(build, 0), strict=True))
    tolerance = {2: 2e-2, 4: 1e-5, 8: 1e-12}[dtype.size]
    for ours, theirs in pairs:
        assert ours.dtype == theirs.dtype
        ours, theirs = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=1e-3)


@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
def test_gradient_of_a_bias(data_format: str) -> None:
    def build() -> tuple:
        x, bias = hf.placeholder(hf.float32, [None] * 4), hf.Variable(hf.zeros([20]))
        y = hf.nn.bias_add(x, bias, data_format)
        dims = (4, 20, 30, 10) if data_format == "NCHW" else (4, 30, 10, 20)
        return hf.gradients(y * y, bias), {
            x: np.random.default_rng(0).standard_normal(dims)}

    np.testing.assert_allclose(run(build, 1)[0], run(build, 0)[0], rtol=1e-4)


@pytest.mark.usefixtures("one_by_one")
def test_a_reduction_is_one_launch() -> None:
    with hf.Graph().as_default():
        x = hf.placeholder(hf.float32, [None, None])
        fetches = [hf.reduce_sum(x, 0).op, hf.reduce_max(x, 1).op, hf.reduce_sum(x).op]
        with hf.Session() as session:
            feeds = {x: np.ones((300, 200), np.float32)}
            session.run(fetches, feeds)
            before = gpu_of(session).launches
            session.run(fetches, feeds)
            assert gpu_of(session).launches - before <= 3
