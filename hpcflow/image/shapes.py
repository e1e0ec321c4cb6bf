"""Helpers of the image functions: checks of shapes, sizes that may be unknown, and copies."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import control_dependencies
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import constant_value, show


def as_image(image: TensorLike, ranks: tuple[int, ...] = (3,)) -> Tensor:
    """`image` as a tensor of an allowed rank and without sizes of 0, else ``ValueError``.

    Without a known rank it is one image, which is checked in the step.
    """
    tensor = convert_to_tensor(image, name="image")
    dims = tensor._dims
    if dims is None:
        one = raw_ops.Equal(raw_ops.Rank(tensor), np.int32(3))
        tensor = checked(tensor, (one, "'image' must be three-dimensional."))
        tensor.set_shape([None, None, None])
        return tensor
    if len(dims) not in ranks:
        rule = "be three-dimensional" if ranks == (3,) else "have either 3 or 4 dimensions"
        raise ValueError(f"'image' must {rule} but has shape {show(dims)}")
    if 0 in dims[-3:]:
        raise ValueError(f"all dims of 'image.shape' must be > 0: {show(dims)}")
    return tensor


def sizes(image: Tensor) -> tuple[Any, Any]:
    """Height and width: numbers where they are known, else scalar tensors."""
    dims = image._dims
    assert dims is not None
    shape = None if None not in dims[-3:-1] else raw_ops.Shape(image)
    found = []
    for axis in (len(dims) - 3, len(dims) - 2):
        found.append(dims[axis] if dims[axis] is not None else scalar(shape, axis))
    return found[0], found[1]


def scalar(vector: Any, index: int) -> Tensor:
    """An element of a vector."""
    one = raw_ops.Slice(vector, np.array([index], np.int32), np.array([1], np.int32))
    return raw_ops.Reshape(one, np.array([], np.int32))


def known(value: Any) -> Any:
    """`value` as an int if it follows from the graph, else as it is."""
    if isinstance(value, Tensor):
        found = constant_value(value)
        return value if found is None else int(found)
    return int(value)


def checked(tensor: Tensor, *conditions: tuple[Any, str]) -> Tensor:
    """`tensor`, once conditions hold: those known now raise ``ValueError``, others in the step."""
    later = []
    for condition, message in conditions:
        if isinstance(condition, Tensor):
            later.append(raw_ops.Assert(condition, [message]))
        elif not condition:
            raise ValueError(message)
    if not later:
        return tensor
    with control_dependencies(later):
        return raw_ops.Identity(tensor)
