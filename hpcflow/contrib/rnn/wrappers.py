"""Cells made of cells: stacks, and wrappers that change inputs, outputs or devices."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcflow.base.keywords import also_ordered
from hpcflow.contrib.rnn.cell import RNNCell, affine
from hpcflow.contrib.rnn.lstm import LSTMStateTuple
from hpcflow.distributions.seeds import gen_new_seed
from hpcflow.dtypes import DTypeLike
from hpcflow.graph import nest
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import device, get_default_graph
from hpcflow.graph.likes import DeviceLike, InitializerLike, Nest, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.seeds import count_more
from hpcflow.nn.activations import dropout
from hpcflow.nn.embedding import embedding_lookup
from hpcflow.nn.rnn_steps import check_cell
from hpcflow.ops.flow.tensor_array import TensorArray
from hpcflow.ops.random.random_ops import random_uniform
from hpcflow.ops.state.initializers import Constant, RandomUniform
from hpcflow.ops.state.variable_scope import get_variable, get_variable_scope, variable_scope
from hpcflow.shapes import ShapeLike, as_shape

if TYPE_CHECKING:
    from hpcflow.ops.state.variable_scope import VariableScope


class WrapperCell(RNNCell):
    """A cell around another, with its sizes."""

    def __init__(self, cell: RNNCell) -> None:
        super().__init__()
        check_cell(cell)
        self._cell = cell

    @property
    def wrapped_cell(self) -> RNNCell:
        """The cell inside."""
        return self._cell

    @property
    def state_size(self) -> Any:
        """The sizes of the wrapped cell's state."""
        return self._cell.state_size

    @property
    def output_size(self) -> Any:
        """The sizes of the wrapped cell's output."""
        return self._cell.output_size

    def zero_state(self, batch_size: TensorLike, dtype: DTypeLike) -> Any:
        """Return the wrapped cell's zero state."""
        return self._cell.zero_state(batch_size, dtype)

    def _inner_cells(self) -> list[tuple[str, RNNCell]]:
        return [("cell", self._cell)]


class DropoutWrapper(WrapperCell):
    """A cell with dropout on its inputs and outputs, and on its state where that is said.

    Args:
        cell: the cell.
        input_keep_prob: probability of keeping an input; a number or a tensor.
        output_keep_prob: probability of keeping an output.
        seed: of the random numbers; those of inputs, outputs and states are made from it.
        state_keep_prob: probability of keeping an element of the new state; of an LSTM's that of
            its output, not of its memory.
        variational_recurrent: drop the same units in every step and in all of the batch
            (arXiv:1512.05287).
        input_size: shape of an input without the batch, needed for `variational_recurrent` where
            inputs are dropped.
        dtype: of inputs, outputs and state, needed for `variational_recurrent`.
        dropout_state_filter_visitor: ``f(state)`` returns, for a part of the state, whether its
            elements may be dropped: a boolean, or a nest of them like the part.

    Raises: ``TypeError`` for something that is not a cell, ``ValueError`` for a number outside
        (0, 1], or where `input_size` or `dtype` is missing.
    """

    @also_ordered("state_keep_prob", "variational_recurrent", "input_size", "dtype", "seed",
                  "dropout_state_filter_visitor",
                  unless=lambda seed: seed is None or isinstance(seed, (int, np.integer)))
    def __init__(self, cell: RNNCell, input_keep_prob: Any = 1.0, output_keep_prob: Any = 1.0,
                 seed: int | None = None, state_keep_prob: Any = 1.0,
                 variational_recurrent: bool = False, input_size: ShapeLike | None = None,
                 dtype: DTypeLike | None = None,
                 dropout_state_filter_visitor: Callable | None = None) -> None:
        super().__init__(cell)
        for name, value in (("input_keep_prob", input_keep_prob),
                            ("output_keep_prob", output_keep_prob),
                            ("state_keep_prob", state_keep_prob)):
            if isinstance(value, (int, float)) and not 0 < value <= 1:
                raise ValueError(f"Parameter {name} must be between 0 and 1: {value}")
        graph, probs = get_default_graph(), (input_keep_prob, output_keep_prob, state_keep_prob)
        count_more(graph, sum([isinstance(p, (int, float)) for p in probs]))
        self._input_keep_prob = input_keep_prob
        self._output_keep_prob = output_keep_prob
        self._state_keep_prob = state_keep_prob
        self._seed = seed
        self._dropout_state_filter = dropout_state_filter_visitor or _all_but_memories
        self._noise: dict[str, list[Tensor]] = {}
        if variational_recurrent:
            self._noise = self._make_noise(input_size, dtype)

    def __call__(self, inputs: Any, state: TensorLike,
                 scope: str | VariableScope | None = None) -> tuple[Any, Any]:
        """Run one step."""
        inputs = self._dropped(inputs, self._input_keep_prob, "input")
        output, state = self._cell(inputs, state, scope)
        state = self._dropped(state, self._state_keep_prob, "state")
        return self._dropped(output, self._output_keep_prob, "output"), state

    def _dropped(self, values: TensorLike, keep_prob: float, kind: str) -> Any:
        if _keeps_all(keep_prob):
            return values
        flat = nest.flatten(values)
        chosen = (_visited(self._dropout_state_filter, values) if kind == "state"
                  else [True] * len(flat))
        noise: Sequence[Tensor | None] = self._noise.get(kind) or [None] * len(flat)
        return nest.pack_as(values, [
            self._dropped_one(v, keep_prob, n, self._seed_of(kind, k)) if may else v
            for k, (v, n, may) in enumerate(zip(flat, noise, chosen, strict=True))])

    def _seed_of(self, kind: str, number: int) -> int | None:
        """The seed of a part of what is dropped: as in TensorFlow, from a hash."""
        return gen_new_seed(self._seed, f"{kind}_{number}")

    def _dropped_one(self, value: Tensor, keep_prob: float, noise: Tensor | None,
                     seed: int | None) -> Tensor:
        if noise is None:
            return dropout(value, keep_prob, seed=seed)
        kept = raw_ops.Mul(raw_ops.RealDiv(value, keep_prob),
                           raw_ops.Floor(raw_ops.Add(noise, keep_prob)))
        kept.set_shape(value.shape)
        return kept

    def _make_noise(self, input_size: ShapeLike, dtype: Any) -> dict[str, list[Tensor]]:
        """Return the random tensors that decide, for all steps alike, which units are dropped."""
        if dtype is None:
            raise ValueError("When variational_recurrent=True, dtype must be provided")
        sizes: dict[str, Any] = {}
        if not _keeps_all(self._input_keep_prob):
            if input_size is None:
                raise ValueError("When variational_recurrent=True and input_keep_prob < 1.0 or is "
                                 "unknown, input_size must be provided")
            sizes["input"] = input_size
        sizes |= {"state": self.state_size, "output": self.output_size}
        return {kind: [random_uniform([1, *as_shape(s).as_list()], dtype=dtype,
                                      seed=self._seed_of(kind, k))
                       for k, s in enumerate(nest.flatten(size))] for kind, size in sizes.items()}


