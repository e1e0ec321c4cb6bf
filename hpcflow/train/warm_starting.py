"""Variables whose initializers read a checkpoint: training that starts from another's result."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from hpcflow.graph.graph import colocate_with, name_scope
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.state import state
from hpcflow.ops.state.partitioned import PartitionedVariable
from hpcflow.ops.state.variable_lists import global_variables, trainable_variables
from hpcflow.ops.state.variable_scope import scoped_variables
from hpcflow.ops.state.variables import Variable
from hpcflow.shapes import TensorShape
from hpcflow.train.checkpoint_reader import NewCheckpointReader
from hpcflow.train.checkpoint_state import latest_checkpoint


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
    path = latest_checkpoint(ckpt_dir_or_file) or os.fspath(ckpt_dir_or_file)
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
            begin with, a list of such for all variables, or a list of variables.
        var_name_to_vocab_info: must be empty: rows of other vocabularies are not found.
        var_name_to_prev_var_name: name of a variable -> its name in the checkpoint.

    Raises ``ValueError`` as :func:`init_from_checkpoint`, or for names that no variable has.
    """
    if var_name_to_vocab_info:
        raise ValueError("var_name_to_vocab_info is not supported: the rows of a variable must "
                         "be those of the checkpoint")
    before = dict(var_name_to_prev_var_name or {})
    chosen: dict[str, list] = {}
    for variable in _chosen(vars_to_warm_start):
        part = variable._get_save_slice_info()
        name = variable.op.name if part is None else part.full_name
        chosen.setdefault(name, []).append(variable)
    if unknown := sorted(set(before) - set(chosen)):
        raise ValueError(f"var_name_to_prev_var_name names {unknown}, which are not among the "
                         f"variables {sorted(chosen)}")
    init_from_checkpoint(ckpt_to_initialize_from, [
        (before.get(name, name), parts if len(parts) > 1 else parts[0])
        for name, parts in chosen.items()])


def _chosen(given: str | Sequence[str]) -> list[Any]:
    """The variables that `vars_to_warm_start` means."""
    if given is None:
        return []
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
    with colocate_with(variable.op), name_scope("init_from_checkpoint"):
        value = raw_ops.RestoreV2(
            np.array(path, object), np.array([tensor], object),
            np.array(["" if part is None else part.spec], object),
            dtypes=[variable.dtype.base_dtype])[0]
        value.set_shape(variable.shape)
        variable._initial_value = value
        variable._initializer_op = state.assign(variable, value).op
