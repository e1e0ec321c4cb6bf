"""Roots of symmetric positive matrices by iterations of products, which run where SVD does not."""

from __future__ import annotations

from typing import Any

import hpcflow as hf
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor


def matrix_square_root(mat_a: TensorLike, mat_a_size: int, iter_count: int = 100,
                       ridge_epsilon: float = 1e-4) -> Tensor:
    """Return the square root of a matrix (Higham, Numerical Algorithms 1997, iteration 2.6).

    Args:
        mat_a: ``[size, size]``, symmetric and positive semidefinite.
        mat_a_size: the size.
        iter_count: the most iterations; they end before that when the error grows.
        ridge_epsilon: added to the diagonal.
    """
    identity: Any = hf.eye(hf.cast(mat_a_size, hf.int32))
    a = ridge_epsilon * identity + mat_a
    norm: Any = hf.norm(a)

    def step(count: Any, y: Any, before: Any, z: Any, error: Any, last: Any) -> tuple:
        middle = 0.5 * (3.0 * identity - hf.matmul(z, y))
        following = hf.matmul(y, middle)
        root = following * hf.sqrt(norm)
        return (count + 1, following, y, hf.matmul(middle, z),
                hf.norm(a - hf.matmul(root, root)) / norm, error)

    first = a / norm
    found = hf.while_loop(
        lambda count, y, before, z, error, last: hf.logical_and(count < iter_count, error < last),
        step, [0, first, first, identity, norm, norm + 1.0])
    return found[2] * hf.sqrt(norm)


def matrix_inverse_pth_root(mat_g: TensorLike, mat_g_size: int, alpha: float,
                            iter_count: int = 100, epsilon: float = 1e-6,
                            ridge_epsilon: float = 1e-6) -> Tensor:
    """Return ``mat_g**alpha`` (Guo and Higham, SIAM J. Matrix Anal. Appl. 2006, iteration 3.2).

    Args:
        mat_g: ``[size, size]``, symmetric and positive semidefinite.
        mat_g_size: the size.
        alpha: -1 / p for a positive integer p.
        iter_count: the most iterations.
        epsilon: the error at which they end.
        ridge_epsilon: added to the diagonal.
    """
    if mat_g_size == 1:
        return hf.pow(hf.add(mat_g, ridge_epsilon), alpha)
    identity: Any = hf.eye(hf.cast(mat_g_size, hf.int32))
    damped: Any = ridge_epsilon * identity + mat_g
    scale: Any = (1 - 1 / alpha) / (2 * hf.norm(damped))

    def step(count: Any, m: Any, x: Any) -> tuple:
        factor = (1 - alpha) * identity + alpha * m
        return count + 1, hf.matmul(_power(factor, round(-1.0 / alpha)), m), hf.matmul(x, factor)

    return hf.while_loop(
        lambda count, m, x: hf.logical_and(count < iter_count,
                                           hf.reduce_max(hf.abs(m - identity)) > epsilon),
        step, [0, damped * scale, identity * hf.pow(scale, -alpha)])[2]


def _power(matrix: Any, exponent: int) -> Any:
    """The product of `exponent` times the matrix, at least once."""
    if exponent == 1:
        return matrix
    half = _power(hf.matmul(matrix, matrix), exponent // 2)
    return hf.matmul(matrix, half) if exponent % 2 else half
