"""SavedModels of estimators."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from hpcflow.estimator.export import signatures
from hpcflow.graph.graph import Graph, get_collection, set_random_seed
from hpcflow.graph.keys import GraphKeys
from hpcflow.ops.common.grouping import group
from hpcflow.ops.io.lookup import tables_initializer
from hpcflow.ops.state.variable_lists import local_variables_initializer
from hpcflow.optimizers.global_step import get_or_create_global_step
from hpcflow.platform import logging
from hpcflow.runtime.session.session import Session
from hpcflow.saved_model.builder import SavedModelBuilder
from hpcflow.saved_model.tag_constants import SERVING
from hpcflow.train.saver import Saver

if TYPE_CHECKING:
    from hpcflow.estimator.base import Estimator


def export(estimator: Estimator, base: str, receiver_fn: Callable,
           assets_extra: dict[str, str] | None, as_text: bool, checkpoint: str | None, mode: str,
           strip_default_attrs: bool) -> bytes:
    """See :meth:`Estimator.export_saved_model`. What is not whole has another name."""
    if receiver_fn is None:
        raise ValueError("serving_input_receiver_fn must be defined.")
    if checkpoint is None:
        raise ValueError(f"Couldn't find trained model at {estimator.model_dir}.")
    target = _new_directory(os.fsdecode(base))
    unfinished = os.path.join(os.path.dirname(target), f"temp-{os.path.basename(target)}")
    try:
        with Graph().as_default():
            _write(estimator, unfinished, receiver_fn, as_text, checkpoint, mode,
                   strip_default_attrs)
        for name, source in (assets_extra or {}).items():
            path = os.path.join(unfinished, "assets.extra", name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            shutil.copyfile(source, path)
        os.rename(unfinished, target)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    return os.fsencode(target)


def _write(estimator: Estimator, directory: str, receiver_fn: Callable, as_text: bool,
           checkpoint: str, mode: str, strip_default_attrs: bool) -> None:
    config = estimator.config
    get_or_create_global_step()
    set_random_seed(config.tf_random_seed)
    receiver = receiver_fn()
    spec = estimator.build(receiver.features, None, mode, config)
    found = signatures(receiver, spec.export_outputs or {})
    logging.info("Signatures: %s", sorted(found))
    with Session(config=config.session_config) as session:
        saver = spec.scaffold.saver or Saver(save_relative_paths=True)
        saver.restore(session, checkpoint)
        main_op = spec.scaffold.local_init_op
        if main_op is None:
            main_op = group(local_variables_initializer(), tables_initializer())
        builder = SavedModelBuilder(directory)
        builder.add_meta_graph_and_variables(
            session, [SERVING], found, get_collection(GraphKeys.ASSET_FILEPATHS),
            main_op=main_op, strip_default_attrs=strip_default_attrs, saver=saver)
        builder.save(as_text)


def _new_directory(base: str) -> str:
    """A path that does not exist, named after the seconds of the clock."""
    os.makedirs(base, exist_ok=True)
    seconds = int(time.time())
    while os.path.exists(os.path.join(base, str(seconds))):
        seconds += 1
    return os.path.join(base, str(seconds))
