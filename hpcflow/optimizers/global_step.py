"""The global step: the variable that counts training steps."""

from __future__ import annotations

from typing import Any

from hpcflow import dtypes
from hpcflow.base import program_log
from hpcflow.graph.graph import Graph, control_dependencies, get_default_graph
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.likes import SessionLike, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.ops.state.initializers import Zeros
from hpcflow.ops.state.state import assign_add
from hpcflow.ops.state.variable_scope import get_variable

# The collection of a graph that holds what `global_step_read` made.
_READ = "global_step_read_op_cache"


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
        program_log.error("Multiple tensors in the collection global_step.")
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


def global_step_read(graph: Graph | None = None) -> Tensor | None:
    """Return the value of the global step before a step changes it, one tensor for a graph; None
    if there is no global step."""
    graph = graph or get_default_graph()
    found = graph.get_collection(_READ)
    if len(found) > 1:
        raise RuntimeError(f"There are {len(found)} reads of the global step, where one is meant")
    if found:
        return found[0]
    variable = get_global_step(graph)
    if variable is None:
        return None
    with graph.as_default(), graph.name_scope(None), graph.name_scope(
            f"{variable.op.name}/"), control_dependencies(None):
        value = variable.initialized_value() if hasattr(variable, "_ref") else variable
        read = value + 0  # as 1.x counts operations, which seeds follow
    graph.add_to_collection(_READ, read)
    return read


def increment_global_step(increment: TensorLike, graph: Graph | None = None) -> Tensor:
    """Return the global step plus `increment`, which becomes its value after
    :func:`global_step_read`; ``ValueError`` if there is no global step."""
    graph = graph or get_default_graph()
    variable = get_global_step(graph)
    if variable is None:
        raise ValueError("Global step tensor should be created by create_global_step() before "
                         "calling increment.")
    read = global_step_read(graph)
    with graph.as_default(), graph.name_scope(None), graph.name_scope(
            f"{variable.op.name}/"), control_dependencies([read]):
        return assign_add(variable, increment)


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
