"""``slim.model_analyzer``: the variables and operations of a model, listed with their sizes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from hpcflow.graph.graph import Graph

__all__ = ["analyze_ops", "analyze_vars", "tensor_description"]


def tensor_description(var: Any) -> str:
    """The type and shape of a tensor or variable, like ``(float32_ref 5x4)``."""
    dims = var.get_shape().as_list()
    shape = "x".join("?" if d is None else str(d) for d in dims)
    return f"({var.dtype.name} {shape})"


def analyze_ops(graph: Graph, print_info: bool = False) -> int:
    """Count the elements of the outputs of all operations of `graph` whose shapes are known;
    with `print_info`, print them too.
    """
    if print_info:
        print("---------\nOperations: name -> (type shapes) [size]\n---------")
    total = 0
    for op in graph.get_operations():
        known = [t for t in op.outputs if t.get_shape().is_fully_defined()]
        total += sum(map(_elements, known))
        if print_info:
            print(op.name, "\t->", ", ".join(
                f"{tensor_description(t)} [{_elements(t)}]" for t in known))
    return total


def analyze_vars(variables: Iterable[Any], print_info: bool = False) -> tuple[int, int]:
    """The elements and the bytes of all `variables`; with `print_info`, print them too."""
    if print_info:
        print("---------\nVariables: name (type shape) [size]\n---------")
    size = nbytes = 0
    for variable in variables:
        size, nbytes = size + _elements(variable), nbytes + _bytes(variable)
        if print_info:
            print(f"{variable.name} {tensor_description(variable)} "
                  f"[{_elements(variable)}, bytes: {_bytes(variable)}]")
    if print_info:
        print(f"Total size of variables: {size}\nTotal bytes of variables: {nbytes}")
    return size, nbytes


def _elements(value: Any) -> int:
    """The number of elements, 0 where the shape is not known."""
    shape = value.get_shape()
    return math.prod(shape.as_list()) if shape.is_fully_defined() else 0


def _bytes(value: Any) -> int:
    return _elements(value) * value.dtype.base_dtype.size
