"""Kernels of ops that pass a value through, and of ops without values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcflow.kernels.registry import KernelNode, invalid, kernel


def _pass(x: Any) -> Any:
    return x


def _nothing() -> None:
    return None


@kernel("Identity", "StopGradient", "PreventGradient", "PlaceholderWithDefault", "Copy",
        "DebugIdentity")
def identity(node: KernelNode) -> Callable:
    """The input itself."""
    return _pass


@kernel("IdentityN")
def identity_n(node: KernelNode) -> Callable:
    """The inputs themselves."""
    return _pass if len(node.output_dtypes) == 1 else lambda *values: values


@kernel("CopyHost", host_inputs=(0,), host_outputs=(0,))
def copy_host(node: KernelNode) -> Callable:
    """The input in host memory."""
    return _pass


@kernel("NoOp", "ControlTrigger")
def nothing(node: KernelNode) -> Callable:
    """No work."""
    return _nothing


@kernel("CheckNumerics")
def check_numerics(node: KernelNode) -> Callable:
    """The input itself, once all its elements are known to be finite."""
    xp, message = node.xp, node.attr("message").decode()

    def run(x: Any) -> Any:
        if not xp.isfinite(x).all():
            kinds = [k for k, test in (("Inf", xp.isinf), ("NaN", xp.isnan)) if test(x).any()]
            raise invalid(f"{message} : Tensor had {' and '.join(kinds)} values")
        return x

    return run
