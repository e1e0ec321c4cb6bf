"""The configuration file of TensorBoard's embedding projector for a log directory."""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

from hpcflow.platform.file_io import write_string_to_file
from hpcflow.train.checkpoint_state import latest_checkpoint
from hpcflow.train.embedding_files import CONFIG_FILE, write_embeddings

if TYPE_CHECKING:
    from google.protobuf.message import Message

_MODULE = "projector_config_pb2"
_MESSAGES = ("EmbeddingInfo", "ProjectorConfig", "SpriteMetadata")


def visualize_embeddings(summary_writer: Any, config: Message) -> None:
    """Write a ``ProjectorConfig`` to the log directory of a writer, where TensorBoard finds it.

    The embeddings are variables of the checkpoints in that directory, by name; their
    ``metadata_path`` and ``sprite.image_path`` are relative to it. TensorBoard does not read
    checkpoints in HDF5, so each save into the directory writes an embedding without a
    ``tensor_path`` as a table, ``NAME.checkpoint.tsv``, and names it there.

    Raises ``ValueError`` for a writer without a log directory.
    """
    logdir = summary_writer.get_logdir()
    if not logdir:
        raise ValueError("Summary writer must have a logdir")
    from google.protobuf import text_format

    write_string_to_file(os.path.join(logdir, CONFIG_FILE), text_format.MessageToString(config))
    saved = latest_checkpoint(logdir)
    if saved:
        write_embeddings(saved)


def __getattr__(name: str) -> Any:
    if name not in (*_MESSAGES, _MODULE):
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    messages = importlib.import_module(f"tensorboard.plugins.projector.{_MODULE}")
    return messages if name == _MODULE else getattr(messages, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MESSAGES, _MODULE})
