"""Functions of arrays made of SavedModels and of estimators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcflow.graph.graph import Graph
from hpcflow.graph.operation import Tensor
from hpcflow.runtime.session.session import Session
from hpcflow.saved_model.loader import load
from hpcflow.saved_model.signature_constants import DEFAULT_SERVING_SIGNATURE_DEF_KEY
from hpcflow.saved_model.tag_constants import SERVING

if TYPE_CHECKING:
    from google.protobuf.message import Message


class Predictor:
    """A function of arrays, by name, that runs a part of a graph.

    Attributes:
        session: what runs it; its graph is that of the session.
        feed_tensors: name -> tensor that is fed.
        fetch_tensors: name -> tensor that is fetched.
    """

    def __init__(self, session: Session, feed_tensors: Mapping[str, Tensor],
                 fetch_tensors: Mapping[str, Tensor]) -> None:
        self.session, self.graph = session, session.graph
        self.feed_tensors, self.fetch_tensors = dict(feed_tensors), dict(fetch_tensors)

    def __call__(self, input_dict: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Return the outputs by name. Raises ``ValueError`` for inputs of other names."""
        unexpected = sorted(set(input_dict) - set(self.feed_tensors))
        if unexpected:
            raise ValueError(f"Got unexpected keys in input_dict: {unexpected}, expected: "
                             f"{sorted(self.feed_tensors)}")
        fed = {self.feed_tensors[name]: value for name, value in input_dict.items()}
        return self.session.run(self.fetch_tensors, fed)


def from_saved_model(export_dir: str | bytes, signature_def_key: str | None = None,
                     signature_def: Message | None = None,
                     input_names: Mapping[str, str] | None = None,
                     output_names: Mapping[str, str] | None = None, tags: Any = None,
                     graph: Graph | None = None, config: Message | None = None) -> Predictor:
    """Return a predictor of a SavedModel.

    Args:
        export_dir: where it is.
        signature_def_key: the signature to be run, the default one if None.
        signature_def: a ``SignatureDef`` in place of one of the model.
        input_names, output_names: names -> names of tensors, in place of a signature.
        tags: of the MetaGraph, separated by commas or in a list; those for serving if None.
        graph: gets the operations; a new one if None.
        config: of the session.

    Raises ``ValueError`` for more than one of the three, a name without its counterpart, or a
    signature that the model has not.
    """
    if sum(x is not None for x in (signature_def_key, signature_def, input_names)) > 1:
        raise ValueError("You must specify at most one of signature_def_key, signature_def and "
                         "input_names")
    if (input_names is None) != (output_names is None):
        raise ValueError("input_names and output_names must both be specified or both be "
                         "unspecified.")
    wanted = tags.split(",") if isinstance(tags, str) else tags or [SERVING]
    session = Session(graph=graph or Graph(), config=config)
    meta = load(session, wanted, export_dir)
    if input_names is None or output_names is None:
        signature = signature_def or _signature(meta, signature_def_key)
        input_names = {name: info.name for name, info in signature.inputs.items()}
        output_names = {name: info.name for name, info in signature.outputs.items()}
    named = session.graph.get_tensor_by_name
    return Predictor(session, {k: named(v) for k, v in input_names.items()},
                     {k: named(v) for k, v in output_names.items()})


def _signature(meta: Message, key: str | None) -> Any:
    key = key or DEFAULT_SERVING_SIGNATURE_DEF_KEY
    if key not in meta.signature_def:
        raise ValueError(f"Got signature_def_key \"{key}\". Available signatures are "
                         f"{sorted(meta.signature_def)}.")
    return meta.signature_def[key]


def from_estimator(estimator: Any, serving_input_receiver_fn: Callable,
                   output_key: str | None = None, graph: Graph | None = None,
                   config: Message | None = None) -> Predictor:
    """Return a predictor of an estimator's latest checkpoint.

    Args:
        estimator: an ``estimator.Estimator``.
        serving_input_receiver_fn: returns a ``ServingInputReceiver``, whose tensors are fed.
        output_key: which of the model's ``export_outputs`` is fetched; the default one if None.
        graph: gets the operations; a new one if None.
        config: of the session.

    Raises ``ValueError`` without a checkpoint, or for an output that the model has not.
    """
    from hpcflow.estimator.spec import ModeKeys
    from hpcflow.optimizers.global_step import get_or_create_global_step
    from hpcflow.train.saver import Saver

    path = estimator.latest_checkpoint()
    if path is None:
        raise ValueError(f"Couldn't find trained model at {estimator.model_dir}.")
    graph = graph or Graph()
    with graph.as_default():
        get_or_create_global_step()
        receiver = serving_input_receiver_fn()
        spec = estimator.build(receiver.features, None, ModeKeys.PREDICT, estimator.config)
        key = output_key or DEFAULT_SERVING_SIGNATURE_DEF_KEY
        if key not in spec.export_outputs:
            raise ValueError(f"output_key must be one of {sorted(spec.export_outputs)}, got {key}")
        signature = spec.export_outputs[key].as_signature_def(receiver.receiver_tensors)
        session = Session(graph=graph, config=config)
        (spec.scaffold.saver or Saver(sharded=True)).restore(session, path)
    return Predictor(session, receiver.receiver_tensors, {
        name: graph.get_tensor_by_name(info.name) for name, info in signature.outputs.items()})