def _keeps_all(keep_prob: float) -> bool:
    return isinstance(keep_prob, (int, float)) and keep_prob == 1


def _all_but_memories(state: Any) -> Any:
    """All may be dropped but the memory of an LSTM and arrays of tensors."""
    if isinstance(state, LSTMStateTuple):
        return LSTMStateTuple(c=False, h=True)
    return not isinstance(state, TensorArray)


def _visited(may_drop: Callable, state: Nest) -> list[bool]:
    """Return, for each tensor of a state, what the visitor says of it or of what it is in."""
    said = may_drop(state)
    if nest.is_nested(said):
        return [bool(x) for x in nest.flatten(said)]
    parts: Any = state.values() if isinstance(state, dict) else state
    if said and isinstance(parts, (tuple, list)) or isinstance(state, dict):
        return [x for part in parts for x in _visited(may_drop, part)]
    return [bool(said)] * len(nest.flatten(state))


class ResidualWrapper(WrapperCell):
    """A cell whose inputs are added to its outputs; both must have the same shape.

    Args:
        cell: the cell.
        residual_fn: ``f(inputs, outputs)`` returns the output, in place of the sum.
    """

    def __init__(self, cell: RNNCell, residual_fn: Callable | None = None) -> None:
        super().__init__(cell)
        self._residual_fn = residual_fn

    def __call__(self, inputs: Any, state: TensorLike, scope: Any = None) -> tuple[Any, Any]:
        """Run one step."""
        output, state = self._cell(inputs, state, scope)
        if self._residual_fn is not None:
            return self._residual_fn(inputs, output), state
        nest.check_same(inputs, output, "inputs and outputs")
        added = [raw_ops.Add(x, y) for x, y in zip(nest.flatten(inputs), nest.flatten(output),
                                                   strict=True)]
        return nest.pack_as(output, added), state


