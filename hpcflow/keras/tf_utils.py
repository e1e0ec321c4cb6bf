"""``python.keras.utils.tf_utils``: shapes for layers of one's own, predicates that are known."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import hpcflow as hf
from hpcflow.shapes import Dimension, TensorShape


def shape_type_conversion(fn: Callable) -> Callable:
    """Decorate a method of a shape: it gets tuples, and what it returns becomes shapes.

    It is for `build` and `compute_output_shape` of layers; nests of shapes keep their form.
    """
    @functools.wraps(fn)
    def wrapper(instance: Any, input_shape: Any) -> Any:
        if input_shape is not None:
            input_shape = convert_shapes(input_shape, to_tuples=True)
        output_shape = fn(instance, input_shape)
        return None if output_shape is None else convert_shapes(output_shape, to_tuples=False)

    return wrapper


def convert_shapes(input_shape: Any, to_tuples: bool = True) -> Any:
    """Return a nest of shapes as tuples of numbers, or as ``TensorShape``.

    Shapes are ``TensorShape``, and lists and tuples of numbers, dimensions and None.
    """
    if _is_shape(input_shape):
        shape = TensorShape(input_shape)
        return tuple(shape.as_list()) if to_tuples else shape
    if isinstance(input_shape, dict):
        return type(input_shape)((key, convert_shapes(value, to_tuples))
                                 for key, value in input_shape.items())
    return type(input_shape)(convert_shapes(value, to_tuples) for value in input_shape)


def _is_shape(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(_is_size(part) for part in value)
    return isinstance(value, TensorShape) or _is_size(value)


def _is_size(value: Any) -> bool:
    return value is None or isinstance(value, (int, Dimension))


def smart_cond(pred: Any, true_fn: Callable | None = None, false_fn: Callable | None = None,
               name: str | None = None) -> Any:
    """Return what one of two functions returns, at once if `pred` is known, else by ``cond``."""
    known = constant_value(pred)
    if known is None:
        return hf.cond(pred, true_fn, false_fn, name=name)
    for function in (true_fn, false_fn):
        if not callable(function):
            raise TypeError("true_fn and false_fn must be callable.")
    chosen: Any = true_fn if known else false_fn
    return chosen()


def constant_value(pred: Any) -> bool | None:
    """Return the truth of `pred` where it is known when the graph is built, else None.

    Raises ``TypeError`` for what is no tensor, variable, truth value, 0 or 1.
    """
    if isinstance(pred, int) and pred in (0, 1):
        return bool(pred)
    if isinstance(pred, hf.Variable):
        return None
    if not isinstance(pred, hf.Tensor):
        raise TypeError("`pred` must be a Tensor, or a Python bool, or 1 or 0. "
                        f"Found instead: {type(pred)}")
    known = hf.constant_value(pred)
    return None if known is None else bool(known)


#: Classes of programs that stand for tensors, which a conversion function makes of them.
_TENSOR_LIKE: list[type] = []


def register_symbolic_tensor_type(cls: type) -> None:
    """Let values of the class `cls` be what layers give: they count as tensors of the graph.

    The class has a function registered by ``register_tensor_conversion_function``.
    """
    _TENSOR_LIKE.append(cls)


def is_symbolic_tensor(tensor: Any) -> bool:
    """True for tensors of a graph and variables, and for values of the classes registered."""
    return isinstance(tensor, (hf.Tensor, hf.Variable, hf.SparseTensor, *_TENSOR_LIKE))


def is_tensor_like(value: Any) -> bool:
    """True for tensors, and for values of the classes registered."""
    return isinstance(value, (hf.Tensor, *_TENSOR_LIKE))


def is_tensor_or_variable(x: Any) -> bool:
    """True for tensors and variables."""
    return isinstance(x, (hf.Tensor, hf.SparseTensor, hf.Variable))
