"""The kernel registry: which function computes an op on a device.

A kernel is registered as a *factory*: it is called once, when a step is compiled, with a
:class:`KernelNode` that holds everything that does not change (attributes, static shapes, known
input values, the array module ``xp``), and returns the function that runs in every step::

    @kernel("Transpose", fresh=False)
    def transpose(node):
        xp, perm = node.xp, node.constant(1)
        if perm is not None:
            axes = tuple(int(p) for p in perm)
            return lambda x, _: xp.transpose(x, axes)
        return lambda x, p: xp.transpose(x, tuple(p))

The function takes one argument per input (a value, or a ``VariableState`` for a reference input)
and returns the output (a tuple of outputs if there are several, None if there are none).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from hpcflow import dtypes as _dtypes
from hpcflow.dtypes import DType
from hpcflow.errors import InvalidArgumentError
from hpcflow.kernels.widening import widened, wider

ANY_ARRAY_DEVICE = "xp"

# Host positions of an op with any number of arguments.
EVERY = range(sys.maxsize)

SYNC, STEP, ASYNC, RESOURCE = "sync", "step", "async", "resource"


class Kernel(NamedTuple):
    """One registered kernel.

    Attributes:
        factory: ``factory(node) -> function``.
        mode: ``sync``: ``f(*inputs)``; ``step``: ``f(step, *inputs)``, for state of the running
            step; ``async``: ``f(step, done, *inputs)``, which returns at once and later calls
            ``done(outputs)`` or ``done(exception)`` with any thread; ``resource``: the factory's
            result is itself the output (a ``VariableState``), the same in every step.
        types: type attribute -> allowed dtypes; empty means all that the op allows.
        fresh: the outputs never share memory with an input or with state.
        accepts_out: the function takes ``out=`` for its only output.
        elementwise: output element i depends on input elements i alone, where inputs broadcast (so
            blocks may be computed by themselves, and an input of the shape and dtype of the
            output may be given as ``out``).
        host_inputs, host_outputs: positions that are NumPy arrays on every device.
        takes_over: the position of an input that the function may keep where it gets ``own=True``,
            because nobody else refers to its memory or will; None if there is none. Without it the
            function keeps no input that may be written to.
        operator: the Python operator that gives the same on NumPy scalars, many times faster than
            a ufunc does.
    """

    op_type: str
    device_type: str
    factory: Callable[[KernelNode], Any]
    mode: str = SYNC
    types: dict[str, frozenset[DType]] = {}  # noqa: RUF012
    fresh: bool = False
    accepts_out: bool = False
    elementwise: bool = False
    host_inputs: Sequence[int] = ()
    host_outputs: Sequence[int] = ()
    priority: int = 0
    operator: str = ""
    takes_over: int | None = None

    def supports(self, attrs: dict[str, Any]) -> bool:
        """True if the kernel takes the dtypes that `attrs` say."""
        return all(attrs.get(name) in allowed for name, allowed in self.types.items())


class KernelNode:
    """An op as a kernel factory sees it: the parts that are the same in every step."""

    __slots__ = ("name", "op_type", "attrs", "device", "input_dtypes", "output_dtypes",
                 "input_dims", "output_dims", "constants", "context", "op")  # fmt: skip

    def __init__(self, name: str, op_type: str, attrs: dict[str, Any], device: Any,
                 input_dtypes: list[DType], output_dtypes: list[DType], input_dims: list,
                 output_dims: list, constants: list, context: Any = None, op: Any = None) -> None:
        self.name = name
        self.op_type = op_type
        self.attrs = attrs
        self.device = device
        self.input_dtypes = input_dtypes
        self.output_dtypes = output_dtypes
        self.input_dims = input_dims
        self.output_dims = output_dims
        self.constants = constants
        self.context = context
        self.op = op

    @property
    def xp(self) -> Any:
        """The array module of the device: numpy, cupy or one with their interface."""
        return self.device.xp

    @property
    def resources(self) -> Any:
        """The ``ResourceManager`` of the task."""
        return self.device.resources

    def attr(self, name: str, default: Any = None) -> Any:
        """Attribute `name` in the library's own form (bytes, DType, TensorShape, ...)."""
        return self.attrs.get(name, default)

    def constant(self, index: int) -> np.ndarray | None:
        """The value of input `index` if it is the same in every step, else None."""
        return self.constants[index]

    def static_dims(self, index: int) -> tuple[int, ...] | None:
        """The dims of input `index` if all are known, else None."""
        dims = self.input_dims[index]
        return None if dims is None or None in dims else dims

    def np_dtype(self, index: int = 0) -> np.dtype:
        """The NumPy dtype of output `index`."""
        return self.output_dtypes[index].base_dtype.np

    def state(self, create: Callable[[], Any]) -> Any:
        """State of this op in this session (a random generator, a counter), made on first use.

        Every compiled step of a session shares it, so an op's random numbers go on in one sequence.
        """
        return self.context.op_state(self.name, create)


_KERNELS: dict[str, list[Kernel]] = {}
_COLLECTIVE: set[str] = set()
_EARLY: set[str] = set()
# Per op type the attributes that its kernels choose by; and the answers given so far.
_TYPE_ATTRS: dict[str, tuple[str, ...]] = {}
_FOUND: dict[tuple, Kernel | None] = {}


