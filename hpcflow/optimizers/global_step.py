"""The global step: the variable that counts training steps."""

from __future__ import annotations

import logging
from typing import Any

from hpcflow import dtypes
from hpcflow.graph.graph import Graph, get_default_graph
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.likes import SessionLike, TensorLike
from hpcflow.ops.state.initializers import Zeros
from hpcflow.ops.state.variable_scope import get_variable


def global_step(sess: SessionLike, global_step_tensor: TensorLike) -> int:
    """Return the value of the global step in session `sess` as an int."""
    return int(sess.run(global_step_tensor))


def get_global_step(graph: Graph | None = None) -> Any:
    """Return the global step of `graph` (the default graph if None), or None.

    It is the only member of the collection GLOBAL_STEP, else the tensor ``global_step:0``. Raises
    ``TypeError`` if that is not an integer scalar.
    """
    graph = graph or get_default_graph()
    found = graph.get_collection(GraphKeys.GLOBAL_STEP)
    if len(found) > 1:
        logging.getLogger("hpcflow").error("Multiple tensors in the collection global_step.")
        return None
    if found:
        tensor = found[0]
    else:
        try:
            tensor = graph.get_tensor_by_name("global_step:0")
        except KeyError:
            return None
    assert_global_step(tensor)
    return tensor


def create_global_step(graph: Graph | None = None) -> Any:
    """Make the global step variable, int64 and 0; ``ValueError`` if there is one already."""
    graph = graph or get_default_graph()
    if get_global_step(graph) is not None:
        raise ValueError('"global_step" already exists.')
    with graph.as_default(), graph.name_scope(None):
        return get_variable(
            GraphKeys.GLOBAL_STEP, shape=[], dtype=dtypes.int64, initializer=Zeros(dtypes.int64),
            trainable=False, collections=[GraphKeys.GLOBAL_VARIABLES, GraphKeys.GLOBAL_STEP])


def get_or_create_global_step(graph: Graph | None = None) -> Any:
    """Return the global step, made if there is none."""
    graph = graph or get_default_graph()
    found = get_global_step(graph)
    return create_global_step(graph) if found is None else found


def assert_global_step(global_step_tensor: TensorLike) -> None:
    """Raise ``TypeError`` unless the argument is an integer scalar variable or tensor."""
    dtype = getattr(global_step_tensor, "dtype", None)
    if dtype is None or not hasattr(global_step_tensor, "get_shape"):
        raise TypeError(f"the global step must be a variable or tensor, got {global_step_tensor!r}")
    if not dtype.base_dtype.is_integer:
        raise TypeError(f'Existing "global_step" does not have integer type: {dtype.name}')
    shape = global_step_tensor.get_shape()
    if shape.ndims not in (0, None):
        raise TypeError(f'Existing "global_step" is not scalar: {shape}')
