"""Graphs and records of traced steps, read from files for the commands."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from google.protobuf import text_format
from google.protobuf.message import DecodeError
from tensorboard.compat.proto import config_pb2, graph_pb2

from hpcflow.graph.graph import Graph
from hpcflow.graph.importer import import_graph_def
from hpcflow.graph.operation import Tensor


def read_graph(path: Path) -> Graph:
    """The graph of a file: a MetaGraph (``.meta``), else a GraphDef, of text in ``.pbtxt``.

    Raises OSError or ValueError for a file that is missing or something else.
    """
    from hpcflow.metagraph.meta_graph import import_scoped_meta_graph

    graph = Graph()
    with graph.as_default():
        if path.suffix == ".meta":
            try:
                import_scoped_meta_graph(str(path))
            except DecodeError as error:
                raise ValueError(f"{path} is no MetaGraph: {error}") from None
        else:
            import_graph_def(_graph_def(path), name="")
    return graph


def _graph_def(path: Path) -> Any:
    data = path.read_bytes()
    if not data:
        raise ValueError(f"{path} is no GraphDef: it is empty")
    try:
        if path.suffix not in (".pbtxt", ".txt"):
            return graph_pb2.GraphDef.FromString(data)
        return text_format.Parse(data.decode(), graph_pb2.GraphDef())
    except (DecodeError, text_format.ParseError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is no GraphDef: {error}") from None


def step_of(graph: Graph, names: Sequence[str]) -> tuple[list[Any], list[Tensor]]:
    """What a step of the graph runs, its ``train_op`` if no names are given, and what is fed.

    Raises ValueError or KeyError if the graph has no such operations or tensors.
    """
    wanted = [graph.as_graph_element(n) for n in names] or graph.get_collection("train_op")
    if not wanted:
        raise ValueError("Name what a step runs by --fetch: the graph has no train_op")
    return wanted, [op.outputs[0] for op in graph.get_operations()
                    if op.type in ("Placeholder", "PlaceholderV2")]


def read_run_metadata(path: Path) -> Any:
    """The RunMetadata of a file; OSError or ValueError if there is none in it."""
    data = path.read_bytes()
    if not data:
        raise ValueError(f"{path} is no RunMetadata: it is empty")
    try:
        return config_pb2.RunMetadata.FromString(data)
    except DecodeError as error:
        raise ValueError(f"{path} is no RunMetadata: {error}") from None
