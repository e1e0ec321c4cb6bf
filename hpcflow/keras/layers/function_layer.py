"""FunctionLayer: a layer that a function of ``hpcflow.layers`` computes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hpcflow.keras import activations, backend, constraints, initializers, lookup, regularizers
from hpcflow.keras.engine.layer import Layer
from hpcflow.layers.building import OpenScope

if TYPE_CHECKING:
    from hpcflow.graph.likes import TensorLike

_OF_CALLS = ("inputs", "training", "name", "reuse", "trainable", "activity_regularizer")
_DEFAULTS = {"kernel_initializer": "glorot_uniform", "depthwise_initializer": "glorot_uniform",
             "pointwise_initializer": "glorot_uniform", "data_format": None}


class FunctionLayer(Layer):
    """A layer whose arguments are those of a function, given when it is made.

    They become attributes. Activations, initializers, regularizers and constraints may be names.
    """

    function: Callable

    def __init__(self, *args: Any, **keywords: Any) -> None:
        parameters = [p.replace(default=_DEFAULTS.get(p.name, p.default))
                      for p in inspect.signature(type(self).function).parameters.values()
                      if p.name not in _OF_CALLS]
        names = {p.name for p in parameters}
        own = {k: keywords.pop(k) for k in list(keywords) if k in names}
        bound = inspect.Signature(parameters).bind(*args, **own)
        bound.apply_defaults()
        super().__init__(**keywords)
        self._options = {k: understood(k, v) for k, v in bound.arguments.items()}
        vars(self).update(self._options)

    def call(self, inputs: TensorLike) -> Any:
        """Return the result of the function."""
        return self._result(inputs)

    def _result(self, inputs: TensorLike, **keywords: Any) -> Any:
        scope = self._scope
        name = OpenScope(scope.original_name_scope if scope is not None else "")
        if "name" in inspect.signature(type(self).function).parameters:
            keywords["name"] = name
        options = {k: getattr(self, k) for k in self._options}
        if options.get("activation") is activations.linear:
            options["activation"] = None
        return type(self).function(inputs, **options, **keywords)

    def get_config(self) -> dict:
        """Return the arguments."""
        config = super().get_config()
        config.update((k, lookup.serialized(v)) for k, v in self._options.items())
        if self.activity_regularizer is not None:
            config["activity_regularizer"] = lookup.serialized(self.activity_regularizer)
        return config


def understood(key: str, value: Any) -> Any:
    """Return the object that a layer's argument stands for (an activation, an initializer, ...),
    told by the argument's name."""
    if key.endswith("activation"):
        return activations.get(value)
    for ending, module in (("_initializer", initializers), ("_regularizer", regularizers),
                           ("_constraint", constraints)):
        if key.endswith(ending):
            return module.get(value)
    if key == "data_format" and value is None:
        return backend.image_data_format()
    return value


def layer_of(name: str, module: str, function: Callable, base: type = FunctionLayer,
             **attributes: Any) -> Any:
    """A class of layers for a function."""
    doc = (function.__doc__ or "").strip().split("\n")[0]
    return type(name, (base,), {"function": staticmethod(function), "__module__": module,
                                "__doc__": doc, **attributes})
