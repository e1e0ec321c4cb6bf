"""Variables of a checkpoint as text beside it, for TensorBoard's embedding projector.

The projector reads checkpoints by the library that they come from, tables of numbers in any
case. So where a log directory says which embeddings to show, each save there writes their tables.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Any

from hpcflow.base import program_log
from hpcflow.errors import OpError
from hpcflow.train.checkpoint_reader import NewCheckpointReader

CONFIG_FILE = "projector_config.pbtxt"
_MOST_ROWS = 100_000  # the projector shows no more


def table_name(tensor: str) -> str:
    """The file of a variable's table: ``words.checkpoint.tsv`` for ``words:0``."""
    return re.sub(r"[^\w.-]", "_", tensor.removesuffix(":0")) + ".checkpoint.tsv"


def write_embeddings(checkpoint: str) -> None:
    """Write the tables of a checkpoint that the configuration beside it asks for.

    These are those of embeddings without a file; it is told in the configuration then. A table that
    cannot be written is a warning, since the checkpoint itself is well.
    """
    folder = os.path.dirname(os.path.abspath(checkpoint))
    if not os.path.exists(os.path.join(folder, CONFIG_FILE)):
        return
    try:
        config = _read_config(folder)
        wanted = [e for e in config.embeddings
                  if e.tensor_name and e.tensor_path in ("", table_name(e.tensor_name))]
        reader = NewCheckpointReader(checkpoint) if wanted else None
        for embedding in wanted:
            _write_table(folder, embedding.tensor_name, reader)
            embedding.tensor_path = table_name(embedding.tensor_name)
        if wanted:
            _replace(folder, CONFIG_FILE, [_text_of(config)])
    except (OSError, ValueError, OpError) as error:
        program_log.warning("no tables for the projector in %s: %s", folder, error)


def _read_config(folder: str) -> Any:
    from google.protobuf import text_format
    from tensorboard.plugins.projector.projector_config_pb2 import ProjectorConfig

    with open(os.path.join(folder, CONFIG_FILE), encoding="utf-8") as file:
        try:
            return text_format.Parse(file.read(), ProjectorConfig())
        except text_format.ParseError as error:
            raise ValueError(f"{CONFIG_FILE}: {error}") from None


def _text_of(config: Any) -> str:
    from google.protobuf import text_format

    return text_format.MessageToString(config)


def _replace(folder: str, name: str, parts: Iterable[str]) -> None:
    """Write a file that readers see whole, before or after."""
    path = os.path.join(folder, name)
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        file.writelines(parts)
    os.replace(f"{path}.new", path)


def _write_table(folder: str, name: str, reader: Any) -> None:
    variable = name.removesuffix(":0")
    shapes = reader.get_variable_to_shape_map()
    if variable not in shapes:
        raise ValueError(f"the checkpoint has no variable {variable!r}")
    if len(shapes[variable]) != 2:
        raise ValueError(f"{variable!r} has shape {list(shapes[variable])}, expected a matrix")
    rows = reader.get_tensor(variable)[:_MOST_ROWS].tolist()
    _replace(folder, table_name(name), ("\t".join(f"{x:.6g}" for x in row) + "\n" for row in rows))
