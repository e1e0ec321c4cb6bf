"""Derivatives in forward mode, by two gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import hpcflow as hf
from hpcflow.graph.operation import Tensor


def fwd_gradients(ys: Sequence[Tensor], xs: Sequence[Tensor],
                  grad_xs: Sequence[Any] | None = None,
                  assert_unused: bool = False) -> list[Any]:
    """Return the derivatives of `ys` along `grad_xs` (ones by default), directions of the `xs`.

    The gradient of `ys` is linear in the gradients that it begins with, and what it multiplies
    them by is what is wanted: so it is differentiated by these, whose values do not matter. With
    `assert_unused` a step that computes them fails.
    """
    begun = [hf.zeros_like(y) + float("nan") for y in ys]
    back = [hf.zeros_like(x) if g is None else hf.convert_to_tensor(g)
            for x, g in zip(xs, hf.gradients(ys, xs, grad_ys=begun), strict=True)]
    if assert_unused:
        with hf.control_dependencies(back):
            failing = hf.Assert(False, [1], name="fwd_gradients")
        with hf.control_dependencies([failing]):
            back = [hf.identity(g) for g in back]
    for x, g in zip(xs, back, strict=True):
        g.set_shape(x.shape)
    return hf.gradients(back, begun, grad_ys=grad_xs)