class HighwayWrapper(WrapperCell):
    """A cell whose output is mixed with its input, gates deciding (arXiv:1505.00387).

    output = carry inputs + transform output of the cell; carry = sigmoid(W inputs + b).
    The variables are in the variable scope that the step is made in.

    Args:
        cell: the cell; its output has the shape of its inputs.
        couple_carry_transform_gates: transform = 1 - carry; else it has weights of its own.
        carry_bias_init: b at the beginning; that of the other gate begins at its negative.
    """

    def __init__(self, cell: RNNCell, couple_carry_transform_gates: bool = True,
                 carry_bias_init: float = 1.0) -> None:
        super().__init__(cell)
        self._coupled = couple_carry_transform_gates
        self._carry_bias_init = carry_bias_init

    def __call__(self, inputs: Any, state: TensorLike,
                 scope: str | VariableScope | None = None) -> tuple[Any, Any]:
        """Run one step."""
        output, state = self._cell(inputs, state, scope)
        nest.check_same(inputs, output, "inputs and outputs")
        mixed = [self._mixed(convert_to_tensor(x), y) for x, y in zip(
            nest.flatten(inputs), nest.flatten(output), strict=True)]
        return nest.pack_as(output, mixed), state

    def _mixed(self, x: Tensor, y: Tensor) -> Tensor:
        x.shape.assert_is_compatible_with(y.shape)
        carry = _gate(x, "carry", self._carry_bias_init)
        if self._coupled:
            transform = raw_ops.Sub(raw_ops.OnesLike(carry), carry)
        else:
            transform = _gate(x, "transform", -self._carry_bias_init)
        return raw_ops.Add(raw_ops.Mul(x, carry), raw_ops.Mul(y, transform))


def _gate(x: Tensor, name: str, bias: float) -> Tensor:
    """sigmoid(W x + b), both variables named after the gate."""
    size, dtype = x.shape.as_list()[-1], x.dtype.base_dtype
    weights = get_variable(f"{name}_w", [size, size], dtype)
    biases = get_variable(f"{name}_b", [size], dtype, Constant(bias, dtype))
    return raw_ops.Sigmoid(raw_ops.BiasAdd(raw_ops.MatMul(x, convert_to_tensor(weights)),
                                           convert_to_tensor(biases)))


class DeviceWrapper(WrapperCell):
    """A cell whose operations go to `device` (a name or a function, as ``hf.device`` takes)."""

    def __init__(self, cell: RNNCell, device: DeviceLike) -> None:
        super().__init__(cell)
        self._device = device

    def zero_state(self, batch_size: TensorLike, dtype: DTypeLike) -> Any:
        """Return the wrapped cell's zero state, on the device."""
        with device(self._device):
            return super().zero_state(batch_size, dtype)

    def __call__(self, inputs: Any, state: TensorLike, scope: Any = None) -> tuple[Any, Any]:
        """Run one step on the device."""
        with device(self._device):
            return self._cell(inputs, state, scope)


class InputProjectionWrapper(WrapperCell):
    """A cell that sees ``activation(W inputs + b)``, `num_proj` numbers, instead of its inputs."""

    def __init__(self, cell: RNNCell, num_proj: int, activation: Callable | None = None,
                 input_size: ShapeLike | None = None, reuse: bool | None = None) -> None:
        super().__init__(cell)
        self._num_proj = num_proj
        self._activation = activation
        self._reuse = reuse

    def __call__(self, inputs: Any, state: TensorLike,
                 scope: str | VariableScope | None = None) -> tuple[Any, Any]:
        """Run one step."""
        with self._step_scope(scope, "input_projection_wrapper", self._reuse):
            projected = affine([inputs], self._num_proj)
            if self._activation is not None:
                projected = self._activation(projected)
            return self._cell(projected, state)


class OutputProjectionWrapper(WrapperCell):
    """A cell that gives ``activation(W output + b)`` of another cell, `output_size` numbers."""

    def __init__(self, cell: RNNCell, output_size: int, activation: Callable | None = None,
                 reuse: bool | None = None) -> None:
        super().__init__(cell)
        self._activation = activation
        if output_size < 1:
            raise ValueError(f"Parameter output_size must be > 0: {output_size}")
        self._output_size = output_size
        self._reuse = reuse

    @property
    def output_size(self) -> int:
        """The size of the projection."""
        return self._output_size

    def __call__(self, inputs: Any, state: Any,
                 scope: str | VariableScope | None = None) -> tuple[Any, Any]:
        """Run one step."""
        with self._step_scope(scope, "output_projection_wrapper", self._reuse):
            output, state = self._cell(inputs, state)
            projected = affine([output], self._output_size)
            return (projected if self._activation is None else self._activation(projected)), state


class CompiledWrapper(WrapperCell):
    """A cell as it is: all steps are compiled in any case.

    Args:
        cell: the cell.
        compile_stateful: accepted.
    """

    def __init__(self, cell: RNNCell, compile_stateful: bool = False) -> None:
        super().__init__(cell)

    def __call__(self, inputs: Any, state: Any,
                 scope: str | VariableScope | None = None) -> tuple[Any, Any]:
        """Run one step."""
        return self._cell(inputs, state, scope)


