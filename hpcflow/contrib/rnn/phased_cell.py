"""An LSTM with a clock in every unit, for inputs that come at times of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.contrib.rnn.cell import affine
from hpcflow.contrib.rnn.lstm import LSTMStateTuple, MemoryCell
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.math.elementwise import exp, sigmoid, tanh
from hpcflow.ops.random.random_ops import random_uniform
from hpcflow.ops.state.initializers import Constant
from hpcflow.ops.state.variable_scope import get_variable, variable_scope


class PhasedLSTMCell(MemoryCell):
    """Phased LSTM (Neil et al., 2016, arXiv:1610.09513).

    Its inputs are pairs: times of shape ``[batch, 1]`` (``float32`` or ``float64``), and what comes
    at them, ``[batch, size]``. A unit changes in the part `ratio_on` of its period alone; else it
    leaks.

    Args:
        num_units: size of memory and output.
        use_peepholes: the gates also see the memory.
        leak: factor of what passes while a unit is closed.
        ratio_on: part of the period in which a unit is open.
        trainable_ratio_on: whether it is trained.
        period_init_min: the least period that a unit may begin with, of an exponential spread.
        period_init_max: the largest.
        reuse: as of ``variable_scope``.
    """

    def __init__(self, num_units: int, use_peepholes: bool = False, leak: float = 0.001,
                 ratio_on: float = 0.1, trainable_ratio_on: bool = True,
                 period_init_min: float = 1.0, period_init_max: float = 1000.0,
                 reuse: bool | None = None) -> None:
        super().__init__(num_units)
        self._use_peepholes = use_peepholes
        self._leak = leak
        self._ratio_on = ratio_on
        self._trainable_ratio_on = trainable_ratio_on
        self._periods = period_init_min, period_init_max
        self._reuse = reuse

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[Any, Any]:
        """Run one step."""
        time, x = (convert_to_tensor(part) for part in inputs)
        with self._step_scope(scope, "phased_lstm_cell", self._reuse):
            c, h = self._state_parts(state)
            units, peep = self._num_units, self._use_peepholes
            gates = _gate("mask_gates", [x, h, c] if peep else [x, h], 2 * units)
            taken, kept = raw_ops.Split(1, sigmoid(gates), num_split=2)
            new = raw_ops.Mul(taken, tanh(_gate("new_input", [x, h], units)))
            memory = raw_ops.Add(raw_ops.Mul(c, kept), new)
            shown = _gate("output_gate", [x, h, memory] if peep else [x, h], units)
            output = raw_ops.Mul(tanh(memory), sigmoid(shown))
            opening = self._opening(time)
            memory, output = (raw_ops.Add(old, raw_ops.Mul(opening, raw_ops.Sub(value, old)))
                              for value, old in ((memory, c), (output, h)))
        return output, LSTMStateTuple(memory, output)

    def _opening(self, time: Tensor) -> Tensor:
        """How far each unit is open: rising, falling, then leaking over its period."""
        period, phase, ratio_on = self._clock()
        cycle = _cycle(time, *(raw_ops.Cast(v, DstT=time.dtype) for v in (phase, period)))
        up = raw_ops.RealDiv(raw_ops.Mul(np.float32(2), cycle), ratio_on)
        opening = raw_ops.Select(raw_ops.Less(cycle, ratio_on + raw_ops.ZerosLike(cycle)),
                                 raw_ops.Sub(np.float32(2), up),
                                 raw_ops.Mul(np.float32(self._leak), cycle))
        half = raw_ops.Mul(np.float32(0.5), ratio_on)
        return raw_ops.Select(raw_ops.Less(cycle, half), up, opening)

    def _clock(self) -> list[Tensor]:
        """Period, phase and the part that a unit is open."""
        units = self._num_units
        low, high = np.log(self._periods)

        def spread(shape: Any, dtype: Any = None, partition_info: object = None) -> Tensor:
            return exp(random_uniform(shape, low, high, dtype or dtypes.float32))

        period = get_variable("period", [units], initializer=spread)

        def within(shape: Any, dtype: Any = None, partition_info: object = None) -> Tensor:
            return raw_ops.Mul(random_uniform(shape, 0.0, 1.0, dtype or dtypes.float32),
                               convert_to_tensor(period.initial_value))

        return [convert_to_tensor(v) for v in (
            period, get_variable("phase", [units], initializer=within),
            get_variable("ratio_on", [units], initializer=Constant(self._ratio_on),
                         trainable=self._trainable_ratio_on))]


def _gate(name: str, values: Sequence[Tensor], size: int) -> Tensor:
    with variable_scope(name):
        return affine(values, size)


def _cycle(time: Tensor, phase: Tensor, period: Tensor) -> Tensor:
    """The part of the period that is over; its derivative is that of the time itself."""
    shifted = raw_ops.Sub(time, phase)
    jump = raw_ops.StopGradient(raw_ops.Sub(raw_ops.FloorMod(shifted, period), shifted))
    return raw_ops.Cast(raw_ops.RealDiv(raw_ops.Add(jump, shifted), period), DstT=dtypes.float32)
