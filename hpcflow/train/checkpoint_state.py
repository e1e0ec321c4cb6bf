"""The "checkpoint" file of a directory: which checkpoints there are, and which is the latest."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from hpcflow import config, storage
from hpcflow.base import program_log
from hpcflow.base.formats.protos import message_class
from hpcflow.errors import NotFoundError
from hpcflow.storage.system_errors import system_errors
from hpcflow.storage.whole_files import write_atomically
from hpcflow.train.background_task import wait_for_writes

DEFAULT_FILENAME = "checkpoint"


def generate_checkpoint_state_proto(
        save_dir: str, model_checkpoint_path: str,
        all_model_checkpoint_paths: Iterable[str] | None = None,
        all_model_checkpoint_timestamps: Iterable[float] | None = None,
        last_preserved_timestamp: float | None = None) -> Any:
    """Return a ``CheckpointState`` that lists the checkpoints, oldest first.

    `model_checkpoint_path` is the latest one and becomes the last of the list if it is not.
    With a relative `save_dir`, relative paths are written relative to it. Times are seconds since
    the epoch; raises ``ValueError`` unless there are as many as paths.
    """
    save_dir, model_checkpoint_path = os.fsdecode(save_dir), os.fsdecode(model_checkpoint_path)
    paths = list(map(os.fsdecode, all_model_checkpoint_paths or ()))
    times = list(all_model_checkpoint_timestamps or ())
    if times and len(times) != len(paths):
        raise ValueError("Checkpoint timestamps, if provided, must match checkpoint paths (got "
                         f"paths {paths} and timestamps {times})")
    if not paths or paths[-1] != model_checkpoint_path:
        paths.append(model_checkpoint_path)
    if not os.path.isabs(save_dir):
        paths = [p if os.path.isabs(p) else os.path.relpath(p, save_dir or ".") for p in paths]
    return message_class("CheckpointState")(
        model_checkpoint_path=paths[-1], all_model_checkpoint_paths=paths,
        all_model_checkpoint_timestamps=times, last_preserved_timestamp=last_preserved_timestamp)


def update_checkpoint_state(save_dir: str, model_checkpoint_path: str,
                            all_model_checkpoint_paths: Iterable[str] | None = None,
                            latest_filename: str | None = None,
                            all_model_checkpoint_timestamps: Iterable[float] | None = None,
                            last_preserved_timestamp: float | None = None,
                            save_relative_paths: bool = False) -> None:
    """Write the "checkpoint" file of `save_dir`, replacing it in one step.

    The arguments are those of :func:`generate_checkpoint_state_proto`;
    `save_relative_paths` writes all paths relative to `save_dir`, so that the directory can be
    moved. Raises ``RuntimeError`` if the checkpoint has the name of that file.
    """
    filename = _state_filename(save_dir, latest_filename)
    if os.path.abspath(filename) == os.path.abspath(model_checkpoint_path):
        raise RuntimeError(f"Save path '{model_checkpoint_path}' conflicts with path used for "
                           "checkpoint state. Please use a different save path.")
    paths = list(all_model_checkpoint_paths or ())
    if save_relative_paths:
        model_checkpoint_path = os.path.relpath(model_checkpoint_path, save_dir)
        paths = [os.path.relpath(p, save_dir) for p in paths]
        save_dir = os.path.abspath(save_dir)
    state = generate_checkpoint_state_proto(
        save_dir, model_checkpoint_path, paths, all_model_checkpoint_timestamps,
        last_preserved_timestamp)
    from google.protobuf import text_format

    write_atomically(filename, text_format.MessageToString(state).encode())


def get_checkpoint_state(checkpoint_dir: str, latest_filename: str | None = None) -> Any:
    """Return the ``CheckpointState`` of a directory with usable paths, or None.

    A checkpoint that a hook of this process is writing there in the background is waited for.

    None (with a warning) also if the file cannot be understood. Raises ``ValueError`` if it names
    no checkpoint, ``FailedPreconditionError`` if it is no regular file, and other OpErrors of the
    file system.
    """
    checkpoint_dir = os.fsdecode(checkpoint_dir)
    filename = _state_filename(checkpoint_dir, latest_filename)
    wait_for_writes(checkpoint_dir)
    try:
        with system_errors(f"reading file '{filename}'"):
            text = storage.read_file(filename)
    except NotFoundError:
        return None
    from google.protobuf import text_format

    state = message_class("CheckpointState")()
    try:
        text_format.Merge(text, state)
    except (text_format.ParseError, UnicodeDecodeError) as error:
        program_log.warning("%s: %s", filename, error)
        return None
    if not state.model_checkpoint_path:
        raise ValueError(f"Invalid checkpoint state loaded from {checkpoint_dir}: {filename} "
                         "names no checkpoint")
    state.model_checkpoint_path = os.path.join(checkpoint_dir, state.model_checkpoint_path)
    paths = [os.path.join(checkpoint_dir, p) for p in state.all_model_checkpoint_paths]
    state.all_model_checkpoint_paths[:] = paths
    return state


def latest_checkpoint(checkpoint_dir: str, latest_filename: str | None = None) -> str | None:
    """Return the path of the latest checkpoint of a directory, or None if there is none."""
    state = get_checkpoint_state(checkpoint_dir, latest_filename)
    if state is None:
        return None
    if checkpoint_exists(state.model_checkpoint_path):
        return state.model_checkpoint_path
    program_log.warning("the checkpoint %s, which %s names, does not exist",
                        state.model_checkpoint_path,
                        _state_filename(checkpoint_dir, latest_filename))
    return None


def checkpoint_exists(checkpoint_prefix: str) -> bool:
    """True if there is a checkpoint saved under this path."""
    wait_for_writes(checkpoint_prefix)
    return storage.checkpoint_exists(checkpoint_prefix)


def get_checkpoint_mtimes(checkpoint_prefixes: Iterable[str]) -> list[float]:
    """Return when the checkpoints were completed (seconds since the epoch), of those that exist."""
    return [storage.modification_time(p) for p in checkpoint_prefixes if checkpoint_exists(p)]


def note_progress(path: str) -> None:
    """Tell who started this job that a checkpoint is complete, by HPCFLOW_PROGRESS_FILE."""
    for name in filter(None, config.flags.progress_file.split(os.pathsep)):
        try:
            with open(name, "a", encoding="utf-8") as file:
                file.write(f"{os.path.abspath(path)}\n")
        except OSError as error:
            program_log.warning("%s: %s", name, error)


def _state_filename(directory: str, latest_filename: str | None) -> str:
    return os.path.join(directory, latest_filename or DEFAULT_FILENAME)
