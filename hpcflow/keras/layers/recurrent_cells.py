"""Cells of recurrent layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import hpcflow as hf
from hpcflow.framework import nest
from hpcflow.keras import initializers, lookup
from hpcflow.keras.engine.layer import Layer, _parameters, deserialize
from hpcflow.keras.layers.function_layer import understood
from hpcflow.keras.session import learning_phase
from hpcflow.layers.building import if_training
from hpcflow.shapes import ShapeLike

if TYPE_CHECKING:
    from hpcflow.graph.likes import BoolLike, Identifier, TensorLike
    from hpcflow.graph.operation import Tensor


class AbstractRNNCell(Layer):
    """What cells of one's own may derive from; each has ``call``, ``state_size`` and
    ``output_size``, and begins with zeros.
    """

    def call(self, inputs: Any, states: Any) -> Any:
        """Return the output and the states after a step."""
        raise NotImplementedError("a cell has a method `call`")

    @property
    def state_size(self) -> Any:
        """The size of the state, or a list of sizes."""
        raise NotImplementedError("a cell has a `state_size`")

    @property
    def output_size(self) -> Any:
        """The size of the output."""
        raise NotImplementedError("a cell has an `output_size`")

    def get_initial_state(self, inputs: Any = None, batch_size: Any = None,
                          dtype: Any = None) -> Any:
        """Return zeros for a batch of this size, or of that of `inputs`."""
        return _zeros(self.state_size, inputs, batch_size, dtype)


class _Cell(AbstractRNNCell):
    """A cell of `units` with a kernel for inputs, one for the state, and biases.

    Args:
        units: size of the output.
        activation, use_bias, and the initializers, regularizers and constraints of ``kernel``,
            ``recurrent_kernel`` and ``bias``.
        dropout: fraction of the inputs that are dropped in training, the same ones in all steps.
        recurrent_dropout: the same of the state.
    """

    gates = 1
    states = 1

    def __init__(self, units: int, activation: Any = "tanh", use_bias: bool = True,
                 kernel_initializer: Identifier = "glorot_uniform",
                 recurrent_initializer: Identifier = "orthogonal",
                 bias_initializer: Identifier = "zeros",
                 kernel_regularizer: Identifier | None = None,
                 recurrent_regularizer: Identifier | None = None,
                 bias_regularizer: Identifier | None = None,
                 kernel_constraint: Identifier | None = None,
                 recurrent_constraint: Identifier | None = None,
                 bias_constraint: Identifier | None = None, dropout: float = 0.0,
                 recurrent_dropout: float = 0.0, **keywords: Any) -> None:
        given = {k: v for k, v in locals().items() if k not in ("self", "keywords", "__class__")}
        keywords.pop("implementation", None)
        super().__init__(**keywords)
        self._options = {k: understood(k, v) for k, v in given.items()}
        vars(self).update(self._options)
        self._dropped: list[list | None] = [None, None]

    @property
    def state_size(self) -> Any:
        """The size of the state, or a list of sizes."""
        return self.units if self.states == 1 else [self.units] * self.states

    @property
    def output_size(self) -> int:
        """The number of units."""
        return self.units

    def build(self, input_shape: Any) -> None:
        """Make the variables."""
        size = hf.TensorShape(input_shape).as_list()[-1]
        columns = self.units * self.gates
        self.kernel = self.add_weight("kernel", [size, columns], None, self.kernel_initializer,
                                      self.kernel_regularizer, constraint=self.kernel_constraint)
        self.recurrent_kernel = self.add_weight(
            "recurrent_kernel", [self.units, columns], None, self.recurrent_initializer,
            self.recurrent_regularizer, constraint=self.recurrent_constraint)
        self.bias = self.add_weight(
            "bias", self._bias_shape(), None, self._first_bias(), self.bias_regularizer,
            constraint=self.bias_constraint) if self.use_bias else None
        self.built = True

    def _bias_shape(self) -> list[int]:
        return [self.units * self.gates]

    def _first_bias(self) -> Any:
        return self.bias_initializer

    def prepare(self, inputs: Any, training: Any) -> None:
        """Draw what is dropped in all steps over inputs of shape ``[batch, time, size]``."""
        count = self.gates if getattr(self, "implementation", 1) == 1 else 1
        sizes = self.output_size
        own = sizes.as_list() if isinstance(sizes, hf.TensorShape) else [sizes]
        shapes = hf.shape(inputs[:, 0]), hf.stack([hf.shape(inputs)[0], *own])
        self._dropped = [[_dropping(rate, shape, training) for _ in range(count)] if rate else None
                         for rate, shape in zip((self.dropout, self.recurrent_dropout), shapes)]

    @staticmethod
    def _times(masks: list | None, value: Any, weights: Any, multiply: Callable = hf.matmul,
               axis: int = -1) -> Any:
        """A value without what `masks` drop of it, times weights: those of all gates by one mask,
        or of each by its own; `axis` is that of the gates in products."""
        if not masks:
            return multiply(value, weights)
        parts = hf.split(weights, len(masks), -1)
        products = [multiply(value * m, w) for m, w in zip(masks, parts, strict=True)]
        return hf.concat(products, axis) if len(products) > 1 else products[0]

    def get_config(self) -> dict:
        """Return the arguments."""
        config = super().get_config()
        config.update((k, lookup.serialized(v)) for k, v in self._options.items())
        return config


def _zeros(sizes: Any, inputs: Any, batch_size: Any, dtype: Any) -> Any:
    """States of these sizes, for the rows and the dtype of `inputs`, or for those given.

    ``ValueError`` where one of these is not given.
    """
    if inputs is not None:
        batch_size, dtype = hf.shape(inputs)[0], inputs.dtype.base_dtype
    if batch_size is None or dtype is None:
        raise ValueError("batch_size and dtype while constructing initial state cannot be None. "
                         f"Received: batch_size={batch_size}, dtype={dtype}")
    return nest.map_structure(
        lambda size: hf.zeros(hf.stack([batch_size, *hf.TensorShape(size).as_list()]), dtype),
        sizes)


def _dropping(rate: float, shape: ShapeLike, training: TensorLike) -> Any:
    phase = learning_phase() if training is None else training
    ones = hf.ones(shape)
    return if_training(phase, lambda: hf.nn.dropout(ones, 1 - rate), lambda: hf.identity(ones))


class SimpleRNNCell(_Cell):
    """output = state = activation(x W + h U + b)."""

    def call(self, inputs: Any, states: Any,
             training: TensorLike | None = None) -> tuple[Any, list]:
        """Return the output and the states after a step."""
        of_inputs, of_state = self._dropped
        output = (self._times(of_inputs, inputs, self.kernel)
                  + self._times(of_state, states[0], self.recurrent_kernel))
        output = self.activation(output if self.bias is None else output + self.bias)
        return output, [output]


class _Gated(_Cell):
    """A cell with an activation of its gates. With `implementation` 1 each gate drops other inputs
    in training, with 2 all the same ones; it changes nothing else."""

    def __init__(self, units: int, activation: str = "tanh",
                 recurrent_activation: Any = "hard_sigmoid", use_bias: bool = True,
                 implementation: int = 1, **keywords: Any) -> None:
        super().__init__(units, activation, use_bias, **keywords)
        self.implementation = self._options["implementation"] = implementation
        self._options["recurrent_activation"] = understood("recurrent_activation",
                                                           recurrent_activation)
        self.recurrent_activation = self._options["recurrent_activation"]


class GRUCell(_Gated):
    """A gated recurrent unit; with `reset_after` the state is reset after its product."""

    gates = 3

    def __init__(self, units: int, activation: str = "tanh",
                 recurrent_activation: str = "hard_sigmoid", use_bias: bool = True,
                 reset_after: bool = False, **keywords: Any) -> None:
        super().__init__(units, activation, recurrent_activation, use_bias, **keywords)
        self.reset_after = self._options["reset_after"] = reset_after

    def _bias_shape(self) -> list[int]:
        return [2, 3 * self.units] if self.reset_after else [3 * self.units]

    def call(self, inputs: TensorLike, states: Sequence[Tensor],
             training: BoolLike | None = None) -> tuple[Any, list]:
        """Return the output and the states after a step."""
        before, units = states[0], self.units
        of_inputs, of_state = self._dropped
        own, bias_of_state = self.bias, None
        if self.reset_after and own is not None:
            own, bias_of_state = hf.unstack(hf.reshape(own, [2, 3 * units]))
        of_x = self._times(of_inputs, inputs, self.kernel)
        of_x = of_x if own is None else of_x + own
        weights: Any = hf.convert_to_tensor(self.recurrent_kernel)
        if self.reset_after:
            of_h: Any = self._times(of_state, before, weights)
            of_h = of_h if bias_of_state is None else of_h + bias_of_state
            gates = self.recurrent_activation(of_x[:, :2 * units] + of_h[:, :2 * units])
            update, reset = hf.split(gates, 2, 1)
            new = of_x[:, 2 * units:] + reset * of_h[:, 2 * units:]
        else:
            masks = of_state or []
            of_h = self._times(masks[:2], before, weights[:, :2 * units])
            gates = self.recurrent_activation(of_x[:, :2 * units] + of_h)
            update, reset = hf.split(gates, 2, 1)
            new = of_x[:, 2 * units:] + self._times(
                masks[-1:], reset * before, weights[:, 2 * units:])
        output = update * before + (1.0 - update) * self.activation(new)
        return output, [output]


class LSTMCell(_Gated):
    """Long short-term memory; with `unit_forget_bias` the forget gates begin with bias 1."""

    gates, states = 4, 2

    def __init__(self, units: int, activation: str = "tanh",
                 recurrent_activation: str = "hard_sigmoid", use_bias: bool = True,
                 unit_forget_bias: bool = True, **keywords: Any) -> None:
        super().__init__(units, activation, recurrent_activation, use_bias, **keywords)
        self.unit_forget_bias = self._options["unit_forget_bias"] = unit_forget_bias

    def _first_bias(self) -> Any:
        if not self.unit_forget_bias:
            return self.bias_initializer
        first, units = self.bias_initializer, self.units
        before = self._bias_shape()[0] - 3 * units

        def biases(shape: ShapeLike, dtype: Any = None, **options: Any) -> Any:
            parts = [first([n], dtype=dtype) for n in (before, 2 * units)]
            return hf.concat([parts[0], initializers.Ones()([units], dtype), parts[1]], 0)

        return biases

    def _bias(self) -> Any:
        return self.bias

    def _sums(self, x: Any, h: Any) -> list:
        """What the gates and the new memory are activations of."""
        of_inputs, of_state = self._dropped
        sums = (self._times(of_inputs, x, self.kernel)
                + self._times(of_state, h, self.recurrent_kernel))
        return hf.split(sums if self.bias is None else sums + self._bias(), 4, 1)

    def call(self, inputs: Any, states: Any,
             training: TensorLike | None = None) -> tuple[Any, list]:
        """Return the output and the states after a step."""
        i, f, c, o = self._sums(inputs, states[0])
        gate = self.recurrent_activation
        memory = gate(f) * states[1] + gate(i) * self.activation(c)
        output = gate(o) * self.activation(memory)
        return output, [output, memory]


class StackedRNNCells(Layer):
    """Cells one above the other as one; its state is a tuple of the states of the cells."""

    def __init__(self, cells: list, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.cells = list(cells)

    @property
    def state_size(self) -> tuple:
        """The sizes of the states of all cells."""
        return tuple(cell.state_size for cell in self.cells)

    def get_initial_state(self, inputs: Any = None, batch_size: Any = None,
                          dtype: Any = None) -> tuple:
        """Return what the cells begin with."""
        told = {"inputs": inputs, "batch_size": batch_size, "dtype": dtype}
        return tuple(
            cell.get_initial_state(**told) if hasattr(cell, "get_initial_state") else
            states_of(cell, _zeros(sizes_of(cell), **told)) for cell in self.cells)

    @property
    def output_size(self) -> Any:
        """The size of the last cell's output."""
        return output_size_of(self.cells[-1])

    def build(self, input_shape: ShapeLike) -> None:
        """Build the cells."""
        for cell in self.cells:
            if isinstance(cell, Layer) and not cell.built:
                cell._scope, cell._graph = self._scope, hf.get_default_graph()
                cell.build(input_shape)
                cell.built = True
            own = hf.TensorShape(output_size_of(cell)).as_list()
            input_shape = (hf.TensorShape(input_shape)[0].value, *own)
        self.built = True

    def prepare(self, inputs: TensorLike, training: BoolLike | None) -> None:
        """Draw what the cells drop; only the first reads the inputs."""
        for cell in self.cells:
            if hasattr(cell, "prepare"):
                cell.prepare(inputs, training)
                inputs = hf.zeros(hf.stack([hf.shape(inputs)[0], 1, output_size_of(cell)]))

    def call(self, inputs: TensorLike, states: Any, **keywords: Any) -> tuple[Any, tuple]:
        """Return the output and the states after a step."""
        before, after = list(nest.flatten(states)), list[Any]()
        for cell in self.cells:
            count = len(sizes_of(cell))
            inputs, new = run_cell(cell, inputs, before[:count], **keywords)
            before, after = before[count:], after + new
        return inputs, states_of(self, after)

    def get_config(self) -> dict:
        """Return the cells."""
        return {**super().get_config(), "cells": [lookup.serialized(c) for c in self.cells]}

    @classmethod
    def from_config(cls, config: dict) -> Any:
        """Return cells of a configuration."""
        return cls([deserialize(c) for c in config.pop("cells")], **config)


