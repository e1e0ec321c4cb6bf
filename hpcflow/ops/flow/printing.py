"""print: an operation that writes the values of tensors as text."""

from __future__ import annotations

import sys
from typing import Any

from hpcflow.dtypes import string
from hpcflow.graph import nest
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.sparse_tensor import is_sparse, to_sparse

__all__ = ["print"]

_LEVELS = {"info": "info", "warn": "warning", "warning": "warning", "error": "error"}
_PLACE = "\0"  # stands for a tensor in a template: no text has it


def print(*inputs: Any, output_stream: Any = None, summarize: int = 3, sep: str = " ",
          end: str = "\n", name: str | None = None) -> Operation:
    """Return an operation that writes `inputs`: tensors, other values, or nests of both.

    Args:
        inputs: what to write; tensors with the values that they have when the operation runs,
            dicts in the order of their keys. A single text, a scalar tensor of strings, is written
            as it is, without quotation marks.
        output_stream: ``sys.stdout``, ``sys.stderr`` (when None), a path as "file://PATH", or a
            function that logs (``hf.logging.info``, ``warning`` or ``error``, or absl's).
        summarize: how many first and last entries of each dimension are shown; all when -1.
        sep: what stands between two inputs.
        end: what stands at the end.
        name: name of the operation.

    Raises ``ValueError`` for another stream.
    """
    stream = _stream(output_stream)
    if len(inputs) == 1 and _is_text(inputs[0]):
        return raw_ops.PrintV2(input=inputs[0], output_stream=stream, end=end, name=name)
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
    level = _LEVELS.get(getattr(output_stream, "__name__", ""))
    if level is not None and output_stream.__module__.endswith("logging"):
        return f"log({level})"
    if not (isinstance(output_stream, str) and output_stream.startswith("file://")):
        raise ValueError("output_stream must be sys.stdout, sys.stderr, a file:// path or a "
                         f"function that logs, got {output_stream!r}")
    return output_stream


def _is_text(value: TensorLike) -> bool:
    return isinstance(value, Tensor) and value.dtype.base_dtype is string and (
        value.shape.ndims == 0)


def _template(value: TensorLike, tensors: list, quoted: bool = True) -> str:
    """The text of `value`, with a place for each tensor in it, which joins `tensors`."""
    if is_sparse(value):
        sparse = to_sparse(value)
        tensors.extend((sparse.indices, sparse.values, sparse.dense_shape))
        return f"'SparseTensor(indices={_PLACE}, values={_PLACE}, shape={_PLACE})'"
    if hasattr(value, "graph") and hasattr(value, "dtype"):
        tensors.append(value)
        return _PLACE
    if isinstance(value, dict):
        return "{" + ", ".join([f"{_template(k, tensors)}: {_template(v, tensors)}"
                                for k, v in nest.sorted_items(value)]) + "}"
    if isinstance(value, (list, tuple)):
        inside = ", ".join([_template(v, tensors) for v in value])
        return f"[{inside}]" if isinstance(value, list) else f"({inside})"
    return repr(value) if quoted else str(value)
