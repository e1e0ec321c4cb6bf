"""Variables set from checkpoints and from values at the start of a program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcflow.base.keywords import also_called
from hpcflow.contrib.framework.variables import get_unique_variable, get_variable_full_name
from hpcflow.ops.arrays.constants import placeholder
from hpcflow.ops.common.grouping import group
from hpcflow.train.checkpoint_reader import NewCheckpointReader
from hpcflow.train.checkpoint_state import latest_checkpoint
from hpcflow.train.saver import Saver

if TYPE_CHECKING:
    from hpcflow.ops.state.variables import Variable


@also_called(ckpt_dir_or_file="filepattern")
def load_checkpoint(filepattern: str) -> Any:
    """Return a reader of a checkpoint, or of the latest one in a directory."""
    return NewCheckpointReader(latest_checkpoint(filepattern) or filepattern)


@also_called(ckpt_dir_or_file="checkpoint_dir")
def load_variable(checkpoint_dir: str, name: str) -> np.ndarray:
    """Return the value of one variable of a checkpoint."""
    return load_checkpoint(checkpoint_dir).get_tensor(name.removesuffix(":0"))


@also_called(ckpt_dir_or_file="checkpoint_dir")
def list_variables(checkpoint_dir: str) -> list[tuple[str, list[int]]]:
    """Return name and shape of every variable of a checkpoint, sorted by name."""
    return sorted(load_checkpoint(checkpoint_dir).get_variable_to_shape_map().items())


def assign_from_values(var_names_to_values: dict) -> tuple[Any, dict]:
    """Return an operation that sets variables, and what to feed it.

    `var_names_to_values`: full name of a variable -> its value.
    """
    return _assignment([(get_unique_variable(name), np.asarray(value))
                        for name, value in var_names_to_values.items()])


def assign_from_values_fn(var_names_to_values: dict) -> Callable:
    """Return a function of a session that sets variables, as an ``init_fn``."""
    op, feeds = assign_from_values(var_names_to_values)
    return lambda session: session.run(op, feeds)


def assign_from_checkpoint(model_path: str, var_list: Sequence[Any] | Mapping[str, Any],
                           ignore_missing_vars: bool = False) -> tuple[Any, dict]:
    """Return an operation that sets variables from a checkpoint, and what to feed it.

    Args:
        model_path: name of the checkpoint.
        var_list: variables, or name in the checkpoint -> variable, or list of variables: slices
            get their parts.
        ignore_missing_vars: leave those that the checkpoint does not have, instead of an error.

    Raises ``ValueError`` if a variable is missing or of another shape.
    """
    reader = NewCheckpointReader(model_path)
    pairs = []
    for name, variables in _by_name(var_list).items():
        if not reader.has_tensor(name):
            if ignore_missing_vars:
                continue
            raise ValueError(f"Checkpoint is missing variable [{name}]")
        whole = reader.get_tensor(name)
        for var in variables:
            value = _part_for(var, whole)
            if not var.get_shape().is_compatible_with(value.shape):
                raise ValueError(f"Total size of new array must be unchanged for {name} "
                                 f"lh_shape: [{value.shape}], rh_shape: [{var.get_shape()}]")
            pairs.append((var, value))
    return _assignment(pairs)


def _part_for(var: Any, whole: np.ndarray) -> np.ndarray:
    """What a slice gets of the value of the whole; all of it for other variables."""
    info = getattr(var, "_save_slice_info", None)
    if info is None:
        return whole
    return whole[tuple(slice(begin, begin + size) for begin, size in zip(
        info.var_offset, info.var_shape, strict=True))]


def assign_from_checkpoint_fn(model_path: str, var_list: Sequence[Any] | Mapping[str, Any],
                              ignore_missing_vars: bool = False,
                              reshape_variables: bool = False) -> Callable | None:
    """Return a function of a session that restores variables; None if nothing is to restore.

    `reshape_variables`: restore values of another shape with as many elements.
    """
    variables = _by_name(var_list)
    if ignore_missing_vars:
        reader = NewCheckpointReader(model_path)
        variables = {n: v for n, v in variables.items() if reader.has_tensor(n)}
        if not variables:
            return None
    saver = Saver({name: found[0] if len(found) == 1 else found
                   for name, found in variables.items()}, reshape=reshape_variables)
    return lambda session: saver.restore(session, model_path)


def _by_name(var_list: Mapping[str, Any] | Sequence[Variable]) -> dict[str, list]:
    """The variables of each name; those of one name are slices of a whole."""
    if isinstance(var_list, dict):
        return {name: list(given) if isinstance(given, (list, tuple)) else [given]
                for name, given in var_list.items()}
    found: dict[str, list] = {}
    for var in var_list:
        found.setdefault(get_variable_full_name(var), []).append(var)
    return found


def _assignment(pairs: list) -> tuple[Any, dict]:
    feeds, assigns = {}, []
    for var, value in pairs:
        fed = placeholder(var.dtype.base_dtype, value.shape)
        assigns.append(var.assign(fed))
        feeds[fed] = value
    return group(*assigns), feeds
