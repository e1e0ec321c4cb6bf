"""Cells that also run along the frequencies of their inputs: time-frequency and grid LSTM."""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import Any

import hpcflow as hf
from hpcflow.contrib.rnn.cell import RNNCell
from hpcflow.contrib.rnn.coupled_cell import sharded
from hpcflow.graph.likes import InitializerLike
from hpcflow.graph.operation import Tensor


def _slices(inputs: Tensor, size: int, skip: int, count: int, start: int = 0) -> list[Tensor]:
    """`count` windows of `size` columns, each `skip` further."""
    return [hf.slice(inputs, [0, start + n * skip], [-1, size]) for n in range(count)]


def _width(inputs: Tensor) -> int:
    width = inputs.shape.with_rank(2)[-1].value
    if width is None:
        raise ValueError("Cannot infer input_size from static shape inference.")
    return width


def _clipped(memory: Tensor, limit: float | None) -> Tensor:
    return memory if limit is None else hf.clip_by_value(memory, -limit, limit)


class TimeFreqLSTMCell(RNNCell):
    """LSTM that goes over windows of its input's frequencies at each step of time.

    Each window sees its own state of the step before and the output of the window below; all
    have the same weights. The state is one matrix, memory and output of the windows in turn;
    the output has the outputs of all windows.

    Args:
        num_units: size of a window's memory.
        use_peepholes: the gates also see the memory, each unit its own.
        cell_clip: limit of the memory's absolute values.
        initializer: for the 1.x API; the variables take that of their scope.
        num_unit_shards: number of variables that the weights are cut into.
        forget_bias: added to the forget gate.
        feature_size: width of a window.
        frequency_skip: how far one window is from the next.
        reuse: as of ``variable_scope``.
    """

    def __init__(self, num_units: int, use_peepholes: bool = False,
                 cell_clip: float | None = None, initializer: InitializerLike | None = None,
                 num_unit_shards: int = 1, forget_bias: float = 1.0,
                 feature_size: int | None = None, frequency_skip: int = 1,
                 reuse: bool | None = None) -> None:
        super().__init__(_reuse=reuse)
        self._num_units, self._use_peepholes, self._cell_clip = num_units, use_peepholes, cell_clip
        self._num_unit_shards, self._forget_bias = num_unit_shards, forget_bias
        self._feature_size: Any = feature_size
        self._frequency_skip = frequency_skip

    @property
    def state_size(self) -> int:
        """Twice the units: of one window, as the 1.x API has it."""
        return 2 * self._num_units

    @property
    def output_size(self) -> int:
        """The units of one window, as the 1.x API has it."""
        return self._num_units

    def call(self, inputs: Any, state: Any) -> tuple[Tensor, Tensor]:
        """Run one step; see the class. Raises ``ValueError`` for inputs of unknown width."""
        count = int((_width(inputs) - self._feature_size) / self._frequency_skip) + 1
        windows = _slices(inputs, self._feature_size, self._frequency_skip, count)
        units, dtype = self._num_units, inputs.dtype.base_dtype
        kernel = sharded("W", self._feature_size + 2 * units, 4 * units, self._num_unit_shards,
                         inputs)
        bias = hf.get_variable("B", [4 * units], dtype, hf.zeros_initializer())
        names = ("W_F_diag", "W_I_diag", "W_O_diag")
        peep = [hf.get_variable(n, [units], dtype) for n in names] if self._use_peepholes else []
        output = hf.zeros([inputs.shape[0].value or hf.shape(inputs)[0], units], dtype)
        outputs, states = [], []
        for n, window in enumerate(windows):
            before, last = (hf.slice(state, [0, (2 * n + part) * units], [-1, units])
                            for part in (0, 1))
            sums = hf.nn.bias_add(hf.matmul(hf.concat([window, last, output], 1), kernel), bias)
            memory, output = self._step(hf.split(sums, 4, axis=1), before, peep)
            outputs.append(output)
            states += [memory, output]
        return hf.concat(outputs, 1), hf.concat(states, 1)

    def _step(self, sums: list, before: Tensor, peep: list) -> tuple[Tensor, Tensor]:
        i, j, f, o = sums
        f += self._forget_bias
        if peep:
            f, i = f + peep[0] * before, i + peep[1] * before
        memory = _clipped(hf.sigmoid(f) * before + hf.sigmoid(i) * hf.tanh(j), self._cell_clip)
        o = o + peep[2] * memory if peep else o
        return memory, hf.sigmoid(o) * hf.tanh(memory)


