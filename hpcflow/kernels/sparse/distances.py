"""Kernel of EditDistance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown


@kernel("EditDistance", device="CPU", fresh=True)
def edit_distance(node: KernelNode) -> Callable:
    """The Levenshtein distance of each pair of sequences that one side has."""
    normalize = node.attr("normalize")

    def run(places: Any, values: Any, dims: Any, true_places: Any, true_values: Any,
            true_dims: Any) -> Any:
        _check(places, values, dims, "hypothesis")
        _check(true_places, true_values, true_dims, "truth")
        if len(dims) != len(true_dims):
            raise invalid(f"hypothesis_shape {dims.tolist()} and truth_shape {true_dims.tolist()} "
                          "must have the same length")
        out = np.zeros(np.maximum(dims, true_dims)[:-1].tolist(), np.float32)
        found, expected = _sequences(places, values), _sequences(true_places, true_values)
        for group in found.keys() | expected.keys():
            out[group] = _distance(found.get(group, []), expected.get(group, []), normalize)
        return out

    return run


def _check(places: Any, values: Any, dims: Any, what: str) -> None:
    if places.ndim != 2 or places.shape != (len(values), len(dims)):
        raise invalid(f"{what}_indices of shape {shown(places)} do not fit {len(values)} "
                      f"values and {what}_shape {dims.tolist()}")
    if len(dims) < 2:
        raise invalid(f"{what}_shape {dims.tolist()} must have two dimensions at least")
    if ((places < 0) | (places >= dims)).any():
        raise invalid(f"{what}_indices must lie within {what}_shape {dims.tolist()}")


def _sequences(places: Any, values: Any) -> dict[tuple, list]:
    """The values of each sequence, in the order in which they are listed."""
    groups: dict[tuple, list] = {}
    for place, value in zip(places[:, :-1].tolist(), values.tolist()):
        groups.setdefault(tuple(place), []).append(value)
    return groups


def _distance(found: list, expected: list, normalize: bool) -> float:
    distance = levenshtein(found, expected)
    if not normalize:
        return distance
    return distance / len(expected) if expected else np.inf


def levenshtein(a: list, b: list) -> int:
    """The least number of insertions, deletions and substitutions that make `b` of `a`.

    One row of the table of prefix distances at a time (Wagner and Fischer, 1974).
    """
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        diagonal, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            cheapest = min(row[j] + 1, row[j - 1] + 1, diagonal + (x != y))
            diagonal, row[j] = row[j], cheapest
    return row[-1]
