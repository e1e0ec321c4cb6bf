"""The formulas of `programs.elementwise` as the same statements in plain NumPy."""

from __future__ import annotations

import math

import numpy as np

from hpcflow.tools.bench.child import Step
from hpcflow.tools.bench.programs.elementwise import COLUMNS, ROWS, uniform


def _matrix(low: float = -2.0, high: float = 2.0, seed: int = 0) -> np.ndarray:
    return uniform([ROWS, COLUMNS], low, high, seed=seed)


def _vector(seed: int = 1) -> np.ndarray:
    return uniform([COLUMNS], 0.5, 2.0, seed=seed)


def layer_norm() -> Step:
    """Rows to mean 0 and variance 1, scaled and shifted."""
    x, gamma, beta = _matrix(), _vector(), _vector(2)

    def step() -> np.ndarray:
        centered = x - x.mean(1, keepdims=True)
        variance = np.square(centered).mean(1, keepdims=True)
        return centered * (1 / np.sqrt(variance + np.float32(1e-6))) * gamma + beta

    return step


def batch_norm() -> Step:
    """The inference form, by moving averages of each channel."""
    x, mean, variance, gamma, beta = _matrix(), *(_vector(seed) for seed in (1, 2, 3, 4))
    return lambda: (x - mean) * (1 / np.sqrt(variance + np.float32(1e-3))) * gamma + beta


def gelu() -> Step:
    """By the hyperbolic tangent."""
    x = _matrix()
    return lambda: 0.5 * x * (1.0 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


def swish() -> Step:
    """With a bias before it."""
    x, bias = _matrix(), _vector()

    def step() -> np.ndarray:
        y = x + bias
        return y * (1 / (1 + np.exp(-y)))

    return step


def leaky_relu() -> Step:
    """By a choice."""
    x, bias = _matrix(), _vector()

    def step() -> np.ndarray:
        y = x + bias
        return np.where(y > 0, y, np.float32(0.2) * y)

    return step


def huber_loss() -> Step:
    """Quadratic near zero, linear far from it; its mean."""
    x, y = _matrix(), _matrix(seed=3)

    def step() -> np.ndarray:
        error = np.abs(x - y)
        quadratic = np.minimum(error, 1)
        return np.mean(0.5 * np.square(quadratic) + (error - quadratic))

    return step


def log_loss() -> Step:
    """The mean cross entropy of probabilities."""
    p, y = _matrix(0.01, 0.99), _matrix(0.0, 1.0, seed=3)
    return lambda: np.mean(-y * np.log(p + 1e-7) - (1 - y) * np.log(1 - p + 1e-7))


def masked_loss() -> Step:
    """The mean square where a label is positive."""
    x, y = _matrix(), _matrix(seed=3)

    def step() -> np.ndarray:
        mask = (y > 0).astype(np.float32)
        return (np.square(x - y) * mask).sum() / mask.sum()

    return step


def clip_by_value() -> Step:
    """Two sides at once."""
    x = _matrix()
    return lambda: np.minimum(np.maximum(x * 0.5, -0.5), 0.5)


def clip_by_global_norm() -> Step:
    """Four gradients by the norm of all of them."""
    gradients = [_matrix(seed=seed) for seed in range(4)]

    def step() -> list:
        norm = np.sqrt(sum([np.square(g).sum() for g in gradients]))
        scale = np.float32(5) / max(norm, np.float32(5))
        return [g * scale for g in gradients]

    return step


def dropout() -> Step:
    """By a mask of given random numbers."""
    x, random = _matrix(), _matrix(0.0, 1.0, seed=3)
    return lambda: x / 0.9 * np.floor(random + 0.9)


def softmax() -> Step:
    """Of rows."""
    x = _matrix()

    def step() -> np.ndarray:
        e = np.exp(x - x.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)

    return step


def adam() -> Step:
    """An update written out of plain statements."""
    var, m, v, grad = _matrix(), _matrix(seed=1), _matrix(0.0, 1.0, 2), _matrix(-1e-3, 1e-3, 3)

    def step() -> None:
        nonlocal var
        m[...] = 0.9 * m + 0.1 * grad
        v[...] = 0.999 * v + 0.001 * np.square(grad)
        var -= 1e-3 * m / (np.sqrt(v) + 1e-8)

    return step


def standardize() -> Step:
    """Images of bytes to mean 0 and variance 1."""
    x = uniform([32, 224, 224, 3], 0, 256, "uint8")
    mean, deviation = uniform([3], 100, 150), uniform([3], 50, 60, seed=1)
    return lambda: (x.astype(np.float32) - mean) / deviation


#: By the names of the formulas.
STEPS = {f.__name__: f for f in (
    layer_norm, batch_norm, gelu, swish, leaky_relu, huber_loss, log_loss, masked_loss,
    clip_by_value, clip_by_global_norm, dropout, softmax, adam, standardize)}
