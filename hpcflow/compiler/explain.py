"""explain: what a kernel raised, as an error that names the op, its inputs and the user's line."""

from __future__ import annotations

from typing import Any

from hpcflow import dtypes, errors
from hpcflow.compiler.ir import Node
from hpcflow.errors import OpError, op_error


class NodeAsOp:
    """The part of a node that messages show, under the names of an Operation."""

    def __init__(self, node: Node) -> None:
        self.name = node.op.name if node.op is not None else node.name
        self.type = node.type
        self.creation_site = node.creation_site


def explain(error: BaseException, node: Node, inputs: list, where: str,
            rank: int | None = None) -> BaseException:
    """`error` of `node`, as an ``OpError`` with op, shapes, device and line.

    `inputs` describe the input values (see :func:`summary`). What is not an ``Exception``, and
    what names an op already, stays as it is.
    """
    if not isinstance(error, Exception) or isinstance(error, OpError) and error.op is not None:
        return error
    kind, message = _classify(error)
    explained = op_error(kind, message, op=NodeAsOp(node), device=where, rank=rank,
                         input_shapes=[v for v in inputs if v is not None])
    if node.op is not None:
        explained._op = node.op
    explained.__cause__ = None if isinstance(error, OpError) else error
    return explained


def _classify(error: Exception) -> tuple[type[OpError], str]:
    if isinstance(error, OpError):
        return type(error), error.message
    text = str(error) or type(error).__name__
    if isinstance(error, MemoryError):
        return errors.ResourceExhaustedError, f"Out of memory: {text}"
    if isinstance(error, NotImplementedError):
        return errors.UnimplementedError, text
    if isinstance(error, (ValueError, TypeError, IndexError, ZeroDivisionError, OverflowError)):
        return errors.InvalidArgumentError, text
    if isinstance(error, FileNotFoundError):
        return errors.NotFoundError, text
    return errors.InternalError, f"{type(error).__name__}: {text}"


def summary(value: Any) -> Any:
    """What a message says about a value, without a reference to it: (dtype, shape), or text."""
    if hasattr(value, "initialized"):  # a variable
        if not value.initialized:
            return f"{value.dtype.name} variable (uninitialized)"
        return value.dtype, value.shape
    if isinstance(value, bytes):
        return dtypes.string, ()
    dtype = getattr(value, "dtype", None)
    return type(value).__name__ if dtype is None else (dtype, getattr(value, "shape", ()))
