"""Floating-point exceptions inside a step are values (inf, nan), never warnings or errors.

What the user set with ``np.seterr`` holds for the user's own code. A step may run in any thread,
and often: entering must be cheap.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

try:  # NumPy 2: one context variable
    from numpy._core.umath import _extobj_contextvar, _make_extobj

    #: Ignore floating-point exceptions in this thread; returns what ``restore`` takes.
    silence = partial(_extobj_contextvar.set, _make_extobj(all="ignore"))
    #: Go back to what held before.
    restore = _extobj_contextvar.reset

except ImportError:

    def silence() -> Any:  # type: ignore[misc]
        """Ignore floating-point exceptions in this thread; returns what ``restore`` takes."""
        return np.seterr(all="ignore")

    def restore(token: Any) -> None:
        """Go back to what held before."""
        np.seterr(**token)
