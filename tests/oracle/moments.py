"""Random numbers: the same distribution as the reference's, and sequences that repeat."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

# Bound of a statistic in standard deviations: one false alarm in some millions.
SIGMAS = 5.5


def compare_draws(ours: list[np.ndarray], theirs: list[np.ndarray]) -> Iterator[str]:
    """Compare two draws of one session and the first draw of another, of both libraries."""
    for name, draws in (("ours", ours), ("the reference", theirs)):
        first, second, again = draws
        if not np.array_equal(first, again):
            yield f"{name} does not repeat with the same seeds"
        if first.size > 8 and np.array_equal(first, second):
            yield f"{name} draws the same numbers in the next step"
    a, b = ours[0], theirs[0]
    if a.dtype != b.dtype or a.shape != b.shape:
        yield f"is {a.dtype}{a.shape}, the reference's {b.dtype}{b.shape}"
        return
    if a.size < 1000 or a.dtype == object:
        return
    a, b = (x.astype(np.float64).ravel() for x in (a, b))
    yield from _same_moments(a, b)
    distance = _largest_gap(a, b)
    if distance > SIGMAS / 2 * np.sqrt(2 / a.size):
        yield f"distributions are apart by {distance:.4f} (Kolmogorov-Smirnov)"


def _same_moments(a: np.ndarray, b: np.ndarray) -> Iterator[str]:
    for power in (1, 2, 3):
        x, y = a**power, b**power
        error = np.sqrt((x.var() + y.var()) / a.size) + 1e-12
        if abs(x.mean() - y.mean()) > SIGMAS * error:
            yield (f"moment {power} is {x.mean():.5g}, the reference's {y.mean():.5g} "
                   f"(error {error:.2g})")


def _largest_gap(a: np.ndarray, b: np.ndarray) -> float:
    """The largest difference of the two empirical distribution functions."""
    points = np.concatenate([a, b])
    cdf = [np.searchsorted(np.sort(x), points, side="right") / x.size for x in (a, b)]
    return float(np.abs(cdf[0] - cdf[1]).max())