class GridLSTMCell(RNNCell):
    """LSTM over time and, within each step, over windows of frequencies (arXiv:1507.01526).

    A window has a memory that goes on in time and one that goes on to the next window. The
    output has both outputs of all windows; the state has memory and output in time of each.

    Args:
        num_units: size of a memory.
        use_peepholes: the gates also see both memories, each unit its own.
        share_time_frequency_weights: the two memories have the same weights.
        cell_clip: limit of the memories' absolute values.
        initializer: for the 1.x API; the variables take that of their scope.
        num_unit_shards: number of variables that the weights are cut into.
        forget_bias: added to the forget gates.
        feature_size: width of a window.
        frequency_skip: how far one window is from the next.
        num_frequency_blocks: the number of windows of each block; blocks have own weights.
        start_freqindex_list: first column of each block; one block of all columns if None.
        end_freqindex_list: the column after the last of each block.
        couple_input_forget_gates: a memory takes in what it forgets.
        state_is_tuple: the state is a tuple with names, else a matrix.
        reuse: as of ``variable_scope``.

    Raises ``ValueError`` without `num_frequency_blocks`.
    """

    def __init__(self, num_units: int, use_peepholes: bool = False,
                 share_time_frequency_weights: bool = False, cell_clip: float | None = None,
                 initializer: InitializerLike | None = None, num_unit_shards: int = 1,
                 forget_bias: float = 1.0, feature_size: int | None = None,
                 frequency_skip: int | None = None,
                 num_frequency_blocks: Sequence[int] | None = None,
                 start_freqindex_list: Sequence[int] | None = None,
                 end_freqindex_list: Sequence[int] | None = None,
                 couple_input_forget_gates: bool = False, state_is_tuple: bool = True,
                 reuse: bool | None = None) -> None:
        super().__init__(_reuse=reuse)
        if num_frequency_blocks is None:
            raise ValueError("Must specify num_frequency_blocks")
        self._num_units, self._use_peepholes, self._cell_clip = num_units, use_peepholes, cell_clip
        self._shares, self._couples = share_time_frequency_weights, couple_input_forget_gates
        self._num_unit_shards, self._forget_bias = num_unit_shards, forget_bias
        self._feature_size: Any = feature_size
        self._frequency_skip: Any = frequency_skip
        self._starts, self._ends = start_freqindex_list, end_freqindex_list
        self._blocks = list(num_frequency_blocks)
        self._state_is_tuple = state_is_tuple
        self._state_type: Any = None
        if state_is_tuple:
            self._state_type = self._named("GridLSTMStateTuple", ["state"])

    def _named(self, name: str, prefixes: list[str]) -> Any:
        """The type of states: memory and output of each window, with names."""
        return collections.namedtuple(name, [
            f"{prefix}_f{n:02d}_b{block:02d}_{part}" for prefix in prefixes
            for block, count in enumerate(self._blocks) for n in range(count) for part in "cm"])

    @property
    def state_tuple_type(self) -> Any:
        """The type of states; None for matrices."""
        return self._state_type

    @property
    def state_size(self) -> Any:
        """The sizes of memory and output in time of each window, or their sum."""
        if self._state_type is None:
            return self._num_units * sum(self._blocks) * 2
        return self._state_type(*[self._num_units] * len(self._state_type._fields))

    @property
    def output_size(self) -> int:
        """The size of the outputs of all windows, in time and in frequency."""
        return self._num_units * sum(self._blocks) * 2

    def call(self, inputs: Any, state: Any) -> tuple[Tensor, Any]:
        """Run one step; see the class. Raises ``ValueError`` where the windows are not as many
        as `num_frequency_blocks` says."""
        outputs, states = self._along_all(self._windows(inputs), state, "state")
        return hf.concat(outputs, 1), (
            hf.concat(states, 1) if self._state_type is None else self._state_type(*states))

    def _along_all(self, blocks: list, state: Any, prefix: str) -> tuple[list, list]:
        outputs: list[Tensor] = []
        states: list[Tensor] = []
        for block, windows in enumerate(blocks):
            for more, kept in zip(self._along(windows, block, state, prefix), (outputs, states),
                                  strict=True):
                kept += more
        return outputs, states

    def _along(self, windows: list, block: int, state: Any, prefix: str) -> tuple[list, list]:
        """The outputs and states of a block, window by window."""
        weights = _Weights(self, block, windows[0])
        memory = hf.zeros([windows[0].shape[0].value or hf.shape(windows[0])[0],
                           self._num_units], windows[0].dtype.base_dtype)
        output = memory
        outputs, states = [], []
        for n, window in enumerate(windows):
            before, last = self._before(state, f"{prefix}_f{n:02d}_b{block:02d}", n)
            joined = hf.concat([window, last, output], 1)
            (memory, output), (time, seen) = weights.step(joined, memory, before)
            outputs += [seen, output]
            states += [time, seen]
        return outputs, states

    def _before(self, state: Any, name: str, n: int) -> tuple[Tensor, Tensor]:
        if self._state_is_tuple:
            return getattr(state, f"{name}_c"), getattr(state, f"{name}_m")
        units = self._num_units  # the windows of all blocks read the first of the state
        return (hf.slice(state, [0, 2 * n * units], [-1, units]),
                hf.slice(state, [0, (2 * n + 1) * units], [-1, units]))

    def _windows(self, inputs: Any, offset: int = 0) -> list[list[Tensor]]:
        width = _width(inputs)
        if offset:
            inputs = hf.pad(inputs, [[0, 0], [max(-offset, 0), max(offset, 0)]])
        offset = max(offset, 0)
        starts, ends = list(self._starts or [0]), list(self._ends or [width])
        if not self._starts:
            ends = [width]
        if not len(self._blocks) == len(starts) == len(ends):
            raise ValueError(f"Lengths of num_frequency_blocks ({len(self._blocks)}), "
                             f"start_freqindex_list ({len(starts)}) and end_freqindex_list "
                             f"({len(ends)}) do not match")
        return [self._block(inputs, start + offset, end - start, count)
                for start, end, count in zip(starts, ends, self._blocks, strict=True)]

    def _block(self, inputs: Tensor, start: int, width: int, count: int) -> list[Tensor]:
        found = int((width - self._feature_size) / self._frequency_skip) + 1
        if found != count:
            raise ValueError(f"Invalid num_frequency_blocks, requires {count} but gets {found}, "
                             "please check the input size and filter config are correct.")
        return _slices(inputs, self._feature_size, self._frequency_skip, count, start)


