"""Op types on files: checkpoints, and files as strings.

A checkpoint is written in three stages, so that every task writes what it owns: the coordinator
lays out the file (``_CheckpointCreate``), each owner takes snapshots of its variables and writes
them (``_CheckpointWrite``), the coordinator completes and renames it (``_CheckpointCommit``).
``_CheckpointRead`` reads and checks pieces. ``SaveV2``, ``RestoreV2`` and their predecessors do it
all in one op, for graphs that contain them.
"""

from __future__ import annotations

from hpcflow import dtypes
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import (
    constant_value,
    merge_dims,
    scalar,
    show,
    unchanged,
    unknown,
)

__all__ = ["matching_files", "read_file", "write_file"]


def _check_scalar(op: Operation, *positions: int) -> None:
    for i in positions:
        dims = op.input_dims(i)
        if dims is not None and dims != ():
            raise ValueError(f"input {i} must be a scalar, got shape {show(dims)}")


def _scalar_inputs(op: Operation) -> list[Dims]:
    """Every input and output is a scalar."""
    _check_scalar(op, *range(len(op.inputs)))
    return scalar(op)


# ---------------------------------------------------------------- checkpoints in stages


def _create_shape(op: Operation) -> list[Dims]:
    names, types, shapes = op.attr("names"), op.attr("dtypes"), op.attr("shapes")
    if not len(names) == len(types) == len(shapes):
        raise ValueError(f"{len(names)} names, {len(types)} dtypes and {len(shapes)} shapes: "
                         "expected as many of each")
    open_shapes = sum(not s.is_fully_defined() for s in shapes)
    if open_shapes != op.attr("N"):
        raise ValueError(f"{open_shapes} shapes are not fully defined, but {op.attr('N')} are "
                         "given as inputs")
    _check_scalar(op, 0)
    return [()]


def _write_shape(op: Operation) -> list[Dims]:
    count = len(op.attr("T"))
    if not len(op.attr("names")) == len(op.attr("slices")) == count:
        raise ValueError(f"{len(op.attr('names'))} names and {len(op.attr('slices'))} slices for "
                         f"{count} tensors")
    _check_scalar(op, 0)
    return [()]


def _read_shape(op: Operation) -> list[Dims]:
    shapes, count = op.attr("shapes"), len(op.attr("dtypes"))
    if not len(op.attr("names")) == len(op.attr("slices")) == len(shapes) == count:
        raise ValueError(f"{len(op.attr('names'))} names, {len(op.attr('slices'))} slices and "
                         f"{len(shapes)} shapes for {count} dtypes")
    _check_scalar(op, 0)
    return [shape._dims for shape in shapes]


def _handle_shape(op: Operation) -> list[Dims]:
    dtype, dims = op.inputs[0]._handle_data or (op.attr("dtype"), None)
    if dtype is not op.attr("dtype"):
        raise ValueError(f"the variable holds {dtype.name}, not {op.attr('dtype').name}")
    return [dims]


# The value of a variable at one moment: never one that an update is in the middle of changing.
register_op("_VariableSnapshot", "ref: Ref(T)", "value: T", "T: type", shape=unchanged,
            stateful=True)
register_op("_HandleSnapshot", "resource: resource", "value: dtype", "dtype: type",
            shape=_handle_shape, stateful=True)
register_op(
    "_CheckpointCreate", "prefix: string; dynamic_shapes: N * int64", "layout: string",
    "names: list(string); dtypes: list(type); shapes: list(shape); N: int >= 0",
    shape=_create_shape, stateful=True)
register_op(
    "_CheckpointWrite", "layout: string; tensors: T", "record: string",
    "names: list(string); slices: list(string); T: list(type) >= 1",
    shape=_write_shape, stateful=True)
# Saving in the background: a step holds the values, a later one writes them or lets them go.
register_op("_CheckpointHold", "prefix: string; tensors: T", "", "T: list(type) >= 1",
            stateful=True)
register_op("_CheckpointWriteHeld", "layout: string", "record: string",
            "names: list(string); slices: list(string)", shape=_scalar_inputs, stateful=True)
register_op("_CheckpointRelease", "prefix: string", "", stateful=True)
register_op(
    "_CheckpointCommit", "layout: string; records: N * string", "path: string", "N: int >= 1",
    shape=_scalar_inputs, stateful=True)
register_op(
    "_CheckpointRead", "prefix: string", "tensors: dtypes",
    "names: list(string); slices: list(string); shapes: list(shape); dtypes: list(type) >= 1; "
    "reshape: bool = false",
    shape=_read_shape, stateful=True)

# ---------------------------------------------------------------- checkpoints in one op


def _check_vector(op: Operation, position: int, length: int, what: str) -> None:
    dims = op.input_dims(position)
    if dims is not None and (len(dims) != 1 or dims[0] not in (None, length)):
        raise ValueError(f"{what} must be a vector of {length} strings, one per tensor, got shape "
                         f"{show(dims)}")


def _save_shape(op: Operation) -> list[Dims]:
    _check_scalar(op, 0)
    vectors = [a for a in op.op_def.inputs if a.type is dtypes.string][1:]
    count = len(op.inputs) - 1 - len(vectors)
    for position, arg in enumerate(vectors, start=1):
        _check_vector(op, position, count, arg.name)
    return []


