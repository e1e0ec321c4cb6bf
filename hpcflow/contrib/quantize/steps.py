"""The counter of steps that delays go by."""

from __future__ import annotations

from hpcflow import dtypes
from hpcflow.graph.graph import get_default_graph, name_scope
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.state.initializers import Zeros
from hpcflow.ops.state.state import assign_add
from hpcflow.ops.state.variable_scope import get_variable

_NAME = "fake_quantization_step"


def quantization_step() -> Tensor:
    """Return the number of the step, which counts up whenever it is read; made once a graph."""
    try:
        return get_default_graph().get_tensor_by_name(f"{_NAME}/Identity:0")
    except KeyError:
        with name_scope(None):
            step = get_variable(_NAME, [], dtypes.int64, Zeros(), trainable=False)
            with name_scope(f"{_NAME}/"):
                return raw_ops.Identity(assign_add(step, 1))
