"""Operations to be run when a SavedModel is loaded."""

from __future__ import annotations

from typing import Any

import hpcflow as hf
from hpcflow.graph.operation import Operation


def main_op() -> Operation:
    """Return the operation that initializes all variables, local variables and tables."""
    return hf.group(hf.global_variables_initializer(), hf.local_variables_initializer(),
                    hf.tables_initializer())


def main_op_with_restore(restore_op_name: Any) -> Operation:
    """Return an operation that does what :func:`main_op` does, and then runs an operation."""
    with hf.control_dependencies([main_op()]):
        return hf.group(restore_op_name)
