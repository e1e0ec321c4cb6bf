"""Long short-term memory cells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from hpcflow.contrib.rnn.cell import (
    RNNCell,
    activation_of,
    affine,
    check_floating,
    takes_later_order,
)
from hpcflow.dtypes import DTypeLike
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import InitializerLike, Nest
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.arrays.joining import split
from hpcflow.ops.math.clipping import clip_by_value
from hpcflow.ops.math.elementwise import sigmoid, tanh
from hpcflow.ops.state.partitioners import fixed_size_partitioner
from hpcflow.ops.state.variable_scope import get_variable, variable_scope
from hpcflow.shapes import ShapeLike


class LSTMStateTuple(NamedTuple):
    """The state of an LSTM cell: the memory `c` and the output `h`."""

    c: Any
    h: Any

    @property
    def dtype(self) -> Any:
        """The element type, the same of both. ``TypeError`` if it is not."""
        if self.c.dtype != self.h.dtype:
            raise TypeError(f"Inconsistent internal state: {self.c.dtype} vs {self.h.dtype}")
        return self.c.dtype


class MemoryCell(RNNCell):
    """A cell with a memory of `num_units` numbers, and an output of as many or `num_proj`.

    Its state is an :class:`LSTMStateTuple`, or a matrix ``[c, h]`` if not `state_is_tuple`.
    """

    def __init__(self, num_units: int, num_proj: int | None = None, state_is_tuple: bool = True,
                 **keywords: Any) -> None:
        check_floating(keywords.get("dtype"))
        super().__init__(**keywords)
        self._num_units = num_units
        self._num_proj = num_proj
        self._state_is_tuple = state_is_tuple

    @property
    def state_size(self) -> Any:
        """The sizes of memory and output, or their sum."""
        sizes = LSTMStateTuple(self._num_units, self.output_size)
        return sizes if self._state_is_tuple else sum(sizes)

    @property
    def output_size(self) -> int:
        """The size of the projection, or the number of units."""
        return self._num_units if self._num_proj is None else self._num_proj

    def _state_parts(self, state: Any) -> tuple[Tensor, Tensor]:
        """Memory and output of a state. ``ValueError`` if their static sizes are not the cell's."""
        if self._state_is_tuple:
            c, h = (convert_to_tensor(part) for part in state)
            _check_width("memory", c, self._num_units)
            _check_width("output", h, self.output_size)
            return c, h
        state = convert_to_tensor(state)
        _check_width("state", state, self._num_units + self.output_size)
        return state[:, :self._num_units], state[:, self._num_units:]

    def _joined(self, c: Tensor, h: Tensor) -> Any:
        """A state of memory and output."""
        return LSTMStateTuple(c, h) if self._state_is_tuple else raw_ops.ConcatV2([c, h], 1)


def _check_width(what: str, tensor: Tensor, size: int) -> None:
    shape = tensor.get_shape()
    if not shape.is_compatible_with([None, size]):
        raise ValueError(f"the {what} of the cell's state has to have {size} columns, but "
                         f"{tensor.name} has shape {shape}")


class BasicLSTMCell(MemoryCell):
    """LSTM without peepholes (Zaremba et al., 2014, arXiv:1409.2329).

    i, j, f, o = W [inputs, h] + b;
    c' = c sigmoid(f + forget_bias) + sigmoid(i) activation(j); h' = activation(c') sigmoid(o).

    Args:
        num_units: size of memory and output.
        forget_bias: added to the forget gate, so that training begins with remembering.
        input_size: accepted; the inputs say their size.
        state_is_tuple: states are :class:`LSTMStateTuple`; else matrices ``[c, h]``.
        activation: a function of tensors, or its name.
        reuse: as of ``variable_scope``.
        name: of the variable scope.
        dtype: accepted; the inputs say theirs.
        keywords: as of ``Layer``: `trainable`.
    """

    @takes_later_order
    def __init__(self, num_units: int, forget_bias: float = 1.0,
                 input_size: ShapeLike | None = None, state_is_tuple: bool = True,
                 activation: Callable | str | None = tanh, reuse: bool | None = None,
                 name: str | None = None, dtype: DTypeLike | None = None, **keywords: Any) -> None:
        super().__init__(num_units, state_is_tuple=state_is_tuple, name=name, dtype=dtype,
                         **keywords)
        self._forget_bias = forget_bias
        self._activation = activation_of(activation)
        self._reuse = reuse

    def __call__(self, inputs: Any, state: Nest, scope: Any = None) -> tuple[Any, Any]:
        """Run one step."""
        with self._step_scope(scope, "basic_lstm_cell", self._reuse):
            c, h = self._state_parts(state)
            gates = affine([inputs, h], 4 * self._num_units)
            i, j, f, o = split(gates, 4, 1)
            kept = raw_ops.Mul(c, sigmoid(_plus(f, self._forget_bias)))
            new_c = raw_ops.Add(kept, raw_ops.Mul(sigmoid(i), self._activation(j)))
            new_h = raw_ops.Mul(self._activation(new_c), sigmoid(o))
            return new_h, self._joined(new_c, new_h)


