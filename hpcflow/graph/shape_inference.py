"""Static shapes: running an op type's shape function, and tensors whose value is known."""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.host.tuning import programs as tuning
from hpcflow.shapes import TensorShape


def set_shapes(op: Operation) -> None:
    """Set the static shapes of `op`'s outputs by its type's shape function.

    Raises ``ValueError`` naming the op, the shapes and the user's line when inputs do not fit.
    """
    shape_fn = op.op_def.shape_fn
    if shape_fn is None:
        return
    _inferring.shapes = True
    try:
        shapes = shape_fn(op)
    except ValueError as e:
        raise ValueError(_explain(op, str(e))) from None
    finally:
        _inferring.shapes = False
    for tensor, dims in zip(op._outputs, shapes, strict=True):
        tensor._dims = dims._dims if isinstance(dims, TensorShape) else dims


# What is wrong with a shape, which the name of the operation follows.
_FACT = re.compile(r"Shape must be .*?rank \d+ but is rank \d+"
                   r"|Dimensions must be equal, but are \d+ and \d+")


def _explain(op: Operation, message: str) -> str:
    site = op.creation_site
    where = f", created at {site[0]}:{site[1]} in {site[2]}" if site else ""
    fact = _FACT.match(message)
    if fact is not None:
        inputs = ", ".join(show(op.input_dims(i)) for i in range(len(op.inputs)))
        return (f"{fact[0]} for '{op.name}' (op: '{op.type}') with input shapes: {inputs}"
                f"{message[fact.end():]}{where}")
    prefix = "" if message.startswith(op.type) else f"{op.type}: "
    return f"{prefix}{message} (op '{op.name}'{where})"


# ---------------------------------------------------------------- known values

_VALUE_FNS: dict[str, Callable[[Operation], Any]] = {}


def register_constant_value(op_type: str) -> Callable:
    """Decorator: a function of the op that returns its output's value as an array, or None."""

    def register(fn: Callable) -> Callable:
        _VALUE_FNS[op_type] = fn
        return fn

    return register


class _Inferring(threading.local):
    """Whether the shape function of an operation is running in this thread."""

    shapes = False


_inferring = _Inferring()


def constant_value(tensor: Tensor) -> np.ndarray | None:
    """Return the value of `tensor` if it follows from the graph alone, else None.

    In shape functions that is also so of what kernels compute from constants.
    """
    op = tensor.op
    if op.type == "Const":
        return op._attrs["value"]
    fn = _VALUE_FNS.get(op.type)
    if fn is None:
        return _computed_value(tensor) if _inferring.shapes else None
    try:
        value = fn(op)
    except OverflowError:  # the type of the output cannot hold it
        return None
    return None if value is None else np.asarray(value)


def known_number(op: Operation, index: int) -> int | float | None:
    """The number that the input of that place is, None if it does not follow from the graph;
    ``ValueError`` unless it is a scalar."""
    with_rank(op.input_dims(index), 0, f"the input '{_argument(op, index)}'")
    value = constant_value(op.inputs[index])
    return None if value is None else value.item()


def _argument(op: Operation, index: int) -> str:
    arguments = op.op_def.inputs
    return arguments[index].name if not any(a.is_sequence for a in arguments) else str(index)


_SHAPE_FNS: dict[tuple[str, int], Callable[[Operation], Dims]] = {}


def register_constant_shape(op_type: str, output: int = 0) -> Callable:
    """Decorator: a function of the op whose 1-D output of that number is a shape: its dims, some
    unknown."""

    def register(fn: Callable) -> Callable:
        _SHAPE_FNS[op_type, output] = fn
        return fn

    return register


def constant_value_as_dims(tensor: Tensor) -> Dims:
    """Return the shape that the 1-D integer `tensor` describes, as far as it is known."""
    value = constant_value(tensor)
    if value is not None:
        return tuple(None if d < 0 else int(d) for d in value.reshape(-1))
    fn = _SHAPE_FNS.get((tensor.op.type, tensor.value_index))
    if fn is not None:
        dims = fn(tensor.op)
        if dims is not None:
            return dims
    length = tensor._dims[0] if tensor._dims else None
    return None if length is None else (None,) * length


