"""Writing SavedModels."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from hpcflow.base.formats.protos import message_class
from hpcflow.graph.graph import add_to_collection, get_collection
from hpcflow.graph.likes import SessionLike
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.saved_model import constants, files
from hpcflow.saved_model.assets import collect_assets, copy_assets
from hpcflow.saved_model.signature_def_utils import op_signature_def
from hpcflow.train.saver import Saver

if TYPE_CHECKING:
    from google.protobuf.message import Message

_RESERVED = {constants.INIT_OP_SIGNATURE_KEY: "initialization",
             constants.TRAIN_OP_SIGNATURE_KEY: "the train op"}


class SavedModelBuilder:
    """Writes a SavedModel: MetaGraphs with signatures, the variables, and assets.

    The directory holds ``saved_model.pb`` (or ``.pbtxt``), which :meth:`save` writes, the variables
    as a checkpoint ``variables/variables.h5``, and copies of the assets in ``assets``. All
    MetaGraphs share the variables, which the first one saves.

    Args:
        export_dir: the directory; it is made if it does not exist.

    Raises ``AssertionError`` if the directory exists and is not empty.
    """

    def __init__(self, export_dir: str) -> None:
        self._export_dir = os.fsdecode(export_dir)
        self._has_saved_variables = False
        self._saved_model = message_class("SavedModel")(
            saved_model_schema_version=constants.SAVED_MODEL_SCHEMA_VERSION)
        if os.path.isdir(self._export_dir) and os.listdir(self._export_dir):
            raise AssertionError(
                f"Export directory {export_dir} already exists, and isn't empty. Please choose a "
                "different export directory, or delete all the contents of the specified directory")
        os.makedirs(self._export_dir, exist_ok=True)

    def add_meta_graph_and_variables(
            self, sess: SessionLike, tags: Iterable[str],
            signature_def_map: Mapping[str, Any] | None = None,
            assets_collection: Iterable[Tensor] | None = None,
            legacy_init_op: Operation | None = None, clear_devices: bool = False,
            main_op: Operation | None = None, strip_default_attrs: bool = False,
            saver: Saver | None = None) -> None:
        """Add the default graph as the first MetaGraph, and save the variables of a session.

        Args:
            sess: the session; the variables must be initialized.
            tags: what names the MetaGraph.
            signature_def_map: its signatures by their names.
            assets_collection: string constants that name files to be stored with the model.
            legacy_init_op: an older name of `main_op`.
            clear_devices: leave out the devices.
            main_op: the operation to run when the model was loaded and its variables restored.
            strip_default_attrs: leave out attributes that have their default values.
            saver: what saves and restores the variables; by default one for all.

        Raises ``AssertionError`` if variables were saved already or a signature's tensor has no
        name or dtype, ``KeyError`` for a reserved name of a signature, ``TypeError`` for a
        `main_op` or an asset of another kind, and ``ValueError`` if the graph has a main op.
        """
        self._check_order(is_first=True)
        signatures = _checked_signatures(signature_def_map)
        self._add_collections(assets_collection, legacy_init_op if main_op is None else main_op)
        saver = saver or _saver_of_everything()
        self._save_variables(sess, saver)
        self._add(saver, tags, signatures, clear_devices, strip_default_attrs)

    @property
    def has_saved_variables(self) -> bool:
        """True after :meth:`add_meta_graph_and_variables`."""
        return self._has_saved_variables

    def add_meta_graph(self, tags: Iterable[str],
                       signature_def_map: Mapping[str, Any] | None = None,
                       assets_collection: Iterable[Tensor] | None = None,
                       legacy_init_op: Operation | None = None, clear_devices: bool = False,
                       main_op: Operation | None = None, strip_default_attrs: bool = False,
                       saver: Saver | None = None) -> None:
        """Add the default graph as another MetaGraph, over the variables that have been saved.

        The arguments and errors are those of :meth:`add_meta_graph_and_variables`, which must have
        been called before (``AssertionError``).
        """
        self._check_order(is_first=False)
        signatures = _checked_signatures(signature_def_map)
        self._add_collections(assets_collection, legacy_init_op if main_op is None else main_op)
        self._add(saver or _saver_of_everything(), tags, signatures, clear_devices,
                  strip_default_attrs)

    def save(self, as_text: bool = False) -> bytes:
        """Write the file, as text if `as_text`, and return its path."""
        return files.write_saved_model(self._saved_model, self._export_dir, as_text).encode()

    def _check_order(self, is_first: bool) -> None:
        if is_first and self._has_saved_variables:
            raise AssertionError("Graph state including variables and assets has already been "
                                 "saved. Please invoke `add_meta_graph()` instead.")
        if not is_first and not self._has_saved_variables:
            raise AssertionError(
                "Graph state including variables and assets has not been saved yet. Please invoke "
                "`add_meta_graph_and_variables()` first.")

    def _save_variables(self, sess: SessionLike, saver: Saver) -> None:
        path = files.variables_path(self._export_dir)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        saver.save(sess, path, write_meta_graph=False, write_state=False)
        self._has_saved_variables = True

    def _add_collections(self, assets: Iterable[Tensor] | None, main_op: Operation | None) -> None:
        copy_assets(collect_assets(assets or ()), self._export_dir)
        if main_op is None:
            return
        if not isinstance(main_op, Operation):
            raise TypeError(f"main_op needs to be an Operation: {main_op!r}")
        for key in (constants.MAIN_OP_KEY, constants.LEGACY_INIT_OP_KEY):
            if get_collection(key):
                raise ValueError("Graph already contains one or more main ops under the "
                                 f"collection {key}.")
        add_to_collection(constants.MAIN_OP_KEY, main_op)

    def _add(self, saver: Saver, tags: Iterable[str], signatures: Mapping[str, Any],
             clear_devices: bool, strip_default_attrs: bool) -> None:
        meta = saver.export_meta_graph(clear_devices=clear_devices,
                                       strip_default_attrs=strip_default_attrs)
        meta.meta_info_def.tags.extend(tags)
        for key, signature in signatures.items():
            meta.signature_def[key].CopyFrom(signature)
        self._saved_model.meta_graphs.append(meta)


class SignedModelBuilder(SavedModelBuilder):
    """A builder that names the operations to initialize and to train a model in signatures.

    :func:`hpcflow.saved_model.load` runs the former; ``loader.get_train_op`` returns the latter.
    The methods are those of :class:`SavedModelBuilder`, with the operations `init_op` and
    `train_op` for its `main_op`, and `assets_list` for its `assets_collection`.
    """

    def add_meta_graph_and_variables(  # type: ignore[override]
            self, sess: SessionLike, tags: Iterable[str],
            signature_def_map: Mapping[str, Any] | None = None,
            assets_list: Iterable[Tensor] | None = None, clear_devices: bool = False,
            init_op: Operation | None = None, train_op: Operation | None = None,
            strip_default_attrs: bool = False, saver: Saver | None = None) -> None:
        """Add the default graph as the first MetaGraph, and save the variables of a session."""
        self._check_order(is_first=True)
        signatures = _with_operations(signature_def_map, init_op, train_op)
        self._add_collections(assets_list, None)
        saver = saver or _saver_of_everything()
        self._save_variables(sess, saver)
        self._add(saver, tags, signatures, clear_devices, strip_default_attrs)

    def add_meta_graph(  # type: ignore[override]
            self, tags: Iterable[str], signature_def_map: Mapping[str, Any] | None = None,
            assets_list: Iterable[Tensor] | None = None, clear_devices: bool = False,
            init_op: Operation | None = None, train_op: Operation | None = None,
            saver: Saver | None = None) -> None:
        """Add the default graph as another MetaGraph, without attributes that are defaults."""
        self._check_order(is_first=False)
        signatures = _with_operations(signature_def_map, init_op, train_op)
        self._add_collections(assets_list, None)
        self._add(saver or _saver_of_everything(), tags, signatures, clear_devices, True)


def _with_operations(signatures: Mapping[str, Any] | None, init_op: Operation | None,
                     train_op: Operation | None) -> Mapping[str, Any]:
    named = ((constants.INIT_OP_SIGNATURE_KEY, init_op), (constants.TRAIN_OP_SIGNATURE_KEY,
                                                          train_op))
    return {**_checked_signatures(signatures),
            **{key: op_signature_def(op, key) for key, op in named if op is not None}}


def _saver_of_everything() -> Saver:
    return Saver(sharded=True, allow_empty=True)


def _checked_signatures(signatures: Mapping[str, Any] | None) -> Mapping[str, Any]:
    signatures = signatures or {}
    for signature in signatures.values():
        for infos in (signature.inputs, signature.outputs):
            for key in infos:
                _check_info(infos[key])
    for key, what in _RESERVED.items():
        if key in signatures:
            raise KeyError(f'SignatureDef map key "{key}" is reserved for {what}. Please use a '
                           "different key.")
    return signatures


def _check_info(info: Message) -> None:
    for field, is_set in (("name", info.WhichOneof("encoding")), ("dtype", info.dtype)):
        if not is_set:
            raise AssertionError(f"All TensorInfo protos used in the SignatureDefs must have the "
                                 f"name and dtype fields set; this one has no {field}: {info}")
