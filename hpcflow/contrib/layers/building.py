"""Shared parts of the layers: variables, biases, normalizers, activations and collections."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from hpcflow.contrib.framework.arg_scopes import scoped_argument
from hpcflow.contrib.framework.variables import model_variable
from hpcflow.dtypes import DTypeLike
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import add_to_collection, device, get_collection, get_collection_ref
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.likes import Collections, InitializerLike, TensorFunction
from hpcflow.graph.operation import Tensor
from hpcflow.layers.building import OpenScope, format_name, regularizer_below
from hpcflow.nn.activations import bias_add
from hpcflow.ops.state.variable_scope import VariableScope, get_variable_scope, pure_variable_scope
from hpcflow.shapes import ShapeLike


def layer_variable(name: str, shape: ShapeLike, dtype: DTypeLike, initializer: InitializerLike,
                   regularizer: TensorFunction | None,
                   collections: Mapping[str, Any] | Collections | None,
                   trainable: bool = True, called: str | None = None) -> Tensor:
    """Make a model variable of a layer, and return its value as a tensor.

    `collections`: names for all variables, or a dict of such by the variable's name. `called`: the
    name that the operations of its regularizer have in the place of its own.
    """
    if called is not None and regularizer is not None:
        regularizer = regularizer_below(f"{get_variable_scope().name}/{called}", regularizer)
    made = model_variable(name, shape=shape, dtype=dtype, initializer=initializer,
                          regularizer=regularizer, trainable=trainable)
    return convert_to_tensor(_collected(made, names_of(collections, name)))


def _collected(made: Any, names: list) -> Any:
    """Add a layer's variable, which is what a custom getter has made of it, to collections."""
    for name in names:
        if all(made is not known for known in get_collection(name)):
            add_to_collection(name, made)
    return made


def names_of(given: Any, variable: str) -> list:
    """Return a variable's collections, given as one name, a list, or a dict by variable name."""
    if isinstance(given, dict):
        given = given.get(variable)
    return [given] if isinstance(given, str) else list(given or ())


def bias_normalize_activate(outputs: Tensor, activation_fn: Callable | None,
                            normalizer_fn: Callable | None, normalizer_params: dict | None,
                            biases_initializer: InitializerLike | None,
                            biases_regularizer: TensorFunction | None,
                            collections: Mapping[str, Any] | Collections | None, trainable: bool,
                            data_format: str = "NHWC") -> Tensor:
    """Return `outputs`, normalized or with biases along the channels, and then activated."""
    if normalizer_fn is not None:
        outputs = normalizer_fn(outputs, **(normalizer_params or {}))
    elif biases_initializer is not None:
        channels = outputs.shape.as_list()[1 if data_format.startswith("NC") else -1]
        biases = layer_variable("biases", [channels], outputs.dtype.base_dtype,
                                biases_initializer, biases_regularizer, collections, trainable,
                                "bias")
        outputs = bias_add(outputs, biases, "NCHW" if data_format.startswith("NC") else "NHWC")
    return outputs if activation_fn is None else activation_fn(outputs)


# ---------------------------------------------------------------- outputs and their names


def collect_named_outputs(collections: Collections | None, alias: str, outputs: Tensor) -> Tensor:
    """Add `outputs` to collections, in which it is known as `alias`; returns it."""
    if collections:
        append_tensor_alias(outputs, alias)
        for name in names_of(collections, ""):
            add_to_collection(name, outputs)
    return outputs


def collect(collections: Collections | None, scope: VariableScope | str, outputs: Tensor) -> Tensor:
    """Add `outputs` to collections by :func:`collect_named_outputs`, named as the layer's scope."""
    name = scope if isinstance(scope, str) else scope.name
    return collect_named_outputs(collections, name.rstrip("/"), outputs)


def append_tensor_alias(tensor: Tensor, alias: str) -> Tensor:
    """Give `tensor` one more name; returns it."""
    tensor.aliases = [*getattr(tensor, "aliases", ()), alias.rstrip("/")]  # type: ignore
    return tensor


def get_tensor_aliases(tensor: Tensor) -> list[str]:
    """Return the names that `tensor` was collected by, or else the name of its operation."""
    return getattr(tensor, "aliases", None) or [tensor.name.removesuffix(":0")]


def gather_tensors_aliases(tensors: list[Tensor]) -> list[str]:
    """Return the names of all `tensors`."""
    return [alias for tensor in tensors for alias in get_tensor_aliases(tensor)]


def convert_collection_to_dict(collection: str, clear_collection: bool = False) -> dict:
    """Return the tensors of a collection by their names, in order; and empty it, if asked to."""
    found = {alias: tensor for tensor in get_collection(collection)
             for alias in get_tensor_aliases(tensor)}
    if clear_collection:
        get_collection_ref(collection).clear()
    return found


# ---------------------------------------------------------------- the layers of hpcflow.layers

_OLDER_NAMES = {"kernel": "weights", "bias": "biases", "depthwise_kernel": "depthwise_weights",
                "pointwise_kernel": "pointwise_weights"}


@contextmanager
def older_variables(collections: Mapping[str, Any] | Collections | None) -> Iterator[OpenScope]:
    """Context manager that names the variables of ``hpcflow.layers`` as the layers of contrib do.

    They are model variables, in `collections` too, on the device that argument scopes have for
    these, and named ``weights`` and ``biases``. Yields the name to give to the layer, whose scope
    is open already.
    """
    def named(getter: Callable, name: str, *args: Any, **kwargs: Any) -> Any:
        scope, slash, last = name.rpartition("/")
        if kwargs.get("regularizer") is not None:
            kwargs["regularizer"] = regularizer_below(name, kwargs["regularizer"])
        last = _OLDER_NAMES.get(last, last)
        kwargs["collections"] = [GraphKeys.GLOBAL_VARIABLES, GraphKeys.MODEL_VARIABLES]
        with device(scoped_argument(model_variable, "device") or ""):
            made = getter(scope + slash + last, *args, **kwargs)
        return _collected(made, names_of(collections, last))

    with pure_variable_scope(get_variable_scope(), custom_getter=named) as scope:
        yield OpenScope(scope.original_name_scope)


def format_of_layers(data_format: str | None, rank: int = 2) -> str:
    """``channels_first`` for formats such as NCHW; ``ValueError`` for an unknown one.

    `rank`: the number of dimensions of space.
    """
    if data_format not in (None, "NHWC", "NCHW", "NWC", "NCW", "NDHWC", "NCDHW"):
        first, last = format_name(True, rank), format_name(False, rank)
        raise ValueError(f"data_format has to be either {first} or {last}.")
    return "channels_first" if (data_format or "").startswith("NC") else "channels_last"
