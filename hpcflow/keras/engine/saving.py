"""Configurations of models, and files of them and of their variables."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

import hpcflow as hf
from hpcflow.framework import nest
from hpcflow.keras import lookup
from hpcflow.keras.engine.inputs import InputLayer
from hpcflow.keras.engine.layer import deserialize
from hpcflow.keras.session import batch_get_value, batch_set_value, get_session
from hpcflow.storage import layer_files

if TYPE_CHECKING:
    from hpcflow.graph.likes import TensorLike
    from hpcflow.keras.engine.training import Model

_HDF5 = (".h5", ".hdf5", ".keras")

# ---------------------------------------------------------------- variables


def _by_layer(model: Model) -> list[tuple[str, list[tuple[str, np.ndarray]]]]:
    """The names and values of the variables of each layer."""
    variables = [v for layer in model.layers for v in layer.weights]
    values = iter(batch_get_value(variables))
    return [(name, [(v.name, next(values)) for v in layer.weights])
            for name, layer in _named(model)]


def _named(model: Model) -> list[tuple[str, Any]]:
    """The layers with their names, which get a number where an earlier layer has the same."""
    found: dict[str, Any] = {}
    taken = {layer.name for layer in model.layers}
    for layer in model.layers:
        name, number = layer.name, 0
        while name in found or (number and name in taken):
            number += 1
            name = f"{layer.name}_{number}"
        found[name] = layer
    return list(found.items())


class _Weights(hf.train.Checkpoint):
    """The variables of a model, by the paths of attributes that lead to them from the model."""

    def __init__(self, model: Model) -> None:
        super().__init__(model=model)

    @property
    def _checkpoint_dependencies(self) -> list:
        return list(self.model._checkpoint_dependencies)


def _format(filepath: str, save_format: str | None) -> str:
    """``h5`` or ``tf``, as asked or by the file's name. ``ValueError`` for others."""
    asked = (save_format or "").lower().strip()
    if asked in ("hdf5", "h5", "keras") or (not asked and filepath.endswith(_HDF5)):
        return "h5"
    if asked not in ("", "tf", "tensorflow"):
        raise ValueError(f"Unknown format \"{save_format}\". Was expecting one of {{\"tf\", "
                         "\"h5\"}.")
    if filepath.endswith(_HDF5):
        raise ValueError(f"save_weights got save_format=\"tf\"/\"tensorflow\", but the filepath "
                         f"(\"{filepath}\") looks like an HDF5 file. Omit the \".h5\"/\".keras\" "
                         "when saving in TensorFlow format.")
    return "tf"


def save_weights(model: Model, filepath: str, overwrite: bool = True,
                 save_format: str | None = None) -> None:
    """Write the variables of a model."""
    _need_weights(model)
    is_hdf5 = _format(filepath, save_format) == "h5"
    if not overwrite and os.path.exists(filepath if is_hdf5 else f"{filepath}.h5"):
        raise OSError(f"{filepath} exists and is not to be overwritten")
    if is_hdf5:
        layer_files.write(filepath, _by_layer(model))
        return
    _Weights(model).write(filepath, get_session())
    hf.train.update_checkpoint_state(os.path.dirname(filepath), filepath, [filepath])


def load_weights(model: Model, filepath: str, by_name: bool = False) -> Any:
    """Set the variables of a model to those of a file; return the status of a checkpoint."""
    if filepath.endswith(_HDF5) or layer_files.is_layer_file(filepath):
        _need_weights(model)
        _assign(model, layer_files.read(filepath), by_name)
        return None
    if by_name:
        raise NotImplementedError("Weights may only be loaded based on topology into Models when "
                                  "loading TensorFlow-formatted weights (got by_name=True to "
                                  "load_weights).")
    session = get_session()
    status = _Weights(model).restore(filepath)
    if not status._names:  # the checkpoint of a Saver: by the names of variables
        with session.graph.as_default():
            hf.train.Saver(model.weights).restore(session, filepath)
        return status
    status.run_restore_ops(session)
    return status.assert_nontrivial_match()


def _need_weights(model: Any) -> None:
    """``ValueError`` for a model that makes its variables when it is built, and is not yet."""
    if model._network is None and not model.built and "build" in vars(type(model)):
        raise ValueError(f"Weights for model {model.name} have not yet been created. Weights are "
                         "created when the Model is first called on inputs or `build()` is called "
                         "with an `input_shape`.")