class _Weights:
    """The weights of a block, and a step of one window with them."""

    def __init__(self, cell: GridLSTMCell, block: int, like: Tensor) -> None:
        self._cell, self._block, self._dtype = cell, block, like.dtype.base_dtype
        self._gates = 3 if cell._couples else 4
        rows = cell._feature_size + 2 * cell._num_units
        self._maps = [self._map(letter, rows, like)
                      for letter in ("f" if cell._shares else "ft")]
        self._peeps = {}
        if cell._use_peepholes:
            for kind in ("freq",) if cell._shares else ("freq", "time"):
                for gate in "IO" if cell._couples else "FIO":
                    self._peeps[gate, kind] = [hf.get_variable(
                        f"W_{gate}_diag_{kind}{of}_{block}", [cell._num_units], self._dtype)
                        for of in "ft"]

    def _map(self, letter: str, rows: int, like: Tensor) -> tuple[Tensor, Any]:
        columns = self._gates * self._cell._num_units
        kernel = sharded(f"W_{letter}_{self._block}", rows, columns,
                         self._cell._num_unit_shards, like)
        return kernel, hf.get_variable(f"B_{letter}_{self._block}", [columns], self._dtype,
                                       hf.zeros_initializer())

    def step(self, joined: Tensor, freq: Tensor, time: Tensor) -> list[tuple[Tensor, Tensor]]:
        """The memory and output in frequency, then those in time, from both memories before."""
        parts = [hf.split(hf.nn.bias_add(hf.matmul(joined, kernel), bias), self._gates, axis=1)
                 for kernel, bias in self._maps]
        kinds = ("freq", "freq" if self._cell._shares else "time")
        memories = [self._memory(part, kind, freq, time, own)
                    for part, kind, own in zip((parts[0], parts[-1]), kinds, (freq, time),
                                               strict=True)]
        return [(memory, hf.sigmoid(self._peep("O", kind, part[-1], *memories)) * hf.tanh(memory))
                for memory, part, kind in zip(memories, (parts[0], parts[-1]), kinds, strict=True)]

    def _memory(self, part: list, kind: str, freq: Tensor, time: Tensor, own: Tensor) -> Tensor:
        taken = hf.sigmoid(self._peep("I", kind, part[0], freq, time))
        kept = 1.0 - taken if self._cell._couples else hf.sigmoid(self._peep(
            "F", kind, part[2] + self._cell._forget_bias, freq, time))
        return _clipped(kept * own + taken * hf.tanh(part[1]), self._cell._cell_clip)

    def _peep(self, gate: str, kind: str, value: Tensor, freq: Tensor, time: Tensor) -> Tensor:
        weights = self._peeps.get((gate, kind))
        return value if weights is None else value + weights[0] * freq + weights[1] * time


