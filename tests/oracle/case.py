"""What a case is: one op, its inputs and attributes; data that either library can build from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from arrays import as_array

# How the inputs enter the graph: as constants; fed to placeholders of known or of unknown shape;
# fed as arrays that do not lie in memory in order.
FORMS = ("constant", "unknown", "static", "strided")


class Variable(NamedTuple):
    """An input that is a variable with this value (a reference, or a resource handle)."""

    value: np.ndarray
    resource: bool = False
    initialized: bool = True


class Type(NamedTuple):
    """An attribute that is a dtype."""

    name: str


class Shape(NamedTuple):
    """An attribute that is a shape; None for an unknown rank, -1 for an unknown dimension."""

    dims: tuple[int, ...] | None


@dataclass
class Case:
    """One op on given inputs.

    Attributes:
        inputs: argument name -> array, list of arrays, :class:`Variable`.
        gradient: 0: outputs only; 1: also the gradient by every floating input; 2: its gradient.
        bad: the op must be refused, with one class of error on both sides.
        damaged: a valid case with one input changed; refused wherever the reference refuses it.
        whole: it is not to be damaged: the reference ends its process where it should refuse.
        tolerance: largest error, in units of the dtype's epsilon (None: the op's default).
        reference: what the reference builds where it refuses `op`: (op, inputs, attributes).
        check: ``values``, ``moments`` (a random op), or ``shapes`` (values are unspecified).
    """

    op: str
    inputs: dict[str, Any]
    attrs: dict[str, Any] = field(default_factory=dict)
    label: str = ""
    form: str = "unknown"
    gradient: int = 0
    bad: bool = False
    damaged: bool = False
    whole: bool = False
    tolerance: float | None = None
    reference: tuple[str, dict[str, Any], dict[str, Any]] | None = None
    check: str = "values"

    @property
    def title(self) -> str:
        """How the case is called in a report."""
        kinds = ",".join(_kind(v) for v in self.inputs.values())
        attrs = ",".join(f"{k}={_brief(v)}" for k, v in self.attrs.items())
        words = [f"{self.op}({kinds})", attrs, self.form, self.label]
        return " ".join(word for word in words if word)


def _kind(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ",".join(map(_kind, value)) + "]"
    if isinstance(value, Variable):
        return "var " + _kind(value.value)
    array = as_array(value)
    dims = "x".join(map(str, array.shape))
    return f"{'string' if array.dtype == object else array.dtype.name}[{dims}]"


def _brief(value: Any) -> str:
    return value.name if isinstance(value, Type) else str(value)


def encode(case: Case, arrays: list[np.ndarray]) -> dict:
    """`case` as JSON data; its arrays are appended to `arrays`."""
    data = {"op": case.op, "inputs": _encode_inputs(case.inputs, arrays),
            "attrs": {k: _encode_attr(v) for k, v in case.attrs.items()}, "form": case.form,
            "gradient": case.gradient, "check": case.check, "reference": None}
    if case.reference is not None:
        op, inputs, attrs = case.reference
        data["reference"] = {"op": op, "inputs": _encode_inputs(inputs, arrays),
                             "attrs": {k: _encode_attr(v) for k, v in attrs.items()}}
    return data


def _encode_inputs(inputs: dict[str, Any], arrays: list[np.ndarray]) -> dict:
    return {name: _encode_input(value, arrays) for name, value in inputs.items()}


def _encode_input(value: Any, arrays: list[np.ndarray]) -> Any:
    if isinstance(value, list):
        return [_encode_input(v, arrays) for v in value]
    extra = {}
    if isinstance(value, Variable):
        extra = {"variable": "resource" if value.resource else "reference",
                 "initialized": value.initialized}
        value = value.value
    arrays.append(as_array(value))
    return {"array": len(arrays) - 1, **extra}


def _encode_attr(value: Any) -> Any:
    if isinstance(value, Type):
        return {"dtype": value.name}
    if isinstance(value, Shape):
        return {"shape": None if value.dims is None else list(value.dims)}
    if isinstance(value, bytes):
        return {"bytes": value.decode()}
    return [_encode_attr(v) for v in value] if isinstance(value, (list, tuple)) else value
