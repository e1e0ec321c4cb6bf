"""Writing the common kind of SavedModel: one graph with one signature, for serving."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hpcflow.graph.graph import get_collection
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.likes import SessionLike
from hpcflow.graph.operation import Operation
from hpcflow.saved_model import signature_constants, tag_constants
from hpcflow.saved_model.builder import SavedModelBuilder
from hpcflow.saved_model.signature_def_utils import predict_signature_def


def simple_save(session: SessionLike, export_dir: str, inputs: Mapping[str, Any],
                outputs: Mapping[str, Any], legacy_init_op: Operation | None = None) -> None:
    """Write a SavedModel with the tag "serve" and the signature "serving_default".

    Args:
        session: its graph and variables are saved.
        export_dir: the directory, which must be empty or absent.
        inputs: the tensors to feed, by their names in the signature.
        outputs: the tensors to fetch, by their names in the signature.
        legacy_init_op: an operation to run when the model was loaded.
    """
    signature = predict_signature_def(inputs, outputs)
    with session.graph.as_default():
        builder = SavedModelBuilder(export_dir)
        builder.add_meta_graph_and_variables(
            session, [tag_constants.SERVING],
            {signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY: signature},
            assets_collection=get_collection(GraphKeys.ASSET_FILEPATHS),
            main_op=legacy_init_op, clear_devices=True)
        builder.save()
