"""Whole programs: what public functions name their nodes, models that move between the libraries,
and stateful ops that need several steps.

In a worker: :func:`evaluate`, then, when both libraries are done, :func:`exchange`. In the parent
process: :func:`compare`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import graphs
import models
import models_graphs  # noqa: F401 - adds its own
import naming
import numpy as np
import scenarios
import scenarios.columns
import scenarios.data
import scenarios.flow
import scenarios.keras
import scenarios.later
import scenarios.layers
import scenarios.namespaces
import scenarios.quantized
import scenarios.summaries
import scenarios.tables
from arrays import load, save
from compare import error_in_eps

LIBRARIES = ("hpcflow", "reference")
# Many ops, and training steps, amplify the last digits.
TOLERANCE = 64.0


def evaluate(name: str, tf: Any, config: Any, directory: Path) -> None:
    """Build every named graph and model, run every scenario, with one library."""
    built = [(n, naming.build(tf, n)) for n in naming.BUILDERS]
    save(directory / f"{name}-naming.npz", [[n, b[0]] for n, b in built],
         [np.frombuffer(b[1], np.uint8) for _, b in built])
    _save_runs(directory / f"{name}-models.npz",
               {n: _attempt(models.build, tf, n, config) for n in models.MODELS})
    _save_runs(directory / f"{name}-scenarios.npz",
               {n: _attempt(scenarios.run, tf, n, config) for n in scenarios.SCENARIOS})


def exchange(name: str, tf: Any, config: Any, directory: Path) -> None:
    """Import the models that the other library has built, and run them."""
    other = LIBRARIES[1 - LIBRARIES.index(name)]
    found = {}
    for model, (info, _) in _load_runs(directory / f"{other}-models.npz").items():
        if "graph" in info:
            found[model] = _attempt(lambda i=info: ({"ops": models.types_of(tf, i)},
                                                    models.rebuild(tf, i, config)))
    _save_runs(directory / f"{name}-imports.npz", found)


def _attempt(function: Any, *args: Any) -> tuple[dict, list]:
    try:
        return function(*args)
    except Exception as error:  # noqa: BLE001 - an outcome like others
        return {"error": f"{type(error).__name__}: {error}"[:500]}, []


def _save_runs(path: Path, runs: dict[str, tuple[dict, list]]) -> None:
    arrays: list = []
    meta = {}
    for name, (info, values) in runs.items():
        meta[name] = {**info, "count": len(values)}
        arrays += values
    save(path, meta, arrays)


def _load_runs(path: Path) -> dict[str, tuple[dict, list]]:
    meta, arrays = load(path)
    rest = iter(arrays)
    return {name: (info, [next(rest) for _ in range(info["count"])]) for name, info in meta.items()}


# ---------------------------------------------------------------- in the parent process


def compare(directory: Path) -> Iterator[tuple[str, list[str], set[str]]]:
    """For each program its name, what differs, and the op types in it."""
    ours, theirs = (load(directory / f"{lib}-naming.npz") for lib in LIBRARIES)
    for (name, result), (_, other), a, b in zip(ours[0], theirs[0], ours[1], theirs[1]):
        if isinstance(result, dict) or isinstance(other, dict):
            problems = [] if isinstance(other, dict) else [f"ours raises {result}"]
            yield f"names of {name}", problems, set()
            continue
        inside = name not in naming.CHANGED
        problems, types = graphs.compare(a.tobytes(), b.tobytes(), inside)
        other = naming.RETURNED.get(name, other)
        if result != other:
            problems.insert(0, f"returns {result}, the reference {other}")
        yield f"names of {name}", problems, types
    runs = {lib: {kind: _load_runs(directory / f"{lib}-{kind}.npz")
                  for kind in ("models", "imports", "scenarios")} for lib in LIBRARIES}
    yield from _compare_runs("scenario", runs["hpcflow"]["scenarios"],
                             runs["reference"]["scenarios"])
    for title, kind, library in (("model", "models", "hpcflow"),
                                 ("the reference's graph, run by ours,", "imports", "hpcflow"),
                                 ("our graph, run by the reference,", "imports", "reference")):
        yield from _compare_runs(title, runs[library][kind], runs["reference"]["models"])


def _compare_runs(title: str, ours: dict,
                  theirs: dict) -> Iterator[tuple[str, list[str], set[str]]]:
    for name, (info, values) in theirs.items():
        mine, found = ours.get(name, ({"error": "was not built"}, []))
        types = set(mine.get("ops", ()))
        if "error" in info or "error" in mine:
            # What should be an error is told among the results: none of these may end in one.
            problems = [f"{mine.get('error')} against {info.get('error')}"]
        else:
            problems = _differences(found, values)
        yield f"{title} {name}", problems, types


def _differences(found: list, values: list) -> list[str]:
    problems = []
    if len(found) != len(values):
        problems.append(f"{len(found)} results, the reference has {len(values)}")
    for index, (a, b) in enumerate(zip(found, values)):
        if a.dtype != b.dtype or a.shape != b.shape:
            problems.append(f"result {index} is {a.dtype}{a.shape}, not {b.dtype}{b.shape}")
        elif a.dtype.kind in "fc":
            error = error_in_eps(a, b)
            if error > TOLERANCE:
                problems.append(f"result {index} differs by {error:.3g} eps: {a} against {b}")
        elif not np.array_equal(a, b):
            problems.append(f"result {index}: {a} is not {b}")
    return problems
