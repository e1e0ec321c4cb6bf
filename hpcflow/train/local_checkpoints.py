"""Checkpoints on the storage of the nodes, between those on the file system that they share.

Every task that holds variables writes what it holds into a folder of its own below
HPCFLOW_LOCAL_CHECKPOINTS, as one HDF5 file, and sends a copy to a partner, on another node if there
is one. A marker in all these folders says that the parts are complete. A job that begins looks for
the newest checkpoint of which every part is found somewhere; if it is newer than those that are
shared, its parts are put together to a shared one, from which the job then goes on as ever, on
however many tasks.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from hpcflow import config, dtypes, storage
from hpcflow.base import program_log
from hpcflow.device_spec import merge_names
from hpcflow.errors import OpError
from hpcflow.graph.graph import control_dependencies, device, name_scope
from hpcflow.graph.likes import SessionLike
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.arrays.constants import placeholder
from hpcflow.storage.paths import SUFFIX
from hpcflow.storage.system_errors import FILE_ERRORS
from hpcflow.storage.whole_files import write_atomically
from hpcflow.train.checkpoint_state import (
    get_checkpoint_state,
    note_progress,
    update_checkpoint_state,
)
from hpcflow.train.saveable import SaveableObject

_HOST = "/device:CPU:0"
#: A file in the shared directory, with the name of the folder of its local checkpoints.
_TOKEN = ".local-checkpoints"
_PART = re.compile(r"(?P<name>.+-(?P<step>\d+))\.part-(?P<part>\d{5})-of-(?P<parts>\d{5})\.h5")
_COMPLETE = ".complete"


class Local(NamedTuple):
    """A complete checkpoint on the nodes: its name, and for each part the task that has it, and the
    path there."""

    name: str
    step: int
    parts: list[tuple[str, str]]


class LocalCheckpoints:
    """The operations of one saver for checkpoints on the nodes; made where the flag is set.

    Args:
        groups: what is saved, by the CPU of the task that holds it.
        tasks: (device, number of the node) of all tasks of the cluster; none in one process.
        own: the name of this process's folder where there is no cluster.
    """

    def __init__(self, groups: Mapping[str, list[SaveableObject]],
                 tasks: Sequence[tuple[str, int]], own: str) -> None:
        self._own = own
        nodes = {merge_names(task, _HOST): node for task, node in tasks}
        self._owners = [_whole_name(host) for host in groups]
        self._tasks = list(dict.fromkeys([*self._owners, *nodes]))
        self._partners = [_partner(host, list(nodes), nodes) for host in self._owners]
        with name_scope("local"), device(None):
            self._paths = {key: placeholder(dtypes.string, []) for key in self._keys()}
            self._folders = [placeholder(dtypes.string, []) for _ in self._tasks]
            self._kept = placeholder(dtypes.string, [None])
            self._save = self._add_save(list(groups.values()))
            self._mark = self._add_on_tasks(lambda folder: raw_ops.WriteFile(
                filename=raw_ops.Add(x=folder, y=self._marker), contents=self._marker))
            self._tidy = self._add_on_tasks(
                lambda folder: raw_ops._TidyFolder(folder=folder, keep=self._kept))
            self._found = self._add_find()
            self._add_fetch()

    def _keys(self) -> list[tuple[int, bool]]:
        """(number of a part, whether it is the partner's copy)."""
        return [(i, copy) for i, partner in enumerate(self._partners)
                for copy in ((False, True) if partner else (False,))]

    def _add_save(self, groups: list[list[SaveableObject]]) -> list[Operation]:
        self._marker = placeholder(dtypes.string, [])
        saved = []
        for i, (host, group) in enumerate(zip(self._owners, groups, strict=True)):
            specs = [spec for saveable in group for spec in saveable.specs]
            with device(host):
                save = raw_ops.SaveV2(
                    prefix=self._paths[i, False], tensor_names=[s.name for s in specs],
                    shape_and_slices=[s.slice_spec for s in specs],
                    tensors=[s.tensor for s in specs])
                saved.append(save)
            if self._partners[i]:
                with device(host), control_dependencies([save]):
                    contents = raw_ops.ReadFile(filename=_file(self._paths[i, False]))
                with device(self._partners[i]):
                    saved.append(raw_ops.WriteFile(
                        filename=_file(self._paths[i, True]), contents=contents))
        return saved

    def _add_on_tasks(self, make: Callable[[Tensor], Any]) -> list[Any]:
        added = []
        for task, folder in zip(self._tasks, self._folders, strict=True):
            with device(task):
                added.append(make(folder))
        return added

    def _add_find(self) -> list[Tensor]:
        self._pattern = placeholder(dtypes.string, [])
        return self._add_on_tasks(lambda _: raw_ops.MatchingFiles(pattern=self._pattern))

    def _add_fetch(self) -> None:
        """What puts parts into the shared directory, and together."""
        self._source, self._target = placeholder(dtypes.string, []), placeholder(dtypes.string, [])
        self._shared = placeholder(dtypes.string, [None])
        self._fetch = dict(zip(self._tasks, self._add_on_tasks(lambda _: raw_ops.WriteFile(
            filename=self._target, contents=raw_ops.ReadFile(filename=self._source))),
            strict=True))
        self._merge = raw_ops.MergeV2Checkpoints(
            checkpoint_prefixes=self._shared, destination_prefix=self._target)

    # ------------------------------------------------------------ saving

    def save(self, session: SessionLike, directory: str, name: str) -> None:
        """Save under `name`, which ends with the step, for the shared `directory`.

        Complete on return; of the earlier ones each folder keeps one. Raises what the file systems
        report; then that one is as it was, and nothing of the new one is left.
        """
        root = _root(directory, make=True)
        assert root is not None
        folders = dict(zip(self._folders, [self._folder(root, t) for t in self._tasks],
                           strict=True))
        complete = self._newest(self.find(session, directory))
        only_complete = folders | {self._kept: [c.name + "." for c in complete[:1]]}
        session.run(self._tidy, only_complete)
        try:
            session.run(self._save, {self._paths[i, copy]: os.path.join(self._folder(
                root, (self._partners if copy else self._owners)[i] or ""), self._part(name, i))
                for i, copy in self._keys()})
            session.run(self._mark, folders | {self._marker: f"/{name}{_COMPLETE}"})
        except FILE_ERRORS:
            with suppress(OpError):
                session.run(self._tidy, only_complete)
            raise
        note_progress(os.path.join(root, name))

    def try_save(self, session: SessionLike, directory: str, name: str) -> bool:
        """Do as :meth:`save`; where the storage of a node fails, or is full, say so in the log and
        return False."""
        try:
            self.save(session, directory, name)
        except FILE_ERRORS as error:
            program_log.warning("the checkpoint %s could not be saved on the nodes: %s", name,
                                error)
            return False
        return True

    def _part(self, name: str, number: int) -> str:
        return f"{name}.part-{number:05d}-of-{len(self._owners):05d}"

    def _folder(self, root: str, task: str) -> str:
        """The folder of a task; a node may have several tasks."""
        found = re.search(r"/job:(\w+).*/task:(\d+)", task)
        return os.path.join(root, f"{found[1]}-{found[2]}" if found else self._own)

    # ------------------------------------------------------------ restoring

    def find(self, session: SessionLike, directory: str) -> list[Local]:
        """The complete checkpoints that the tasks have for the shared `directory`."""
        root = _root(directory, make=False)
        if root is None:
            return []
        listed = session.run(self._found, {self._pattern: os.path.join(root, "*", "*")})
        return _complete(dict(zip(self._tasks, listed, strict=True)))

    @staticmethod
    def _newest(found: Iterable[Local]) -> list[Local]:
        return sorted(found, key=lambda local: -local.step)

    def recover(self, session: SessionLike, directory: str, latest_filename: str | None = None
                ) -> None:
        """Make the newest complete checkpoint of the nodes a shared one, the latest of `directory`,
        if that has none as new. Those that turn out to be damaged are passed over."""
        state = get_checkpoint_state(directory, latest_filename)
        shared = step_of(state.model_checkpoint_path) if state else -1
        for local in self._newest(self.find(session, directory)):
            if local.step <= shared:
                return
            try:
                self._share(session, directory, local)
            except OpError as error:
                program_log.warning("the checkpoint %s of the nodes cannot be used: %s",
                                    local.name, error)
                continue
            path = os.path.join(directory, local.name)
            earlier = list(state.all_model_checkpoint_paths) if state else []
            update_checkpoint_state(directory, path, [*earlier, path], latest_filename)
            program_log.warning("%s was put together from the storage of the nodes", path)
            return

    def _share(self, session: SessionLike, directory: str, local: Local) -> None:
        hidden = os.path.join(directory, f".{local.name}.{secrets.token_hex(6)}")
        shards = [f"{hidden}-{i}" for i in range(len(local.parts))]
        try:
            for (task, path), shard in zip(local.parts, shards, strict=True):
                session.run(self._fetch[task], {self._source: path,
                                                self._target: f"{shard}{SUFFIX}"})
            session.run(self._merge, {self._shared: shards,
                                      self._target: os.path.join(directory, local.name)})
        finally:
            for shard in shards:
                with suppress(OSError):
                    os.unlink(shard + SUFFIX)


def _whole_name(host: str) -> str:
    """The name of a task's device as the cluster has it."""
    return merge_names("/replica:0", host) if "/job:" in host else host


def step_of(path: str) -> int:
    """The number with which the name of a checkpoint ends, or -1."""
    found = re.search(r"-(\d+)$", path)
    return int(found[1]) if found else -1


def _complete(listed: Mapping[str, Iterable[bytes]]) -> list[Local]:
    """The checkpoints that a marker calls complete, and of which every part is found."""
    marked: set[str] = set()
    parts: dict[tuple[str, int, int], dict[int, tuple[str, str]]] = {}
    for task, paths in listed.items():
        for path in (p.decode() for p in paths):
            name = os.path.basename(path)
            if name.endswith(_COMPLETE):
                marked.add(name.removesuffix(_COMPLETE))
            elif found := _PART.fullmatch(name):
                key = found["name"], int(found["step"]), int(found["parts"])
                parts.setdefault(key, {}).setdefault(int(found["part"]), (task, path))
    return [Local(name, step, [have[i] for i in range(count)])
            for (name, step, count), have in parts.items()
            if name in marked and len(have) == count]


def _root(directory: str, make: bool) -> str | None:
    """The folder, on every node, of the checkpoints that belong to a shared directory. They have
    the name of a file in it: with the directory they come and go."""
    path = os.path.join(directory, _TOKEN)
    if make and not os.path.exists(path):
        _name_folder(path)
    try:
        token = storage.read_file(path).decode().strip()
    except OSError:
        return None
    return os.path.join(config.flags.local_checkpoints, token)


def _name_folder(path: str) -> None:
    """Write a new name to `path`, unless another rank does so first: a link takes no name twice."""
    token = secrets.token_hex(8)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    own = f"{path}.{token}"
    write_atomically(own, token.encode())
    try:
        with suppress(FileExistsError):
            os.link(own, path)
    except OSError:  # a file system without links
        os.replace(own, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(own)


def _partner(host: str, tasks: list[str], nodes: Mapping[str, int]) -> str | None:
    """The next task on another node, or else the next one; None if there is no other."""
    at = tasks.index(host) if host in tasks else 0
    others = [t for t in tasks[at + 1:] + tasks[:at] if t != host]
    elsewhere = [t for t in others if nodes[t] != nodes.get(host)]
    return next(iter(elsewhere or others), None)


def _file(prefix: Tensor) -> Tensor:
    return raw_ops.Add(x=prefix, y=SUFFIX)
