"""The forms of graphs and tensors in notebooks: small tables in HTML."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from hpcflow.dtypes import DType
from hpcflow.host.tuning import programs as tuning
from hpcflow.shapes import TensorShape

if TYPE_CHECKING:
    from hpcflow.graph.graph import Graph
    from hpcflow.graph.operation import Operation, Tensor

_VARIABLES = {"Variable", "VariableV2", "VarHandleOp"}


def table(title: str, rows: Iterable[tuple[str, object]]) -> str:
    """Return a table of two columns in HTML; the texts are escaped."""
    cells = "".join(f"<tr><th style='text-align:left'>{html.escape(name)}</th>"
                    f"<td style='text-align:left'>{html.escape(str(value))}</td></tr>"
                    for name, value in rows)
    return f"<table><caption><b>{html.escape(title)}</b></caption>{cells}</table>"


def graph_rows(graph: Graph) -> list[tuple[str, object]]:
    """Return what a graph holds: operations by type, variables with their memory, devices."""
    ops: Sequence[Operation] = graph.get_operations()
    variables = [op for op in ops if op.type in _VARIABLES]
    sizes = [_variable_bytes(op) for op in variables]
    unknown = sizes.count(None)
    memory = human_bytes(sum(size for size in sizes if size is not None))
    return [
        ("operations", f"{len(ops):,}"),
        ("types", _counts(Counter(op.type for op in ops))),
        ("variables", f"{len(variables):,}"),
        ("their memory", memory + (f", and {unknown} of unknown size" if unknown else "")),
        ("devices", _counts(Counter(op.device or "(not said)" for op in ops))),
    ]


def graph_html(graph: Graph) -> str:
    """Return the table of a graph."""
    return table("Graph", graph_rows(graph))


def tensor_html(tensor: Tensor) -> str:
    """Return the table of a tensor, which has no value of its own."""
    dims = tensor.shape.num_elements()
    size = None if dims is None else dims * tensor.dtype.size
    return table("Tensor", [
        ("name", tensor.name), ("dtype", tensor.dtype.name), ("shape", tensor.shape),
        ("memory", "unknown" if size is None else human_bytes(size)),
        ("operation", tensor.op.type), ("device", tensor.device or "(not said)"),
        ("value", "session.run(tensor)"),
    ])


def human_bytes(size: int) -> str:
    """Return a number of bytes as ``12 B``, ``3.4 KiB``, ..."""
    number, units = float(size), ["B", "KiB", "MiB", "GiB", "TiB"]
    while number >= 1024 and len(units) > 1:
        number /= 1024
        units.pop(0)
    return f"{number:.0f} {units[0]}" if units[0] == "B" else f"{number:.1f} {units[0]}"


def _variable_bytes(op: Operation) -> int | None:
    dtype: DType = op.get_attr("dtype")
    elements = TensorShape(op.get_attr("shape")).num_elements()
    return None if elements is None else elements * dtype.size


def _counts(counter: Counter[str]) -> str:
    common = counter.most_common(tuning.NOTEBOOK_MOST)
    text = ", ".join(f"{name} {number:,}" for name, number in common)
    more = len(counter) - tuning.NOTEBOOK_MOST
    return text + (f", and {more} more" if more > 0 else "")
