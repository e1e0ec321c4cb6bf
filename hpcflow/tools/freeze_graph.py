"""A graph and a checkpoint as one GraphDef: ``python -m hpcflow.tools.freeze_graph``."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from google.protobuf.message import DecodeError
from google.protobuf.text_format import ParseError

from hpcflow import graph_util
from hpcflow.errors import OpError
from hpcflow.graph.graph import Graph
from hpcflow.graph.importer import import_graph_def
from hpcflow.platform.file_io import read_file_to_string, write_string_to_file
from hpcflow.runtime.session.session import Session
from hpcflow.saved_model import loader, tag_constants
from hpcflow.tools.cli import CommandError, CommandParser, command_parser, first_line
from hpcflow.train.checkpoint_reader import NewCheckpointReader
from hpcflow.train.saveable import is_variable
from hpcflow.train.saver import Saver, import_meta_graph

if TYPE_CHECKING:
    from google.protobuf.message import Message


def freeze_graph(input_graph: str | None, input_saver: str | None, input_binary: bool,
                 input_checkpoint: str | None, output_node_names: str,
                 restore_op_name: str | None, filename_tensor_name: str | None,
                 output_graph: str | None, clear_devices: bool, initializer_nodes: str | None,
                 variable_names_whitelist: str = "", variable_names_blacklist: str = "",
                 input_meta_graph: str | None = None, input_saved_model_dir: str | None = None,
                 saved_model_tags: str = tag_constants.SERVING,
                 checkpoint_version: int = 2) -> Any:
    """Return the part of a graph that computes some nodes, its variables being constants.

    Args:
        input_graph: file with a GraphDef; or one of `input_meta_graph`, a file with a MetaGraphDef,
            and `input_saved_model_dir`, a SavedModel with its own variables.
        input_saver: file with a SaverDef whose operations in the graph restore the variables.
        input_binary: these files are binary protobufs, not text.
        input_checkpoint: the checkpoint, a path as ``Saver.save`` returns it.
        output_node_names: names of the nodes to keep, separated by commas.
        restore_op_name: accepted; not used, as in 1.x.
        filename_tensor_name: accepted; not used, as in 1.x.
        output_graph: file to write the result to, a binary GraphDef; not written if empty.
        clear_devices: leave out the devices of the nodes.
        initializer_nodes: names of operations to run after restoring, separated by commas.
        variable_names_whitelist: the only variables to convert, separated by commas.
        variable_names_blacklist: variables not to convert, separated by commas.
        saved_model_tags: tags of the MetaGraph in the SavedModel, separated by commas.
        checkpoint_version: accepted; checkpoints say their version.

    Raises ``ValueError`` without a graph, a checkpoint or names, ``NotFoundError`` for files that
    are missing.
    """
    _kept(output_node_names, input_checkpoint or input_saved_model_dir)
    if not (input_graph or input_meta_graph or input_saved_model_dir):
        raise ValueError("one of input_graph, input_meta_graph and input_saved_model_dir is needed")
    def_of_graph, saver = None, None
    if not input_saved_model_dir and not input_meta_graph:
        def_of_graph = read_message("graph", "GraphDef", str(input_graph), input_binary)
        if input_saver:
            saver = read_message("saver", "SaverDef", input_saver, input_binary)
    meta_graph = None if input_saved_model_dir else input_meta_graph
    return freeze_graph_with_def_protos(
        def_of_graph, saver, input_checkpoint, output_node_names, restore_op_name,
        filename_tensor_name, output_graph, clear_devices, initializer_nodes,
        variable_names_whitelist, variable_names_blacklist, meta_graph, input_saved_model_dir,
        _names(saved_model_tags), checkpoint_version)


def freeze_graph_with_def_protos(
        input_graph_def: Any, input_saver_def: Any, input_checkpoint: str | None,
        output_node_names: str, restore_op_name: str | None, filename_tensor_name: str | None,
        output_graph: str | None, clear_devices: bool, initializer_nodes: str | None,
        variable_names_whitelist: str = "", variable_names_blacklist: str = "",
        input_meta_graph_def: Any = None, input_saved_model_dir: str | None = None,
        saved_model_tags: Sequence[str] | None = None, checkpoint_version: int = 2) -> Any:
    """Do as :func:`freeze_graph` does, with messages in the place of files.

    Args:
        input_graph_def: a GraphDef; or one of `input_meta_graph_def`, a MetaGraphDef, and
            `input_saved_model_dir`.
        input_saver_def: a SaverDef whose operations in the graph restore the variables; without
            one those are restored that the checkpoint has under their names.
        saved_model_tags: tags of the MetaGraph in the SavedModel.
        input_checkpoint, output_node_names, restore_op_name, filename_tensor_name, output_graph,
            clear_devices, initializer_nodes, variable_names_whitelist, variable_names_blacklist,
            checkpoint_version: as there.
    """
    del restore_op_name, filename_tensor_name, checkpoint_version
    outputs = _kept(output_node_names, input_checkpoint or input_saved_model_dir)
    with Graph().as_default() as graph, Session(graph=graph) as session:
        if input_saved_model_dir:
            loader.load(session, list(saved_model_tags or ()), input_saved_model_dir)
        elif input_meta_graph_def:
            saver = import_meta_graph(input_meta_graph_def, clear_devices)
            _restore(session, saver, str(input_checkpoint))
        else:
            import_graph_def(_without_devices(input_graph_def) if clear_devices
                             else input_graph_def, name="")
            _restore(session, Saver(saver_def=input_saver_def) if input_saver_def else None,
                     str(input_checkpoint))
        if initializer_nodes:
            session.run(_names(initializer_nodes))
        frozen = graph_util.convert_variables_to_constants(
            session, graph.as_graph_def(), outputs, _names(variable_names_whitelist) or None,
            _names(variable_names_blacklist))
    if clear_devices:
        _without_devices(frozen)
    if output_graph:
        write_string_to_file(output_graph, frozen.SerializeToString())
    return frozen


def _kept(output_node_names: str, values: str | None) -> list[str]:
    """The nodes to keep; ``ValueError`` without any, or without values of the variables."""
    names = _names(output_node_names)
    if not names:
        raise ValueError("output_node_names must name the nodes to keep")
    if not values:
        raise ValueError("input_checkpoint is needed for the values of the variables")
    return names


def _names(text: str | None) -> list[str]:
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def read_message(module: str, kind: str, path: str, binary: bool) -> Any:
    """A protobuf message of a file."""
    from google.protobuf import text_format

    message = getattr(importlib.import_module(f"tensorboard.compat.proto.{module}_pb2"), kind)()
    if binary:
        message.ParseFromString(read_file_to_string(path, binary_mode=True))
    else:
        text_format.Merge(read_file_to_string(path), message)
    return message


def _without_devices(graph_def: Message) -> Any:
    for node in graph_def.node:
        node.device = ""
    return graph_def


def _restore(session: Session, saver: Saver | None, checkpoint: str) -> None:
    """Restore the variables, without a saver those that the checkpoint has under their names."""
    if saver is None:
        graph, found = session.graph, {}
        names = {op.name: op for op in graph.get_operations() if op.outputs}
        for name in NewCheckpointReader(checkpoint).get_variable_to_shape_map():
            if name in names and is_variable(names[name].outputs[0]):
                found[name] = names[name].outputs[0]
        if not found:
            return
        saver = Saver(found)
    saver.restore(session, checkpoint)


def parser() -> CommandParser:
    """The arguments of :func:`freeze_graph` as flags."""
    made = command_parser("freeze-graph", "Make one GraphDef of a graph and a checkpoint: the part "
                          "that computes some nodes, with its variables as constants.")
    for flag, about in _FLAGS.items():
        made.add_argument(f"--{flag}", default="", metavar="X", help=about)
    made.add_argument("--saved_model_tags", default=tag_constants.SERVING, metavar="TAGS",
                      help="tags of the SavedModel's graph, with commas (default: %(default)s)")
    for flag, default, about in (("input_binary", False, "the files are binary, not text"),
                                 ("clear_devices", True, "leave out devices (the default)")):
        made.add_argument(f"--{flag}", nargs="?", const=True, default=default, metavar="BOOL",
                          type=_truth, help=about)
    return made


def _truth(text: str) -> bool:
    words = {"true": True, "t": True, "1": True, "yes": True,
             "false": False, "f": False, "0": False, "no": False}
    if text.lower() not in words:
        raise argparse.ArgumentTypeError(f"expected one of {', '.join(words)}, got '{text}'")
    return words[text.lower()]


_FLAGS = {
    "input_graph": "file with a GraphDef",
    "input_saver": "file with a SaverDef that restores the variables",
    "input_checkpoint": "the checkpoint, a path as Saver.save returns it",
    "output_graph": "file to write the result to, a binary GraphDef (needed)",
    "output_node_names": "names of the nodes to keep, with commas",
    "initializer_nodes": "nodes to run before the variables are read, with commas",
    "variable_names_whitelist": "only these variables become constants, with commas",
    "variable_names_blacklist": "these variables stay variables, with commas",
    "input_meta_graph": "file with a MetaGraphDef, in the place of a GraphDef",
    "input_saved_model_dir": "folder of a SavedModel, in the place of both",
}


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    made = parser()
    arguments = vars(made.parse_args(argv))
    if not arguments["output_graph"]:
        made.error("--output_graph is needed")
    try:
        frozen = freeze_graph(restore_op_name=None, filename_tensor_name=None, **arguments)
    except UnicodeDecodeError as error:
        raise CommandError("a file is not text; --input_binary reads binary ones") from error
    except (OpError, OSError, ValueError, AssertionError, DecodeError, ParseError) as error:
        raise CommandError(first_line(error)) from error
    print(f"{len(frozen.node)} ops in the final graph.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
