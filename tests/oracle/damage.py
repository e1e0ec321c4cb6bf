"""Damaged cases: valid ones with one input or attribute changed, which the library must refuse or
take exactly where the reference does: as the graph is built of known shapes, or in a step."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from arrays import as_array
from case import Case, Shape, Type, Variable

LARGEST = 4000  # elements of an input of those
# How the inputs of damaged cases enter the graph.
FORMS = ("unknown", "constant")
# Of the cases with a single base for each op, one in so many is kept.
KEPT = 3


def damaged(cases: list[Case], seed: int, bases: int, ops: dict) -> list[Case]:
    """That many valid cases of each op with each of their inputs and attributes damaged in each
    way; of `ops` as the worker describes them. With a single base, only some of these."""
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
            variants = [*_variants(case), *_other_attributes(case, ops[op]["attrs"])]
            if bases == 1:
                variants = variants[int(rng.integers(KEPT))::KEPT]
            found += variants
    return found


def _is_small(case: Case) -> bool:
    sizes = [as_array(a).size for v in case.inputs.values() for a in _arrays(v)]
    return bool(sizes) and 0 < max(sizes) <= LARGEST


def _arrays(value: Any) -> list:
    return value if isinstance(value, list) else [
        value.value if isinstance(value, Variable) else value]


def _variants(case: Case) -> Iterator[Case]:
    """The case with each input damaged, in each form."""
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
                if changed is None or label == OTHER_TYPE and _names_types(case):
                    continue
                if (case.op, name, label) in ENDLESS:
                    continue
                if place is not None:
                    changed = [*value[:place], changed, *value[place + 1:]]
                for form in FORMS:
                    yield _with(case, name, changed, label, form)


def _names_types(case: Case) -> bool:
    """True if the types of the inputs are given, which the reference takes from the inputs."""
    return any(isinstance(v, list) and v and isinstance(v[0], Type) for v in case.attrs.values())


def _with(case: Case, name: str, value: Any, label: str, form: str = "unknown") -> Case:
    # Of what is no number only whether it is refused is compared.
    return replace(case, inputs={**case.inputs, name: value}, label=f"{name} {label}", gradient=0,
                   form=form, damaged=True, check="shapes" if label in NO_NUMBERS else case.check)


def _other_attributes(case: Case, attrs: dict[str, tuple[str, Any]]) -> Iterator[Case]:
    """The case with each attribute that does not follow from its inputs set to something else."""
    for name, (kind, default) in attrs.items():
        if name in ("container", "shared_name"):
            continue
        value = case.attrs.get(name, default)
        for form, other in zip(FORMS * len(ATTRIBUTES.get(kind, ())), ATTRIBUTES.get(kind, ())):
            changed = other(value) if callable(other) else other
            if changed is not None and changed != value:
                yield replace(case, attrs={**case.attrs, name: changed}, gradient=0, form=form,
                              label=f"other {name}", damaged=True)


def _fewer(values: Any) -> list | None:
    return list(values)[:-1] if values else None


def _more(values: Any) -> list | None:
    return [*values, values[-1]] if values else None


def _last(value: Any) -> Callable[[Any], list | None]:
    return lambda values: [*list(values)[:-1], value] if values else None


# By the type of an attribute: other values, or functions of the value that make one (or None).
ATTRIBUTES: dict[str, tuple] = {
    "int": (0, -1, 3, -7),
    "float": (-1.0, 0.0, float("nan")),
    "bool": (lambda value: not value,),
    "string": ("", "other"),
    "type": (Type("complex64"), Type("string"), Type("bool"), Type("int32")),
    "shape": (Shape(None), Shape((-1, 3)), Shape((0,))),
    "list(int)": (_fewer, _more, _last(0), _last(-2), _last(0), _last(-2), []),
    "list(float)": (_fewer, _more, []),
    "list(string)": (_fewer, _more, []),
    "list(type)": (_fewer, _more, []),
}


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


def _longer(array: np.ndarray) -> np.ndarray | None:
    return np.concatenate([array, array[:1]]) if array.ndim and array.shape[0] else None


def _flat(array: np.ndarray) -> np.ndarray | None:
    return array.reshape(-1) if array.ndim > 1 else None


def _no_columns(array: np.ndarray) -> np.ndarray | None:
    return array[..., :0] if array.ndim > 1 and array.shape[-1] else None


def _other_type(array: np.ndarray) -> np.ndarray | None:
    if array.dtype == object:
        return np.zeros(array.shape, np.float32)
    return np.zeros(array.shape, {"f": np.int32, "i": np.float32}.get(array.dtype.kind, np.int16))


def _float(value: float) -> Callable[[np.ndarray], np.ndarray | None]:
    def change(array: np.ndarray) -> np.ndarray | None:
        if array.dtype.kind not in "fc" or not array.size:
            return None
        changed = array.copy()
        changed.reshape(-1)[-1:] = value
        return changed

    return change


def _number(value: int) -> Callable[[np.ndarray], np.ndarray | None]:
    def change(array: np.ndarray) -> np.ndarray | None:
        if array.dtype.kind != "i" or not array.size:
            return None
        changed = array.copy()
        changed.reshape(-1)[-1:] = value
        return changed

    return change


def _text(edit: Callable[[bytes], bytes]) -> Callable[[np.ndarray], np.ndarray | None]:
    def change(array: np.ndarray) -> np.ndarray | None:
        if array.dtype != object or not array.size:
            return None
        changed = array.copy()
        changed.reshape(-1)[-1:] = [edit(bytes(array.reshape(-1)[-1]))]
        return changed

    return change


def _other_middle(text: bytes) -> bytes:
    half = len(text) // 2
    return text[:half] + b"\xff\x00\x80" + text[half + 3:]


OTHER_TYPE = "of another type"
WAYS: dict[str, Callable[[np.ndarray], np.ndarray | None]] = {
    "shorter": _shorter, "narrower": _narrower, "empty": _empty, "a scalar": _first,
    "deeper": _deeper, "longer": _longer, "flat": _flat, "without columns": _no_columns,
    "too large": _number(97), "negative": _number(-5), "not a number": _float(np.nan),
    "infinite": _float(-np.inf), OTHER_TYPE: _other_type,
    "other text": _text(lambda text: text[:-1] + b"\xfe?"), "no text": _text(lambda text: b""),
    "half the text": _text(lambda text: text[:len(text) // 2]),
    "damaged text": _text(_other_middle),
}
NO_NUMBERS = ("not a number", "infinite")
# Op, input, and damage on which the reference does not end.
ENDLESS = {("AdjustHue", "delta", "infinite"), ("RandomPoisson", "rate", "not a number"),
           ("RandomPoissonV2", "rate", "not a number"),
           ("StatelessRandomPoisson", "lam", "not a number")}
