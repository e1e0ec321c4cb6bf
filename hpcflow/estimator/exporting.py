"""SavedModels of estimators."""

from __future__ import annotations

import functools
import os
import shutil
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from hpcflow.estimator.export import signatures
from hpcflow.estimator.spec import EstimatorSpec, ModeKeys
from hpcflow.graph.graph import Graph, get_collection, set_random_seed
from hpcflow.graph.keys import GraphKeys
from hpcflow.ops.common.grouping import group
from hpcflow.ops.io.lookup import tables_initializer
from hpcflow.ops.state.variable_lists import local_variables_initializer
from hpcflow.optimizers.global_step import get_or_create_global_step
from hpcflow.platform import logging
from hpcflow.runtime.session.session import Session
from hpcflow.saved_model.builder import SavedModelBuilder
from hpcflow.saved_model.signature_def_utils import predict_signature_def
from hpcflow.saved_model.tag_constants import SERVING, TRAINING
from hpcflow.train.saver import Saver

if TYPE_CHECKING:
    from hpcflow.estimator.base import Estimator


_TAGS = {ModeKeys.TRAIN: TRAINING, ModeKeys.EVAL: "eval", ModeKeys.PREDICT: SERVING}
_METHODS = {ModeKeys.TRAIN: "tensorflow/supervised/training",
            ModeKeys.EVAL: "tensorflow/supervised/eval"}


def export(estimator: Estimator, base: str, receivers: Mapping[str, Callable],
           assets_extra: dict[str, str] | None, as_text: bool, checkpoint: str | None,
           strip_default_attrs: bool) -> bytes:
    """Write a graph for each mode, whose inputs `receivers` make, over one set of variables.

    See :meth:`Estimator.export_saved_model`. What is not whole has another name.
    """
    if not any(mode in receivers for mode in _TAGS):
        raise ValueError(f"No valid modes for exporting found. Got {list(receivers)}.")
    if None in receivers.values():
        raise ValueError("serving_input_receiver_fn must be defined.")
    if checkpoint is None:
        raise ValueError(f"Couldn't find trained model at {estimator.model_dir}.")
    target = _new_directory(os.fsdecode(base))
    unfinished = os.path.join(os.path.dirname(target), f"temp-{os.path.basename(target)}")
    try:
        builder = SavedModelBuilder(unfinished)
        for mode in (mode for mode in _TAGS if mode in receivers):
            with Graph().as_default():
                _add(estimator, builder, receivers[mode], checkpoint, mode, strip_default_attrs)
        builder.save(as_text)
        for name, source in (assets_extra or {}).items():
            path = os.path.join(unfinished, "assets.extra", name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            shutil.copyfile(source, path)
        os.rename(unfinished, target)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    return os.fsencode(target)


def _add(estimator: Estimator, builder: SavedModelBuilder, receiver_fn: Callable,
         checkpoint: str, mode: str, strip_default_attrs: bool) -> None:
    config = estimator.config
    get_or_create_global_step()
    set_random_seed(config.tf_random_seed)
    receiver = receiver_fn()
    spec = estimator.build(receiver.features, getattr(receiver, "labels", None), mode, config)
    if mode == ModeKeys.PREDICT:
        found = signatures(receiver, spec.export_outputs or {})
    else:
        found = {mode: _supervised(receiver, spec, mode)}
    logging.info("Signatures: %s", sorted(found))
    with Session(config=config.session_config) as session:
        saver = spec.scaffold.saver or Saver(save_relative_paths=True)
        saver.restore(session, checkpoint)
        main_op = spec.scaffold.local_init_op
        if main_op is None:
            main_op = group(local_variables_initializer(), tables_initializer())
        add: Any = builder.add_meta_graph
        if not builder.has_saved_variables:
            add = functools.partial(builder.add_meta_graph_and_variables, session)
        add([_TAGS[mode]], found, get_collection(GraphKeys.ASSET_FILEPATHS),
            main_op=main_op, strip_default_attrs=strip_default_attrs, saver=saver)


def _supervised(receiver: Any, spec: EstimatorSpec, mode: str) -> Any:
    """The signature of a training or evaluation: loss, predictions and metrics."""
    outputs: dict[str, Any] = {"loss": spec.loss}
    for key, value in (spec.predictions or {}).items():
        outputs[_prefixed("predictions", key)] = value
    for key, pair in (spec.eval_metric_ops or {}).items():
        name = _prefixed("metrics", key)
        outputs |= {f"{name}/value": pair[0], f"{name}/update_op": pair[1]}
    signature = predict_signature_def(receiver.receiver_tensors, outputs)
    signature.method_name = _METHODS[mode]
    return signature


def _prefixed(prefix: str, key: Any) -> str:
    name = "/".join(map(str, key)) if isinstance(key, tuple) else str(key)
    return name if name.startswith(prefix) else f"{prefix}/{name}"


def _new_directory(base: str) -> str:
    """A path that does not exist, named after the seconds of the clock."""
    os.makedirs(base, exist_ok=True)
    seconds = int(time.time())
    while os.path.exists(os.path.join(base, str(seconds))):
        seconds += 1
    return os.path.join(base, str(seconds))