class EmbeddingWrapper(WrapperCell):
    """A cell whose inputs are symbols, integers of shape ``[batch]`` or ``[batch, 1]``.

    Args:
        cell: the cell, which sees rows of a table.
        embedding_classes: number of symbols.
        embedding_size: size of their rows.
        initializer: of the table; the variable scope's, else uniform in ±√3 (variance 1).
        reuse: as of ``variable_scope``.
    """

    def __init__(self, cell: RNNCell, embedding_classes: int, embedding_size: int,
                 initializer: InitializerLike | None = None, reuse: bool | None = None) -> None:
        super().__init__(cell)
        if embedding_classes <= 0 or embedding_size <= 0:
            raise ValueError(f"Both embedding_classes and embedding_size must be > 0: "
                             f"{embedding_classes}, {embedding_size}.")
        self._classes = embedding_classes
        self._size = embedding_size
        self._initializer = initializer
        self._reuse = reuse

    def __call__(self, inputs: Any, state: Any,
                 scope: str | VariableScope | None = None) -> tuple[Any, Any]:
        """Run one step."""
        with self._step_scope(scope, "embedding_wrapper", self._reuse):
            initializer = self._initializer or get_variable_scope().initializer
            if initializer is None:
                initializer = RandomUniform(-math.sqrt(3), math.sqrt(3))
            dtype = nest.flatten(state)[0].dtype.base_dtype
            table = get_variable("embedding", [self._classes, self._size], dtype, initializer)
            symbols = raw_ops.Reshape(convert_to_tensor(inputs), [-1])
            return self._cell(embedding_lookup(table, symbols), state)


class MultiRNNCell(RNNCell):
    """Cells on top of each other: each one's output is the next one's input.

    Args:
        cells: the cells, the lowest first.
        state_is_tuple: the state is a tuple of the cells' states; else their matrices joined.

    Raises: ``ValueError`` for no cells, or for tuple states inside joined ones.
    """

    def __init__(self, cells: Sequence[RNNCell], state_is_tuple: bool = True) -> None:
        super().__init__()
        if not cells:
            raise ValueError("Must specify at least one cell for MultiRNNCell.")
        for cell in cells:
            check_cell(cell)
        self._cells = list(cells)
        self._state_is_tuple = state_is_tuple
        if not state_is_tuple and any(nest.is_nested(c.state_size) for c in cells):
            raise ValueError("Some cells return tuples of states, but the flag state_is_tuple is "
                             f"not set. State sizes are: {[c.state_size for c in cells]}")

    @property
    def state_size(self) -> Any:
        """The cells' sizes, or their sum."""
        sizes = tuple(cell.state_size for cell in self._cells)
        return sizes if self._state_is_tuple else sum(sizes)

    @property
    def output_size(self) -> Any:
        """The highest cell's size."""
        return self._cells[-1].output_size

    def zero_state(self, batch_size: TensorLike, dtype: DTypeLike) -> Any:
        """Return the cells' zero states."""
        if not self._state_is_tuple:
            return super().zero_state(batch_size, dtype)
        return tuple(cell.zero_state(batch_size, dtype) for cell in self._cells)

    def _inner_cells(self) -> list[tuple[str, RNNCell]]:
        return [(f"cell-{i}", cell) for i, cell in enumerate(self._cells)]

    def __call__(self, inputs: Any, state: TensorLike,
                 scope: str | VariableScope | None = None) -> tuple[Any, Any]:
        """Run one step of every cell."""
        with self._step_scope(scope, "multi_rnn_cell", None):
            states = []
            for number, (cell, own) in enumerate(zip(self._cells, self._split(state),
                                                     strict=True)):
                with variable_scope(f"cell_{number}"):
                    inputs, following = cell(inputs, own)
                states.append(following)
        return inputs, tuple(states) if self._state_is_tuple else raw_ops.ConcatV2(states, 1)

    def _split(self, state: Any) -> list:
        """Split the state of the stack into those of the cells."""
        if self._state_is_tuple:
            if not isinstance(state, (tuple, list)) or len(state) != len(self._cells):
                raise ValueError(f"Expected state to be a tuple of length {len(self._cells)}, but "
                                 f"received: {state}")
            return list(state)
        sizes, states = [cell.state_size for cell in self._cells], []
        state = convert_to_tensor(state)
        for i, size in enumerate(sizes):
            begin = sum(sizes[:i])
            states.append(state[:, begin:begin + size])
        return states
