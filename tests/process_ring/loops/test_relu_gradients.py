"""Gradients of relus with those of biases: by NumPy, and by the loops that do the same."""

from __future__ import annotations

import numpy as np
import pytest
from thresholds import lower

import hpcflow as hf
from hpcflow import errors
from hpcflow.kernels.nn.relu_gradients import relu_bias_grad
from hpcflow.loops import compiling

GRAD = relu_bias_grad(None)


@pytest.fixture
def eager(monkeypatch, eager_over_threads):
    """Small blocks over several threads; loops from the second call on."""
    lower(monkeypatch, "RELU_LARGE_BYTES", "RELU_BLOCK_BYTES")


def arrays(*dims, seed=0):
    random = np.random.default_rng(seed)
    y = random.standard_normal(dims, np.float32)
    y[y < -1] = 0
    return random.standard_normal(dims, np.float32), y


def check(dy, y, own=False):
    expected = dy * (y > 0)
    given = y.copy() if own else y
    dx, total = GRAD(dy, given, own=own)
    np.testing.assert_array_equal(dx, expected)
    axes = tuple(range(dy.ndim - 1))
    np.testing.assert_allclose(total, expected.sum(axes), rtol=1e-5, atol=1e-5)
    return dx is given


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("dims", [(7, 33), (2, 5, 3, 17), (1, 1), (3, 4, 1), (40, 300),
                                  (101, 5), (64, 8)], ids=str)
def test_whole_arrays(eager, dims, own):
    dy, y = arrays(*dims)
    for _ in range(2):
        assert check(dy, y, own) == own
        compiling.wait()


def test_slices_of_channels(eager):
    """What is read from the gradient of a concatenation, and what is not written to."""
    dy, y = arrays(2, 6, 5, 40)
    for _ in range(2):
        for part in (slice(3, 20), slice(3, 8)):
            check(dy[..., part], y[..., part])
            check(dy[..., part], y[..., part], own=True)
        check(dy[:, ::2, :, 3:20], y[:, 1::2, :, :17])
        check(dy.T, y.T)
        compiling.wait()
    before = y.copy()
    GRAD(dy[..., 3:20], y[..., 3:20], own=True)
    np.testing.assert_array_equal(y, before)


def test_a_loop_that_is_used(eager):
    if not compiling.enabled():
        pytest.skip("there is no compiler")
    check(*arrays(9, 64))
    compiling.wait()
    (program,) = compiling._programs.values()
    assert program.function is not None


def test_nothing():
    dx, total = GRAD(*arrays(0, 3, 5))
    assert dx.shape == (0, 3, 5) and total.tolist() == [0] * 5
    dx, total = GRAD(*arrays(3, 0))
    assert dx.shape == (3, 0) and total.shape == (0,)


def test_numbers_that_are_none():
    """As ReluGrad, which multiplies: nothing is hidden."""
    dy, y = arrays(4, 8)
    dy[0, 0], dy[1, 1], y[2, 2] = np.inf, np.nan, np.nan
    y[0, 0] = y[1, 1] = -1
    with np.errstate(invalid="ignore"):
        dx, _ = GRAD(dy, y)
    assert np.isnan([dx[0, 0], dx[1, 1]]).all() and dx[2, 2] == 0


def test_shapes_that_differ():
    with hf.Graph().as_default(), hf.Session() as session:
        x, g = (hf.placeholder(hf.float32) for _ in range(2))
        dx = hf.raw_ops.ReluGrad(gradients=g, features=hf.reshape(x, [200, 100]))
        both = [dx, hf.raw_ops.BiasAddGrad(out_backprop=dx, data_format="NHWC")]
        with pytest.raises(errors.InvalidArgumentError, match=r"\[200,99\].*one shape"):
            session.run(both, {x: np.ones(20000), g: np.ones((200, 99))})
