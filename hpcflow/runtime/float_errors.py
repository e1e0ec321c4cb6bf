"""Floating-point numbers inside a step: exceptional ones are values, denormal ones are zeros.

What the user set with ``np.seterr``, and in the processor, holds for the user's own code. A step
may run in any thread, and often: entering must be cheap.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from hpcflow.denormals import flush, keep

try:  # NumPy 2: one context variable
    from numpy._core.umath import _extobj_contextvar, _make_extobj

    _ignore = partial(_extobj_contextvar.set, _make_extobj(all="ignore"))
    _heed = _extobj_contextvar.reset

except ImportError:

    def _ignore() -> Any:  # type: ignore[misc]
        return np.seterr(all="ignore")

    def _heed(token: Any) -> None:
        np.seterr(**token)


# NumPy finds the limits of its types when it is first asked, and warns if denormals are zeros then.
for _type in (np.float16, np.float32, np.float64):
    np.finfo(_type)


def silence() -> Any:
    """Begin to compute a step in this thread: no warnings of inf and nan, no denormal numbers.

    Returns what ``restore`` takes.
    """
    flush()
    return _ignore()


def restore(token: Any) -> None:
    """Go back to what held before."""
    _heed(token)
    keep()
