"""Copies of operations and variables in another graph, under their own names."""

from hpcflow.contrib.copy_graph.copying import (
    copy_op_to_graph,
    copy_variable_to_graph,
    get_copied_op,
)

__all__ = ["copy_op_to_graph", "copy_variable_to_graph", "get_copied_op"]
