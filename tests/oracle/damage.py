"""Damaged cases: valid ones with one input changed, which the library must refuse or take exactly
where the reference does."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from arrays import as_array
from case import Case, Variable

LARGEST = 4000  # elements of an input of those


def damaged(cases: list[Case], seed: int, bases: int) -> list[Case]:
    """That many valid cases of each op with each of their inputs damaged in each way."""
    chosen: dict[str, list[Case]] = {}
    for case in cases:
        if case.bad or case.whole or case.reference is not None or case.attrs.get("uniform_noise"):
            continue
        if case.check == "values" and _is_small(case):
            chosen.setdefault(case.op, []).append(case)
    found = []
    for op, candidates in chosen.items():
        rng = np.random.default_rng([seed, zlib.crc32(op.encode())])
        picked = rng.permutation(len(candidates))[:bases]
        for case in [candidates[i] for i in sorted(picked)]:
            found += list(_variants(case))
    return found


def _is_small(case: Case) -> bool:
    sizes = [as_array(a).size for v in case.inputs.values() for a in _arrays(v)]
    return bool(sizes) and 0 < max(sizes) <= LARGEST


def _arrays(value: Any) -> list:
    return value if isinstance(value, list) else [
        value.value if isinstance(value, Variable) else value]


def _variants(case: Case) -> Iterator[Case]:
    for name, value in case.inputs.items():
        if isinstance(value, Variable):
            if value.initialized:
                yield _with(case, name, value._replace(initialized=False), "uninitialized")
            continue
        places = range(len(value)) if isinstance(value, list) else [None]
        for place in list(places)[-1:]:
            array = as_array(value if place is None else value[place])
            for label, change in WAYS.items():
                changed = change(array)
                if changed is None:
                    continue
                if place is not None:
                    changed = [*value[:place], changed, *value[place + 1:]]
                yield _with(case, name, changed, label)


def _with(case: Case, name: str, value: Any, label: str) -> Case:
    return replace(case, inputs={**case.inputs, name: value}, label=f"{name} {label}", gradient=0,
                   form="unknown", damaged=True)


def _shorter(array: np.ndarray) -> np.ndarray | None:
    return array[:-1] if array.ndim and array.shape[0] > 1 else None


def _narrower(array: np.ndarray) -> np.ndarray | None:
    return array[..., :-1] if array.ndim > 1 and array.shape[-1] > 1 else None


def _empty(array: np.ndarray) -> np.ndarray | None:
    return array[:0] if array.ndim and array.shape[0] else None


def _first(array: np.ndarray) -> np.ndarray | None:
    return array.reshape(-1)[:1].reshape(()) if array.ndim and array.size else None


def _deeper(array: np.ndarray) -> np.ndarray:
    return array[None]


def _number(value: int) -> Callable[[np.ndarray], np.ndarray | None]:
    def change(array: np.ndarray) -> np.ndarray | None:
        if array.dtype.kind != "i" or not array.size:
            return None
        changed = array.copy()
        changed.reshape(-1)[-1:] = value
        return changed

    return change


def _text(array: np.ndarray) -> np.ndarray | None:
    if array.dtype != object or not array.size:
        return None
    changed = array.copy()
    changed.reshape(-1)[-1:] = [bytes(array.reshape(-1)[-1])[:-1] + b"\xfe?"]
    return changed


WAYS: dict[str, Callable[[np.ndarray], np.ndarray | None]] = {
    "shorter": _shorter, "narrower": _narrower, "empty": _empty, "a scalar": _first,
    "deeper": _deeper, "too large": _number(97), "negative": _number(-5),
    "other text": _text,
}
