"""Layers that keep their arguments, and those that a function of ``hpcflow.layers`` computes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import hpcflow as hf
from hpcflow.keras import activations, backend, constraints, initializers, lookup, regularizers
from hpcflow.keras.engine.layer import Layer, _parameters, _taking
from hpcflow.keras.settings import floatx
from hpcflow.layers.building import OpenScope
from hpcflow.layers.helpers import show_arguments
from hpcflow.shapes import ShapeLike, as_shape

if TYPE_CHECKING:
    from hpcflow.graph.likes import TensorLike

_OF_CALLS = ("inputs", "training", "name", "reuse", "trainable")
_REGULARIZER = "activity_regularizer"  # which all layers have
#: The default of an argument that must be given.
REQUIRED = inspect.Parameter.empty
#: The last arguments of layers with a kernel.
OF_KERNEL = {"activation": None, "use_bias": True, "kernel_initializer": "glorot_uniform",
             "bias_initializer": "zeros", "kernel_regularizer": None, "bias_regularizer": None,
             "activity_regularizer": None, "kernel_constraint": None, "bias_constraint": None}
_SIZES = ("kernel_size", "strides", "dilation_rate", "pool_size", "output_padding")
_DEFAULTS = {"kernel_initializer": "glorot_uniform", "depthwise_initializer": "glorot_uniform",
             "pointwise_initializer": "glorot_uniform", "data_format": None}


class OptionLayer(Layer):
    """A layer with arguments that become its attributes, and are its configuration.

    Activations, initializers, regularizers and constraints may be names.
    """

    #: The arguments in their order, with their defaults; REQUIRED is none.
    arguments: Mapping[str, Any] = MappingProxyType({})
    #: Dimensions of space: one size stands for as many.
    rank = 2
    _takes: Sequence[inspect.Parameter] = ()

    def __init_subclass__(cls) -> None:
        if "arguments" in vars(cls):
            cls._takes = [inspect.Parameter(k, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=v)
                          for k, v in cls.arguments.items()]
            show_arguments(cls, cls._takes)

    def __init__(self, *args: Any, **keywords: Any) -> None:
        names = {p.name for p in self._takes}
        own = {k: keywords.pop(k) for k in list(keywords) if k in names}
        bound = inspect.Signature(self._takes).bind(*args, **own)
        bound.apply_defaults()
        if _REGULARIZER in names:
            keywords[_REGULARIZER] = bound.arguments.pop(_REGULARIZER)
        super().__init__(**keywords)
        self._options = {k: _sizes(v, self.rank) if k in _SIZES else understood(k, v)
                         for k, v in bound.arguments.items()}
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
        if self.activity_regularizer is not None or any(
                p.name == _REGULARIZER for p in self._takes):
            config[_REGULARIZER] = lookup.serialized(self.activity_regularizer)
        return config


class FunctionLayer(OptionLayer):
    """A layer whose arguments are those of a function, given when it is made."""

    function: Callable
    rank = 0

    def __init_subclass__(cls) -> None:
        if "function" in vars(cls):
            parameters = inspect.signature(cls.function).parameters.values()
            cls.arguments = {p.name: _DEFAULTS.get(p.name, p.default) for p in parameters
                             if p.name not in _OF_CALLS}
        super().__init_subclass__()

    def build(self, input_shape: ShapeLike) -> None:
        """Make the variables for inputs of a shape."""
        own = type(self).build is not FunctionLayer.build  # which may read the variables
        if self._scope is None or own:  # called by the program; else the call makes them
            training = {"training": False} if "training" in _parameters(type(self).call) else {}
            with self._entered_scope(), hf.name_scope(f"{self.name}_build"), \
                    _taking(hf.GraphKeys.UPDATE_OPS), \
                    _taking(hf.GraphKeys.REGULARIZATION_LOSSES):
                self.call(hf.placeholder(self._dtype or floatx(), input_shape), **training)
        self.built = True

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