# ---------------------------------------------------------------- computed values


def computed_value(tensor: Tensor) -> np.ndarray | None:
    """Return the value of `tensor` if it is computed from constants by operations without state,
    else None."""
    outside, _inferring.shapes = _inferring.shapes, True
    try:
        return constant_value(tensor)
    finally:
        _inferring.shapes = outside


_Evaluator = Callable[[Operation, list[np.ndarray]], "list[np.ndarray] | None"]
_evaluators: list[_Evaluator] = []


def evaluate_with(function: _Evaluator) -> _Evaluator:
    """Decorator of the function that computes the outputs of an operation from the values of its
    inputs, or returns None; until there is one, nothing is computed."""
    _evaluators[:] = [function]
    return function


#: The outputs of operations that were asked for; None where they are not known.
_computed: WeakKeyDictionary[Operation, list[np.ndarray] | None] = WeakKeyDictionary()
# What depends on the step, though it has no state.
_NEVER = ("Placeholder", "PyFunc", "EagerPyFunc", "Merge", "RefMerge", "Exit", "RefExit",
          "NextIteration", "RefNextIteration", "LoopCond", "RefEnter", "RefSwitch")


def _computed_value(tensor: Tensor) -> np.ndarray | None:
    waiting = [tensor.op] if _evaluators else []
    while waiting:
        op = waiting[-1]
        if op in _computed:
            waiting.pop()
            continue
        values = _input_values(op) if _is_function_of_inputs(op) else None
        if isinstance(values, Operation):
            waiting.append(values)
            continue
        _computed[op] = None if values is None else _evaluators[0](op, values)
    found = _computed.get(tensor.op)
    return None if found is None else found[tensor.value_index]


def _input_values(op: Operation) -> list[np.ndarray] | Operation | None:
    """The values of the inputs, None if one is not known or large, or the operation to compute
    before."""
    values = []
    for tensor in op.inputs:
        source = tensor.op
        if source.type == "Const" or source.type in _VALUE_FNS:
            value = constant_value(tensor)
        elif source in _computed:
            found = _computed[source]
            value = None if found is None else found[tensor.value_index]
        else:
            return source
        if value is None or value.size > tuning.KNOWN_MOST_ELEMENTS:
            return None
        values.append(value)
    return values


def _is_function_of_inputs(op: Operation) -> bool:
    """True if the inputs say what the outputs are, and these are small tensors."""
    return (bool(op.inputs) and not op.op_def.is_stateful and not op.type.startswith(_NEVER)
            and all(_is_small(t) for t in op.outputs))


def _is_small(tensor: Tensor) -> bool:
    dims, dtype = tensor._dims, tensor.dtype
    return (dims is not None and None not in dims and not dtype._is_ref_dtype
            and dtype.name not in ("resource", "variant")
            and math.prod(dims) <= tuning.KNOWN_MOST_ELEMENTS)  # type: ignore[arg-type]


# ---------------------------------------------------------------- helpers of shape functions


def unchanged(op: Operation) -> list[Dims]:
    """Shape function: every output has the shape of the first input."""
    return [op._inputs[0]._dims] * len(op._outputs)


def passed_on(op: Operation) -> list[Dims]:
    """Shape function: every output is the first input, also what is known behind a handle."""
    for output in op._outputs:
        output._handle_data = op._inputs[0]._handle_data
    return unchanged(op)


def each_passed_on(op: Operation) -> list[Dims]:
    """Shape function: every output is the input of its number, as :func:`passed_on`."""
    for source, output in zip(op._inputs, op._outputs, strict=True):
        output._handle_data = source._handle_data
    return [source._dims for source in op._inputs]


