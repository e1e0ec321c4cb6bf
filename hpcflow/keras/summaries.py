"""Tables of the layers of models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def print_summary(model: Any, line_length: int | None = None, positions: Any = None,
                  print_fn: Callable | None = None) -> None:
    """Print the layers of a model with their shapes and numbers of parameters, and where the
    network is no chain with the results that each is called on.

    `line_length` is 65, or 98 with the calls; `positions` are the ends of the columns, as parts of
    it or in characters. ``ValueError`` for a model that is not built.
    """
    if not model.built and model.inputs is None:
        raise ValueError("This model has not yet been built. Build the model first by calling "
                         "`build()` or calling `fit()` with some data.")
    show, chain = print_fn or print, _is_chain(model)
    width = line_length or (65 if chain else 98)
    ends = list(positions or ([0.45, 0.85, 1.0] if chain else [0.33, 0.55, 0.67, 1.0]))
    if ends[-1] <= 1:
        ends = [int(width * p) for p in ends]

    def line(*fields: str) -> None:
        text = ""
        for n, (field, end) in enumerate(zip(fields, ends)):
            text = ((text[:-1] + " " if n else "") + field)[:end].ljust(end)
        show(text)

    show(f"Model: \"{model.name}\"")
    show("_" * width)
    line("Layer (type)", "Output Shape", "Param #", *([] if chain else ["Connected to"]))
    show("=" * width)
    layers = model.layers
    for layer in layers:
        first, *others = [""] if chain else (_sources(model, layer) or [""])
        line(f"{layer.name} ({type(layer).__name__})", _shape(layer), str(_count(layer.weights)),
             first)
        for source in others:
            line("", "", "", source)
        show(("=" if layer is layers[-1] else "_") * width)
    trained, other = _count(model.trainable_weights), _count(model.non_trainable_weights)
    show(f"Total params: {trained + other:,}")
    show(f"Trainable params: {trained:,}")
    show(f"Non-trainable params: {other:,}")
    show("_" * width)


def _count(variables: list) -> int:
    return sum(v.get_shape().num_elements() for v in variables)


def _shape(layer: Any) -> str:
    if not getattr(layer, "inbound_nodes", None):  # layers of ``hf.layers`` remember none
        return "multiple"
    try:
        shape = layer.output_shape
    except AttributeError:
        return "multiple"
    return f"[{shape}]" if type(layer).__name__ == "InputLayer" else str(shape)


def _is_chain(model: Any) -> bool:
    """Whether each call but the first is on the one result of the call before, and of another
    layer."""
    if model._network is None or hasattr(model, "_stack"):
        return True
    calls = model._network[1]
    names = [node.layer for node in calls]
    return len(model.inputs) == 1 and len(set(map(id, names))) == len(names) and all(
        len(node.sources) == 1 and (not n or any(
            node.sources[0] is t for t in calls[n - 1].outputs))
        for n, node in enumerate(calls))


def _sources(model: Any, layer: Any) -> list[str]:
    """The results that a layer is called on in a model: layer, call, number of the result."""
    sources = [getattr(t, "_keras_history", None) for node in model._network[1]
               if node.layer is layer for t in node.sources]
    return [f"{h.layer.name}[{h.node_index + h.layer._first_call}][{h.tensor_index}]"
            for h in sources if h is not None]
