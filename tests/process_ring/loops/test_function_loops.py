"""Element-wise functions as compiled loops: against NumPy, over all kinds of numbers."""

from __future__ import annotations

import numpy as np
import pytest
from thresholds import forget_loops, lower

import hpcflow as hf
from hpcflow import config
from hpcflow.kernels import load
from hpcflow.kernels.registry import KernelNode, find_kernel
from hpcflow.loops import compiling

pytestmark = pytest.mark.skipif(not compiling.enabled(), reason="there is no compiler")

# Units in the last place of the result by which loops may differ from NumPy's forms.
ULPS = {"Sigmoid": 4, "Elu": 4, "Selu": 4, "Softplus": 4, "SoftplusGrad": 4, "Xlogy": 5,
        "Xlog1py": 4, "Erf": 4, "Erfc": 6, "Lgamma": 6}
UNARY = ("Relu", "Relu6", "LeakyRelu", "Softsign", "Rsqrt", "Sigmoid", "Elu", "Selu", "Softplus",
         "Erf", "Erfc", "Lgamma")
BINARY = ("ReluGrad", "Relu6Grad", "LeakyReluGrad", "EluGrad", "SeluGrad", "SoftsignGrad",
          "TanhGrad", "SigmoidGrad", "InvGrad", "ReciprocalGrad", "SqrtGrad", "RsqrtGrad",
          "DivNoNan", "MulNoNan", "Xdivy", "SoftplusGrad", "Xlogy", "Xlog1py")


class Host:
    xp = np
    type = "CPU"


@pytest.fixture
def eager(monkeypatch):
    """Loops are compiled at once, and used from the second call on."""
    lower(monkeypatch, "COMPILE_WORTH_SECONDS")
    forget_loops(monkeypatch)


def kernel_of(kind, dtype):
    load()
    attrs = {"T": dtype, "alpha": 0.3}
    count = 2 if kind in BINARY else 1
    node = KernelNode(kind, kind, attrs, Host(), [dtype] * count, [dtype], [None] * count, [None],
                      [None] * count)
    return find_kernel(kind, "CPU", attrs).factory(node)


def numbers(dtype, seed):
    """Of all magnitudes, and special ones."""
    random = np.random.RandomState(seed)
    info = np.finfo(dtype)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, info.tiny, -info.tiny, info.tiny / 8, info.max,
               -info.max, 6.0, 1.0, -1.0]
    wide = np.exp(random.uniform(-60, 60, 4000)) * random.choice([-1, 1], 4000)
    narrow = random.uniform(-12, 12, 20_000)
    return random.permutation(np.concatenate([np.repeat(special, 20), wide, narrow])).astype(dtype)


CASES = [(kind, hf.float32) for kind in (*UNARY, *BINARY)]
CASES += [(kind, hf.float64) for kind in ("Relu6", "SqrtGrad", "Sigmoid", "Elu", "SoftplusGrad")]


@pytest.mark.parametrize(("kind", "dtype"), CASES)
def test_loops_against_numpy(eager, kind, dtype):
    run = kernel_of(kind, dtype)
    inputs = [numbers(dtype.np, seed) for seed in range(2 if kind in BINARY else 1)]
    with np.errstate(all="ignore"):
        expected = run(*inputs)
        compiling.wait()
        (compiled,) = compiling._programs.values()
        assert compiled.function is not None
        found = run(*inputs)
        target = np.empty_like(found)
        assert run(*inputs, out=target) is target
    np.testing.assert_array_equal(target, found)
    if kind in ULPS:
        tiny = np.finfo(dtype.np).tiny
        np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
        good = np.isfinite(expected)
        np.testing.assert_array_equal(found[~good], expected[~good])
        np.testing.assert_allclose(found[good], expected[good], atol=tiny,
                                   rtol=ULPS[kind] * np.finfo(dtype.np).eps)
    else:
        np.testing.assert_array_equal(found, expected)


def test_the_deterministic_mode_keeps_to_numpy(eager, monkeypatch):
    monkeypatch.setattr(config.flags, "deterministic", True)
    x = numbers(np.float32, 0)
    with np.errstate(all="ignore"):
        for kind, count in (("Erf", 0), ("Relu", 1)):
            kernel_of(kind, hf.float32)(x)
            assert len(compiling._programs) == count


@pytest.mark.parametrize("kind", ["Relu", "TanhGrad"])
def test_other_layouts(eager, kind):
    """Arrays with gaps, and shapes that differ, are left to NumPy."""
    run = kernel_of(kind, hf.float32)
    x = np.random.RandomState(0).standard_normal((300, 200)).astype(np.float32)
    count = 2 if kind in BINARY else 1
    for _ in range(2):
        whole = run(*[x] * count)
        np.testing.assert_array_equal(run(*[x[:, ::2]] * count), whole[:, ::2])
        np.testing.assert_array_equal(run(*[x.T] * count), whole.T)
        out = np.empty((200, 300), np.float32).T
        np.testing.assert_array_equal(run(*[x] * count, out=out), whole)
        compiling.wait()
    if count == 2:
        np.testing.assert_array_equal(run(x, x[:1]), (1 - x * x) * x[:1])
