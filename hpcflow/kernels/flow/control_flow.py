"""Kernels of RefSelect and Abort; the executor itself runs the other ops of control flow."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from hpcflow.kernels.registry import KernelNode, invalid, kernel


@kernel("RefSelect", host_inputs=(0,))
def ref_select(node: KernelNode) -> Callable:
    """The variable with the given number."""

    def select(index: Any, *variables: Any) -> Any:
        if not 0 <= index < len(variables):
            raise invalid(f"the index must be in [0, {len(variables)}), but is {index}")
        return variables[index]

    return select


@kernel("Abort")
def abort(node: KernelNode) -> Callable:
    """Ends the process at once, for tests of what happens then."""
    message = node.attr("error_msg").decode() or f"Abort op '{node.name}' was run"
    if node.attr("exit_without_error"):
        return lambda: os._exit(0)

    def end() -> None:
        print(message, file=sys.stderr, flush=True)
        os.abort()

    return end
