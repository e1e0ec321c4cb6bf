"""Assets of TensorBoard's plugins: files beside the events of a graph, under ``plugins/NAME``."""

from __future__ import annotations

import abc
import os
from typing import ClassVar, TypeVar

from hpcflow.graph.graph import Graph, get_default_graph
from hpcflow.storage.whole_files import write_atomically

_ASSETS = "__tensorboard_plugin_asset__"  # the collection of a graph that has them


class PluginAsset(abc.ABC):
    """The files of one plugin. A subclass has a ``plugin_name`` of its own."""

    plugin_name: ClassVar[str | None] = None

    @abc.abstractmethod
    def assets(self) -> dict[str, str | bytes]:
        """Return the content of each file by its name."""


_Asset = TypeVar("_Asset", bound=PluginAsset)


def get_plugin_asset(plugin_asset_cls: type[_Asset], graph: Graph | None = None) -> _Asset:
    """Return the one asset of this class that the graph has, made when it is first asked for.

    Raises ``ValueError`` for a class without a ``plugin_name``, or with that of another class.
    """
    name = plugin_asset_cls.plugin_name
    if not name:
        raise ValueError(f"Class {plugin_asset_cls.__name__} has no plugin_name")
    graph = graph or get_default_graph()
    for asset in get_all_plugin_assets(graph):
        if asset.plugin_name == name:
            if isinstance(asset, plugin_asset_cls):
                return asset
            raise ValueError(f"The classes {plugin_asset_cls.__name__} and {type(asset).__name__} "
                             f"have the same plugin_name '{name}'")
    asset = plugin_asset_cls()
    graph.add_to_collection(_ASSETS, asset)
    return asset


def get_all_plugin_assets(graph: Graph | None = None) -> list[PluginAsset]:
    """Return the assets of a graph, by default of the default graph."""
    return (graph or get_default_graph()).get_collection(_ASSETS)


def write_plugin_assets(graph: Graph, logdir: str) -> None:
    """Write the files of all assets of a graph below a directory of event files."""
    for asset in get_all_plugin_assets(graph):
        folder = os.path.join(logdir, "plugins", str(asset.plugin_name))
        os.makedirs(folder, exist_ok=True)
        for name, content in asset.assets().items():
            data = content.encode() if isinstance(content, str) else content
            write_atomically(os.path.join(folder, name), data)
