"""Learning rates along a cosine, against their formulas."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf

STEPS = [0, 1, 5, 9, 10, 11, 25, 200]


@pytest.fixture(autouse=True)
def graph():
    with hf.Graph().as_default() as graph:
        yield graph


def rates_of(rate, step):
    with hf.Session() as session:
        return [session.run(rate, {step: x}) for x in STEPS]


def half_cosine(x):
    return (1 + np.cos(np.pi * x)) / 2


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32"])
@pytest.mark.parametrize("alpha", [0.0, 0.25])
def test_cosine_decay(dtype, alpha):
    step = hf.placeholder(dtype, [])
    rate = hf.train.cosine_decay(0.5, step, 10, alpha)
    assert rate.op.name == "CosineDecay"
    expected = [0.5 * ((1 - alpha) * half_cosine(min(x, 10) / 10) + alpha) for x in STEPS]
    np.testing.assert_allclose(rates_of(rate, step), expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("as_tensor", [False, True])
@pytest.mark.parametrize(("t_mul", "m_mul"), [(2.0, 1.0), (1.5, 0.5), (1.0, 0.5), (1, 1)])
def test_restarts(t_mul, m_mul, as_tensor):
    step = hf.placeholder(hf.int32, [])
    # 8.3 steps: no step is exactly at a restart, where rounding would decide.
    rate = hf.train.cosine_decay_restarts(
        0.5, step, 8.3, hf.constant(float(t_mul)) if as_tensor else t_mul, m_mul, 0.1)
    expected = []
    for x in STEPS:
        begin, length, period = 0.0, 8.3, 0
        while x >= begin + length:
            begin, length, period = begin + length, length * t_mul, period + 1
        expected.append(0.5 * (0.9 * m_mul**period * half_cosine((x - begin) / length) + 0.1))
    np.testing.assert_allclose(rates_of(rate, step), expected, rtol=1e-4)


def linear_cosine(x, periods, alpha, beta, noise=0.0):
    part = min(x, 10) / 10
    return (alpha + 1 - part + noise) * half_cosine(2 * periods * part) + beta


def test_linear_cosine_decay():
    step = hf.placeholder(hf.int64, [])
    rate = hf.train.linear_cosine_decay(0.5, step, 10, 1.5, 0.2, 0.01)
    np.testing.assert_allclose(rates_of(rate, step),
                               [0.5 * linear_cosine(x, 1.5, 0.2, 0.01) for x in STEPS], rtol=1e-5)


def test_noise_fades():
    step = hf.placeholder(hf.int32, [])
    still = hf.train.noisy_linear_cosine_decay(0.5, step, 10, 0.0)
    np.testing.assert_allclose(rates_of(still, step),
                               [0.5 * linear_cosine(x, 0.5, 0.0, 0.001) for x in STEPS],
                               rtol=1e-5, atol=1e-7)
    hf.set_random_seed(3)
    rates = hf.stack([hf.train.noisy_linear_cosine_decay(1.0, step, 10, 4.0, 0.5)
                      for _ in range(20)])
    with hf.Session() as session:
        for x in (0, 5):
            drawn = np.concatenate([session.run(rates, {step: x}) for _ in range(50)])
            noise = (drawn - linear_cosine(x, 0.5, 0.0, 0.001)) / half_cosine(x / 10)
            np.testing.assert_allclose(noise.std(), 2 / (1 + x) ** 0.25, rtol=0.1)
            assert abs(noise.mean()) < 0.25


def test_a_step_is_needed():
    for decay in (hf.train.cosine_decay, hf.train.cosine_decay_restarts,
                  hf.train.linear_cosine_decay, hf.train.noisy_linear_cosine_decay):
        with pytest.raises(ValueError, match="global_step"):
            decay(0.1, None, 10)