def _assign(model: Model, found: list, by_name: bool) -> None:
    if by_name:
        kept = dict(found)
        pairs = [(layer, kept[name]) for name, layer in _named(model) if name in kept]
    else:
        own = [layer for layer in model.layers if layer.weights]
        found = [(name, values) for name, values in found if values]
        if len(own) != len(found):
            raise ValueError(f"You are trying to load a weight file containing {len(found)} layers "
                             f"into a model with {len(own)} layers.")
        pairs = [(layer, values) for layer, (_, values) in zip(own, found, strict=True)]
    assigned = []
    for layer, values in pairs:
        weights = layer.weights
        if len(weights) != len(values):
            raise ValueError(f"Layer {layer.name} expects {len(weights)} weights, but the saved "
                             f"weights have {len(values)} elements.")
        for variable, (_, value) in zip(weights, values, strict=True):
            if tuple(variable.shape.as_list()) != value.shape:
                raise ValueError(f"Layer {layer.name}: {variable.name} has shape "
                                 f"{tuple(variable.shape.as_list())}, but the saved weight has "
                                 f"shape {value.shape}.")
            assigned.append((variable, value))
    batch_set_value(assigned)


# ---------------------------------------------------------------- configurations


def config_of(model: Any) -> dict:
    """The layers of a model, with the calls that connect them.

    ``NotImplementedError`` for a class of the program's own.
    """
    if model._network is None:
        raise NotImplementedError(f"{type(model).__name__} says by a method what it computes, and "
                                  "has no configuration")
    layers, calls = model._network
    numbers: dict[int, tuple[str, int, int]] = {}  # of tensors: layer, its call, which result
    counts = {layer.name: layer._first_call for layer in layers}
    kept: dict[str, list] = {layer.name: [] for layer in layers}
    for tensor in model.inputs:
        numbers[id(tensor)] = (tensor._keras_history.layer.name, 0, 0)
    for node in calls:
        name = node.layer.name
        kept[name].append([
            [*numbers[id(t)], _plain(node.keywords, numbers) if n == 0 else {}]
            for n, t in enumerate(node.sources)])
        for n, tensor in enumerate(node.outputs):
            numbers[id(tensor)] = (name, counts[name], n)
        counts[name] += 1
    return {"name": model.name,
            "layers": [{"class_name": type(v).__name__, "name": v.name, "config": v.get_config(),
                        "inbound_nodes": kept[v.name]} for v in layers],
            "input_layers": [list(numbers[id(t)]) for t in model.inputs],
            "output_layers": [list(numbers[id(t)]) for t in model.outputs]}


def _plain(keywords: dict, numbers: dict[int, tuple[str, int, int]]) -> dict:
    """The keywords that can be written, tensors of layers by their `numbers`."""
    def written(value: Any) -> Any:
        if id(value) in numbers:
            return list(numbers[id(value)])
        value = np.asarray(get_session().run(value)) if isinstance(value, hf.Tensor) else value
        return value.tolist() if isinstance(value, np.ndarray) else value

    named = {k: nest.map_structure(written, v) for k, v in keywords.items()}
    return {k: v for k, v in named.items() if all(
        t is None or isinstance(t, (bool, int, float, str)) for t in nest.flatten(v))}


def _tensors_of(call: list) -> list[tuple]:
    """The numbers of the tensors that a call is given."""
    found: list[tuple] = []
    _with_tensors(_keywords_of(call), found.append)
    return [tuple(s[:3]) for s in call] + found


def _with_tensors(value: Any, tensor: Callable[[tuple], Any]) -> Any:
    """Return keywords with what `tensor` makes of numbers in the place of these."""
    if isinstance(value, dict):
        return {k: _with_tensors(v, tensor) for k, v in value.items()}
    if not isinstance(value, (list, tuple)):
        return value
    if len(value) == 3 and [type(v) for v in value] == [str, int, int]:
        return tensor(tuple(value))
    return [_with_tensors(v, tensor) for v in value]


def _keywords_of(call: list) -> dict:
    return call[0][3] if call and len(call[0]) > 3 else {}


def model_of(cls: Any, config: dict, custom_objects: dict | None = None,
             made: dict[str, Any] | None = None) -> Any:
    """A model of :func:`config_of`, of the layers `made` or of new ones."""
    layers = made or {v["name"]: deserialize(v, custom_objects) for v in config["layers"]}
    results: dict[tuple, Any] = {}
    read = {s[:2] for v in config["layers"] for call in v["inbound_nodes"]
            for s in _tensors_of(call)}
    read |= {tuple(t[:2]) for t in config["output_layers"]}
    waiting = []
    for v in config["layers"]:  # the calls of a network count from 1
        name, calls = v["name"], v["inbound_nodes"]
        waiting += [(name, n, call) for n, call in enumerate(calls, (name, len(calls)) in read)]
    for name, layer in layers.items():
        if type(layer).__name__ == "InputLayer":
            results[(name, 0, 0)] = layer.inbound_nodes[0].outputs[0]
    while waiting:
        ready = [w for w in waiting if all(s in results for s in _tensors_of(w[2]))]
        if not ready:
            raise ValueError(f"The calls of the layers {[w[0] for w in waiting]} have no inputs")
        for name, number, call in ready:
            sources = [results[tuple(s[:3])] for s in call]
            keywords = _with_tensors(_keywords_of(call), results.__getitem__)
            outputs = layers[name](sources[0] if len(sources) == 1 else sources, **keywords)
            for n, tensor in enumerate(nest.flatten(outputs)):
                results[(name, number, n)] = tensor
        waiting = [w for w in waiting if w not in ready]
    ends = [[results[tuple(t)] for t in config[k]] for k in ("input_layers", "output_layers")]
    ends = [e[0] if len(e) == 1 else e for e in ends]
    return cls(*ends, name=config["name"])


