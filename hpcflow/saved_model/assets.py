"""Assets: files that a graph reads, such as vocabularies, stored with a SavedModel.

A graph names such a file by a string constant. When the model is loaded, the constant is fed with
the place where the copy of the file then is.
"""

from __future__ import annotations

import filecmp
import os
import shutil
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from hpcflow import dtypes
from hpcflow.base.formats.array_protos import make_ndarray
from hpcflow.graph.graph import add_to_collection
from hpcflow.graph.operation import Tensor
from hpcflow.ops.common.slice_info import prepend_scope
from hpcflow.saved_model import constants

if TYPE_CHECKING:
    from google.protobuf.message import Message

#: The type of an asset in files.
ASSET_TYPE = "tensorflow.AssetFileDef"


def collect_assets(tensors: Iterable[Tensor]) -> dict[str, str]:
    """Add the files that string constants name to the graph's collection of assets.

    Returns the path of each file by its name in the SavedModel; different files of one name get
    numbers. Raises ``TypeError`` for what is no scalar constant of strings, ``ValueError`` for an
    empty path.
    """
    paths: dict[str, str] = {}
    for tensor in tensors:
        path = _path_of(tensor)
        name = _name_of(path, paths)
        paths[name] = path
        _add_to_collection(name, tensor)
    return paths


def copy_assets(paths: dict[str, str], export_dir: str) -> None:
    """Copy the files into the SavedModel, as far as they exist and are not there yet."""
    folder = os.path.join(export_dir, constants.ASSETS_DIRECTORY)
    for name, path in paths.items():
        os.makedirs(folder, exist_ok=True)
        destination = os.path.join(folder, name)
        if os.path.exists(path) and not os.path.exists(destination):
            shutil.copyfile(path, destination)


def asset_feeds(meta_graph_def: Message, export_dir: str,
                import_scope: str | None) -> dict[str, bytes]:
    """The path of each asset of a loaded SavedModel by the name of the tensor to be fed."""
    folder = os.path.join(export_dir, constants.ASSETS_DIRECTORY)
    return {prepend_scope(asset.tensor_info.name, import_scope):
            os.path.join(folder, asset.filename).encode() for asset in _assets(meta_graph_def)}


def _assets(meta_graph_def: Message) -> list[Any]:
    """The ``AssetFileDef`` messages of a MetaGraph, which later writers give a field of its own."""
    from tensorboard.compat.proto.meta_graph_pb2 import AssetFileDef

    if constants.ASSETS_KEY in meta_graph_def.collection_def:
        collection = meta_graph_def.collection_def[constants.ASSETS_KEY]
        return [AssetFileDef.FromString(item.value) for item in collection.any_list.value]
    return list(meta_graph_def.asset_file_def)


def _path_of(tensor: Tensor | str) -> str:
    if not isinstance(tensor, Tensor):
        raise TypeError(f"Asset path tensor {tensor} must be a Tensor.")
    if tensor.op.type != "Const":
        raise TypeError(f"Asset path tensor {tensor.name} must be a constant, not the output of "
                        f"{tensor.op.type}.")
    if tensor.dtype is not dtypes.string:
        raise TypeError(f"Asset path tensor {tensor.name} must be of dtype string, not "
                        f"{tensor.dtype.name}.")
    value = make_ndarray(tensor.op.get_attr("value"))
    if value.size != 1:
        raise TypeError(f"Asset path tensor {tensor.name} must be a scalar, not {value.shape}.")
    path = value.item().decode()
    if not path:
        raise ValueError(f"Asset path tensor {tensor.name} holds an empty path.")
    return path


def _name_of(path: str, paths: dict[str, str]) -> str:
    """The name of a file in the SavedModel: its own, with a number if another file has it."""
    base = name = os.path.basename(path)
    number = 1
    while name in paths and not _same_file(paths[name], path):
        name = f"{base}_{number}"
        number += 1
    return name


def _same_file(first: str, second: str) -> bool:
    return first == second or filecmp.cmp(first, second, shallow=False)


def _add_to_collection(name: str, tensor: Tensor) -> None:
    from google.protobuf.any_pb2 import Any as AnyMessage
    from tensorboard.compat.proto.meta_graph_pb2 import AssetFileDef

    asset = AssetFileDef(filename=name)
    asset.tensor_info.name = tensor.name
    add_to_collection(constants.ASSETS_KEY, AnyMessage(
        type_url=f"type.googleapis.com/{AssetFileDef.DESCRIPTOR.full_name}",
        value=asset.SerializeToString()))
