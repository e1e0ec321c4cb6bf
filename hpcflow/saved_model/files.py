"""The file of a SavedModel, in its binary and its text form."""

from __future__ import annotations

import functools
import os
from typing import Any

from hpcflow.base.formats.protos import message_class
from hpcflow.saved_model import constants
from hpcflow.saved_model.assets import ASSET_TYPE
from hpcflow.storage.whole_files import write_atomically


def maybe_saved_model_directory(export_dir: str) -> bool:
    """True if a directory holds the file of a SavedModel, which may still be damaged."""
    return any(os.path.exists(path) for path in _paths(export_dir))


def variables_path(export_dir: str) -> str:
    """The prefix of the checkpoint of a SavedModel."""
    return os.path.join(os.fsdecode(export_dir), constants.VARIABLES_DIRECTORY,
                        constants.VARIABLES_FILENAME)


def write_saved_model(saved_model: Any, export_dir: str, as_text: bool) -> str:
    """Write the file and return its path."""
    binary, text = _paths(export_dir)
    path = text if as_text else binary
    saved_model = _with_asset_types(saved_model, ASSET_TYPE)
    content = str(saved_model).encode() if as_text else saved_model.SerializeToString()
    write_atomically(path, content)
    return path


def read_saved_model(export_dir: str) -> Any:
    """Return the ``SavedModel`` message of a directory; the binary file is preferred.

    Its assets have the type of the library's own class, so that they unpack into that. Raises
    ``IOError`` if there is no such file, or it is damaged.
    """
    from google.protobuf.message import DecodeError

    binary, text = _paths(export_dir)
    try:
        if os.path.exists(binary):
            with open(binary, "rb") as file:
                return _of_own_types(message_class("SavedModel").FromString(file.read()))
        if os.path.exists(text):
            return _of_own_types(_read_text(text))
    except DecodeError as error:
        raise OSError(f"Cannot parse file {binary}: {error}.") from None
    raise OSError(f"SavedModel file does not exist at: {export_dir}/"
                  f"{{{constants.SAVED_MODEL_FILENAME_PBTXT}|{constants.SAVED_MODEL_FILENAME_PB}}}")


def _of_own_types(saved_model: Any) -> Any:
    from tensorboard.compat.proto.meta_graph_pb2 import AssetFileDef

    return _with_asset_types(saved_model, AssetFileDef.DESCRIPTOR.full_name)


def _with_asset_types(saved_model: Any, name: str) -> Any:
    """A copy whose assets are messages of the type `name`."""
    renamed = type(saved_model).FromString(saved_model.SerializeToString())
    for meta in renamed.meta_graphs:
        if constants.ASSETS_KEY in meta.collection_def:
            for item in meta.collection_def[constants.ASSETS_KEY].any_list.value:
                item.type_url = f"type.googleapis.com/{name}"
    return renamed


def _read_text(path: str) -> Any:
    from google.protobuf import text_format

    with open(path, "rb") as file:
        content = file.read()
    try:
        return text_format.Parse(content.decode(), message_class("SavedModel")(),
                                 descriptor_pool=_asset_types())
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise OSError(f"Cannot parse file {path}: {error}.") from None


def _paths(export_dir: str) -> tuple[str, str]:
    return (os.path.join(os.fsdecode(export_dir), constants.SAVED_MODEL_FILENAME_PB),
            os.path.join(os.fsdecode(export_dir), constants.SAVED_MODEL_FILENAME_PBTXT))


@functools.cache
def _asset_types() -> Any:
    """The type of assets under the name that text files spell out inside of ``Any`` messages.

    It has a pool of its own: the name belongs to another package, which may be imported too.
    """
    from google.protobuf import descriptor_pb2, descriptor_pool

    package, _, name = ASSET_TYPE.rpartition(".")
    file = descriptor_pb2.FileDescriptorProto(name="assets.proto", package=package, syntax="proto3")
    info, asset = file.message_type.add(name="TensorInfo"), file.message_type.add(name=name)
    info.field.add(name="name", number=1, type=9, label=1)  # an optional string
    asset.field.add(name="tensor_info", number=1, type=11, label=1,
                    type_name=f".{package}.TensorInfo")
    asset.field.add(name="filename", number=2, type=9, label=1)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return pool