def _described(model: Model) -> dict:
    return {"class_name": type(model).__name__, "config": model.get_config(),
            "keras_version": "2.2.4-tf", "backend": "tensorflow"}


def to_json(model: Model, **options: Any) -> str:
    """Class and configuration as JSON."""
    return json.dumps(_described(model), default=_jsonable, **options)


def _jsonable(value: TensorLike) -> Any:
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    if hasattr(value, "get_config"):
        return lookup.serialized(value)
    return getattr(value, "__name__", None) or str(value)


def model_from_config(config: dict, custom_objects: dict | None = None) -> Any:
    """Return a model of its class's name and its configuration."""
    return deserialize(config, custom_objects)


def model_from_json(json_string: str, custom_objects: dict | None = None) -> Any:
    """Return a model that ``to_json`` described."""
    return model_from_config(json.loads(json_string), custom_objects)


def clone_model(model: Any, input_tensors: TensorLike | None = None,
                clone_function: Any = None) -> Any:
    """Return a model with layers like those of another, and variables of its own.

    `input_tensors` take the places of the placeholders that it begins with;
    ``clone_function(layer)`` makes its layers, those of inputs excepted.
    """
    copied = clone_function or (lambda layer: type(layer).from_config(layer.get_config()))
    tensors = [] if input_tensors is None else nest.flatten(input_tensors)
    given = [_begun(t, name) for t, name in zip(tensors, model.input_names)]
    if hasattr(model, "_stack"):
        return type(model)([*given, *(copied(v) for v in model.layers)], model.name)
    config = config_of(model)
    made = {v.name: (type(v).from_config(v.get_config()) if isinstance(v, InputLayer)
                     else copied(v)) for v in model._network[0]}
    for (name, _, _), layer in zip(config["input_layers"], given):
        made[name] = layer
    return model_of(type(model), config, made=made)


def _begun(tensor: Any, name: str) -> InputLayer:
    """The layer of a tensor that a model begins with instead of the input `name`."""
    layer = getattr(tensor, "_keras_history", (None,))[0]
    if isinstance(layer, InputLayer):
        return layer
    return InputLayer(input_tensor=tensor, name=f"input_wrapper_for_{name}")


# ---------------------------------------------------------------- whole models


def save_model(model: Model, filepath: str, overwrite: bool = True, include_optimizer: bool = True,
               **options: Any) -> None:
    """Write a model: configuration, variables, and what it is trained for."""
    if not overwrite and os.path.exists(filepath):
        raise OSError(f"{filepath} exists and is not to be overwritten")
    texts = {"model_config": to_json(model)}
    asked = model._asked
    if asked is not None and include_optimizer and hasattr(model.optimizer, "get_config"):
        told = {k: asked[k] for k in ("loss", "metrics", "loss_weights", "weighted_metrics")}
        told["sample_weight_mode"] = None
        told["optimizer_config"] = lookup.serialized(model.optimizer)
        texts["training_config"] = json.dumps(told, default=_jsonable)
        model._train()
        values = batch_get_value(model.optimizer.weights)
        named = [(v.name, a) for v, a in zip(model.optimizer.weights, values, strict=True)]
        layer_files.write(filepath, _by_layer(model), texts, named, "model_weights")
        return
    layer_files.write(filepath, _by_layer(model), texts, None, "model_weights")


def load_model(filepath: str, custom_objects: dict | None = None, compile: bool = True) -> Any:
    """Return the model of a file that ``save`` wrote, compiled as it was.

    Raises ``ValueError`` for a file without a configuration, ``OSError`` if there is none.
    """
    texts = layer_files.texts(filepath)
    if "model_config" not in texts:
        raise ValueError("No model found in config file.")
    with lookup.custom_object_scope(custom_objects or {}):
        model = model_from_json(texts["model_config"], custom_objects)
        _assign(model, layer_files.read(filepath, "model_weights"), False)
        if compile and "training_config" in texts:
            told = json.loads(texts["training_config"])
            model.compile(told.pop("optimizer_config"), **told)
            values = layer_files.optimizer_values(filepath)
            if values is not None:
                model._train()
                model.optimizer.set_weights(values)
    return model
