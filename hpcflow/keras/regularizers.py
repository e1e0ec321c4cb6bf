"""Regularizers: objects that return the loss of a variable or a result."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow.graph.convert import convert_to_tensor
from hpcflow.keras import lookup
from hpcflow.ops.math.reductions import reduce_sum


class Regularizer:
    """Base of the regularizers; a class of one's own defines ``__call__`` and ``get_config``."""

    def __call__(self, x: Any) -> Any:
        """Return the loss of `x`."""
        return 0.0

    @classmethod
    def from_config(cls, config: dict) -> Regularizer:
        """Return a regularizer of a configuration."""
        return cls(**config)


class L1L2(Regularizer):
    """l1 Σ|x| + l2 Σx²."""

    def __init__(self, l1: float = 0.0, l2: float = 0.0) -> None:
        self.l1, self.l2 = np.float32(l1), np.float32(l2)

    def __call__(self, x: Any) -> Any:
        """Return the loss of `x`, 0. where both factors are 0."""
        if not self.l1 and not self.l2:
            return 0.0
        x = convert_to_tensor(x)
        scale = x.dtype.base_dtype.np.type
        terms: list[Any] = []
        if self.l1:
            terms.append(reduce_sum(scale(self.l1) * abs(x)))
        if self.l2:
            terms.append(reduce_sum(scale(self.l2) * (x * x)))
        return terms[0] if len(terms) == 1 else terms[0] + terms[1]

    def get_config(self) -> dict:
        """Return the factors."""
        return {"l1": float(self.l1), "l2": float(self.l2)}


def l1(l: float = 0.01) -> L1L2:  # noqa: E741 - the name of 1.x
    """Return a regularizer of absolute values."""
    return L1L2(l1=l)


def l2(l: float = 0.01) -> L1L2:  # noqa: E741
    """Return a regularizer of squares."""
    return L1L2(l2=l)


def l1_l2(l1: float = 0.01, l2: float = 0.01) -> L1L2:
    """Return a regularizer of both."""
    return L1L2(l1, l2)


def get(identifier: Any) -> Any:
    """Return the regularizer of a name, a configuration or itself; None stays None."""
    table = {"l1": l1(), "l2": l2(), "l1_l2": l1_l2(), "L1L2": L1L2}
    return lookup.instance(table, identifier, "regularizer")


serialize = lookup.serialized
deserialize = get