def scalar(op: Operation) -> list[Dims]:
    """Shape function: every output is a scalar."""
    return [()] * len(op._outputs)


def resource_handle(op: Operation) -> list[Dims]:
    """Shape function of a handle; an old one, by reference, is a container and a name."""
    return [(2,) if op._outputs[0].dtype._is_ref_dtype else ()]


def unknown(op: Operation) -> list[Dims]:
    """Shape function: nothing is known of any output."""
    return [None] * len(op._outputs)


def no_outputs(op: Operation) -> list[Dims]:
    """Shape function of an op without outputs."""
    return []


def merge_dims(a: Dims, b: Dims) -> Dims:
    """The shape that agrees with both; ``ValueError`` with both if there is none."""
    if a is None or b is None:
        return b if a is None else a
    if len(a) != len(b):
        raise ValueError(f"Shapes must be equal rank, but are {len(a)} and {len(b)}: shapes "
                         f"{show(a)} and {show(b)} must have the same rank")
    for i, (x, y) in enumerate(zip(a, b, strict=True)):
        if x is not None and y is not None and x != y:
            raise ValueError(f"Dimension {i} in both shapes must be equal, but are {x} and {y}: "
                             f"shapes {show(a)} and {show(b)} are not compatible")
    return tuple([y if x is None else x for x, y in zip(a, b)])


def merge_dim(x: int | None, y: int | None) -> int | None:
    """The dimension that agrees with both; ``ValueError`` if there is none."""
    if x is not None and y is not None and x != y:
        raise ValueError(f"Dimensions must be equal, but are {x} and {y} (not compatible)")
    return y if x is None else x


def with_rank(dims: Dims, rank: int, what: str = "") -> tuple:
    """`dims`, the shape of `what`, checked to be of `rank`; all unknown if the rank is."""
    if dims is None:
        return (None,) * rank
    if len(dims) != rank:
        raise ValueError(f"Shape must be rank {rank} but is rank {len(dims)}: "
                         f"{_named(what, dims)}")
    return dims


def with_rank_at_least(dims: Dims, rank: int, what: str = "") -> Dims:
    """`dims`, the shape of `what`, checked to have at least `rank` dimensions."""
    if dims is not None and len(dims) < rank:
        raise ValueError(f"Shape must be at least rank {rank} but is rank {len(dims)}: "
                         f"{_named(what, dims)}")
    return dims


def with_rank_at_most(dims: Dims, rank: int, what: str = "") -> Dims:
    """`dims`, the shape of `what`, checked to have no more than `rank` dimensions."""
    if dims is not None and len(dims) > rank:
        raise ValueError(f"Shape must be at most rank {rank} but is rank {len(dims)}: "
                         f"{_named(what, dims)}")
    return dims


def _named(what: str, dims: Dims) -> str:
    return f"{what} has the shape {show(dims)}" if what else show(dims)


def broadcast_dims(a: Dims, b: Dims) -> Dims:
    """The shape of an element-wise result of shapes `a` and `b` (NumPy's broadcasting)."""
    if a is None or b is None:
        return None
    if a == b and None not in a:
        return a
    out = []
    for i in range(-max(len(a), len(b)), 0):
        x = a[i] if i >= -len(a) else 1
        y = b[i] if i >= -len(b) else 1
        out.append(_broadcast_dim(x, y, a, b))
    return tuple(out)


def _broadcast_dim(x: int | None, y: int | None, a: Dims, b: Dims) -> int | None:
    if x == 1:
        return y
    if y == 1 or x == y:
        return x
    if x is None or y is None:
        return y if x is None else x
    raise ValueError(f"Dimensions must be equal, but are {x} and {y}, or 1 to broadcast: input "
                     f"shapes: {show(a)}, {show(b)}")


def show(dims: Dims) -> str:
    """The compact form ``[64,?]`` used in messages."""
    if dims is None:
        return "<unknown>"
    return "[" + ",".join("?" if d is None else str(d) for d in dims) + "]"
