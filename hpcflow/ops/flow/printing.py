"""print: an operation that writes the values of tensors as text."""

from __future__ import annotations

import sys
from typing import Any

from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Operation
from hpcflow.graph.raw import raw_ops

__all__ = ["print"]

_PLACE = "\0"  # stands for a tensor in a template: no text has it


def print(*inputs: Any, output_stream: Any = None, summarize: int = 3, sep: str = " ",
          end: str = "\n", name: str | None = None) -> Operation:
    """Return an operation that writes `inputs`: tensors, other values, or nests of both.

    Args:
        inputs: what to write; tensors with the values that they have when the operation runs.
        output_stream: ``sys.stdout``, ``sys.stderr`` (when None), or a path as "file://PATH".
        summarize: how many first and last entries of each dimension are shown; all when -1.
        sep: what stands between two inputs.
        end: what stands at the end.
        name: name of the operation.

    Raises ``ValueError`` for another stream.
    """
    stream = _stream(output_stream)
    tensors: list = []
    template = sep.join([_template(x, tensors, quoted=False) for x in inputs])
    with name_scope(name, "print", tensors) as scope:
        text = raw_ops.StringFormat(inputs=tensors, template=template, placeholder=_PLACE,
                                    summarize=summarize)
        return raw_ops.PrintV2(input=text, output_stream=stream, end=end, name=scope)


def _stream(output_stream: Any) -> str:
    if output_stream is None or output_stream is sys.stderr:
        return "stderr"
    if output_stream is sys.stdout:
        return "stdout"
    if not (isinstance(output_stream, str) and output_stream.startswith("file://")):
        raise ValueError("output_stream must be sys.stdout, sys.stderr or a file:// path, got "
                         f"{output_stream!r}")
    return output_stream


def _template(value: TensorLike, tensors: list, quoted: bool = True) -> str:
    """The text of `value`, with a place for each tensor in it, which joins `tensors`."""
    if hasattr(value, "graph") and hasattr(value, "dtype"):
        tensors.append(value)
        return _PLACE
    if isinstance(value, dict):
        return "{" + ", ".join([f"{_template(k, tensors)}: {_template(v, tensors)}"
                                for k, v in value.items()]) + "}"
    if isinstance(value, (list, tuple)):
        inside = ", ".join([_template(v, tensors) for v in value])
        return f"[{inside}]" if isinstance(value, list) else f"({inside})"
    return repr(value) if quoted else str(value)
