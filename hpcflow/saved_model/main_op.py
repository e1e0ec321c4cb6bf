"""Operations to be run when a SavedModel is loaded."""

from __future__ import annotations

from typing import Any

from hpcflow.graph.graph import control_dependencies
from hpcflow.graph.operation import Operation
from hpcflow.ops.common.grouping import group
from hpcflow.ops.io.lookup import tables_initializer
from hpcflow.ops.state.variable_lists import (
    global_variables_initializer,
    local_variables_initializer,
)


def main_op() -> Operation:
    """Return the operation that initializes all variables, local variables and tables."""
    return group(global_variables_initializer(), local_variables_initializer(),
                 tables_initializer())


def main_op_with_restore(restore_op_name: Any) -> Operation:
    """Return an operation that does what :func:`main_op` does, and then runs an operation."""
    with control_dependencies([main_op()]):
        return group(restore_op_name)
