"""explain: what a kernel raised, as an error that names the op, its inputs and the user's line."""

from __future__ import annotations

import re
import signal
import traceback
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from hpcflow import dtypes, errors
from hpcflow.compiler.ir.step_graph import Node
from hpcflow.errors import OpError, op_error

_E = TypeVar("_E", bound=OpError)


class NodeAsOp:
    """The part of a node that messages show, under the names of an Operation."""

    def __init__(self, node: Node) -> None:
        named = node if node.op is None else node.op
        self.name = named.name
        self.type = named.type
        self.creation_site = node.creation_site
        self._original_op = getattr(named, "_original_op", None)


def node_error(cls: Callable[[Any, Any, str], _E], message: str, node: Node,
               device: str | None = None, inputs: Iterable[Any] | None = None,
               rank: int | None = None) -> _E:
    """An error about `node`; its ``op`` is the user's Operation, where there is one."""
    error = op_error(cls, message, NodeAsOp(node), device, rank, inputs)
    if node.op is not None:
        error._op = node.op
    return error


def explain(error: BaseException, node: Node, inputs: list, where: str,
            rank: int | None = None) -> BaseException:
    """`error` of `node`, as an ``OpError`` with op, shapes, device and line.

    `inputs` describe the input values (see :func:`summary`). What is not an ``Exception``, what
    names an op already, and what a handler of signals raised, which ran meanwhile, stay as they
    are.
    """
    if not isinstance(error, Exception) or isinstance(error, OpError) and error.op is not None:
        return error
    if _is_of_a_handler(error):
        return error
    kind, message = _classify(error)
    explained = node_error(kind, message, node, where, [v for v in inputs if v is not None], rank)
    explained.__cause__ = error.__cause__ if isinstance(error, OpError) else error
    return explained


def _is_of_a_handler(error: Exception) -> bool:
    """True if a handler of signals that is written in Python raised `error`."""
    handlers = (getattr(signal.getsignal(n), "__code__", None) for n in signal.valid_signals())
    codes = set(handlers) - {None}
    return any(f.f_code in codes for f, _ in traceback.walk_tb(error.__traceback__))


# NumPy's words, in a ValueError, for more bytes than there are addresses.
_TOO_LARGE = ("array is too big", "Maximum allowed dimension exceeded")


def _classify(error: Exception) -> tuple[type[OpError], str]:
    if isinstance(error, OpError):
        return type(error), error.message
    text = str(error) or type(error).__name__
    if isinstance(error, MemoryError) or text.startswith(_TOO_LARGE):
        return errors.ResourceExhaustedError, f"Out of memory: {text}"
    if isinstance(error, NotImplementedError):
        return errors.UnimplementedError, text
    if isinstance(error, (ValueError, TypeError, IndexError, ZeroDivisionError, OverflowError)):
        return errors.InvalidArgumentError, _with_shapes(text)
    if isinstance(error, FileNotFoundError):
        return errors.NotFoundError, text
    return errors.InternalError, f"{type(error).__name__}: {text}"


def _with_shapes(text: str) -> str:
    """NumPy's message about operands that do not broadcast, with the shapes as elsewhere."""
    if not text.startswith("operands could not be broadcast"):
        return text
    shapes = re.findall(r"\(([\d, ]*)\)", text)
    shown = " vs. ".join(f"[{','.join(s.replace(' ', '').strip(',').split(','))}]" for s in shapes)
    return f"Incompatible shapes: {shown}"


def summary(value: Any) -> Any:
    """Return a description of a value for messages, without a reference to it: (dtype, shape), or
    text; None where there is no value."""
    if value is None:  # of a variable without one
        return None
    if hasattr(value, "initialized"):  # a variable
        if not value.initialized:
            return f"{value.dtype.name} variable (uninitialized)"
        return value.dtype, value.shape
    if isinstance(value, bytes):
        return dtypes.string, ()
    dtype = getattr(value, "dtype", None)
    return type(value).__name__ if dtype is None else (dtype, getattr(value, "shape", ()))
