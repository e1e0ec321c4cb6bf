"""Recurrent layers, which run a cell over sequences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import hpcflow as hf
from hpcflow.base.tracking import NoDependency
from hpcflow.framework import nest
from hpcflow.keras import lookup
from hpcflow.keras.engine.layer import Layer, _parameters, deserialize
from hpcflow.keras.layers.recurrent_cells import (
    GRUCell,
    LSTMCell,
    SimpleRNNCell,
    StackedRNNCells,
    as_list,
    output_size_of,
    run_cell,
    sizes_of,
    states_of,
)
from hpcflow.keras.session import batch_set_value
from hpcflow.shapes import ShapeLike

if TYPE_CHECKING:
    from hpcflow.graph.likes import BoolLike, TensorHandle, TensorLike
    from hpcflow.graph.operation import Tensor
    from hpcflow.ops.state.variable_scope import VariableScope


class RNN(Layer):
    """A cell over sequences, shape ``[batch, time, size]``.

    Args:
        cell: a cell, with ``call(inputs, states)`` and ``state_size``, or a list of them.
        return_sequences: whether all outputs are the result, or the last one.
        return_state: whether the last states are results too.
        go_backwards: whether to begin with the last step.
        stateful: whether the states of a batch go on in the next, which has the same size.
        unroll: whether the steps, whose number must be known, are built one by one.
        time_major: whether sequences have shape ``[time, batch, size]``.
        zero_output_for_mask: whether outputs are zeros where steps are masked, instead of those of
            the step before.
    """

    supports_masking = True

    def __init__(self, cell: Any, return_sequences: bool = False, return_state: bool = False,
                 go_backwards: bool = False, stateful: bool = False, unroll: bool = False,
                 time_major: bool = False, zero_output_for_mask: bool = False,
                 **keywords: Any) -> None:
        if "input_shape" not in keywords and not {"input_dim", "input_length"}.isdisjoint(keywords):
            keywords["input_shape"] = (keywords.pop("input_length", None),
                                       keywords.pop("input_dim", None))
        super().__init__(**keywords)
        self.zero_output_for_mask = zero_output_for_mask
        self.cell: Any = StackedRNNCells(list(cell)) if isinstance(cell, (list, tuple)) else cell
        if not hasattr(self.cell, "call") or not hasattr(self.cell, "state_size"):
            raise ValueError(f"`cell` should have a `call` method and `state_size`, got {cell!r}")
        self.return_sequences, self.return_state = return_sequences, return_state
        self.go_backwards, self.stateful = go_backwards, stateful
        self.unroll, self.time_major = unroll, time_major
        self._kept_states: Any = []
        self._num_constants = 0

    # ------------------------------------------------------------ states

    @property
    def states(self) -> Sequence:
        """The states of a stateful layer."""
        kept = self._kept_states or [None] * len(sizes_of(self.cell))
        found = states_of(self.cell, kept)
        return found if isinstance(found, (list, tuple)) else [found]

    def reset_states(self, states: TensorLike | None = None) -> None:
        """Set the states of a stateful layer, to zero if None.

        ``AttributeError`` for another layer, ``ValueError`` for other numbers and shapes of states.
        """
        if not self.stateful:
            raise AttributeError("Layer must be stateful.")
        values = nest.flatten(states) if states is not None else [
            np.zeros(v.shape.as_list(), np.float32) for v in self._kept_states]
        if len(values) != len(self._kept_states):
            raise ValueError(f"Layer {self.name} expects {len(self._kept_states)} states, but it "
                             f"received {len(values)} state values.")
        for n, (value, kept) in enumerate(zip(values, self._kept_states, strict=True)):
            if list(np.shape(value)) != kept.shape.as_list():
                raise ValueError(
                    f"State {n} is incompatible with layer {self.name}: expected shape="
                    f"{tuple(kept.shape.as_list())}, found shape={np.shape(value)}")
        batch_set_value(list(zip(self._kept_states, values, strict=True)))

    def get_initial_state(self, inputs: Any) -> list:
        """Return what the cell begins with for a batch: zeros, unless it says otherwise."""
        batch, dtype = hf.shape(inputs)[1 if self.time_major else 0], inputs.dtype.base_dtype
        if hasattr(self.cell, "get_initial_state"):
            return as_list(self.cell.get_initial_state(inputs=None, batch_size=batch, dtype=dtype))
        return as_list(states_of(self.cell, [
            hf.zeros(hf.stack([batch, *_dims(n)]), dtype) for n in sizes_of(self.cell)]))

    def build(self, input_shape: ShapeLike) -> None:
        """Build the cell with the variables below this layer's name."""
        several = isinstance(input_shape, list) and isinstance(
            input_shape[0], (hf.TensorShape, list, tuple))
        shapes: Any = input_shape if several else [input_shape]
        shape = hf.TensorShape(shapes[0]).as_list()
        batch = shape[1 if self.time_major else 0]
        if isinstance(self.cell, Layer) and not self.cell.built:
            self.cell._scope, self.cell._graph = self._scope, hf.get_default_graph()
            self.cell._dtype = self.cell._dtype or self._dtype
            self.cell.build((batch, *shape[2:]))
            self.cell.built = True
        if self.stateful:
            if batch is None:
                raise ValueError("If a RNN is stateful, it needs to know its batch size. Specify "
                                 "the batch size of your input tensors.")
            with hf.init_scope(), hf.name_scope(None):
                self._kept_states = NoDependency([
                    hf.Variable(hf.zeros([batch, *_dims(n)]), trainable=False,
                                collections=[hf.GraphKeys.LOCAL_VARIABLES],
                                name=f"{self.name}/state_{k}")
                    for k, n in enumerate(sizes_of(self.cell))])
        self.built = True

    def _own_weights(self, trained: bool) -> list:
        return [v for v in super()._own_weights(trained)
                if not any(v is s for s in self._kept_states)]

    # ------------------------------------------------------------ applying it

    def __call__(self, inputs: Any, initial_state: Tensor | None = None, constants: Any = None,
                 **keywords: Any) -> Any:
        """Return the outputs; `initial_state`, a state or a list of them, and `constants`, tensors
        that the cell gets in each step, may also be given in a list after the inputs.

        ``ValueError`` for constants that the cell does not take.
        """
        more = [] if initial_state is None else nest.flatten(initial_state)
        if constants is not None:
            if "constants" not in _parameters(type(self.cell).call):
                raise ValueError(f"RNN cell does not support constants. Received: {constants}")
            own = nest.flatten(constants)
            self._num_constants = len(own)
            more += own
        if more:
            inputs = [*(inputs if isinstance(inputs, (list, tuple)) else [inputs]), *more]
        return super().__call__(inputs, **keywords)

    def call(self, inputs: Any, mask: Tensor | None = None,
             training: BoolLike | None = None) -> Any:
        """Return the outputs, or the last, with `return_state` followed by the last states."""
        inputs, states, constants, mask = self._taken(inputs, mask)
        if self.time_major:
            inputs = hf.transpose(inputs, [1, 0, *range(2, inputs.shape.ndims)])
            mask = None if mask is None else hf.transpose(mask)
        if self.unroll and inputs.shape[1].value is None:
            raise ValueError("Cannot unroll a RNN if the time dimension is undefined. Give the "
                             "first layer an `input_shape` or a `batch_input_shape` with it.")
        if self.go_backwards:
            inputs = hf.reverse(inputs, [1])
            mask = None if mask is None else hf.reverse(mask, [1])
        if hasattr(self.cell, "prepare"):
            self.cell.prepare(inputs, training)
        told = {"training": training, **({"constants": constants} if constants else {})}
        outputs, last, after = self._steps(inputs, states, mask, told)
        if self.stateful:
            self._updates += [hf.assign(v, s).op for v, s in zip(self._kept_states, after)]
        if self.time_major and self.return_sequences:
            outputs = hf.transpose(outputs, [1, 0, *range(2, outputs.shape.ndims)])
        result = outputs if self.return_sequences else last
        if not self.return_state:
            return result
        return [result, *as_list(states_of(self.cell, after))]

    def _taken(self, inputs: TensorLike, mask: TensorLike | None) -> tuple[Any, list, list, Any]:
        """The sequences, the states to begin with, the constants, and the mask of the sequences."""
        given: list = []
        if isinstance(inputs, (list, tuple)):
            inputs, *given = inputs
            mask = mask[0] if isinstance(mask, (list, tuple)) else mask
        count = len(given) - self._num_constants
        given, constants = given[:count], given[count:]
        if given:
            return inputs, nest.flatten(given), constants, mask
        if self.stateful:
            return inputs, [hf.identity(v) for v in self._kept_states], constants, mask
        return inputs, nest.flatten(self.get_initial_state(inputs)), constants, mask

    def _steps(self, inputs: Any, states: list, mask: Any,
               told: dict[str, Any]) -> tuple[Any, Any, list]:
        """All outputs, the last one, and the states after it."""
        cell = _Adapter(self.cell, len(states), mask is not None, told)
        given = inputs if mask is None else (
            inputs, hf.expand_dims(hf.cast(mask, hf.float32), -1))
        begin: tuple = tuple(states)
        if mask is not None:
            begin = (*begin, hf.zeros(
                hf.stack([hf.shape(inputs)[0], *_dims(cell.output_size)]),
                inputs.dtype.base_dtype))
        for state, dims in zip(begin, cell.state_size, strict=True):
            try:
                state.set_shape([inputs.shape[0].value, *_dims(dims)])
            except ValueError as error:
                raise ValueError("An `initial_state` was passed that is not compatible with "
                                 f"`cell.state_size`. Received a state of shape {state.shape}; "
                                 f"however `cell.state_size` is {self.cell.state_size}") from error
        if self.unroll:
            outputs, after = self._unrolled(cell, given, begin)
        else:
            outputs, after = hf.nn.dynamic_rnn(cell, given, initial_state=begin)
        last = after[-1] if mask is not None else outputs[:, -1]
        if mask is not None and self.zero_output_for_mask:
            outputs = outputs * _of_rank(given[1], outputs.shape.ndims)
        return outputs, last, list(after)[:len(states)]

    @staticmethod
    def _unrolled(cell: Any, given: Any, states: tuple) -> tuple[Any, tuple]:
        parts = nest.map_structure(lambda t: hf.unstack(t, axis=1), given) if not isinstance(
            given, tuple) else tuple(hf.unstack(t, axis=1) for t in given)
        steps = zip(*parts, strict=True) if isinstance(given, tuple) else parts
        outputs = []
        for step in steps:
            output, states = cell(step, states)
            outputs.append(output)
        return hf.stack(outputs, 1), states

    def compute_mask(self, inputs: TensorHandle, mask: TensorHandle | None = None) -> Any:
        """Return the mask of the sequences where sequences are the result."""
        mask = mask[0] if isinstance(mask, (list, tuple)) else mask
        own = mask if self.return_sequences else None
        return [own, *([None] * len(as_list(self.cell.state_size)))] if self.return_state else own

    def get_config(self) -> dict:
        """Return the arguments."""
        config = {**super().get_config(), **{k: getattr(self, k) for k in (
            "return_sequences", "return_state", "go_backwards", "stateful", "unroll",
            "time_major")}}
        if self.zero_output_for_mask:
            config["zero_output_for_mask"] = True
        if self._num_constants:
            config["num_constants"] = self._num_constants
        return {**config, "cell": lookup.serialized(self.cell)}

    @classmethod
    def from_config(cls, config: dict, custom_objects: Mapping[str, Any] | None = None) -> Any:
        """Return a layer of a configuration; `custom_objects` are the classes of cells by name."""
        config = dict(config)
        constants = config.pop("num_constants", 0)
        cells = [deserialize(config.pop("cell"), custom_objects)] if "cell" in config else []
        layer = cls(*cells, **config)
        layer._num_constants = constants
        return layer


