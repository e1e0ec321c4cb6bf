"""Layers around a layer: for each time step, and in both directions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import hpcflow as hf
from hpcflow.base.tracking import no_automatic_dependency_tracking_scope
from hpcflow.framework import nest
from hpcflow.keras import lookup
from hpcflow.keras.engine.layer import Layer, _parameters, deserialize
from hpcflow.keras.engine.network import Network
from hpcflow.layers.input_spec import InputSpec

if TYPE_CHECKING:
    from hpcflow.graph.likes import BoolLike, TensorHandle, TensorLike
    from hpcflow.graph.operation import Tensor
    from hpcflow.shapes import ShapeLike


class Wrapper(Layer):
    """A layer that uses another one."""

    def __init__(self, layer: Layer, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.layer = layer

    def get_config(self) -> dict:
        """Return the layer."""
        return {**super().get_config(), "layer": lookup.serialized(self.layer)}

    @classmethod
    def from_config(cls, config: dict, custom_objects: dict | None = None) -> Any:
        """Return a wrapper of a configuration."""
        config = dict(config)
        return cls(deserialize(config.pop("layer"), custom_objects), **config)


class TimeDistributed(Wrapper):
    """A layer of each time step of inputs of shape ``[batch, time, ...]``."""

    supports_masking = True

    def __init__(self, layer: Any, **keywords: Any) -> None:
        if not isinstance(layer, Layer):
            raise ValueError("Please initialize `TimeDistributed` layer with a `Layer` instance. "
                             f"You passed: {layer}")
        super().__init__(layer, **keywords)

    def build(self, input_shape: ShapeLike) -> None:
        """Let later inputs have the same sizes after the time."""
        dims = hf.TensorShape(input_shape).as_list()
        if len(dims) < 3:
            raise ValueError("`TimeDistributed` Layer should be passed an `input_shape ` with at "
                             f"least 3 dimensions, received: {dims}")
        self.input_spec = InputSpec(shape=[None, None, *dims[2:]])
        super().build(input_shape)

    def call(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        """Return the results of all steps."""
        takes, told = _parameters(type(self.layer).call), {}
        if "training" in takes and training is not None:
            told["training"] = training
        if "mask" in takes and mask is not None:
            told["mask"] = _joined(mask)
        if self.layer._scope is None and not isinstance(self.layer, Network):
            self.layer._scope = self._scope  # its variables have the names of this layer's
        outputs = self.layer(_joined(inputs), **told)
        return _parted(outputs, inputs)

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """Return the masks that the layer gives the steps, or where it gives none those of the
        inputs, for whole steps; of inputs with a known batch `mask`."""
        if inputs.shape[0].value is not None:
            return mask
        own = self.layer.compute_mask(_joined(inputs), None if mask is None else _joined(mask))
        if own is not None:
            return _parted(own, inputs)
        return mask if mask is None else hf.reduce_any(mask, list(range(2, mask.shape.ndims)))


def _joined(values: Any) -> Any:
    """The steps of `values` as a batch of their own."""
    known, dims = values.shape.as_list()[2:], hf.shape(values)[2:]
    rows = hf.reshape(values, [-1, *known] if None not in known else hf.concat([[-1], dims], 0))
    rows.set_shape([None, *known])
    return rows


def _parted(rows: Any, inputs: Any) -> Any:
    """What the steps of `inputs` have become, batch and time apart again."""
    result = hf.reshape(rows, hf.concat([hf.shape(inputs)[:2], hf.shape(rows)[1:]], 0))
    result.set_shape([*inputs.shape.as_list()[:2], *rows.shape.as_list()[1:]])
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
            {**config, "name": layer.name, "go_backwards": not layer.go_backwards})
        self.backward_layer._base_name = f"backward_{self.backward_layer.name}"
        self._own_backward = backward_layer is not None
        _check_pair(self.forward_layer, self.backward_layer)
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
        if self._own_backward:
            config["backward_layer"] = back = lookup.serialized(self.backward_layer)
            back["config"]["name"] = back["config"]["name"].removeprefix("backward_")
        return {**config, "layer": own, "merge_mode": self.merge_mode}

    @classmethod
    def from_config(cls, config: dict, custom_objects: dict | None = None) -> Any:
        """Return a wrapper of a configuration."""
        config = dict(config)
        constants = config.pop("num_constants", 0)
        if (back := config.get("backward_layer")) is not None:
            config["backward_layer"] = deserialize(back, custom_objects)
        made = super().from_config(config, custom_objects)
        made._num_constants = constants
        return made


def _check_pair(forward: Layer, backward: Layer) -> None:
    if forward.go_backwards == backward.go_backwards:
        raise ValueError("Forward layer and backward layer should have different `go_backwards` "
                         "value.")
    for name in ("stateful", "return_sequences", "return_state"):
        ahead, back = getattr(forward, name), getattr(backward, name)
        if ahead != back:
            raise ValueError("Forward layer and backward layer are expected to have the same value "
                             f"for attribute {name}, got {ahead} and {back}")
