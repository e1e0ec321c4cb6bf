"""Kullback-Leibler divergences, registered for pairs of classes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import hpcflow as hf
from hpcflow.distributions.base import Distribution, cross_entropy_of, divergence_of

_REGISTRY: dict[tuple[type, type], Callable] = {}


class RegisterKL:
    """Decorator: a function ``f(a, b, name=None)`` gives the divergence of these classes.

    Raises ``TypeError`` for what cannot be called, ``ValueError`` for a pair registered before.
    """

    def __init__(self, dist_cls_a: type, dist_cls_b: type) -> None:
        self._key = (dist_cls_a, dist_cls_b)

    def __call__(self, kl_fn: Callable) -> Callable:
        """Register `kl_fn`, and return it."""
        if not callable(kl_fn):
            raise TypeError(f"kl_fn must be callable, received: {kl_fn!r}")
        if self._key in _REGISTRY:
            raise ValueError(f"KL({self._key[0].__name__} || {self._key[1].__name__}) has already "
                             f"been registered to: {_REGISTRY[self._key]}")
        _REGISTRY[self._key] = kl_fn
        return kl_fn


def _registered(a: type, b: type) -> Callable | None:
    """Return the function registered for the classes, or else for their nearest base classes."""
    best, found = math.inf, None
    for i, above_a in enumerate(a.__mro__):
        for j, above_b in enumerate(b.__mro__):
            function = _REGISTRY.get((above_a, above_b))
            if function is not None and i + j < best:
                best, found = i + j, function
    return found


@divergence_of.provide
def kl_divergence(distribution_a: Distribution, distribution_b: Distribution,
                  allow_nan_stats: bool = True, name: str | None = None) -> Any:
    """Return the divergence ``E_a[log a(x) - log b(x)]`` for each pair of the batches.

    With `allow_nan_stats` False NaN is an ``InvalidArgumentError`` when run. Raises
    ``NotImplementedError`` for classes without a registered divergence.
    """
    function = _registered(type(distribution_a), type(distribution_b))
    if function is None:
        raise NotImplementedError(
            "No KL(distribution_a || distribution_b) registered for distribution_a type "
            f"{type(distribution_a).__name__} and distribution_b type "
            f"{type(distribution_b).__name__}")
    with hf.name_scope("KullbackLeibler"):
        divergence = function(distribution_a, distribution_b, name=name)
        return divergence if allow_nan_stats else hf.check_numerics(
            divergence, f"KL calculation between {distribution_a.name} and {distribution_b.name} "
                        "returned NaN values")


@cross_entropy_of.provide
def cross_entropy(ref: Distribution, other: Distribution, allow_nan_stats: bool = True,
                  name: str | None = None) -> Any:
    """Return the cross entropy ``-E_ref[log other(x)]``."""
    with hf.name_scope(name, "cross_entropy"):
        return ref.entropy() + kl_divergence(ref, other, allow_nan_stats)
