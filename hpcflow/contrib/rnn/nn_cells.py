"""``hpcflow.nn.rnn_cell``: cells of ``contrib.rnn``, by the path that they have since 1.2."""

from __future__ import annotations

import hpcflow.contrib.rnn as _rnn
from hpcflow.contrib.rnn import (
    BasicLSTMCell,
    BasicRNNCell,
    DeviceWrapper,
    DropoutWrapper,
    GRUCell,
    LSTMCell,
    LSTMStateTuple,
    MultiRNNCell,
    ResidualWrapper,
    RNNCell,
)
from hpcflow.contrib.rnn.cell import BIASES as BIAS_VARIABLE_NAME
from hpcflow.contrib.rnn.cell import WEIGHTS as WEIGHTS_VARIABLE_NAME

__all__ = ["BIAS_VARIABLE_NAME", "WEIGHTS_VARIABLE_NAME", "BasicLSTMCell", "BasicRNNCell",
           "DeviceWrapper", "DropoutWrapper", "GRUCell", "LSTMCell", "LSTMStateTuple",
           "MultiRNNCell", "RNNCell", "ResidualWrapper"]


def __getattr__(name: str) -> object:
    """Return a name that older programs expect here, from ``contrib.rnn``."""
    if name.startswith("_"):
        raise AttributeError(name)
    return getattr(_rnn, name)
