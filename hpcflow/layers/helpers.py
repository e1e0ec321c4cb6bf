"""Helpers of layers that other packages use too (``python.layers.utils``)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from hpcflow.framework import nest
from hpcflow.graph.graph import get_default_graph
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.shape_inference import computed_value
from hpcflow.graph.sparse_tensor import SparseTensor
from hpcflow.layers.building import format_name, is_channels_first, numbers
from hpcflow.ops.flow.cond import case, cond
from hpcflow.ops.state.variables import Variable


def smart_constant_value(pred: TensorLike) -> Any:
    """Return what is known of a condition before the graph is run, None if nothing is.

    Of a tensor that is the value, an array.

    Raises ``TypeError`` for what is neither true nor false.
    """
    if isinstance(pred, (bool, np.bool_)) or (isinstance(pred, int) and pred in (0, 1)):
        return bool(pred)
    if isinstance(pred, Variable):
        return None
    if not isinstance(pred, Tensor):
        raise TypeError("`pred` must be a Tensor, a Variable, or a Python bool, or 1 or 0. "
                        f"Found instead: {pred!r}")
    return computed_value(pred)


constant_value = smart_constant_value


def smart_cond(pred: TensorLike, true_fn: Callable | None = None, false_fn: Callable | None = None,
               name: str | None = None, *, fn1: Callable | None = None,
               fn2: Callable | None = None) -> Any:
    """Return what one of two functions returns: chosen now where `pred` is known, else by
    ``cond``. `fn1` and `fn2` are the functions' older names. Raises ``TypeError`` for what is no
    condition and no function."""
    yes, no = true_fn or fn1, false_fn or fn2
    for which, function in (("true_fn", yes), ("false_fn", no)):
        if not callable(function):
            raise TypeError(f"`{which}` must be callable.")
    known = smart_constant_value(pred)
    if known is None:
        return cond(pred, yes, no, name=name)
    return (yes if known else no)()  # type: ignore[misc]


def get_reachable_from_inputs(inputs: Any, targets: Any = None) -> set:
    """Return the tensors and operations that depend on `inputs`, with the tensors among these.

    Args:
        inputs: tensors, also sparse ones, variables or operations.
        targets: the walk may end when it has reached all of these.
    """
    wanted = set() if targets is None else set(nest.flatten(targets))
    reached: set = set()
    waiting: list[Any] = [e for x in nest.flatten(inputs) for e in _elements(x)]
    while waiting and not (wanted and wanted <= reached):
        item = waiting.pop()
        if item in reached:
            continue
        if isinstance(item, Tensor):
            reached.add(item)
            for op in item.consumers():
                waiting += op.outputs or [op]
        else:
            reached |= {item} if not item.outputs else set()
            waiting += item.outputs
    return reached


def items_of(made: list, inputs: Any) -> list:
    """Return those of tensors and operations that depend on `inputs`."""
    reached = get_reachable_from_inputs(inputs, made) if made else set()
    return [item for item in made if item in reached or getattr(item, "op", None) in reached
            or any(t in reached for t in getattr(item, "outputs", ()))]


def _elements(value: Any) -> list:
    """The tensors or operations that a tensor, variable or operation is in its graph."""
    if isinstance(value, SparseTensor):
        return [value.indices, value.values, value.dense_shape]
    return [value if isinstance(value, (Tensor, Operation))
            else get_default_graph().as_graph_element(value)]


def smart_case(pred_fn_pairs: Sequence[tuple] | Mapping, default: Callable | None = None,
               exclusive: bool = False, name: str = "smart_case") -> Any:
    """Return what ``case`` does, but build only what may be chosen: no function of a predicate
    that is known to be false, and none after one that is known to be true.

    Arguments and errors as of ``case``; predicates may also be Python's.
    """
    pairs = list(pred_fn_pairs.items() if isinstance(pred_fn_pairs, Mapping) else pred_fn_pairs)
    unknown: list[tuple] = []
    for pred, function in pairs:
        known = smart_constant_value(pred)
        if known:
            return case(unknown, function, exclusive, name)
        if known is None:
            unknown.append((pred, function))
    return case(unknown, default, exclusive, name)


def convert_data_format(data_format: str, ndim: int) -> str:
    """Return the format of ops for ``channels_last`` or ``channels_first``, of tensors with `ndim`
    dimensions. Raises ``ValueError`` for others."""
    if ndim not in (3, 4, 5):
        raise ValueError("Input rank not supported:", ndim)
    return format_name(is_channels_first(data_format), ndim - 2)


def normalize_tuple(value: TensorLike, n: int, name: str) -> tuple[int, ...]:
    """Return `n` integers, from as many or from one; ``ValueError`` for others."""
    return tuple(numbers(value, n, name))


def normalize_data_format(value: str) -> str:
    """Return ``channels_last`` or ``channels_first``, in small letters; ``ValueError`` for others.
    """
    return "channels_first" if is_channels_first(value.lower()) else "channels_last"


def normalize_padding(value: str) -> str:
    """Return ``valid`` or ``same``, in small letters; ``ValueError`` for others."""
    padding = value.lower()
    if padding not in ("valid", "same"):
        raise ValueError("The `padding` argument must be one of \"valid\", \"same\". "
                         f"Received: {padding}")
    return padding


def conv_output_length(input_length: int | None, filter_size: int, padding: str, stride: int,
                       dilation: int = 1) -> int | None:
    """Return the length of a convolution's result, None for an unknown input length."""
    if input_length is None:
        return None
    if padding not in ("same", "valid", "full"):
        raise ValueError(f"padding must be same, valid or full, not {padding}")
    reach = filter_size + (filter_size - 1) * (dilation - 1)
    length = input_length + {"same": 0, "valid": 1 - reach, "full": reach - 1}[padding]
    return (length + stride - 1) // stride


def conv_input_length(output_length: int | None, filter_size: int, padding: str,
                      stride: int) -> int | None:
    """Return the length whose convolution has `output_length`, None for an unknown one."""
    if output_length is None:
        return None
    pad = {"same": filter_size // 2, "valid": 0, "full": filter_size - 1}[padding]
    return (output_length - 1) * stride - 2 * pad + filter_size


def deconv_output_length(input_length: int | None, filter_size: int, padding: str,
                         stride: int) -> int | None:
    """Return the length of a transposed convolution's result, None for an unknown one."""
    if input_length is None:
        return None
    length = input_length * stride
    if padding == "valid":
        length += max(filter_size - stride, 0)
    return length - (stride + filter_size - 2) if padding == "full" else length


def show_arguments(cls: Any, parameters: Sequence[inspect.Parameter]) -> None:
    """Let the ``__init__`` of a class, whose base takes any arguments, show which these are."""

    def inherited(self: Any, *args: Any, **keywords: Any) -> None:
        super(cls, self).__init__(*args, **keywords)

    cls.__init__ = vars(cls).get("__init__", inherited)
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    others = inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD)
    cls.__init__.__signature__ = inspect.Signature([own, *parameters, others])