class BidirectionalGridLSTMCell(GridLSTMCell):
    """A grid LSTM that goes over the windows upwards and, with other weights, downwards.

    Arguments as of ``GridLSTMCell``, and:

    Args:
        backward_slice_offset: how many columns further the windows of the way down begin.
    """

    def __init__(self, num_units: int, use_peepholes: bool = False,
                 share_time_frequency_weights: bool = False, cell_clip: float | None = None,
                 initializer: InitializerLike | None = None, num_unit_shards: int = 1,
                 forget_bias: float = 1.0, feature_size: int | None = None,
                 frequency_skip: int | None = None,
                 num_frequency_blocks: Sequence[int] | None = None,
                 start_freqindex_list: Sequence[int] | None = None,
                 end_freqindex_list: Sequence[int] | None = None,
                 couple_input_forget_gates: bool = False, backward_slice_offset: int = 0,
                 reuse: bool | None = None) -> None:
        super().__init__(num_units, use_peepholes, share_time_frequency_weights, cell_clip,
                         initializer, num_unit_shards, forget_bias, feature_size, frequency_skip,
                         num_frequency_blocks, start_freqindex_list, end_freqindex_list,
                         couple_input_forget_gates, True, reuse)
        self._offset = int(backward_slice_offset)
        self._state_type = self._named("BidirectionalGridLSTMStateTuple",
                                       ["fwd_state", "bwd_state"])

    @property
    def output_size(self) -> int:
        """The size of the outputs of both ways."""
        return 2 * super().output_size

    def call(self, inputs: Any, state: Any) -> tuple[Tensor, Any]:
        """Run one step; see the class."""
        with hf.variable_scope("fwd"):
            up = self._along_all(self._windows(inputs), state, "fwd_state")
        with hf.variable_scope("bwd"):
            down = self._along_all([block[::-1] for block in self._windows(inputs, self._offset)],
                                   state, "bwd_state")
        return hf.concat(up[0] + down[0], 1), self._state_type(*up[1], *down[1])
