"""Saver: saves variables to checkpoints, restores them, and keeps the last few."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hpcflow import storage
from hpcflow.base import program_log
from hpcflow.errors import InvalidArgumentError, NotFoundError, OpError
from hpcflow.graph.graph import Graph, get_default_graph
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.likes import TensorLike
from hpcflow.host.tuning import programs as tuning
from hpcflow.metagraph import meta_graph
from hpcflow.metagraph.collection_protos import own_proto, register_proto_function
from hpcflow.ops.common.slice_info import prepend_scope, strip_scope
from hpcflow.train.background_task import BackgroundTask
from hpcflow.train.cell_names import restore_by_other_names
from hpcflow.train.checkpoint_files import meta_graph_filename
from hpcflow.train.checkpoint_state import (
    DEFAULT_FILENAME,
    note_progress,
    update_checkpoint_state,
)
from hpcflow.train.embedding_files import write_embeddings
from hpcflow.train.kept_checkpoints import KeptCheckpoints
from hpcflow.train.saveable import named_variables
from hpcflow.train.saving_graph import BackgroundOps, background_ops, build_saver_def

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from hpcflow.train.local_checkpoints import LocalCheckpoints


V1, V2 = 1, 2


class _Target(NamedTuple):
    """The destination of one save, and the files written beside it."""

    save_path: str
    latest_filename: str
    meta_graph_suffix: str
    write_meta_graph: bool
    write_state: bool
    strip_default_attrs: bool

    @property
    def directory(self) -> str:
        """The directory of the checkpoint."""
        return os.path.dirname(self.save_path)


class _NoCheckpoint(NotFoundError, ValueError):
    """The error of restoring what is no checkpoint: a ValueError in 1.x, and not found."""


class Saver(KeptCheckpoints):
    """Saves and restores variables.

    A checkpoint is one HDF5 file (``PATH.h5``) that holds every logical variable whole, however it
    is partitioned and on however many ranks; each rank writes what it owns. The file appears when
    it is complete. Beside it are the MetaGraph (``PATH.meta``) and, in its directory, the file
    "checkpoint" that names the latest ones.

    Args:
        var_list: variables (a list, or a dict from names in the checkpoint to variables); all
            global variables by default.
        reshape: restore tensors of another shape with as many elements.
        sharded: accepted for the 1.x API; owners always write their own parts.
        max_to_keep: number of recent checkpoints to keep; 0 or None keeps all.
        keep_checkpoint_every_n_hours: besides, keep one every so many hours of training.
        name: name scope of the operations.
        restore_sequentially: let the tasks read one after the other.
        saver_def: use the operations that a ``SaverDef`` names instead of making them.
        builder: must be None: layouts are not pluggable.
        defer_build: make the operations when :meth:`build` is called.
        allow_empty: accept that there is nothing to save.
        write_version: accepted for the 1.x API.
        pad_step_number: write step numbers with eight digits.
        save_relative_paths: write relative paths into the file "checkpoint".
        filename: path that the operations use where none is fed; :meth:`save` and :meth:`restore`
            feed theirs.
        async_save: let :meth:`save` return as soon as the values are held, and write them in the
            background. Such a save is complete when the next one begins, after :meth:`join`, or
            when the session or the program ends; a failure is raised there. While it is written,
            variables that change take their memory twice.

    Raises ``ValueError`` if there is nothing to save, or for contradicting arguments; ``TypeError``
    and ``ValueError`` as :func:`hpcflow.train.saveable.saveable_objects`.
    """

    def __init__(self, var_list: Any = None, reshape: bool = False, sharded: bool = False,
                 max_to_keep: int | None = 5, keep_checkpoint_every_n_hours: float = 10000.0,
                 name: str | None = None, restore_sequentially: bool = False,
                 saver_def: Any = None, builder: Any = None, defer_build: bool = False,
                 allow_empty: bool = False, write_version: int = V2,
                 pad_step_number: bool = False, save_relative_paths: bool = False,
                 filename: str | None = None, async_save: bool = False) -> None:
        if defer_build and var_list is not None:
            raise ValueError("If `var_list` is provided then build cannot be deferred. Either set "
                             "defer_build=False or var_list=None.")
        if builder is not None:
            raise ValueError("Saver(builder=...): the layout of checkpoints is not pluggable")
        super().__init__()
        # Asked for twice: by name, and to be saved.
        self._var_list = list(var_list) if isinstance(var_list, Iterator) else var_list
        self._options: dict[str, Any] = {
            "reshape": reshape, "sharded": sharded, "max_to_keep": max_to_keep or 0,
            "keep_checkpoint_every_n_hours": keep_checkpoint_every_n_hours,
            "restore_sequentially": restore_sequentially, "filename": filename or "model"}
        self._async_save = async_save
        self._background: BackgroundTask | None = None
        self._awaited = False  # by what reads checkpoints
        self._name = name
        self._allow_empty = allow_empty
        self._write_version = write_version
        self._pad_step_number = pad_step_number
        self._save_relative_paths = save_relative_paths
        self.saver_def = saver_def
        self._variables: dict[str, Any] = {}  # by their names in the checkpoint
        self._is_built = False
        self._is_empty = False
        #: Saves on the nodes; None without HPCFLOW_LOCAL_CHECKPOINTS.
        self.local: LocalCheckpoints | None = None
        self._swept: set[str] = set()
        if not defer_build:
            self.build()
        if self.saver_def is not None:
            self._check_saver_def()

    def build(self) -> None:
        """Make the operations, if that was deferred."""
        if self._is_built:
            return
        self._is_built = True
        if self.saver_def is None:
            self._variables = named_variables(self._var_list)
            with self._graph_of_variables().as_default():
                self.saver_def, self.local = build_saver_def(self._var_list, self._name,
                                                             **self._options)
            if self.saver_def is None:
                if not self._allow_empty:
                    raise ValueError("No variables to save")
                self._is_empty = True
                return
        elif self._name:
            _rename(self.saver_def, lambda n: prepend_scope(n, self._name))
        self._check_saver_def()

    def _graph_of_variables(self) -> Graph:
        """The graph of the variables, which need not be the default one."""
        for variable in self._variables.values():
            found = getattr(variable, "graph", None)
            if isinstance(found, Graph):
                return found
        return get_default_graph()

    def _check_saver_def(self) -> None:
        for field in ("filename_tensor_name", "save_tensor_name", "restore_op_name"):
            if not getattr(self.saver_def, field):
                raise ValueError(f"saver_def must specify the {field}: {self.saver_def}")
        self._begin_hours()

    # ------------------------------------------------------------ saving

    def save(self, sess: Any, save_path: str | os.PathLike[str], global_step: Any = None,
             latest_filename: str | None = None, meta_graph_suffix: str = "meta",
             write_meta_graph: bool = True, write_state: bool = True,
             strip_default_attrs: bool = False, save_debug_info: bool = False) -> str | None:
        """Save the variables and return the path of the checkpoint, to be given to :meth:`restore`.

        An empty saver writes only the MetaGraph, and returns None. Savers of one directory, in
        whatever threads and processes, take turns, so that the latest checkpoint is the one whose
        save was begun last.

        Args:
            sess: a session that runs the graph; the variables must be initialized.
            save_path: prefix of the path.
            global_step: a number to append (``model-100``), or the tensor or variable that has it.
            latest_filename: name of the file that names the latest checkpoints.
            meta_graph_suffix: suffix of the MetaGraph's file.
            write_meta_graph: write the MetaGraph beside the checkpoint.
            write_state: update the file of the latest checkpoints, and delete old ones.
            strip_default_attrs: leave attributes with default values out of the MetaGraph.
            save_debug_info: accepted for the 1.x API.

        Raises ``TypeError`` if `sess` is no session, ``ValueError`` for a `latest_filename` with a
        directory or a directory that does not exist, and what the operations raise; then an
        earlier checkpoint of that path is still complete, and nothing else is left.
        """
        self._check_usable(sess)
        self.join()
        save_path = os.fsdecode(save_path).removeprefix("file://")
        target = _Target(save_path, _checked_filename(latest_filename, save_path, global_step),
                         meta_graph_suffix, write_meta_graph, write_state, strip_default_attrs)
        lock = storage.DirectoryLock(target.directory) if write_state else nullcontext()
        with ExitStack() as stack:
            stack.enter_context(lock)
            path = self._numbered(save_path, global_step, sess)
            if not self._is_empty:
                self._sweep(save_path)
            background = self._background_ops(sess) if self._async_save else None
            if background is None:
                return self._complete(sess, path, target)
            self._begin(sess, path, target, background, stack.pop_all())
        return path

    def _background_ops(self, sess: Any) -> BackgroundOps | None:
        """Return the operations that save in the background; None where this is not possible."""
        if self._is_empty or not hasattr(sess, "_unfinished"):
            return None
        return background_ops(sess.graph, self.saver_def)

    def _complete(self, sess: Any, path: str, target: _Target,
                  save: Callable[[], None] | None = None) -> str | None:
        """Write the files of a checkpoint, in the order in which they may be found."""
        saved = None
        if not self._is_empty:
            saved = path
            self._run_save(path, save or (lambda: sess.run(
                self.saver_def.save_tensor_name, {self.saver_def.filename_tensor_name: path})))
        if saved is not None and target.write_state:
            self._record(saved)
            update_checkpoint_state(target.directory, saved, self.last_checkpoints,
                                    target.latest_filename,
                                    save_relative_paths=self._save_relative_paths)
            self._delete_old(target.meta_graph_suffix)
        if saved is not None:
            write_embeddings(saved)
            note_progress(saved)
        if target.write_meta_graph:
            with sess.graph.as_default():
                self.export_meta_graph(meta_graph_filename(path, target.meta_graph_suffix),
                                       strip_default_attrs=target.strip_default_attrs)
        return saved

    def _begin(self, sess: Any, path: str, target: _Target, ops: BackgroundOps,
               held: ExitStack) -> None:
        """Take a snapshot now and complete its checkpoint in a thread, which closes `held`."""
        with ExitStack() as unless_begun:
            unless_begun.push(held)
            feeds = {self.saver_def.filename_tensor_name: path}
            _, *shapes = sess.run([ops.hold, *ops.shapes], feeds)
            feeds.update(zip(ops.shapes, shapes, strict=True))
            unless_begun.pop_all()

        def complete() -> None:
            with held:
                try:
                    self._complete(sess, path, target, lambda: sess.run(ops.save, feeds))
                except BaseException:
                    with suppress(OpError, RuntimeError):  # of the failure that is reported
                        sess.run(ops.release, feeds)
                    raise

        self._background = BackgroundTask(complete, path, self._awaited)
        sess._unfinished[:] = [*[f for f in sess._unfinished if f != self.join], self.join]

    def join(self) -> None:
        """Wait until what is being saved in the background is complete.

        Raises what that save failed with; once.
        """
        if self._background is not None:
            self._background.join()

    def check(self) -> None:
        """Raise what a save in the background failed with, if it has; without waiting."""
        if self._background is not None and self._background.is_over:
            self._background.join()

    def _check_usable(self, sess: Any) -> None:
        if not self._is_built:
            raise RuntimeError("`build()` should be called before save if defer_build==True")
        if not (callable(getattr(sess, "run", None)) and hasattr(sess, "graph")):
            raise TypeError(f"'sess' must be a Session; {sess!r}")

    def _numbered(self, save_path: str, global_step: Any, sess: Any) -> str:
        if global_step is None:
            return save_path
        if isinstance(global_step, bool) or not hasattr(global_step, "__index__"):
            global_step = sess.run(global_step)
        number = int(np.asarray(global_step).item())
        return f"{save_path}-{number:08d}" if self._pad_step_number else f"{save_path}-{number}"

    def _run_save(self, path: str, save: Callable[[], Any]) -> None:
        try:
            save()
        except OpError:
            parent = os.path.dirname(path)
            if parent and not os.path.isdir(parent):
                raise ValueError(f"Parent directory of {path} doesn't exist, can't save.") from None
            raise

    def _sweep(self, save_path: str) -> None:
        """Remove unfinished files of crashed runs, once per path."""
        if save_path in self._swept:
            return
        self._swept.add(save_path)
        for leftover in storage.remove_leftovers(save_path, tuning.SAVER_STALE_SECONDS):
            program_log.warning("removed the unfinished checkpoint %s", leftover)

    # ------------------------------------------------------------ restoring

    def restore(self, sess: Any, save_path: str | os.PathLike[str] | None) -> None:
        """Give the variables the values of a checkpoint; they need not be initialized.

        `save_path` is what :meth:`save` or :func:`latest_checkpoint` returned. All values are read
        and checked before the first variable changes. Variables of recurrent cells may have the
        names of another version of 1.x in the checkpoint. Raises ``ValueError`` if it is None or
        (also a ``NotFoundError``) no checkpoint, ``NotFoundError`` for a missing variable,
        ``DataLossError`` for a damaged file, ``InvalidArgumentError`` for another dtype or shape.
        """
        self.join()
        if self._is_empty:
            return
        if save_path is None:
            raise ValueError("Can't load save_path when it is None.")
        self._check_usable(sess)
        save_path = os.fsdecode(save_path).removeprefix("file://")
        definition = self.saver_def
        try:
            sess.run(definition.restore_op_name, {definition.filename_tensor_name: save_path})
        except InvalidArgumentError as error:
            raise InvalidArgumentError(
                error.node_def, error.op, f"{error.message}. There is a mismatch between the "
                "current graph and the graph of the checkpoint") from error
        except NotFoundError as error:
            if not storage.checkpoint_exists(save_path):
                raise _NoCheckpoint(None, None, "The passed save_path is not a valid checkpoint: "
                                    f"{save_path}: {error.message}") from error
            if not self._variables or not restore_by_other_names(self._variables, sess, save_path):
                raise

    # ------------------------------------------------------------ protobufs

    def as_saver_def(self) -> Any:
        """Return the ``SaverDef``."""
        return self.saver_def

    def to_proto(self, export_scope: str | None = None) -> Any:
        """Return the ``SaverDef`` with names relative to `export_scope`, or None if it is outside.
        """
        if export_scope is None:
            return self.saver_def
        if not self.saver_def.save_tensor_name.startswith(export_scope):
            return None
        proto = type(self.saver_def)()
        proto.CopyFrom(self.saver_def)
        return _rename(proto, lambda n: strip_scope(n, export_scope))

    @staticmethod
    def from_proto(saver_def: Any, import_scope: str | None = None) -> Saver:
        """Return a Saver that uses the operations that `saver_def` names."""
        proto = type(saver_def)()
        proto.CopyFrom(saver_def)
        return Saver(saver_def=proto, name=import_scope)

    def export_meta_graph(self, filename: str | None = None, collection_list: Any = None,
                          as_text: bool = False, export_scope: str | None = None,
                          clear_devices: bool = False, clear_extraneous_savers: bool = False,
                          strip_default_attrs: bool = False, save_debug_info: bool = False) -> Any:
        """Write the default graph with this saver to a file (if given); return the MetaGraphDef.

        The arguments are those of :func:`hpcflow.train.export_meta_graph`.
        """
        return meta_graph.export_meta_graph(
            filename=filename, graph_def=None, saver_def=self.saver_def,
            collection_list=collection_list, as_text=as_text, export_scope=export_scope,
            clear_devices=clear_devices, clear_extraneous_savers=clear_extraneous_savers,
            strip_default_attrs=strip_default_attrs, graph=get_default_graph())


@contextmanager
def in_background(saver: Saver) -> Iterator[None]:
    """Let what a Saver saves in the body be written in the background; others save as they do."""
    if not isinstance(saver, Saver):
        yield
        return
    before, saver._async_save = saver._async_save, True
    saver._awaited = not before
    try:
        yield
    finally:
        saver._async_save, saver._awaited = before, False


def join(saver: Saver) -> None:
    """Call :meth:`Saver.join` if `saver` is a Saver."""
    if isinstance(saver, Saver):
        saver.join()


def check(saver: Saver) -> None:
    """Call :meth:`Saver.check` if `saver` is a Saver."""
    if isinstance(saver, Saver):
        saver.check()


def import_meta_graph(meta_graph_or_file: Message, clear_devices: bool = False,
                      import_scope: str | None = None, **kwargs: Any) -> Saver | None:
    """Add the graph of a MetaGraph (a proto or a file) with its collections to the default graph.

    Returns the Saver that it describes; if it describes none, a new one where there are variables
    in the scope, else None. `kwargs` are those of :func:`hpcflow.import_graph_def`, and
    `placement`: a placement file, a dict or a function that replaces devices (see
    :func:`hpcflow.graph_util.replace_devices`).
    Raises ``IOError`` for a file that does not exist or is no MetaGraph.
    """
    proto = meta_graph.read_meta_graph_file(meta_graph_or_file)
    scope, _ = meta_graph.import_into_scope(
        proto, clear_devices=clear_devices, import_scope=import_scope, **kwargs)
    if proto.HasField("saver_def"):
        return Saver.from_proto(proto.saver_def, scope)
    graph, within = kwargs.get("graph") or get_default_graph(), re.escape(scope) if scope else None
    if not any(graph.get_collection(key, within)
               for key in (GraphKeys.GLOBAL_VARIABLES, GraphKeys.SAVEABLE_OBJECTS)):
        return None
    with graph.as_default():
        return Saver()


def _rename(saver_def: Message, rename: Callable[..., Any]) -> Any:
    for field in ("filename_tensor_name", "save_tensor_name", "restore_op_name"):
        setattr(saver_def, field, rename(getattr(saver_def, field)))
    return saver_def


def _checked_filename(latest_filename: str | None, save_path: str,
                      global_step: TensorLike | None) -> str:
    name = latest_filename or DEFAULT_FILENAME
    if os.path.split(name)[0]:
        raise ValueError(f"'latest_filename' must not contain path components: {name!r}")
    if global_step is None and os.path.basename(save_path) == name:
        raise ValueError(f"'latest_filename' collides with 'save_path': '{name}', '{save_path}'")
    return name


def _saver_type() -> Any:
    from tensorboard.compat.proto.saver_pb2 import SaverDef

    return SaverDef


def _saver_from_proto(proto: Message, import_scope: str | None) -> Saver:
    return Saver.from_proto(proto, import_scope=import_scope)


register_proto_function(GraphKeys.SAVERS, _saver_type, own_proto, _saver_from_proto)
