"""The descent by a gradient that is a product, on a device: added to the variable in one call, so
that the gradient, as large as the variable, is never stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcflow.kernels.cublas import products
from hpcflow.kernels.nn.fused import targeted_factors
from hpcflow.kernels.registry import KernelNode, kernel
from hpcflow.resources.variables import VariableState


@kernel("_MatMulGradientDescent", device="GPU", host_inputs=(1,))
def descend(node: KernelNode) -> Callable:
    """var -= alpha * a @ b."""
    add, checked = products.adding(node.xp), targeted_factors(node)
    flip_a, flip_b = bool(node.attr("transpose_a")), bool(node.attr("transpose_b"))

    def run(state: VariableState, alpha: Any, a: Any, b: Any) -> VariableState:
        with state.lock:
            checked(a, b, state.read())
            add(state.writable(), a, b, -float(alpha), flip_a=flip_a, flip_b=flip_b)
        return state

    return run
