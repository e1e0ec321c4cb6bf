"""Errors of running graphs: `OpError`, one subclass per status code, and their messages."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from hpcflow import dtypes, shapes

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from hpcflow.graph.likes import TensorLike
    from hpcflow.graph.operation import Operation

OK = 0
CANCELLED = 1
UNKNOWN = 2
INVALID_ARGUMENT = 3
DEADLINE_EXCEEDED = 4
NOT_FOUND = 5
ALREADY_EXISTS = 6
PERMISSION_DENIED = 7
RESOURCE_EXHAUSTED = 8
FAILED_PRECONDITION = 9
ABORTED = 10
OUT_OF_RANGE = 11
UNIMPLEMENTED = 12
INTERNAL = 13
UNAVAILABLE = 14
DATA_LOSS = 15
UNAUTHENTICATED = 16


class OpError(Exception):
    """A failure while a graph ran.

    `op` is the Operation that failed and `node_def` its NodeDef, either of which may be None;
    `message` is the whole explanation and `error_code` one of the codes of this module.
    """

    def __init__(self, node_def: Message | None, op: Any, message: str, error_code: int) -> None:
        super().__init__(message)
        self._node_def = node_def
        self._op = op
        self._message = message
        self._error_code = error_code
        self._op_name: str | None = getattr(op, "name", None) or getattr(node_def, "name", None)

    @property
    def node_def(self) -> Any:
        """The NodeDef of the operation that failed, or None."""
        if self._node_def is None and self._op is not None:
            return getattr(self._op, "node_def", None)
        return self._node_def

    @property
    def op(self) -> Any:
        """The Operation that failed, or None."""
        return self._op

    @property
    def op_name(self) -> str | None:
        """The name of the operation that failed, known also where the Operation is not."""
        return self._op_name

    @property
    def message(self) -> str:
        """The error message: the fact and the expectation."""
        return self._message

    @property
    def error_code(self) -> int:
        """The status code."""
        return self._error_code

    def __str__(self) -> str:
        return self._message

    def __reduce__(self) -> tuple[Any, ...]:
        return (from_wire, (self.to_wire(),))

    def to_wire(self) -> bytes:
        """Encode class, message and operation name for another process (see `from_wire`)."""
        fields = {"code": self._error_code, "message": self._message, "op": self._op_name}
        return json.dumps(fields).encode()

    from_wire: Callable[..., OpError]  # the function below, also as a static method


class CancelledError(OpError):
    """The step or the operation was cancelled."""

    def __init__(self, node_def: Message | None, op: Any, message: str) -> None:
        super().__init__(node_def, op, message, CANCELLED)


class UnknownError(OpError):
    """An error without a better class."""

    def __init__(self, node_def: Message | None, op: Any, message: str,
                 error_code: int = UNKNOWN) -> None:
        super().__init__(node_def, op, message, error_code)


class InvalidArgumentError(OpError):
    """An operation received a value that it cannot accept."""

    def __init__(self, node_def: Message | None, op: Any, message: str) -> None:
        super().__init__(node_def, op, message, INVALID_ARGUMENT)


class DeadlineExceededError(OpError):
    """A time limit ran out."""

    def __init__(self, node_def: Message | None, op: Any, message: str) -> None:
        super().__init__(node_def, op, message, DEADLINE_EXCEEDED)


class NotFoundError(OpError):
    """A file, a variable or another named thing does not exist."""

    def __init__(self, node_def: Message | None, op: Any, message: str) -> None:
        super().__init__(node_def, op, message, NOT_FOUND)


class AlreadyExistsError(OpError):
    """Something that was to be created exists."""

    def __init__(self, node_def: Message | None, op: Any, message: str) -> None:
        super().__init__(node_def, op, message, ALREADY_EXISTS)


class PermissionDeniedError(OpError):
    """The process may not do this."""

    def __init__(self, node_def: Message | None, op: Any, message: str) -> None:
        super().__init__(node_def, op, message, PERMISSION_DENIED)


class ResourceExhaustedError(OpError):
    """Memory, disk space or another resource ran out."""

    def __init__(self, node_def: Message | None, op: Any, message: str) -> None:
        super().__init__(node_def, op, message, RESOURCE_EXHAUSTED)


class FailedPreconditionError(OpError):
    """The state does not allow this, as reading an uninitialized variable."""

    def __init__(self, node_def: Message | None, op: Any, message: str) -> None:
        super().__init__(node_def, op, message, FAILED_PRECONDITION)


class AbortedError(OpError):
    """The operation was aborted, as a step on a task that has restarted."""

    def __init__(self, node_def: Message | None, op: Any, message: str) -> None:
        super().__init__(node_def, op, message, ABORTED)


class OutOfRangeError(OpError):
    """The end was passed, as of a closed queue or of a file."""

    def __init__(self, node_def: Message | None, op: Any, message: str) -> None:
        super().__init__(node_def, op, message, OUT_OF_RANGE)


class UnimplementedError(OpError):
    """There is no kernel or no support for this."""

    def __init__(self, node_def: Message | None, op: Any, message: str) -> None:
        super().__init__(node_def, op, message, UNIMPLEMENTED)


class InternalError(OpError):
    """hpcflow itself is at fault."""

    def __init__(self, node_def: Message | None, op: Any, message: str) -> None:
        super().__init__(node_def, op, message, INTERNAL)


class UnavailableError(OpError):
    """A task is not served, or cannot be reached."""

    def __init__(self, node_def: Message | None, op: Any, message: str) -> None:
        super().__init__(node_def, op, message, UNAVAILABLE)


class DataLossError(OpError):
    """Data are damaged, as a truncated checkpoint."""

    def __init__(self, node_def: Message | None, op: Any, message: str) -> None:
        super().__init__(node_def, op, message, DATA_LOSS)


class UnauthenticatedError(OpError):
    """The caller did not prove who it is."""

    def __init__(self, node_def: Message | None, op: Any, message: str) -> None:
        super().__init__(node_def, op, message, UNAUTHENTICATED)


class OperatorNotAllowedInGraphError(TypeError):
    """A tensor of a graph is used as a value of Python: iterated over, or taken for true or
    false."""


_CLASS_OF_CODE: dict[int, type[OpError]] = {
    CANCELLED: CancelledError,
    UNKNOWN: UnknownError,
    INVALID_ARGUMENT: InvalidArgumentError,
    DEADLINE_EXCEEDED: DeadlineExceededError,
    NOT_FOUND: NotFoundError,
    ALREADY_EXISTS: AlreadyExistsError,
    PERMISSION_DENIED: PermissionDeniedError,
    RESOURCE_EXHAUSTED: ResourceExhaustedError,
    FAILED_PRECONDITION: FailedPreconditionError,
    ABORTED: AbortedError,
    OUT_OF_RANGE: OutOfRangeError,
    UNIMPLEMENTED: UnimplementedError,
    INTERNAL: InternalError,
    UNAVAILABLE: UnavailableError,
    DATA_LOSS: DataLossError,
    UNAUTHENTICATED: UnauthenticatedError,
}
_CODE_OF_CLASS = {cls: code for code, cls in _CLASS_OF_CODE.items()}


def exception_type_from_error_code(error_code: int) -> type[OpError]:
    """The class of a status code. Raises KeyError if there is none (0, OK, has none)."""
    return _CLASS_OF_CODE[error_code]


def error_code_from_exception_type(cls: type[BaseException]) -> int:
    """The status code of a class; UNKNOWN for one that has none."""
    for base in cls.__mro__:
        if base in _CODE_OF_CLASS:
            return _CODE_OF_CLASS[base]  # type: ignore[index]
    return UNKNOWN


class Status:
    """A code and a message that a callee sets; OK until then."""

    def __init__(self) -> None:
        self.error_code = OK
        self.message = ""

    def set(self, error_code: int, message: str) -> None:
        """Record an outcome."""
        self.error_code = error_code
        self.message = message


@contextmanager
def raise_exception_on_not_ok_status() -> Iterator[Status]:
    """Give a `Status` to the body and raise the matching OpError if it is not OK at the end."""
    status = Status()
    yield status
    if status.error_code != OK:
        raise make(status.error_code, status.message)


def make(error_code: int, message: str, op: Any = None, node_def: Message | None = None) -> OpError:
    """An error of the class of a code; of UnknownError, keeping the code, if it has none."""
    cls = _CLASS_OF_CODE.get(error_code)
    if cls is None:
        return UnknownError(node_def, op, message, error_code)
    return cls(node_def, op, message)  # type: ignore[call-arg]


def _make_specific_exception(node_def: Message, op: Operation, message: str,
                             error_code: int) -> OpError:
    """:func:`make` with the arguments in the order of 1.x; warns of a code that no class has."""
    if error_code not in _CLASS_OF_CODE:
        warnings.warn(f"Unknown error code: {error_code}", stacklevel=2)
    return make(error_code, message, op, node_def)


def from_wire(data: bytes, find_op: Callable[[str], Any] | None = None) -> OpError:
    """Decode what `OpError.to_wire` encoded.

    `find_op` maps the operation's name to the Operation here, or to None; without it the
    error knows only the name (`op_name`). Raises ValueError if `data` is something else.
    """
    fields = json.loads(data)
    name = fields["op"]
    op = find_op(name) if find_op is not None and name is not None else None
    error = make(fields["code"], fields["message"], op)
    error._op_name = name
    return error


OpError.from_wire = staticmethod(from_wire)

_E = TypeVar("_E", bound=OpError)


def op_error(
    cls: Callable[[Any, Any, str], _E],
    message: str,
    op: Any = None,
    device: str | None = None,
    rank: int | None = None,
    input_shapes: Iterable[Any] | None = None,
) -> _E:
    """An error whose message says what failed, where it ran and where it was created.

    `op` is anything with `name`, `type` and `creation_site` (a `(filename, lineno, function)`
    or None). `input_shapes` describes the inputs: values (anything with `dtype` and `shape`),
    `(dtype, shape)` pairs, or ready text.
    """
    context = op_context(op, device, rank, input_shapes)
    return cls(None, op, f"{message} ({context})" if context else message)


def op_context(
    op: Any = None,
    device: str | None = None,
    rank: int | None = None,
    input_shapes: Iterable[Any] | None = None,
) -> str:
    """The explanatory part of a message, without parentheses; see `op_error`."""
    parts = []
    where = "" if not device else f" on {device}"
    if op is not None:
        parts.append(f"op '{op.name}' of type {op.type}{where}")
    elif device:
        parts.append(f"on {device}")
    if rank is not None:
        parts.append(f"rank {rank}")
    inputs = [describe_value(value) for value in input_shapes or ()]
    if inputs:
        parts.append("inputs " + ", ".join(inputs))
    site = getattr(op, "creation_site", None)
    if site is not None:
        filename, lineno, function = site
        parts.append(f"created at {_short_path(filename)}:{lineno} in {function}")
    original = getattr(op, "_original_op", None)
    if original is not None and original.creation_site is not None:
        filename, lineno, function = original.creation_site
        parts.append(f"for op '{original.name}' created at {_short_path(filename)}:{lineno} in "
                     f"{function}")
    return ", ".join(parts)


def _short_path(filename: str) -> str:
    """The path as a user would write it: relative where that is inside the working directory."""
    try:
        relative = os.path.relpath(filename)
    except (ValueError, OSError):
        return filename
    return filename if relative.startswith(os.pardir) else relative


def describe_value(value: TensorLike | None) -> str:
    """Dtype and shape in short, `float32[64,784]`; text is returned as it is."""
    if isinstance(value, str):
        return value
    if value is None:
        return "none"
    if isinstance(value, tuple) and len(value) == 2:
        dtype, shape = value
    else:
        dtype, shape = getattr(value, "dtype", None), getattr(value, "shape", ())
    if dtype is None:
        return type(value).__name__
    try:
        name = dtypes.as_dtype(dtype).name
    except TypeError:
        name = str(dtype)
    return name + shapes.format_shape(shape)
