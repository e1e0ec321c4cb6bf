"""Floating-point exceptions inside a step are values (inf, nan), never warnings or errors.

What the user set with ``np.seterr`` holds for the user's own code. A step may run in any thread,
and often: entering must be cheap.
"""

from __future__ import annotations

from typing import Any

import numpy as np

try:  # NumPy 2: one context variable
    from numpy._core.umath import _extobj_contextvar, _make_extobj

    _QUIET = _make_extobj(all="ignore")

    def silence() -> Any:
        """Ignore floating-point exceptions in this thread; returns what ``restore`` takes."""
        return _extobj_contextvar.set(_QUIET)

    def restore(token: Any) -> None:
        """Go back to what held before."""
        _extobj_contextvar.reset(token)

except ImportError:

    def silence() -> Any:
        """Ignore floating-point exceptions in this thread; returns what ``restore`` takes."""
        return np.seterr(all="ignore")

    def restore(token: Any) -> None:
        """Go back to what held before."""
        np.seterr(**token)
