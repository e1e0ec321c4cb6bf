"""The tags and signatures of the MetaGraphs of a SavedModel."""

from __future__ import annotations

from typing import Any

from hpcflow.saved_model.files import read_saved_model


def get_saved_model_tag_sets(saved_model_dir: str) -> list[list[str]]:
    """Return the tags of each MetaGraph. Raises ``IOError`` if there is no SavedModel."""
    return [list(meta.meta_info_def.tags) for meta in read_saved_model(saved_model_dir).meta_graphs]


def get_meta_graph_def(saved_model_dir: str, tag_set: str) -> Any:
    """Return the MetaGraph whose tags are those of `tag_set`, a list with commas.

    Raises ``RuntimeError`` if there is none, ``IOError`` if there is no SavedModel.
    """
    tags = set(tag_set.split(","))
    for meta in read_saved_model(saved_model_dir).meta_graphs:
        if set(meta.meta_info_def.tags) == tags:
            return meta
    raise RuntimeError(f"MetaGraphDef associated with tag-set {tag_set} could not be found in "
                       f"SavedModel {saved_model_dir}")


def get_signature_def_by_key(meta_graph_def: Any, signature_def_key: str) -> Any:
    """Return a ``SignatureDef`` of a MetaGraph. Raises ``ValueError`` if there is none."""
    if signature_def_key not in meta_graph_def.signature_def:
        raise ValueError(f"No SignatureDef with key '{signature_def_key}' found in MetaGraphDef.")
    return meta_graph_def.signature_def[signature_def_key]
