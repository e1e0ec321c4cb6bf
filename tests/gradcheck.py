"""Gradients against central finite differences, for any op.

``check_gradient(build, *arrays)`` builds ``build(*placeholders)`` in double precision, gives every
output a random gradient, and compares ``hf.gradients`` with difference quotients; then it does the
same for the gradients themselves, so that second derivatives are checked too. The op types on the
way are noted in :data:`CHECKED`, which the completeness test reads; processes that end before that
test leave theirs in a folder.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

import hpcflow as hf
from hpcflow.graph.traversal import reachable

# Types of the ops that a gradient check has gone through, in this process.
CHECKED: set[str] = set()

# The folder in which processes leave what they have checked.
FOLDER_VARIABLE = "TESTS_CHECKED"

FORMS = ("static", "unknown")
SEED = 20231


def check_gradient(build: Callable, *arrays: Any, delta: float = 1e-5, tolerance: float = 1e-6,
                   second: bool = True, forms: Iterable[str] = FORMS, seed: int = SEED) -> None:
    """Check the gradient of ``build(*tensors)`` (a tensor or several) by its floating inputs.

    Args:
        build: makes the outputs from one tensor per array.
        arrays: float64 and complex128 inputs are differentiated, all others are given as they are.
        delta: the step of the difference quotients.
        tolerance: largest error allowed, relative to the largest gradient (at least to one).
        second: also check the gradient of the gradient.
        forms: placeholders of known (``static``) or ``unknown`` shape.
        seed: of the random gradients of the outputs; named where a check fails.
    """
    values = [np.asarray(a) for a in arrays]
    for form in forms:
        _check(build, values, form, delta, tolerance, seed)
        if second:
            _check_second(build, values, form, delta, tolerance, seed)


def note(ys: Iterable, xs: Iterable) -> None:
    """Note the types of the ops between `xs` and `ys`: their gradients are about to be checked."""
    below = reachable([x.op for x in xs], lambda op: (c for t in op.outputs for c in t.consumers()))
    above = reachable([y.op for y in ys], lambda op: (t.op for t in op.inputs))
    CHECKED.update(op.type for op in below & above)


def leave(files: Iterable[Path]) -> None:
    """Write what this process has checked, and of which files, where there is a folder for it."""
    if folder := os.environ.get(FOLDER_VARIABLE):
        Path(folder).mkdir(parents=True, exist_ok=True)
        left = {"files": sorted({str(f) for f in files}), "types": sorted(CHECKED)}
        (Path(folder) / f"{os.getpid()}.json").write_text(json.dumps(left))


def gathered() -> tuple[set[str], set[str]]:
    """The test files of all processes that have left something, and the op types checked."""
    folder = Path(os.environ.get(FOLDER_VARIABLE, os.devnull))
    left = [json.loads(path.read_text()) for path in folder.glob("*.json")]
    files = {name for found in left for name in found["files"]}
    return files, CHECKED.union(*(found["types"] for found in left))


def _flat(nest: Any) -> list:
    if isinstance(nest, (list, tuple)):
        return [leaf for item in nest for leaf in _flat(item)]
    return [nest]


def _is_differentiable(tensor: Any) -> bool:
    dtype = tensor.dtype.base_dtype
    return dtype.is_floating or dtype.is_complex


class _Case:
    """One graph: the inputs as placeholders, the outputs, and a random gradient per output."""

    def __init__(self, build: Callable, values: list[np.ndarray], form: str, seed: int) -> None:
        self.values = values
        self.inputs = [_input(v, form) for v in values]
        self.outputs = [y for y in _flat(build(*self.inputs))
                        if y is not None and _is_differentiable(y)]
        self.wrt = [i for i, v in enumerate(values) if v.dtype in (np.float64, np.complex128)]
        self.session = hf.Session()
        rng = np.random.default_rng(seed)
        self.weights = [_random(rng, y) for y in self.session.run(self.outputs, self.feeds())]

    def feeds(self, index: int | None = None, value: np.ndarray | None = None) -> dict:
        found = {x: v for x, v in zip(self.inputs, self.values) if x.op.type == "Placeholder"}
        if index is not None:
            found[self.inputs[index]] = value
        return found

    def gradients(self) -> list:
        """Symbolic gradients by the differentiable inputs."""
        grads = hf.gradients(self.outputs, [self.inputs[i] for i in self.wrt],
                             [hf.constant(w) for w in self.weights])
        note(self.outputs, [self.inputs[i] for i in self.wrt])
        return [g if g is None else hf.convert_to_tensor(g) for g in grads]

    def loss(self, index: int, value: np.ndarray) -> float:
        """Re Σ conj(weight) · output, with one input replaced."""
        outputs = self.session.run(self.outputs, self.feeds(index, value))
        return float(sum(np.vdot(w, y).real for w, y in zip(self.weights, outputs)))

    def quotients(self, index: int, delta: float) -> np.ndarray:
        """Difference quotients by one input: of a complex one along both axes."""
        x = self.values[index]
        result = np.zeros(x.shape, x.dtype)
        for at in np.ndindex(x.shape):
            for step in (1, 1j) if x.dtype.kind == "c" else (1,):
                ends = []
                for sign in (1, -1):
                    moved = x.copy()
                    moved[at] += sign * step * delta
                    ends.append(self.loss(index, moved))
                result[at] += step * (ends[0] - ends[1]) / (2 * delta)
        return result


def _input(value: np.ndarray, form: str) -> Any:
    if value.dtype in (np.float64, np.complex128) or form == "unknown":
        return hf.placeholder(hf.as_dtype(value.dtype), value.shape if form == "static" else None)
    return hf.constant(value)


def _random(rng: np.random.Generator, like: np.ndarray) -> np.ndarray:
    like = np.asarray(like)
    if like.dtype.kind == "c":
        return (rng.normal(size=like.shape) + 1j * rng.normal(size=like.shape)).astype(like.dtype)
    return np.asarray(rng.normal(size=like.shape), like.dtype)


def _check(build: Callable, values: list[np.ndarray], form: str, delta: float, tolerance: float,
           seed: int) -> None:
    with hf.Graph().as_default():
        case = _Case(build, values, form, seed)
        grads = case.gradients()
        found = case.session.run([g for g in grads if g is not None], case.feeds())
        for index, grad in zip(case.wrt, grads):
            expected = case.quotients(index, delta)
            got = np.zeros_like(expected) if grad is None else np.asarray(found.pop(0))
            assert got.shape == expected.shape, (index, got.shape, expected.shape)
            scale = max(1.0, np.abs(expected).max(initial=0))
            np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance * scale,
                                       err_msg=f"input {index}, shapes {form}, seed {seed}")


def _check_second(build: Callable, values: list[np.ndarray], form: str, delta: float,
                  tolerance: float, seed: int) -> None:
    """The gradients as functions of the same inputs, and of the gradients of the outputs."""
    count = len(values)
    with hf.Graph().as_default():
        weights = _Case(build, values, form, seed).weights

    def build_gradients(*tensors: Any) -> list:
        inputs, grad_ys = tensors[:count], list(tensors[count:])
        outputs = [y for y in _flat(build(*inputs)) if y is not None and _is_differentiable(y)]
        wrt = [x for x, v in zip(inputs, values) if v.dtype in (np.float64, np.complex128)]
        return [hf.convert_to_tensor(g) for g in hf.gradients(outputs, wrt, grad_ys)
                if g is not None]

    _check(build_gradients, [*values, *weights], form, delta, tolerance, seed + 1)
