"""Loading SavedModels."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from hpcflow.graph.graph import Graph, get_collection
from hpcflow.graph.likes import SessionLike
from hpcflow.saved_model import constants, files
from hpcflow.saved_model.assets import asset_feeds
from hpcflow.saved_model.files import maybe_saved_model_directory
from hpcflow.saved_model.files import read_saved_model as parse_saved_model
from hpcflow.saved_model.signature_def_utils import load_op_from_signature_def
from hpcflow.train.saver import Saver, import_meta_graph

if TYPE_CHECKING:
    from google.protobuf.message import Message

__all__ = ["SavedModelLoader", "get_init_op", "get_train_op", "load",
           "maybe_saved_model_directory", "parse_saved_model"]


def load(sess: SessionLike, tags: Iterable[str], export_dir: str | bytes,
         import_scope: str | None = None, **saver_kwargs: Any) -> Any:
    """Load a MetaGraph of a SavedModel into a session's graph, and its variables into the session.

    Afterwards the operation that the model names for that (its main op) has run, with the paths of
    the assets. SavedModels that other 1.x runtimes wrote are loaded too.

    Args:
        sess: the session; its graph gets the operations.
        tags: exactly the tags of the MetaGraph.
        export_dir: the directory of the SavedModel, also as the bytes that an export returns.
        import_scope: name scope for the operations.
        saver_kwargs: further arguments of :func:`hpcflow.train.import_meta_graph`.

    Returns the ``MetaGraphDef`` as it is in the file. Raises ``IOError`` if there is no SavedModel
    or it is damaged, ``RuntimeError`` if it has no MetaGraph of these tags, and what importing and
    restoring raise.
    """
    return SavedModelLoader(export_dir).load(sess, tags, import_scope, **saver_kwargs)


class SavedModelLoader:
    """Does what :func:`load` does in three steps; the arguments and errors are the same."""

    def __init__(self, export_dir: str | bytes) -> None:
        self.export_dir = os.fsdecode(export_dir)
        self.saved_model = parse_saved_model(self.export_dir)

    @property
    def variables_path(self) -> str:
        """The prefix of the checkpoint of the variables."""
        return files.variables_path(self.export_dir)

    def get_meta_graph_def_from_tags(self, tags: Iterable[str]) -> Any:
        """Return the MetaGraph that has exactly these tags. Raises ``RuntimeError``."""
        wanted = set(tags)
        available = [set(meta.meta_info_def.tags) for meta in self.saved_model.meta_graphs]
        if wanted not in available:
            raise RuntimeError(
                f"MetaGraphDef associated with tags {sorted(wanted)} could not be found in "
                f"SavedModel, with available tags {[sorted(tags) for tags in available]}")
        return self.saved_model.meta_graphs[available.index(wanted)]

    def load_graph(self, graph: Graph, tags: Iterable[str], import_scope: str | None = None,
                   **saver_kwargs: Any) -> Saver | None:
        """Add the MetaGraph to a graph; returns its saver, None if there are no variables."""
        meta = self.get_meta_graph_def_from_tags(tags)
        with graph.as_default():
            return import_meta_graph(meta, import_scope=import_scope, **saver_kwargs)

    def restore_variables(self, sess: SessionLike, saver: Saver | None) -> None:
        """Restore the variables by the saver that :meth:`load_graph` returned."""
        if saver is not None:
            saver.restore(sess, self.variables_path)

    def run_init_ops(self, sess: SessionLike, tags: Iterable[str],
                     import_scope: str | None = None) -> None:
        """Run the main op of the MetaGraph, if it has one. Raises ``RuntimeError`` if several."""
        meta = self.get_meta_graph_def_from_tags(tags)
        with sess.graph.as_default():
            main_op = get_init_op(meta, import_scope)
            if main_op is not None:
                sess.run(main_op, asset_feeds(meta, self.export_dir, import_scope))

    def load(self, sess: SessionLike, tags: Iterable[str], import_scope: str | None = None,
             **saver_kwargs: Any) -> Any:
        """Do all three; returns the ``MetaGraphDef``."""
        tags = list(tags)
        saver = self.load_graph(sess.graph, tags, import_scope, **saver_kwargs)
        self.restore_variables(sess, saver)
        self.run_init_ops(sess, tags, import_scope)
        return self.get_meta_graph_def_from_tags(tags)


def get_init_op(meta_graph_def: Message, import_scope: str | None = None) -> Any:
    """Return the operation of the default graph to run once variables are restored, or None.

    Raises ``NotFoundError`` if it was not imported, ``RuntimeError`` if there are several.
    """
    keys = (constants.MAIN_OP_KEY, constants.LEGACY_INIT_OP_KEY)
    return _named_op(meta_graph_def, constants.INIT_OP_SIGNATURE_KEY, keys, import_scope)


def get_train_op(meta_graph_def: Message, import_scope: str | None = None) -> Any:
    """Return the operation of the default graph that trains the model, or None; the errors are
    those of :func:`get_init_op`."""
    return _named_op(meta_graph_def, constants.TRAIN_OP_SIGNATURE_KEY, (constants.TRAIN_OP_KEY,),
                     import_scope)


def _named_op(meta: Message, signature_key: str, collections: Iterable[str],
              import_scope: str | None) -> Any:
    """What a signature names, or else the only entry of the first collection that there is."""
    if signature_key in meta.signature_def:
        return load_op_from_signature_def(meta.signature_def[signature_key], signature_key,
                                          import_scope)
    for key in collections:
        if key in meta.collection_def:
            names = meta.collection_def[key].node_list.value
            if len(names) != 1:
                raise RuntimeError(f"Expected exactly one SavedModel main op. Found: {names}")
            return get_collection(key, import_scope)[0]
    return None