class _Adapter(hf.nn.rnn_cell.RNNCell):
    """A cell as ``dynamic_rnn`` takes it; where a step is masked, nothing changes."""

    def __init__(self, cell: Any, states: int, masked: bool, told: dict[str, Any]) -> None:
        super().__init__(name="steps")
        self._cell, self._count, self._masked, self._told = cell, states, masked, told

    @property
    def state_size(self) -> tuple:
        """The sizes of the states, and of the output where there is a mask."""
        sizes = tuple(sizes_of(self._cell))
        return (*sizes, self.output_size) if self._masked else sizes

    @property
    def output_size(self) -> Any:
        """The size of the output."""
        return output_size_of(self._cell)

    def __call__(self, inputs: Any, state: Sequence[Tensor],
                 scope: str | VariableScope | None = None) -> tuple[Any, tuple]:
        """Run one step."""
        if not self._masked:
            output, after = run_cell(self._cell, inputs, state, **self._told)
            return output, tuple(after)
        x, mask = inputs
        output, after = run_cell(self._cell, x, state[:-1], **self._told)
        kept = []
        for new, old in zip((*after, output), state, strict=True):
            own = _of_rank(mask, new.shape.ndims)
            kept.append(own * new + (1.0 - own) * old)
        return kept[-1], tuple(kept)


