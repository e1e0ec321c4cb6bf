"""Compare what the library and the reference made of a case."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
from case import Case
from moments import compare_draws
from stated import reason

# Default tolerance in units of the dtype's epsilon, relative to |expected| + its mean.
TOLERANCE = 16.0
# What a record may hold.
KINDS = ("output", "variable", "gradient", "second")

# The reference has no kernel for these dtypes on this device: nothing to compare with.
NO_KERNEL = ("No OpKernel was registered", "Could not find device for node",
             "No registered", "not in list of allowed values", "is not supported",
             "not in the list of allowed values", "unsupported data type", "Unsupported data type",
             "has no op", "Unhandled data type")


# By what the results of a case move: by kind and number.
Moves = dict[tuple[str, int], float]

# Damaged data that the reference does not look at are refused with these.
REFUSALS = ("InvalidArgumentError", "FailedPreconditionError", "DataLossError", "ValueError")


@dataclass
class Verdict:
    """The outcome of a case.

    Attributes:
        error: the largest one, in units of epsilon, or of what such a unit in the inputs makes.
        coarsest: the largest epsilon of the outputs, through which all gradients come.
        moves: by how many units of epsilon the results move with the rounding of the inputs.
        rounding: passed only for these.
    """

    case: Case
    status: str = "passed"
    error: float = 0.0
    coarsest: float = 0.0
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    moves: Moves = field(default_factory=dict)
    rounding: bool = False

    @property
    def differs(self) -> bool:
        """Whether floating values differ, and nothing else does."""
        return bool(self.problems) and all(" differs by " in text for text in self.problems)

    def fail(self, problem: str) -> None:
        """Note a difference, unless it is a stated one."""
        why = reason(self.case.op, self.case.title, problem)
        if why is not None:
            self.notes.append(f"stated: {why}")
            self.error = 0.0
            return
        self.status = "failed"
        self.problems.append(problem)


def judge(case: Case, ours: dict, theirs: dict, moves: Moves | None = None) -> Verdict:
    """Compare two records, each with its arrays under ``arrays``."""
    verdict = Verdict(case, moves=moves or {})
    mine, other = ours["error"], theirs["error"]
    if case.damaged and other is not None and other[0] in ("Died", "UnicodeDecodeError"):
        if mine is not None and mine[0] not in REFUSALS:
            verdict.fail(f"where the reference ends its process: {mine}")
        return verdict
    if other is not None and lacks_kernel(other):
        verdict.status = "unserved"
        if mine is not None and mine[0] == "Died":
            verdict.fail("ends the process, of dtypes that the reference does not serve")
        if mine is None:
            verdict.notes.append(f"beyond the reference: {other[1][:120]}")
        return verdict
    check_static(verdict, ours)
    before_gradient = [r["error"] is None or r["stage"] == "gradient" for r in (ours, theirs)]
    if all(before_gradient):
        compare_arrays(verdict, "output", ours, theirs)
        compare_arrays(verdict, "variable", ours, theirs)
        verdict.coarsest = max(map(_epsilon, theirs["arrays"].get("output", [])), default=0.0)
        if mine is None and other is None:
            compare_gradients(verdict, ours, theirs)
    if mine is not None or other is not None:
        compare_errors(verdict, ours, theirs)
    elif case.bad:
        verdict.notes.append("neither refuses it")
    return verdict


def lacks_kernel(error: list[str]) -> bool:
    """True if the reference says that it does not serve the dtypes."""
    return any(text in error[1] for text in NO_KERNEL)


def compare_errors(verdict: Verdict, ours: dict, theirs: dict) -> None:
    """One class of error on both sides. A step's InvalidArgumentError is a ValueError where the
    graph is built."""
    mine, other = ours["error"], theirs["error"]
    if mine is None or other is None:
        who, record = ("the reference", theirs) if mine is None else ("ours", ours)
        # The reference may lack a gradient, or the gradient of one, that we have.
        if mine is None and theirs["stage"] == "gradient" and not verdict.case.bad:
            verdict.notes.append(f"only the reference refuses the gradient: {other}")
            return
        if verdict.case.damaged and mine is None and theirs["stage"] == "build":
            verdict.notes.append(f"the reference builds it of known shapes only: {other}")
            return
        if verdict.case.damaged and who == "ours" and mine[0] in REFUSALS:
            verdict.notes.append(f"the reference computes something of it: {mine}")
            return
        verdict.fail(f"only {who} refuses it ({record['stage']}): {record['error']}")
    elif _class(mine) != _class(other):
        verdict.fail(f"errors differ: ours {ours['stage']} {mine}, the reference's "
                     f"{theirs['stage']} {other}")
    else:
        if ours["stage"] != theirs["stage"]:
            verdict.notes.append(f"refused in {ours['stage']}, by the reference in "
                                 f"{theirs['stage']}: {other[1][:160]}")
        if not verdict.case.bad and "gradient" not in (ours["stage"], theirs["stage"]):
            verdict.notes.append(f"both refuse it: {other}")


def _class(error: list[str]) -> str:
    return {"ValueError": "InvalidArgumentError"}.get(error[0], error[0])


def check_static(verdict: Verdict, ours: dict) -> None:
    """The static shapes that the library claims are those of the step."""
    if verdict.case.check == "moments" or "output" not in ours["arrays"]:
        return
    for index, (dims, value) in enumerate(zip(ours["static"], ours["arrays"]["output"])):
        if dims is None:
            continue
        if len(dims) != value.ndim or any(d is not None and d != n
                                          for d, n in zip(dims, value.shape)):
            verdict.fail(f"output {index} was said to be {dims}, is {list(value.shape)}")


def compare_gradients(verdict: Verdict, ours: dict, theirs: dict) -> None:
    """The gradients, and which of the inputs have one."""
    for kind in ("gradient", "second"):
        if kind not in theirs:
            continue
        if kind not in ours:
            verdict.fail(f"{kind}: the reference has it, ours has none")
        elif ours[kind] != theirs[kind]:
            _compare_present(verdict, kind, ours, theirs)
        else:
            compare_arrays(verdict, kind, ours, theirs)


def _compare_present(verdict: Verdict, kind: str, ours: dict, theirs: dict) -> None:
    """A gradient that the reference has and ours has not must be zero."""
    both = [iter(r["arrays"].get(kind, [])) for r in (ours, theirs)]
    for index, present in enumerate(zip(ours[kind], theirs[kind])):
        a, b = (next(arrays) if p else None for arrays, p in zip(both, present))
        if a is None and b is None:
            continue
        if b is None:
            verdict.notes.append(f"{kind} {index}: beyond the reference, which gives none")
            continue
        if a is None:
            a = np.zeros_like(b)
        problem = _difference(verdict, a, b, (kind, index))
        if problem:
            verdict.fail(f"{kind}: given for the inputs {ours[kind]}, by the reference "
                         f"{theirs[kind]}; number {index} {problem}")


def compare_arrays(verdict: Verdict, kind: str, ours: dict, theirs: dict) -> None:
    """Equal numbers of arrays, dtypes and shapes; values within the tolerance."""
    mine, other = ours["arrays"].get(kind, []), theirs["arrays"].get(kind, [])
    if len(mine) != len(other):
        verdict.fail(f"{kind}: {len(mine)} arrays, the reference has {len(other)}")
        return
    if verdict.case.check == "moments" and mine:
        for problem in compare_draws(mine, other):
            verdict.fail(problem)
        return
    for index, (a, b) in enumerate(zip(mine, other)):
        problem = _difference(verdict, a, b, (kind, index))
        if problem:
            verdict.fail(f"{kind} {index}: {problem}")


def _difference(verdict: Verdict, a: np.ndarray, b: np.ndarray,
                place: tuple[str, int]) -> str | None:
    if a.dtype != b.dtype:
        return f"is {a.dtype}, the reference's {b.dtype}"
    if a.shape != b.shape:
        return f"has shape {a.shape}, the reference's {b.shape}"
    if verdict.case.check == "shapes":
        return None
    if a.dtype.kind not in "fcV":
        return None if np.array_equal(a, b) else f"{_show(a)} is not {_show(b)}"
    error = error_in_eps(a, b)
    if place[0] in ("gradient", "second"):
        error *= _epsilon(a) / max(_epsilon(a), verdict.coarsest)
    limit = TOLERANCE if verdict.case.tolerance is None else verdict.case.tolerance
    move = verdict.moves.get(place, 1.0)
    if error > limit and error <= min(limit, TOLERANCE) * move:
        verdict.rounding = True
        error = error / move if np.isfinite(error) else 0.0
    verdict.error = max(verdict.error, error)
    if error <= limit:
        return None
    return f"differs by {error:.3g} eps (at most {limit:g}): {_show(a)} against {_show(b)}"


def error_in_eps(a: np.ndarray, b: np.ndarray) -> float:
    """max |a - b| / (|b| + mean |b|) / eps; infinite where NaNs or infinities differ."""
    if a.size == 0:
        return 0.0
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    eps = _epsilon(a)
    tiny = float(ml_dtypes.finfo(a.dtype).tiny)
    parts_a, parts_b = (_parts(x.astype(wide)) for x in (a, b))
    finite = np.isfinite(parts_b)
    if not np.array_equal(np.isfinite(parts_a), finite) or not np.array_equal(
            parts_a[~finite], parts_b[~finite], equal_nan=True):
        return float("inf")
    size = np.abs(np.where(np.isfinite(b.astype(wide)), b.astype(wide), 0))
    sizes = np.broadcast_to(size[..., None], parts_b.shape)
    with np.errstate(all="ignore"):
        error = np.abs(parts_a - parts_b) / (sizes + size.mean() + tiny)
    return float(np.max(error[finite], initial=0.0)) / eps


def _epsilon(x: np.ndarray) -> float:
    """Of the dtype of `x`; zero for others than floating ones."""
    return float(ml_dtypes.finfo(x.dtype).eps) if x.dtype.kind in "fcV" else 0.0


def _parts(x: np.ndarray) -> np.ndarray:
    return np.stack([x.real, x.imag], -1)


def _show(x: Any) -> str:
    return np.array2string(np.asarray(x), threshold=12, edgeitems=4, precision=6,
                           max_line_width=200).replace("\n", "")[:240]
