"""Checkpoints of objects: variables are named by how they are reached from a root."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

from hpcflow import storage
from hpcflow.base import program_log
from hpcflow.base.tracking import NoDependency, Trackable, tracked_attributes
from hpcflow.graph.defaults import get_default_session
from hpcflow.graph.graph import init_scope, name_scope
from hpcflow.graph.likes import SessionLike, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.layers.module import Module
from hpcflow.ops.state.variable_lists import is_variable_initialized
from hpcflow.ops.state.variables import Variable
from hpcflow.optimizers.optimizer import Optimizer
from hpcflow.train.checkpoint_files import remove_checkpoint
from hpcflow.train.checkpoint_reader import CheckpointReader
from hpcflow.train.checkpoint_state import get_checkpoint_state, update_checkpoint_state
from hpcflow.train.saver import Saver
from hpcflow.train.shared_session import get_session

_VALUE = ".ATTRIBUTES/VARIABLE_VALUE"
_TABLE = ".ATTRIBUTES/table"
_SLOT = ".OPTIMIZER_SLOT"
_COUNTER = "save_counter"


class Checkpoint(Trackable):
    """The variables of objects, saved and restored by the paths of attributes that lead to them.

    Objects are variables, tables that steps change, layers, models, optimizers (with their slots),
    lists, dicts, other checkpoints, and objects with such attributes. Names in files do not depend
    on those of variables, so that programs may name these differently::

        checkpoint = Checkpoint(model=model, optimizer=optimizer)
        path = checkpoint.save("/tmp/training/ckpt")
        checkpoint.restore(path).assert_consumed().run_restore_ops()

    Everything belongs to one graph; sessions are the default one where none is given.
    """

    def __init__(self, **objects: Any) -> None:
        for name, value in objects.items():
            if not (_is_followed(value) or _is_object(value)):
                raise ValueError(f"`Checkpoint` was expecting {name} to be a trackable object (an "
                                 f"object derived from `Trackable`), got {value!r}.")
        vars(self).update(objects)
        self._counter: Any = NoDependency(None)
        self._savers: dict[tuple, Saver] = {}

    @property
    def save_counter(self) -> Variable:
        """The number of times that :meth:`save` was called; saved too."""
        if self._counter is None:
            with init_scope(), name_scope(None):
                self._counter = NoDependency(
                    Variable(0, trainable=False, name=_COUNTER, dtype="int64"))
        return self._counter

    # ------------------------------------------------------------ saving

    def save(self, file_prefix: str, session: SessionLike | None = None) -> str:
        """Save under the prefix with the number of this call, and return the path.

        The latest path is that of ``train.latest_checkpoint`` for the directory.
        """
        session = _session(session)
        directory = os.path.dirname(file_prefix)
        with _locked(directory):
            path = self.write(f"{file_prefix}-{self._counted(session)}", session)
            update_checkpoint_state(directory, path, [path])
        return path

    def _counted(self, session: SessionLike) -> int:
        """Count a call, and return how many there were."""
        with session.graph.as_default():
            counter = self.save_counter
            if not session.run(is_variable_initialized(counter)):
                session.run(counter.initializer)
            return int(session.run(counter.assign_add(1)))

    def write(self, file_prefix: str, session: SessionLike | None = None) -> str:
        """Save under exactly this path, and return it."""
        session = _session(session)
        if os.path.dirname(file_prefix):
            os.makedirs(os.path.dirname(file_prefix), exist_ok=True)
        saver = self._saver(named_variables(self), session)
        saver.save(session, file_prefix, write_meta_graph=False, write_state=False)
        return file_prefix

    def _saver(self, variables: dict[str, Any], session: SessionLike) -> Saver:
        key = tuple((name, id(v)) for name, v in sorted(variables.items()))
        if key not in self._savers:
            with session.graph.as_default():
                self._savers[key] = Saver(variables, max_to_keep=None)
        return self._savers[key]

    # ------------------------------------------------------------ restoring

    def restore(self, save_path: str | None) -> LoadStatus:
        """Return what gives the variables their values of a checkpoint, when it is told to.

        Of None there is nothing to restore. Raises ``NotFoundError`` if there is no checkpoint.
        """
        return LoadStatus(self, save_path)

    read = restore


class LoadStatus:
    """A checkpoint that is to be restored: :meth:`run_restore_ops`, or checks before it."""

    def __init__(self, checkpoint: Checkpoint, path: str | None) -> None:
        self._checkpoint, self._path = checkpoint, path
        self._names: set[str] = set()
        if path is not None:
            found = CheckpointReader(path).get_variable_to_shape_map()
            self._names = {_without_part(n) for n in found
                           if n.endswith(_VALUE) or f"{_TABLE}-" in n}
            if any(n.startswith(_COUNTER) for n in self._names):
                _ = checkpoint.save_counter

    def _matched(self) -> dict[str, Any]:
        variables = named_variables(self._checkpoint)
        return {n: v for n, v in variables.items() if n in self._names}

    def assert_consumed(self) -> LoadStatus:
        """Raise ``AssertionError`` unless file and objects have the same variables."""
        self.assert_existing_objects_matched()
        unused = sorted(self._names - set(named_variables(self._checkpoint)))
        if unused:
            raise AssertionError(f"Unresolved object in checkpoint: {', '.join(unused)}")
        return self

    def assert_existing_objects_matched(self) -> LoadStatus:
        """Raise ``AssertionError`` if a variable is not in the file."""
        missing = sorted(set(named_variables(self._checkpoint)) - self._names)
        if missing and self._path is not None:
            raise AssertionError(f"Object not assigned a value from checkpoint: "
                                 f"{', '.join(missing)}")
        return self

    def assert_nontrivial_match(self) -> LoadStatus:
        """Raise ``AssertionError`` if no variable is in the file."""
        if not self._matched():
            raise AssertionError("Nothing except the root object matched a checkpointed value.")
        return self

    def expect_partial(self) -> LoadStatus:
        """Say that not everything is to be restored."""
        return self

    def run_restore_ops(self, session: SessionLike | None = None) -> None:
        """Give the variables that are in the file their values."""
        matched = self._matched()
        if matched:
            session = _session(session)
            self._checkpoint._saver(matched, session).restore(session, self._path or "")

    def initialize_or_restore(self, session: SessionLike | None = None) -> None:
        """Initialize the variables that are not in the file, and restore the others."""
        session, matched = _session(session), self._matched()
        others = [v for n, v in named_variables(self._checkpoint).items()
                  if n not in matched and isinstance(v, Variable)]
        if others:
            session.run([v.initializer for v in others])
        self.run_restore_ops(session)


class CheckpointManager:
    """Keeps the last few checkpoints of a :class:`Checkpoint` in a directory.

    Checkpoints that it finds in the directory are its own if the "checkpoint" file there says when
    they were made; others, and those that it has kept for their hour, it leaves alone.

    Args:
        checkpoint: what is saved.
        directory: where; its "checkpoint" file says what there is.
        max_to_keep: number of recent checkpoints; None keeps all.
        keep_checkpoint_every_n_hours: besides, keep one every so many hours.
        checkpoint_name: the beginning of the files' names.

    Raises ``ValueError`` for `max_to_keep` below 1.
    """

    def __init__(self, checkpoint: Checkpoint, directory: str, max_to_keep: int | None = None,
                 keep_checkpoint_every_n_hours: float | None = None,
                 checkpoint_name: str = "ckpt") -> None:
        if max_to_keep is not None and max_to_keep <= 0:
            raise ValueError("Expected a positive integer or `None` for `max_to_keep`, got "
                             f"{max_to_keep}.")
        self._checkpoint, self._directory = checkpoint, directory
        self._max, self._hours = max_to_keep, keep_checkpoint_every_n_hours
        self._prefix = os.path.join(directory, checkpoint_name)
        self._kept: dict[str, float] = {}
        self._last_preserved = time.time() - 1.0
        self._latest: str | None = None
        state = get_checkpoint_state(directory)
        if state is not None:
            self._recover(state)

    def _recover(self, state: Any) -> None:
        """Go on with the checkpoints of a "checkpoint" file."""
        self._latest, now = state.model_checkpoint_path, time.time()
        self._last_preserved = state.last_preserved_timestamp
        if now < self._last_preserved:
            program_log.warning(
                "time.time() returned a value %f seconds behind the last preserved checkpoint "
                "timestamp.", self._last_preserved - now)
            self._last_preserved = now
        made = zip(state.all_model_checkpoint_paths, state.all_model_checkpoint_timestamps,
                   strict=False)
        self._kept = {path: min(at, now) for path, at in made
                      if min(at, now) > self._last_preserved}

    @property
    def directory(self) -> str:
        """The directory."""
        return self._directory

    @property
    def checkpoint(self) -> Checkpoint:
        """The checkpoint object that is saved."""
        return self._checkpoint

    @property
    def checkpoints(self) -> list[str]:
        """The paths that are kept, oldest first."""
        return list(self._kept)

    @property
    def latest_checkpoint(self) -> str | None:
        """The path of the last one, or None."""
        return self._latest

    def save(self, session: SessionLike | None = None, checkpoint_number: int | None = None) -> str:
        """Save, and delete what is not to be kept. Returns the path.

        It ends with `checkpoint_number`, an integer, also a tensor or variable; without one with
        the number of the call, which is counted in any case.
        """
        session = _session(session)
        with _locked(self._directory):
            path = self._write(session, checkpoint_number)
            self._kept.pop(path, None)
            self._kept[path] = time.time()
            self._latest = path
            old = self._no_longer_kept()
            update_checkpoint_state(
                self._directory, path, list(self._kept),
                all_model_checkpoint_timestamps=self._kept.values(),
                last_preserved_timestamp=self._last_preserved, save_relative_paths=True)
            for unnamed in old:
                remove_checkpoint(unnamed)
        return path

    def _write(self, session: SessionLike, number: Any) -> str:
        count = self._checkpoint._counted(session)
        if number is None:
            number = count
        elif not isinstance(number, int):
            number = int(session.run(number))
        return self._checkpoint.write(f"{self._prefix}-{number}", session)

    def _no_longer_kept(self) -> list[str]:
        """Forget the oldest checkpoints beyond the maximum, and return those to delete."""
        old = []
        while self._max is not None and len(self._kept) > self._max:
            path, made = next(iter(self._kept.items()))
            del self._kept[path]
            if self._hours and made - self._last_preserved >= self._hours * 3600:
                self._last_preserved = made
            else:
                old.append(path)
        return old

    def restore_or_initialize(self, session: SessionLike | None = None) -> str | None:
        """Restore the latest checkpoint; without one initialize. Returns its path, or None."""
        self._checkpoint.restore(self.latest_checkpoint).initialize_or_restore(session)
        return self.latest_checkpoint


def _locked(directory: str) -> storage.DirectoryLock:
    """The lock of a directory, which is made if there is none."""
    if directory:
        os.makedirs(directory, exist_ok=True)
    return storage.DirectoryLock(directory)


# ---------------------------------------------------------------- names


def named_variables(root: Any) -> dict[str, Any]:
    """The variables and tables that are reached from an object, by their names in checkpoints.

    Each has the name of the shortest path that leads to it; slots are named after their variable
    and optimizer.
    """
    paths: dict[int, str] = {id(root): ""}
    variables, optimizers = {}, []
    waiting = deque([root])
    while waiting:
        owner = waiting.popleft()
        if hasattr(owner, "_checkpoint_slots"):
            optimizers.append(owner)
        for name, value in _dependencies(owner):
            if id(value) in paths:
                continue
            own = f"{paths[id(owner)]}/{_escaped(name)}".lstrip("/")
            paths[id(value)] = own
            if isinstance(value, Variable):
                variables[f"{own}/{_VALUE}"] = value
            elif hasattr(value, "_checkpoint_saveable"):
                variables[f"{own}/{_TABLE}"] = value._checkpoint_saveable(f"{own}/{_TABLE}")
            else:
                waiting.append(value)
    for optimizer in optimizers:
        for variable, name, slot in optimizer._checkpoint_slots():
            if id(variable) in paths:
                of_slot = f"{_SLOT}/{paths[id(optimizer)]}/{_escaped(name)}"
                variables[f"{paths[id(variable)]}/{of_slot}/{_VALUE}"] = slot
    return variables


def _without_part(name: str) -> str:
    """A name in a file; the name of the table that its keys and its values have."""
    table, mark, _ = name.partition(f"{_TABLE}-")
    return table + _TABLE if mark else name


def _escaped(name: str) -> str:
    return name.replace(".", "..").replace("/", ".S")


def _is_followed(value: TensorLike) -> bool:
    """True if something may lead to variables."""
    return (isinstance(value, (Variable, Module, Optimizer, Checkpoint, list, tuple, dict))
            or any(hasattr(value, a) for a in ("_checkpoint_slots", "_checkpoint_dependencies",
                                               "_checkpoint_saveable")))


def _is_object(value: TensorLike) -> bool:
    """True if something is an object of the program's own, whose attributes are examined."""
    return (hasattr(value, "__dict__") and not callable(value)
            and not isinstance(value, (Tensor, NoDependency)))


def _dependencies(owner: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(owner, (list, tuple)):
        pairs = [(str(n), v) for n, v in enumerate(owner)]
    elif isinstance(owner, dict):
        pairs = [(str(k), v) for k, v in owner.items()]
    elif hasattr(owner, "_checkpoint_dependencies"):
        pairs = list(owner._checkpoint_dependencies)
    else:
        pairs = [(k, v) for k, v in tracked_attributes(owner)
                 if not k.startswith("_") or isinstance(owner, Trackable)]
        if isinstance(owner, Checkpoint) and owner._counter is not None:
            pairs.append((_COUNTER, owner._counter))
    for name, value in pairs:
        if isinstance(value, (list, tuple, dict)):
            parts = value.values() if isinstance(value, dict) else value
            if not any(_is_followed(p) for p in parts):
                continue
        if _is_followed(value) or (isinstance(owner, Checkpoint) and _is_object(value)):
            yield name, value


def _session(session: SessionLike | None) -> Any:
    return session or get_default_session() or get_session()
