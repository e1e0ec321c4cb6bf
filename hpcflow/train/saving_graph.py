"""The operations of a Saver: saving in three stages, and restoring that checks before it assigns.

Saving: one operation on the coordinator lays out the file; the operation of each task that holds
variables writes them; one on the coordinator commits. Restoring: the operation of each task reads
and checks what belongs there; only when all have succeeded does any assignment run, so that a
damaged checkpoint leaves every variable as it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from hpcflow import config, dtypes
from hpcflow.device_spec import canonical_name, merge_names
from hpcflow.graph.convert import constant
from hpcflow.graph.graph import Graph, control_dependencies, device, name_scope
from hpcflow.graph.likes import SessionLike
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.runtime.cluster.server import own_name, tasks_and_nodes
from hpcflow.train.local_checkpoints import LocalCheckpoints
from hpcflow.train.saveable import SaveableObject, SaveSpec, saveable_objects

if TYPE_CHECKING:
    from google.protobuf.message import Message

_HOST = "/device:CPU:0"  # files are read and written from the memory of the host

# Names in the scope.
_HOLD, _SAVE_HELD, _RELEASE = "hold_all", "save_held", "release_all"
_POSITIONS = "restore_positions"

Groups = dict[str, list[SaveableObject]]


def build_saver_def(var_list: Sequence[Any] | Mapping[str, Any] | None, name: str | None,
                    reshape: bool, sharded: bool, max_to_keep: int,
                    keep_checkpoint_every_n_hours: float, restore_sequentially: bool,
                    filename: str = "model") -> tuple[Any, LocalCheckpoints | None]:
    """Add the operations to the default graph; return the ``SaverDef`` that names them, and those
    for the storage of the nodes where the flag is set.

    `var_list` is what :func:`saveable_objects` takes, `filename` the path unless one is fed.
    The ``SaverDef`` is None if there is nothing to save.
    """
    from tensorboard.compat.proto.saver_pb2 import SaverDef

    with name_scope(name, "save"):
        saveables = saveable_objects(var_list)
        if not saveables:
            return None, None
        with device(_HOST):
            path = constant(filename)
            saved = _add_save(path, saveables)
            restored = _add_restore(path, saveables, reshape, restore_sequentially)
            _add_positions(path, saveables)
        local = None
        if config.flags.local_checkpoints:
            local = LocalCheckpoints(_by_host(saveables), tasks_and_nodes(), own_name())
    made = SaverDef(
        filename_tensor_name=path.name, save_tensor_name=saved.name,
        restore_op_name=restored.name, max_to_keep=max_to_keep, sharded=sharded,
        keep_checkpoint_every_n_hours=keep_checkpoint_every_n_hours, version=SaverDef.V2)
    return made, local


def _by_host(saveables: list[SaveableObject]) -> Groups:
    """Saveables by the CPU of the task that holds them."""
    groups: Groups = {}
    for saveable in saveables:
        host = merge_names(canonical_name(saveable.device), _HOST)
        groups.setdefault(host, []).append(saveable)
    return dict(sorted(groups.items()))


def _specs(saveables: list[SaveableObject]) -> list[SaveSpec]:
    return [spec for saveable in saveables for spec in saveable.specs]


# ---------------------------------------------------------------- saving


def _add_save(filename: Tensor, saveables: list[SaveableObject]) -> Tensor:
    """The tensor that is `filename` once the checkpoint is complete."""
    layout = _add_layout(filename, _specs(saveables))
    records, held, holds, releases = [], [], [], []
    for host, group in _by_host(saveables).items():
        specs = _specs(group)
        tensors = [s.tensor for s in specs]
        labels = {"names": [s.name for s in specs], "slices": [s.slice_spec for s in specs]}
        with device(None), device(host):
            records.append(raw_ops._CheckpointWrite(
                layout=layout, tensors=tensors, name="write", **labels))
            holds.append(raw_ops._CheckpointHold(prefix=filename, tensors=tensors, name="hold"))
            held.append(raw_ops._CheckpointWriteHeld(layout=layout, name="write_held", **labels))
            releases.append(raw_ops._CheckpointRelease(prefix=filename, name="release"))
    with control_dependencies(holds):
        raw_ops.NoOp(name=_HOLD)
    with control_dependencies(releases):
        raw_ops.NoOp(name=_RELEASE)
    _add_commit(filename, layout, held, _SAVE_HELD)
    return _add_commit(filename, layout, records, "control_dependency")


def _add_commit(filename: Tensor, layout: Tensor, records: list[Tensor], name: str) -> Tensor:
    commit = raw_ops._CheckpointCommit(layout=layout, records=records, name="commit")
    with control_dependencies([commit]):
        return raw_ops.Identity(filename, name=name)


class BackgroundOps(NamedTuple):
    """The operations that save in the background: `hold` takes a snapshot, `save` writes it,
    `release` drops it.

    `shapes` are tensors to be fetched with `hold` and fed to `save`.
    """

    hold: Operation
    save: Tensor
    release: Operation
    shapes: list[Tensor]


def background_ops(graph: Graph, saver_def: Message) -> BackgroundOps | None:
    """Return the background operations of a ``SaverDef``; None if another runtime made it."""
    scope = saver_def.save_tensor_name.rpartition("/")[0]
    try:
        hold, save, release, create = [graph.get_operation_by_name(f"{scope}/{name}")
                                       for name in (_HOLD, _SAVE_HELD, _RELEASE, "create")]
    except KeyError:
        return None
    return BackgroundOps(hold, save.outputs[0], release, list(create.inputs)[1:])


def _add_layout(filename: Tensor, specs: list[SaveSpec]) -> Tensor:
    logical = {spec.name: spec for spec in specs}.values()
    return raw_ops._CheckpointCreate(
        prefix=filename, names=[s.name for s in logical],
        dtypes=[s.tensor.dtype.base_dtype for s in logical],
        shapes=[s.full_shape for s in logical],
        dynamic_shapes=[_run_time_shape(s) for s in logical if not s.full_shape.is_fully_defined()],
        name="create")


def _run_time_shape(spec: SaveSpec) -> Tensor:
    with device(None), device(spec.tensor.device):
        return raw_ops.Shape(spec.tensor, out_type=dtypes.int64)


# ---------------------------------------------------------------- restoring


def _add_restore(filename: Tensor, saveables: list[SaveableObject], reshape: bool,
                 sequentially: bool) -> Operation:
    """The operation that restores everything."""
    values, reads = _add_reads(filename, saveables, reshape, sequentially)
    with control_dependencies(reads):
        checked = raw_ops.NoOp(name="restore_checked")
    assignments = []
    with control_dependencies([checked]):
        for saveable in saveables:
            with device(None):
                shapes = [s.tensor.shape for s in saveable.specs] if reshape else None
                assignments.append(saveable.restore(values[saveable], shapes))
    with control_dependencies(assignments):
        return raw_ops.NoOp(name="restore_all")


def _add_positions(filename: Tensor, saveables: list[SaveableObject]) -> None:
    """The operation that restores only the places of iterators in their data."""
    positions = [s for s in saveables if s.is_position]
    if positions:
        values, _ = _add_reads(filename, positions, False, False)
        with device(None):
            restored = [s.restore(values[s], None) for s in positions]
        with control_dependencies(restored):
            raw_ops.NoOp(name=_POSITIONS)


def restore_positions(saver: Any, session: SessionLike, path: str) -> None:
    """Restore only the places of iterators that `saver` has saved under `path`, if there are
    any."""
    definition = getattr(saver, "saver_def", None)
    if definition is not None:
        scope = definition.restore_op_name.rpartition("/")[0]
        with suppress(KeyError):
            restore = session.graph.get_operation_by_name(f"{scope}/{_POSITIONS}")
            session.run(restore, {definition.filename_tensor_name: path})


def _add_reads(filename: Tensor, saveables: list[SaveableObject], reshape: bool,
               sequentially: bool) -> tuple[dict[SaveableObject, list[Tensor]], list[Operation]]:
    values: dict[SaveableObject, list[Tensor]] = {}
    reads: list[Operation] = []
    for host, group in _by_host(saveables).items():
        with device(None), device(host), control_dependencies(reads[-1:] if sequentially else []):
            tensors = _read(filename, _specs(group), reshape)
        reads.append(tensors[0].op)
        rest = iter(tensors)
        for saveable in group:
            values[saveable] = [next(rest) for _ in saveable.specs]
    return values, reads


def _read(filename: Tensor, specs: list[SaveSpec], reshape: bool) -> list[Tensor]:
    return raw_ops._CheckpointRead(
        prefix=filename, names=[s.name for s in specs], slices=[s.slice_spec for s in specs],
        shapes=[s.tensor.shape for s in specs],
        dtypes=[s.tensor.dtype.base_dtype for s in specs], reshape=reshape, name="read")
