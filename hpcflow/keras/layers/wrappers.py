"""Layers around a layer: for each time step, and in both directions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import hpcflow as hf
from hpcflow.base.tracking import no_automatic_dependency_tracking_scope
from hpcflow.framework import nest
from hpcflow.keras import lookup
from hpcflow.keras.engine.layer import Layer, _parameters, deserialize
from hpcflow.keras.engine.network import Network

if TYPE_CHECKING:
    from hpcflow.graph.likes import BoolLike, TensorHandle, TensorLike
    from hpcflow.graph.operation import Tensor


class Wrapper(Layer):
    """A layer that uses another one."""

    def __init__(self, layer: Layer, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.layer = layer

    def get_config(self) -> dict:
        """Return the layer."""
        return {**super().get_config(), "layer": lookup.serialized(self.layer)}

    @classmethod
    def from_config(cls, config: dict) -> Any:
        """Return a wrapper of a configuration."""
        config = dict(config)
        return cls(deserialize(config.pop("layer")), **config)


class TimeDistributed(Wrapper):
    """A layer of each time step of inputs of shape ``[batch, time, ...]``."""

    supports_masking = True

    def call(self, inputs: Any, training: Any = None) -> Any:
        """Return the results of all steps."""
        dims = inputs.shape.as_list()
        if None in dims[2:]:
            raise ValueError(f"TimeDistributed needs the sizes after the time, got {dims}")
        rows = hf.reshape(inputs, [-1, *dims[2:]])
        told = {"training": training} if "training" in _parameters(
            type(self.layer).call) and training is not None else {}
        if self.layer._scope is None and not isinstance(self.layer, Network):
            self.layer._scope = self._scope  # its variables have the names of this layer's
        outputs = self.layer(rows, **told)
        after = outputs.shape.as_list()[1:]
        result = hf.reshape(outputs, hf.concat(
            [hf.shape(inputs)[:2], hf.shape(outputs)[1:]], 0))
        result.set_shape([*dims[:2], *after])
        return result


class Bidirectional(Wrapper):
    """A recurrent layer and one like it that begins at the end.

    `merge_mode` is ``concat``, ``sum``, ``mul``, ``ave``, or None for a list of both.
    """

    supports_masking = True

    def __init__(self, layer: Any, merge_mode: str | None = "concat",
                 weights: TensorLike | None = None, backward_layer: Any = None,
                 **keywords: Any) -> None:
        for given in (layer, backward_layer):
            if not isinstance(given, Layer) and (given is layer or given is not None):
                raise ValueError("Please initialize `Bidirectional` layer with a `Layer` instance. "
                                 f"You passed: {given}")
        if merge_mode not in ("sum", "mul", "ave", "concat", None):
            raise ValueError("Invalid merge mode. Merge mode should be one of {\"sum\", \"mul\", "
                             f"\"ave\", \"concat\", None}}, got {merge_mode!r}")
        if layer._batch_input_shape is not None and "batch_input_shape" not in keywords:
            keywords.setdefault("batch_input_shape", layer._batch_input_shape)
        Layer.__init__(self, weights=weights, **keywords)
        with no_automatic_dependency_tracking_scope(self):
            self.layer = layer  # the two that are like it have the variables
        self.merge_mode, self._num_constants = merge_mode, 0
        config = {k: v for k, v in layer.get_config().items() if k != "batch_input_shape"}
        self.forward_layer = type(layer).from_config(
            {**config, "name": f"forward_{layer.name}"})
        self.backward_layer = backward_layer or type(layer).from_config(
            {**config, "name": f"backward_{layer.name}",
             "go_backwards": not layer.go_backwards})
        self.return_sequences, self.return_state = layer.return_sequences, layer.return_state
        for own in (self.forward_layer, self.backward_layer):
            own.zero_output_for_mask = layer.return_sequences

    def __call__(self, inputs: Any, initial_state: Tensor | None = None, constants: Any = None,
                 **keywords: Any) -> Any:
        """Return the results merged; `initial_state` has those of both layers, `constants` are for
        both. They may also be given in a list after the inputs."""
        own = [] if constants is None else nest.flatten(constants)
        self._num_constants = len(own) or self._num_constants
        more = ([] if initial_state is None else nest.flatten(initial_state)) + own
        if more:
            inputs = [*(inputs if isinstance(inputs, (list, tuple)) else [inputs]), *more]
        return super().__call__(inputs, **keywords)

    def call(self, inputs: TensorLike, training: BoolLike | None = None,
             mask: TensorLike | None = None) -> Any:
        """Return the outputs of both directions, merged, and their states if asked for."""
        states: Any = [None, None]
        told: dict[str, Any] = {}
        if isinstance(inputs, (list, tuple)):
            inputs, *given = inputs
            count = len(given) - self._num_constants
            if self._num_constants:
                told["constants"] = given[count:]
            if count:
                states = [given[:count // 2], given[count // 2:count]]
        results = []
        for layer, state in zip((self.forward_layer, self.backward_layer), states, strict=True):
            own = {**told, **({} if state is None else {"initial_state": state})}
            if "training" in _parameters(type(layer).call):
                own["training"] = training
            results.append(layer(inputs, **own))
        y, back = results
        after: list = []
        if self.return_state:
            after = [*y[1:], *back[1:]]
            y, back = y[0], back[0]
        if self.return_sequences:
            back = hf.reverse(back, [1])
        merged = {"concat": lambda: hf.concat([y, back], y.shape.ndims - 1),
                  "sum": lambda: y + back, "ave": lambda: (y + back) / 2.0,
                  "mul": lambda: y * back, None: lambda: [y, back]}[self.merge_mode]()
        if not after:
            return merged
        return [*(merged if isinstance(merged, list) else [merged]), *after]

    def reset_states(self) -> None:
        """Set the states of both layers to zero."""
        self.forward_layer.reset_states()
        self.backward_layer.reset_states()

    def compute_mask(self, inputs: TensorHandle, mask: TensorHandle | None = None) -> Any:
        """Return the mask of the inputs where sequences are the result."""
        mask = mask[0] if isinstance(mask, (list, tuple)) else mask
        return mask if self.return_sequences and not self.return_state else None

    def get_config(self) -> dict:
        """Return the arguments."""
        config = Layer.get_config(self)
        own = lookup.serialized(self.forward_layer)
        own["config"]["name"] = own["config"]["name"].removeprefix("forward_")
        own["config"].pop("zero_output_for_mask", None)
        if self._num_constants:
            config["num_constants"] = self._num_constants
        return {**config, "layer": own, "merge_mode": self.merge_mode}

    @classmethod
    def from_config(cls, config: dict) -> Any:
        """Return a wrapper of a configuration."""
        config = dict(config)
        constants = config.pop("num_constants", 0)
        made = super().from_config(config)
        made._num_constants = constants
        return made