def _plus(x: Tensor, number: float) -> Tensor:
    return raw_ops.Add(x, x.dtype.base_dtype.np.type(number)) if number else x


class LSTMCell(MemoryCell):
    """LSTM with optional peepholes, clipping and projection (Sak et al., 2014, arXiv:1402.1128).

    Args:
        num_units: size of the memory.
        input_size: accepted; the inputs say their size.
        use_peepholes: the gates also see the memory, each unit its own.
        cell_clip: limit of the memory's absolute values.
        initializer: of weights and projection.
        num_proj: size of the output after a projection; None for no projection.
        proj_clip: limit of the projection's absolute values.
        num_unit_shards: number of parts that the weights are cut into.
        num_proj_shards: number of parts that the projection is cut into.
        forget_bias: added to the forget gate.
        state_is_tuple: states are :class:`LSTMStateTuple`; else matrices ``[c, h]``.
        activation: a function of tensors, or its name.
        reuse: as of ``variable_scope``.
        name: of the variable scope.
        dtype: accepted; the inputs say theirs.
        keywords: as of ``Layer``: `trainable`.
    """

    _default_scope = "lstm_cell"

    @takes_later_order
    def __init__(self, num_units: int, input_size: ShapeLike | None = None,
                 use_peepholes: bool = False, cell_clip: float | None = None,
                 initializer: InitializerLike | None = None, num_proj: int | None = None,
                 proj_clip: float | None = None, num_unit_shards: int | None = None,
                 num_proj_shards: int | None = None, forget_bias: float = 1.0,
                 state_is_tuple: bool = True, activation: Callable | str | None = tanh,
                 reuse: bool | None = None, name: str | None = None, dtype: DTypeLike | None = None,
                 **keywords: Any) -> None:
        super().__init__(num_units, num_proj, state_is_tuple, name=name, dtype=dtype, **keywords)
        self._use_peepholes = use_peepholes
        self._cell_clip = cell_clip
        self._initializer = initializer
        self._proj_clip = proj_clip
        self._num_unit_shards = num_unit_shards
        self._num_proj_shards = num_proj_shards
        self._forget_bias = forget_bias
        self._activation = activation_of(activation)
        self._reuse = reuse

    def __call__(self, inputs: Any, state: Nest, scope: Any = None) -> tuple[Any, Any]:
        """Run one step."""
        with self._step_scope(scope, self._default_scope, self._reuse,
                              initializer=self._initializer):
            return self._step(inputs, state)

    def _step(self, inputs: Any, state: Nest) -> tuple[Any, Any]:
        c, h = self._state_parts(state)
        i, j, f, o = self._gates(inputs, h)
        peeps = diagonals(("w_f_diag", "w_i_diag", "w_o_diag") if self._use_peepholes else (), c)
        new_c = self._memory(c, i, j, f, peeps)
        new_h = raw_ops.Mul(sigmoid(peep(o, new_c, peeps.get("w_o_diag"))),
                            self._activation(new_c))
        if self._num_proj is not None:
            with variable_scope("projection"):
                new_h = _clipped(self._projection(new_h), self._proj_clip)
        return new_h, self._joined(new_c, new_h)

    def _gates(self, inputs: Any, h: Tensor) -> list[Tensor]:
        """The sums i, j, f and o."""
        sums = affine([inputs, h], 4 * self._num_units,
                      kernel_partitioner=_shards(self._num_unit_shards))
        return split(sums, 4, 1)

    def _memory(self, c: Tensor, i: Tensor, j: Tensor, f: Tensor,
                peeps: dict[str, Tensor]) -> Tensor:
        """The memory after the step."""
        forget = peep(_plus(f, self._forget_bias), c, peeps.get("w_f_diag"))
        kept = raw_ops.Mul(sigmoid(forget), c)
        added = raw_ops.Mul(sigmoid(peep(i, c, peeps.get("w_i_diag"))), self._activation(j))
        return _clipped(self._normalized(raw_ops.Add(kept, added), "state"), self._cell_clip)

    def _normalized(self, x: Tensor, name: str) -> Tensor:
        return x

    def _projection(self, output: Tensor) -> Tensor:
        return affine([output], self.output_size, bias=False,
                      kernel_partitioner=_shards(self._num_proj_shards))


def diagonals(names: tuple[str, ...], memory: Tensor) -> dict[str, Tensor]:
    """The weights of peepholes, one for each column of the memory, by their names."""
    size = [memory.get_shape()[-1].value]
    return {name: convert_to_tensor(get_variable(name, size, memory.dtype.base_dtype))
            for name in names}


def peep(gate: Tensor, memory: Tensor, weights: Tensor | None) -> Tensor:
    """The gate with a peephole: it sees the memory too, each unit its own; None is for no hole."""
    return gate if weights is None else raw_ops.Add(gate, raw_ops.Mul(weights, memory))


def _shards(count: int | None) -> Any:
    return None if count is None else fixed_size_partitioner(count)


def _clipped(x: Tensor, limit: float | None) -> Tensor:
    return x if limit is None else clip_by_value(x, -limit, limit)