def _dims(size: Any) -> list:
    """The dimensions of a state after the batch."""
    return hf.TensorShape(size).as_list()


def _of_rank(mask: Any, rank: int) -> Any:
    """A mask with more dimensions of size 1 at its end."""
    while mask.shape.ndims < rank:
        mask = hf.expand_dims(mask, -1)
    return mask


_OF_LAYER = ("return_sequences", "return_state", "go_backwards", "stateful", "unroll",
             "time_major", "zero_output_for_mask")


class _Recurrent(RNN):
    """A layer of one kind of cell, with the arguments of both."""

    cell_class: Any = None

    def __init__(self, units: int, *args: Any, **keywords: Any) -> None:
        own = {k: keywords.pop(k) for k in _OF_LAYER if k in keywords}
        of_layer = {k: keywords.pop(k) for k in (
            "name", "trainable", "dtype", "input_shape", "batch_input_shape", "batch_size",
            "input_dim", "input_length", "weights", "activity_regularizer") if k in keywords}
        cell = type(self).cell_class(units, *args, **keywords, name="cell")
        super().__init__(cell, **own, **of_layer)

    def __getattr__(self, name: str) -> Any:
        if name != "cell" and "cell" in self.__dict__ and name in self.cell._options:
            return getattr(self.cell, name)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def get_config(self) -> dict:
        """Return the arguments."""
        config = super().get_config()
        config.pop("cell")
        config.update((k, lookup.serialized(v)) for k, v in self.cell._options.items())
        config["activity_regularizer"] = lookup.serialized(self.activity_regularizer)
        return config


class SimpleRNN(_Recurrent):
    """:class:`SimpleRNNCell` over sequences."""

    cell_class = SimpleRNNCell


class GRU(_Recurrent):
    """:class:`GRUCell` over sequences."""

    cell_class = GRUCell


class LSTM(_Recurrent):
    """:class:`LSTMCell` over sequences."""

    cell_class = LSTMCell


