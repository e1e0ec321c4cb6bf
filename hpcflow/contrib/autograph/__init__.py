"""``hpcflow.autograph``: which functions are to be converted. Here none is converted."""

from __future__ import annotations

from hpcflow.base.late_names import named_otherwise
from hpcflow.contrib.autograph import experimental
from hpcflow.contrib.autograph.experimental import do_not_convert

__all__ = ["do_not_convert", "experimental", "set_verbosity"]

__getattr__ = named_otherwise(__name__)


def set_verbosity(level: int, alsologtostdout: bool = False) -> None:
    """Accept how much is to be logged of conversions, of which there are none."""
