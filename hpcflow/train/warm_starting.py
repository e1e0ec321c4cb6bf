"""Variables whose initializers read a checkpoint: training that starts from another's result."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from hpcflow.graph.graph import colocate_with, name_scope
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.state.partitioned import PartitionedVariable, PartitionInfo
from hpcflow.ops.state.variable_lists import global_variables, trainable_variables
from hpcflow.ops.state.variable_scope import scoped_variables
from hpcflow.ops.state.variables import Variable
from hpcflow.shapes import TensorShape
from hpcflow.train.checkpoint_reader import NewCheckpointReader
from hpcflow.train.checkpoint_state import latest_checkpoint
from hpcflow.train.vocabularies import VocabInfo, load_and_remap_matrix_initializer


def init_from_checkpoint(ckpt_dir_or_file: str, assignment_map: Mapping[str, Any] | Any) -> None:
    """Let the initializers of variables read a checkpoint.

    They run with ``global_variables_initializer`` as any others do.

    Args:
        ckpt_dir_or_file: a checkpoint, or a directory, whose latest one is taken.
        assignment_map: a dict, or pairs: the name of a tensor of the checkpoint -> the name of a
            variable of ``get_variable``, a variable, or the list of its parts; or a scope of the
            checkpoint -> a scope, both ending in ``/``, for all variables there. ``/`` is all.

    Raises:
        ValueError: the checkpoint has no such tensor, or of another shape, or a name alone is said
            to go to a scope.
    """
    path = latest_checkpoint(ckpt_dir_or_file) or os.fsdecode(ckpt_dir_or_file)
    shapes = NewCheckpointReader(path).get_variable_to_shape_map()
    pairs = assignment_map.items() if isinstance(assignment_map, Mapping) else assignment_map
    for name, target in pairs:
        for tensor, variable in _matched(name, target):
            if tensor not in shapes:
                raise ValueError(f"Tensor {tensor} is not found in {ckpt_dir_or_file} checkpoint "
                                 f"{shapes}")
            _start_from(variable, tensor, path, shapes[tensor])


class WarmStartSettings(NamedTuple):
    """The arguments of :func:`warm_start`."""

    ckpt_to_initialize_from: str
    vars_to_warm_start: Any = ".*"
    var_name_to_vocab_info: Mapping[str, Any] | None = None
    var_name_to_prev_var_name: Mapping[str, str] | None = None


def warm_start(ckpt_to_initialize_from: str, vars_to_warm_start: Any = ".*",
               var_name_to_vocab_info: Mapping[str, Any] | None = None,
               var_name_to_prev_var_name: Mapping[str, str] | None = None) -> None:
    """Let the initializers of the variables of the default graph read a checkpoint.

    Args:
        ckpt_to_initialize_from: a checkpoint, or a directory, whose latest one is taken.
        vars_to_warm_start: a regular expression that the names (``w:0``) of trainable variables
            begin with, a list of such for all variables, or a list of variables. None: those
            of `var_name_to_vocab_info` alone.
        var_name_to_vocab_info: name of a variable -> the :class:`VocabInfo` of its rows or columns,
            which are then those of the same words.
        var_name_to_prev_var_name: name of a variable -> its name in the checkpoint.

    Raises ``ValueError`` as :func:`init_from_checkpoint`, or for names that no variable has.
    """
    before, words = dict(var_name_to_prev_var_name or {}), dict(var_name_to_vocab_info or {})
    if vars_to_warm_start is None:
        vars_to_warm_start = [v for v in global_variables() if _infer_var_name(v) in words]
        before = {name: old for name, old in before.items() if name in words}
    chosen: dict[str, list] = {}
    for variable in _chosen(vars_to_warm_start):
        chosen.setdefault(_infer_var_name(variable), []).append(variable)
    for what, given in (("var_name_to_prev_var_name", before), ("var_name_to_vocab_info", words)):
        if unknown := sorted(set(given) - set(chosen)):
            raise ValueError(f"{what} names {unknown}, which are not among the variables "
                             f"{sorted(chosen)}")
    init_from_checkpoint(ckpt_to_initialize_from, [
        (before.get(name, name), parts if len(parts) > 1 else parts[0])
        for name, parts in chosen.items() if name not in words])
    for name, info in words.items():
        warm_start_by_words(chosen[name], info, ckpt_to_initialize_from, before.get(name, name))


def warm_start_by_words(parts: Sequence[Variable], info: VocabInfo, checkpoint: str,
                        tensor: str) -> None:
    """Let the initializers of a variable, given as its parts, read the rows or columns of the words
    that a matrix `tensor` of a checkpoint has too; ``ValueError`` for another shape."""
    for part in parts:
        shape, cut = part.shape.as_list(), part._get_save_slice_info()
        where = None if cut is None else PartitionInfo(list(cut.full_shape), list(cut.var_offset))
        whole: list[Any] = shape if where is None else where.full_shape
        if info.axis == 0:
            make = load_and_remap_matrix_initializer(
                checkpoint, tensor, info.new_vocab_size, whole[1],
                old_row_vocab_size=info.old_vocab_size, old_row_vocab_file=info.old_vocab,
                new_row_vocab_file=info.new_vocab, num_row_oov_buckets=info.num_oov_buckets,
                initializer=info.backup_initializer)
        else:
            make = load_and_remap_matrix_initializer(
                checkpoint, tensor, whole[0], info.new_vocab_size,
                old_col_vocab_file=info.old_vocab, new_col_vocab_file=info.new_vocab,
                num_col_oov_buckets=info.num_oov_buckets, initializer=info.backup_initializer)
        with colocate_with(part.op), name_scope("warm_start"):
            _begin_with(part, make(shape, part.dtype.base_dtype, where))


def _warm_start_var_with_vocab(
        var: Variable | PartitionedVariable, current_vocab_path: str, current_vocab_size: int,
        prev_ckpt: str, prev_vocab_path: str, previous_vocab_size: int = -1,
        current_oov_buckets: int = 0, prev_tensor_name: str | None = None,
        initializer: Callable | None = None, axis: int = 0) -> None:
    if not isinstance(var, (Variable, PartitionedVariable)):
        raise TypeError(f"var must be a variable or a partitioned one, got {type(var).__name__}")
    parts = list(var) if isinstance(var, PartitionedVariable) else [var]
    info = VocabInfo(current_vocab_path, current_vocab_size, current_oov_buckets, prev_vocab_path,
                     previous_vocab_size, initializer, axis)
    warm_start_by_words(parts, info, prev_ckpt, prev_tensor_name or _infer_var_name(var))


def _infer_var_name(var: Any) -> Any:
    """The name that a checkpoint has for a variable, a partitioned one, or a list of its parts."""
    first = next(iter(var)) if isinstance(var, (list, tuple, PartitionedVariable)) else var
    part = first._get_save_slice_info()
    return first.op.name if part is None else part.full_name


def _get_var_info(var: Any, prev_tensor_name: str | None = None) -> tuple[str, Any]:
    """The name of the tensor that a variable begins with, and the variable or its parts."""
    parts = list(var) if isinstance(var, (list, tuple, PartitionedVariable)) else [var]
    name = prev_tensor_name or _infer_var_name(parts)
    return name, parts if len(parts) > 1 else parts[0]


def _chosen(given: str | Sequence[str]) -> list[Any]:
    """The variables that `vars_to_warm_start` means."""
    if isinstance(given, str):
        return [v for v in trainable_variables() if re.match(given, v.name)]
    if all(isinstance(item, str) for item in given):
        return [v for v in global_variables() if any(re.match(e, v.name) for e in given)]
    return [v for item in given for v in (
        item if isinstance(item, (list, tuple, PartitionedVariable)) else [item])]


def _matched(name: str, target: Variable) -> Iterator[tuple[str, Any]]:
    """The names of tensors, and the variables that begin with them."""
    if not isinstance(target, str):
        yield name, target
        return
    known = scoped_variables()
    if target in known:
        yield name, known[target]
        return
    if not name.endswith("/"):
        raise ValueError(f"Assignment map with scope only name {target} should map to scope only "
                         f"{name}. Should be 'scope/': 'other_scope/'.")
    scope, there = target.rpartition("/")[0], name.strip("/")
    for full in sorted(known):
        if not scope or full.startswith(f"{scope}/"):
            own = full[len(scope):].lstrip("/")
            yield f"{there}/{own}" if there else own, known[full]


def _start_from(variable: Variable, tensor: str, path: str, shape: list[int]) -> None:
    parts = list(variable) if isinstance(variable, (list, tuple, PartitionedVariable)) else [
        variable]
    first = parts[0]._get_save_slice_info()
    whole = first.full_shape if first is not None else parts[0].shape
    if not TensorShape(whole).is_compatible_with(shape):
        raise ValueError(f"Shape of variable {parts[0].name} ({TensorShape(whole)}) doesn't match "
                         f"with shape of tensor {tensor} ({shape}) from checkpoint reader.")
    for part in parts:
        _set_initializer(part, tensor, path)


def _set_initializer(variable: Variable, tensor: str, path: str) -> None:
    part = variable._get_save_slice_info()
    with colocate_with(variable.op):
        value = raw_ops.RestoreV2(
            np.array(path, object), np.array([tensor], object),
            np.array(["" if part is None else part.spec], object),
            dtypes=[variable.dtype.base_dtype], name="checkpoint_initializer")[0]
        value.set_shape(variable.shape)
        _begin_with(variable, value)


def _begin_with(variable: Variable, value: Tensor) -> None:
    variable._initial_value = value
    variable._initializer_op = variable.assign(value, read_value=False)
