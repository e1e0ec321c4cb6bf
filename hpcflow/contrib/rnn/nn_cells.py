"""``hpcflow.nn.rnn_cell``: cells that moved here from ``contrib.rnn`` after 1.0.

Their variables have been called ``kernel`` and ``bias`` since, as checkpoints of later releases
have them, and two cells in one scope have variables of their own, the second's in a scope with a
number; those of ``contrib.rnn`` keep the names of 1.0, where the second is refused. Everything else
is the same.
"""

from __future__ import annotations

import hpcflow.contrib.rnn as _rnn
from hpcflow.contrib.rnn import (
    DeviceWrapper,
    DropoutWrapper,
    LSTMStateTuple,
    MultiRNNCell,
    ResidualWrapper,
    RNNCell,
)

_NAMES = "kernel", "bias"
WEIGHTS_VARIABLE_NAME, BIAS_VARIABLE_NAME = _NAMES


class BasicRNNCell(_rnn.BasicRNNCell):
    """``contrib.rnn.BasicRNNCell`` with the variables ``kernel`` and ``bias``."""

    _variable_names = _NAMES
    _takes_free_names = True


class GRUCell(_rnn.GRUCell):
    """``contrib.rnn.GRUCell`` with variables ``kernel`` and ``bias``."""

    _variable_names = _NAMES
    _takes_free_names = True


class BasicLSTMCell(_rnn.BasicLSTMCell):
    """``contrib.rnn.BasicLSTMCell`` with the variables ``kernel`` and ``bias``."""

    _variable_names = _NAMES
    _takes_free_names = True


class LSTMCell(_rnn.LSTMCell):
    """``contrib.rnn.LSTMCell`` with the variables ``kernel`` and ``bias``."""

    _variable_names = _NAMES
    _takes_free_names = True


__all__ = ["BasicLSTMCell", "BasicRNNCell", "DeviceWrapper", "DropoutWrapper", "GRUCell",
           "LSTMCell", "LSTMStateTuple", "MultiRNNCell", "RNNCell", "ResidualWrapper"]


def __getattr__(name: str) -> object:
    """Return a name that older programs expect here, from ``contrib.rnn``."""
    if name.startswith("_"):
        raise AttributeError(name)
    return getattr(_rnn, name)