def _restored_dims(spec: bytes) -> Dims:
    """The shape of what a ``shape_and_slice`` selects; unknown for the whole tensor."""
    words = spec.decode().split()
    if not words:
        return None
    parts = words[-1].split(":")
    dims = words[:-1]
    if len(parts) != len(dims):
        raise ValueError(f"bad shape_and_slice {spec!r}: {len(dims)} dimensions but {len(parts)} "
                         "slices")
    try:
        return tuple(int(dim if part == "-" else part.split(",")[1])
                     for dim, part in zip(dims, parts, strict=True))
    except (ValueError, IndexError):
        raise ValueError(f"bad shape_and_slice {spec!r}: expected dimensions, then start,length or "
                         "- for each") from None


def _restore_v2_shape(op: Operation) -> list[Dims]:
    count = len(op.attr("dtypes"))
    _check_scalar(op, 0)
    _check_vector(op, 1, count, "tensor_names")
    _check_vector(op, 2, count, "shape_and_slices")
    specs = constant_value(op.inputs[2])
    return [None] * count if specs is None else [_restored_dims(s) for s in specs]


def _restore_slice_shape(op: Operation) -> list[Dims]:
    _check_scalar(op, 0, 1, 2)
    spec = constant_value(op.inputs[2])
    return [None if spec is None else _restored_dims(spec.item())]


def _restore_shape(op: Operation) -> list[Dims]:
    _check_scalar(op, 0, 1)
    return unknown(op)


register_op("Save", "filename: string; tensor_names: string; data: T", "", "T: list(type) >= 1",
            shape=_save_shape, stateful=True)
register_op("SaveSlices",
            "filename: string; tensor_names: string; shapes_and_slices: string; data: T", "",
            "T: list(type) >= 1", shape=_save_shape, stateful=True)
register_op("SaveV2",
            "prefix: string; tensor_names: string; shape_and_slices: string; tensors: dtypes", "",
            "dtypes: list(type) >= 1", shape=_save_shape, stateful=True)
register_op("Restore", "file_pattern: string; tensor_name: string", "tensor: dt",
            "dt: type; preferred_shard: int = -1", shape=_restore_shape, stateful=True)
register_op("RestoreSlice",
            "file_pattern: string; tensor_name: string; shape_and_slice: string", "tensor: dt",
            "dt: type; preferred_shard: int = -1", shape=_restore_slice_shape, stateful=True)
register_op("RestoreV2", "prefix: string; tensor_names: string; shape_and_slices: string",
            "tensors: dtypes", "dtypes: list(type) >= 1", shape=_restore_v2_shape, stateful=True)


def _merge_shape(op: Operation) -> list[Dims]:
    merge_dims(op.input_dims(0), (None,))
    _check_scalar(op, 1)
    return []


register_op("MergeV2Checkpoints", "checkpoint_prefixes: string; destination_prefix: string", "",
            "delete_old_dirs: bool = true", shape=_merge_shape, stateful=True)
register_op("ShardedFilename", "basename: string; shard: int32; num_shards: int32",
            "filename: string", shape=_scalar_inputs)
register_op("ShardedFilespec", "basename: string; num_shards: int32", "filename: string",
            shape=_scalar_inputs)

# ---------------------------------------------------------------- files as strings


def _matching_shape(op: Operation) -> list[Dims]:
    dims = op.input_dims(0)
    if dims is not None and len(dims) > 1:
        raise ValueError(f"the pattern must be a scalar or a vector, got shape {show(dims)}")
    return [(None,)]


register_op("ReadFile", "filename: string", "contents: string", shape=_scalar_inputs, stateful=True)
register_op("WriteFile", "filename: string; contents: string", "", shape=_scalar_inputs,
            stateful=True)
register_op("MatchingFiles", "pattern: string", "filenames: string", shape=_matching_shape,
            stateful=True)
# Makes a folder, and removes the files in it whose names begin with none of `keep`.
register_op("_TidyFolder", "folder: string; keep: string", "", stateful=True)

not_differentiable(
    "_VariableSnapshot", "_HandleSnapshot", "_CheckpointCreate", "_CheckpointWrite",
    "_CheckpointHold", "_CheckpointWriteHeld", "_CheckpointRelease", "_CheckpointCommit",
    "_CheckpointRead", "Save", "SaveSlices", "SaveV2", "Restore",
    "RestoreSlice", "RestoreV2", "MergeV2Checkpoints",
    "ShardedFilename", "ShardedFilespec", "ReadFile", "WriteFile", "MatchingFiles",
    "_TidyFolder")


def read_file(filename: TensorLike, name: str | None = None) -> Tensor:
    """Return the content of the file called `filename` (a scalar string) as a scalar string.

    Raises (when run) ``NotFoundError`` if there is no such file.
    """
    return raw_ops.ReadFile(filename, name=name)


def write_file(filename: TensorLike, contents: TensorLike, name: str | None = None) -> Operation:
    """Write `contents` to the file called `filename` (scalar strings), replacing it.

    Missing directories are made.
    """
    return raw_ops.WriteFile(filename, contents, name=name)


def matching_files(pattern: TensorLike, name: str | None = None) -> Tensor:
    """Return the sorted names of the files that match the glob `pattern` (or any of several).

    ``*`` and ``?`` do not match a slash. The result is a vector of strings.
    """
    return raw_ops.MatchingFiles(pattern, name=name)
