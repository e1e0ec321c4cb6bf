"""Scopes whose operations are to be compiled together."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["experimental_jit_scope"]


@contextlib.contextmanager
def experimental_jit_scope(compile_ops: bool | Callable[[Any], bool] = True,
                           separate_compiled_gradients: bool = False) -> Iterator[None]:
    """A scope for what is to be compiled; it changes nothing, as all steps are compiled."""
    yield
