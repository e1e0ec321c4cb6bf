"""Element-wise functions as compiled loops: against NumPy, over all kinds of numbers."""

from __future__ import annotations

import numpy as np
import pytest
from thresholds import forget_loops, lower

import hpcflow as hf
from hpcflow import config
from hpcflow.loops import compiling

pytestmark = pytest.mark.skipif(not compiling.enabled(), reason="there is no compiler")

# Units in the last place of the result by which loops may differ from NumPy's forms.
ULPS = {"Sigmoid": 4, "Elu": 4, "Selu": 4, "Softplus": 4, "SoftplusGrad": 4, "Xlogy": 5,
        "Xlog1py": 4, "Erf": 4, "Erfc": 6, "Lgamma": 6, "Digamma": 4, "Asin": 6, "Acos": 6,
        "Atan": 4, "Tan": 6, "Sinh": 4, "Cosh": 4, "Asinh": 6, "Acosh": 6, "Atanh": 6, "Atan2": 6}
UNARY = ("Relu", "Relu6", "LeakyRelu", "Softsign", "Rsqrt", "Sigmoid", "Elu", "Selu", "Softplus",
         "Erf", "Erfc", "Lgamma", "Digamma", "Asin", "Acos", "Atan", "Tan", "Sinh", "Cosh",
         "Asinh", "Acosh", "Atanh")
BINARY = ("ReluGrad", "Relu6Grad", "LeakyReluGrad", "EluGrad", "SeluGrad", "SoftsignGrad",
          "TanhGrad", "SigmoidGrad", "InvGrad", "ReciprocalGrad", "SqrtGrad", "RsqrtGrad",
          "DivNoNan", "MulNoNan", "Xdivy", "SoftplusGrad", "Xlogy", "Xlog1py", "Atan2")


@pytest.fixture
def eager(monkeypatch):
    """Loops are compiled at once, of single lines too, and used from the second run on."""
    lower(monkeypatch, "COMPILE_WORTH_SECONDS", "LINES_LARGE")
    forget_loops(monkeypatch)


def both(monkeypatch, kind, *inputs):
    """What the op makes by NumPy, and by a loop."""
    with hf.Graph().as_default(), np.errstate(all="ignore"):
        given = [hf.placeholder(hf.as_dtype(x.dtype), x.shape) for x in inputs]
        made = getattr(hf.raw_ops, kind)(*given)
        found = []
        for compiles in (False, True):
            monkeypatch.setattr(config.flags, "compile", compiles)
            with hf.Session() as session:
                for _ in range(1 + compiles):
                    result = session.run(made, dict(zip(given, inputs)))
                    compiling.wait()
                found.append(result)
    return found


def numbers(dtype, seed):
    """Of all magnitudes, and special ones; steps take what is below the normal ones for zero."""
    random = np.random.RandomState(seed)
    info = np.finfo(dtype)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, info.tiny, -info.tiny, info.max,
               -info.max, 6.0, 1.0, -1.0]
    wide = np.exp(random.uniform(-60, 60, 4000)) * random.choice([-1, 1], 4000)
    narrow = random.uniform(-12, 12, 20_000)
    return random.permutation(np.concatenate([np.repeat(special, 20), wide, narrow])).astype(dtype)


CASES = [(kind, hf.float32) for kind in (*UNARY, *BINARY)]
CASES += [(kind, hf.float64) for kind in ("Relu6", "SqrtGrad", "Sigmoid", "Elu", "SoftplusGrad")]


@pytest.mark.parametrize(("kind", "dtype"), CASES)
def test_loops_against_numpy(eager, monkeypatch, kind, dtype):
    inputs = [numbers(dtype.np, seed) for seed in range(2 if kind in BINARY else 1)]
    expected, found = both(monkeypatch, kind, *inputs)
    (compiled,) = compiling._programs.values()
    assert compiled.function is not None
    if kind in ULPS:
        tiny = 2 * np.finfo(dtype.np).tiny
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
    for kind, count in (("Erf", 0), ("Relu", 1)):
        expected, found = both(monkeypatch, kind, x)
        np.testing.assert_array_equal(found, expected)
        assert len(compiling._programs) == count


@pytest.mark.parametrize("kind", ["Relu", "TanhGrad"])
def test_other_layouts(eager, monkeypatch, kind):
    x = np.random.RandomState(0).standard_normal((300, 200)).astype(np.float32)
    for given in (x[:, ::2], x.T):
        expected, found = both(monkeypatch, kind, *[given] * (2 if kind in BINARY else 1))
        np.testing.assert_array_equal(found, expected)
