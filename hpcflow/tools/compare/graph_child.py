"""Runs a graph and gives the values of its tensors: in this process, or in a peer's own Python.

As a program (``python graph_child.py MODULE REQUEST ANSWER``) it reads a request, a file of NumPy's
format with the arrays

- ``graph``: the bytes of a GraphDef, as uint8;
- ``names``: the tensors that are asked for;
- ``first``: the operation that is run before, or an empty text;
- ``fed:NAME``: the value of a tensor;

and writes the answer, such a file too, with ``value:NAME`` or, for what could not be computed,
``error:NAME``. This file must run without hpcflow: the standard library and NumPy only.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Values = dict[str, Any]


def load_framework(module: str) -> Any:
    """Return the 1.x-compatible interface of a framework, set to build graphs."""
    found = importlib.import_module(module)
    if hasattr(found, "disable_eager_execution"):
        found.disable_eager_execution()
    return found


def run_graph(framework: Any, graph_def: bytes, names: Sequence[str], fed: Mapping[str, Any],
              first: str = "") -> tuple[Values, dict[str, str]]:
    """Return the values of tensors by name, and texts of errors of those that have none.

    Args:
        framework: an interface of 1.x.
        graph_def: a serialized GraphDef.
        names: the tensors.
        fed: values of tensors by name.
        first: an operation that is run before; none if it is empty.
    """
    graph = framework.Graph()
    with graph.as_default():
        proto = framework.GraphDef()
        proto.ParseFromString(graph_def)
        framework.import_graph_def(proto, name="")
    values: Values = {}
    errors: dict[str, str] = {}
    with framework.Session(graph=graph) as session:
        if first:
            session.run(graph.get_operation_by_name(first), dict(fed))
        _collect(session, list(names), dict(fed), values, errors)
    return values, errors


def _collect(session: Any, names: list[str], fed: dict, values: Values,
             errors: dict[str, str]) -> None:
    """Fetch all at once; if that fails, one half after the other."""
    try:
        values.update(zip(names, session.run(names, fed)))
    except Exception as error:  # noqa: BLE001 - of whatever class the runtime has
        if len(names) == 1:
            lines = str(error).strip().splitlines() or [type(error).__name__]
            errors[names[0]] = lines[0]
            return
        middle = len(names) // 2
        _collect(session, names[:middle], fed, values, errors)
        _collect(session, names[middle:], fed, values, errors)


def main(arguments: Sequence[str]) -> int:
    """Answer a request."""
    module, request, answer = arguments
    with np.load(request) as asked:
        fed = {key.partition(":")[2]: asked[key] for key in asked.files if key.startswith("fed:")}
        values, errors = run_graph(load_framework(module), asked["graph"].tobytes(),
                                   [str(name) for name in asked["names"]], fed,
                                   str(asked["first"]))
    arrays = {f"value:{name}": plain(value) for name, value in values.items()}
    arrays.update({f"error:{name}": np.array(text) for name, text in errors.items()})
    with open(answer, "wb") as file:
        np.savez(file, allow_pickle=False, **arrays)
    return 0


def plain(value: Any) -> np.ndarray:
    """Return a value as an array of a type that NumPy's files keep: texts as bytes of one length,
    types that NumPy has not itself as float32."""
    array = np.asarray(value)
    if array.dtype == object:
        return np.array([x if isinstance(x, bytes) else str(x).encode() for x in array.ravel()],
                        dtype=bytes).reshape(array.shape)
    return array if array.dtype.kind in "biufcSU" else array.astype(np.float32)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