def kernel(*op_types: str, device: str = ANY_ARRAY_DEVICE, mode: str = SYNC,
           types: Mapping[str, Iterable] | None = None, fresh: bool = False,
           accepts_out: bool = False, elementwise: bool = False,
           host_inputs: Sequence[int] = (), host_outputs: Sequence[int] = (),
           priority: int = 0, operator: str = "",
           takes_over: int | None = None) -> Callable:
    """Decorator: register a factory for `op_types`; see :class:`Kernel` for the options.

    `device` is a device type ("CPU", "GPU", ...), or "xp" for a body written over the array
    module, which then serves every device. Among kernels that fit, one for the exact device type
    goes first, then the higher `priority`, then the later registration.
    """
    allowed = {k: frozenset(map(_dtypes.as_dtype, v)) for k, v in (types or {}).items()}

    def register(factory: Callable[[KernelNode], Any]) -> Callable[[KernelNode], Any]:
        for op_type in op_types:
            _KERNELS.setdefault(op_type, []).append(Kernel(
                op_type, device, factory, mode, allowed, fresh, accepts_out, elementwise,
                host_inputs, host_outputs, priority, operator, takes_over))
            names = {*_TYPE_ATTRS.get(op_type, ()), *allowed}
            _TYPE_ATTRS[op_type] = tuple(sorted(names))
        _FOUND.clear()
        return factory

    return register


def collective(op_type: str, early: bool = False) -> None:
    """Declare that the kernels of `op_type` in one step work collectively: their context then
    gives them the operation (``collective``).

    With `early` they start as soon as their inputs are there, while the rest of the step goes on.
    """
    _COLLECTIVE.add(op_type)
    if early:
        _EARLY.add(op_type)


def is_collective(op_type: str) -> bool:
    """True if :func:`collective` was called for `op_type`."""
    return op_type in _COLLECTIVE


def is_early(op_type: str) -> bool:
    """True if ops of this type are to start before other work that is ready."""
    return op_type in _EARLY


_OPERATORS = {
    "add": "+", "subtract": "-", "multiply": "*", "true_divide": "/", "negative": "-",
    "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">=", "equal": "==",
    "not_equal": "!=", "logical_and": "&", "logical_or": "|", "logical_not": "~",
}  # fmt: skip


def ufunc(op_type: str, name: str, **options: Any) -> None:
    """Register the array module's ufunc `name` as the kernel of an element-wise op."""
    options = {"fresh": True, "accepts_out": True, "elementwise": True,
               "operator": _OPERATORS.get(name, ""), **options}
    kernel(op_type, **options)(lambda node: getattr(node.xp, name))


def kernel_key(op_type: str, attrs: dict[str, Any]) -> tuple:
    """Return the key by which kernels are selected: ops with equal keys have the same kernels."""
    return (op_type, _holds_strings(attrs),
            *[attrs.get(name) for name in _TYPE_ATTRS.get(op_type, ())])


def _holds_strings(attrs: dict[str, Any]) -> bool:
    """True if some input or output is of strings, which only host memory can hold."""
    string = _dtypes.string
    return any([v is string or type(v) is list and string in v for v in attrs.values()])


def find_kernel(op_type: str, device_type: str, attrs: dict[str, Any]) -> Kernel | None:
    """Return the kernel for an op with `attrs` on a device type, or None."""
    key = (device_type, kernel_key(op_type, attrs))
    try:
        return _FOUND[key]
    except KeyError:
        found = _FOUND[key] = _best_kernel(op_type, device_type, attrs)
        return found


def _best_kernel(op_type: str, device_type: str, attrs: dict[str, Any]) -> Kernel | None:
    """The kernel of these types; of narrow ones that have none, that of float32."""
    found = _kernel_of(op_type, device_type, attrs)
    wide = wider(attrs) if found is None and op_type in _KERNELS else None
    if wide is None:
        return found
    found = _kernel_of(op_type, device_type, wide)
    return widened(found) if found is not None and found.mode == SYNC else None


def _kernel_of(op_type: str, device_type: str, attrs: dict[str, Any]) -> Kernel | None:
    best: tuple | None = None
    for order, candidate in enumerate(_KERNELS.get(op_type, ())):
        if candidate.device_type not in (device_type, ANY_ARRAY_DEVICE):
            continue
        if not candidate.supports(attrs):
            continue
        if device_type != "CPU" and candidate.device_type != device_type and (
                _holds_strings(attrs)):
            continue
        rank = (candidate.device_type == device_type, candidate.priority, order)
        if best is None or rank > best[0]:
            best = (rank, candidate)
    return best[1] if best else None


def registered_kernels(op_type: str) -> list[Kernel]:
    """Every kernel of an op type, for messages and tests."""
    return list(_KERNELS.get(op_type, ()))


def is_own(kernel: Kernel) -> bool:
    """True for a kernel of the library, False for one that a program registered."""
    return kernel.factory.__module__.startswith(f"{__package__}.")


def describe_kernels(op_type: str) -> str:
    """One phrase that lists the kernels of `op_type`."""
    found = _KERNELS.get(op_type)
    if not found:
        return f"no kernel is registered for {op_type}"
    parts = []
    for k in found:
        where = "every array device" if k.device_type == ANY_ARRAY_DEVICE else k.device_type
        types = "; ".join(f"{a} in {{{', '.join(sorted(t.name for t in s))}}}"
                          for a, s in k.types.items())
        parts.append(f"{where}{f' ({types})' if types else ''}")
    return f"kernels of {op_type}: {', '.join(parts)}"


def shown(value: Any) -> str:
    """A shape, or that of an array, as messages show it: ``[2,3]``."""
    return "[" + ",".join([str(d) for d in getattr(value, "shape", value)]) + "]"


def invalid(message: str) -> InvalidArgumentError:
    """The error a kernel raises for bad input values; the executor adds the op and the shapes."""
    return InvalidArgumentError(None, None, message)
