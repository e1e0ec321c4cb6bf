"""py_func: operations that call a Python function of this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hpcflow.base.callbacks import Callback
from hpcflow.dtypes import DTypeLike, as_dtype
from hpcflow.graph.build import build_op
from hpcflow.graph.opdef import get_op_def, not_differentiable, register_op
from hpcflow.graph.shape_inference import unknown

__all__ = ["py_func", "py_function"]

for _op_type, _stateful in (("PyFunc", True), ("PyFuncStateless", False)):
    register_op(_op_type, "input: Tin", "output: Tout",
                "token: string; Tin: list(type); Tout: list(type)", stateful=_stateful,
                shape=unknown)
# A call that the compiler gives a thread of its own.
register_op("_PyFuncInThread", "input: Tin", "output: Tout",
            "token: string; Tin: list(type); Tout: list(type)", stateful=True, shape=unknown)
not_differentiable("PyFunc", "PyFuncStateless", "_PyFuncInThread")


def py_func(func: Callable, inp: list, Tout: Any, stateful: bool = True,
            name: str | None = None) -> Any:
    """Add an operation that calls `func` with the values of `inp` in every step.

    The function gets one argument per input: a NumPy array of its own, or for a scalar a NumPy
    scalar (bytes for a string). It returns arrays, or what `numpy.asarray` makes one of, of exactly
    the types `Tout`; a list or tuple stands for several outputs; None for no output. It can only
    run in the process that built the graph, and lives as long as the graph does. Functions that
    need nothing of each other run at the same time, in threads of their own: one may wait for
    another. (With ``HPCFLOW_DETERMINISTIC=1`` they run one by one.)

    Args:
        func: the function.
        inp: a list of tensors or of what converts to them.
        Tout: the type of the output, or a list of types.
        stateful: False if the function always returns the same for the same inputs; then it may
            be called less often, without inputs once for all steps.
        name: name of the operation.

    Returns:
        A tensor of unknown shape, a list of tensors if `Tout` is a list, or the operation if that
        list is empty and the function stateful.

    Raises:
        TypeError: `func` is not callable, or `inp` not a list.
        InvalidArgumentError: in a step, for outputs of another number or type than `Tout`, and for
            a ValueError or TypeError of the function. Other errors of the function become
            ``OutOfRangeError`` (StopIteration), ``UnimplementedError`` (NotImplementedError),
            ``ResourceExhaustedError`` (MemoryError) or ``UnknownError``; an ``OpError`` keeps its
            class. The message has the traceback.
    """
    if not callable(func):
        raise TypeError(f"py_func: expected a function, got {func!r}")
    if not isinstance(inp, (list, tuple)):
        raise TypeError(f"py_func: inp must be a list of tensors, got {inp!r}")
    several = isinstance(Tout, (list, tuple))
    types = [as_dtype(t) for t in (Tout if several else [Tout])]
    callback = Callback(func)
    op = build_op(get_op_def("PyFunc" if stateful else "PyFuncStateless"), name,
                  {"input": list(inp), "token": callback.token, "Tout": types})
    op.graph._callbacks.append(callback)
    if not types and stateful:
        return op
    return list(op.outputs) if several else op.outputs[0]


class _Value(np.ndarray):
    """An array as functions of :func:`py_function` get it, with the methods that they call."""

    def numpy(self) -> Any:
        """Return the plain array, or the NumPy scalar."""
        return np.asarray(self)[()]


def py_function(func: Callable, inp: list, Tout: Sequence[DTypeLike],
                name: str | None = None) -> Any:
    """As :func:`py_func`, for functions whose arguments have a method ``numpy()``.

    They are arrays otherwise; the function returns arrays, or what ``numpy.asarray`` makes one of.
    No gradient flows through it.
    """

    def call(*values: Any) -> Any:
        return func(*(np.asarray(v).view(_Value) for v in values))

    return py_func(call, inp, Tout, True, name)
