"""How much an op makes of the least change of its inputs: the rest of a difference means nothing.

Where a case differs by more than its tolerance in floating values alone, the reference evaluates it
again with each floating input moved to a number next to it, or left, at random. What it then gives
moves by as much as the inputs' rounding is worth. A difference of no more than the tolerance times
that is one of rounding: terms cancel, or a matrix is nearly singular.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from arrays import as_array
from case import Case, Variable
from compare import KINDS, Moves, error_in_eps

MOVED = 8  # times that a case is moved
SEED = 29


def moved(cases: list[Case]) -> list[Case]:
    """Each case :data:`MOVED` times, with its floating inputs moved by one unit."""
    rng = np.random.default_rng(SEED)
    return [_moved(case, rng) for case in cases for _ in range(MOVED)]


def moves(record: dict, others: list[dict]) -> Moves:
    """By how many units of epsilon the results of `others` differ from those of `record`."""
    found: Moves = {}
    for other in others:
        for kind in KINDS:
            pairs = zip(record["arrays"].get(kind, []), other["arrays"].get(kind, []))
            for index, (x, y) in enumerate(pairs):
                if x.shape == y.shape and x.dtype == y.dtype and x.dtype.kind in "fcV":
                    found[kind, index] = max(found.get((kind, index), 1.0), error_in_eps(y, x))
    return found


def _moved(case: Case, rng: np.random.Generator) -> Case:
    moved = replace(case, inputs=_moved_input(case.inputs, rng))
    if case.reference is not None:
        op, inputs, attrs = case.reference
        moved.reference = op, _moved_input(inputs, rng), attrs
    return moved


def _moved_input(value: Any, rng: np.random.Generator) -> Any:
    if isinstance(value, dict):
        return {k: _moved_input(v, rng) for k, v in value.items()}
    if isinstance(value, list):
        return [_moved_input(v, rng) for v in value]
    if isinstance(value, Variable):
        return value._replace(value=_moved_input(value.value, rng))
    array = as_array(value)
    if array.dtype.kind == "c":
        return _moved_real(array.real, rng) + 1j * _moved_real(array.imag, rng)
    return _moved_real(array, rng) if array.dtype.kind in "fV" else value


def _moved_real(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Each element but zeros moved up, down, or not at all."""
    towards = rng.choice([-np.inf, np.nan, np.inf], array.shape).astype(array.dtype)
    with np.errstate(all="ignore"):
        moved = np.nextafter(array, towards)
    kept = np.isnan(towards) | (array == 0) | ~np.isfinite(array)
    return np.where(kept, array, moved).astype(array.dtype)
