"""FunctionLayer: a layer that a function of ``hpcflow.layers`` computes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hpcflow.keras import activations, backend, constraints, initializers, lookup, regularizers
from hpcflow.keras.engine.layer import Layer
from hpcflow.layers.building import OpenScope
from hpcflow.shapes import as_shape

if TYPE_CHECKING:
    from hpcflow.graph.likes import TensorLike

_OF_CALLS = ("inputs", "training", "name", "reuse", "trainable", "activity_regularizer")
_SIZES = ("kernel_size", "strides", "dilation_rate", "pool_size")
_DEFAULTS = {"kernel_initializer": "glorot_uniform", "depthwise_initializer": "glorot_uniform",
             "pointwise_initializer": "glorot_uniform", "data_format": None}


class FunctionLayer(Layer):
    """A layer whose arguments are those of a function, given when it is made.

    They become attributes. Activations, initializers, regularizers and constraints may be names.
    """

    function: Callable
    #: Dimensions of space: one size stands for as many.
    rank = 0

    def __init__(self, *args: Any, **keywords: Any) -> None:
        parameters = [p.replace(default=_DEFAULTS.get(p.name, p.default))
                      for p in inspect.signature(type(self).function).parameters.values()
                      if p.name not in _OF_CALLS]
        names = {p.name for p in parameters}
        own = {k: keywords.pop(k) for k in list(keywords) if k in names}
        bound = inspect.Signature(parameters).bind(*args, **own)
        bound.apply_defaults()
        super().__init__(**keywords)
        self._options = {k: _sizes(v, self.rank) if k in _SIZES else understood(k, v)
                         for k, v in bound.arguments.items()}
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
        if "activation" in self._options or self.activity_regularizer is not None:
            config["activity_regularizer"] = lookup.serialized(self.activity_regularizer)
        return config


class OptionLayer(Layer):
    """A layer with arguments that are its attributes and its configuration."""

    #: Dimensions of space: one size stands for as many.
    rank = 2

    def _take(self, given: dict[str, Any]) -> None:
        """Keep the arguments among the local names of ``__init__``."""
        own = {k: v for k, v in given.items()
               if k not in ("self", "keywords", "activity_regularizer", "__class__")}
        self._options = {k: _sizes(v, self.rank) if k in _SIZES else understood(k, v)
                         for k, v in own.items()}
        vars(self).update(self._options)

    def _channels(self, input_shape: Any) -> int:
        """The number of channels of inputs. ``ValueError`` if it is not known."""
        dims: Any = as_shape(input_shape).as_list()
        channels = dims[1 if self.data_format == "channels_first" else -1]
        if channels is None:
            raise ValueError("The channel dimension of the inputs to "
                             f"`{type(self).__name__}` should be defined. Found `None`.")
        return channels

    def _add(self, name: str, shape: Any, kind: str | None = None) -> Any:
        """A weight, with what the arguments of its `kind` say."""
        kind = kind or name
        return self.add_weight(name, shape, None, getattr(self, f"{kind}_initializer"),
                               getattr(self, f"{kind}_regularizer"),
                               constraint=getattr(self, f"{kind}_constraint"))

    def get_config(self) -> dict:
        """Return the arguments."""
        config = super().get_config()
        config.update((k, lookup.serialized(v)) for k, v in self._options.items())
        config["activity_regularizer"] = lookup.serialized(self.activity_regularizer)
        return config


def _sizes(value: Any, rank: int) -> Any:
    if value is None or not rank:
        return value
    return (value,) * rank if isinstance(value, int) else tuple(value)


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