def sizes_of(cell: Any) -> list:
    """The sizes of all states of a cell, one after the other."""
    if isinstance(cell, StackedRNNCells):
        return [size for inner in cell.cells for size in sizes_of(inner)]
    return as_list(cell.state_size)


def states_of(cell: Any, values: Sequence) -> Any:
    """The values for all states of a cell, in the form that its ``state_size`` has."""
    if isinstance(cell, StackedRNNCells):
        values, parts = list(values), []
        for inner in cell.cells:
            count = len(sizes_of(inner))
            parts.append(states_of(inner, values[:count]))
            values = values[count:]
        return tuple(parts)
    sizes = cell.state_size
    if not isinstance(sizes, (list, tuple)):
        return values[0]
    return type(sizes)(*values) if hasattr(sizes, "_fields") else type(sizes)(values)


def output_size_of(cell: Any) -> Any:
    """The size of the output of a cell, which is that of its first state if it says none."""
    own = getattr(cell, "output_size", None)
    return sizes_of(cell)[0] if own is None else own


def run_cell(cell: Any, inputs: Any, states: Sequence, **keywords: Any) -> tuple[Any, list]:
    """Run one step of a cell, of Keras or of ``nn.rnn_cell``: the output and all states after it.

    It gets those of the keywords that it takes.
    """
    if isinstance(cell, hf.nn.rnn_cell.RNNCell):
        output, after = cell(inputs, states_of(cell, states))
    else:
        names = _parameters(cell.call)
        told = keywords if isinstance(cell, StackedRNNCells) else {
            k: v for k, v in keywords.items() if k in names}
        output, after = cell.call(inputs, list(states), **told)
    return output, nest.flatten(after)


def as_list(value: TensorLike) -> list:
    """The entries of a list or tuple; one thing is a list of it."""
    return list(value) if isinstance(value, (list, tuple)) else [value]
