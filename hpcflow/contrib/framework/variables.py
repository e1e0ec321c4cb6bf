"""Variables of models: made with their collections and devices, and found again by scope."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from typing import Any

from hpcflow.contrib.framework.arg_scopes import add_arg_scope
from hpcflow.device_spec import DeviceSpec
from hpcflow.dtypes import DTypeLike
from hpcflow.graph.graph import add_to_collection, device, get_collection
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.likes import Collections, DeviceLike, InitializerLike, TensorLike
from hpcflow.ops.state.variable_scope import VariableScope, get_variable
from hpcflow.ops.state.variables import Variable
from hpcflow.shapes import ShapeLike


@add_arg_scope
def variable(name: str, shape: ShapeLike | None = None, dtype: DTypeLike | None = None,
             initializer: InitializerLike | None = None, regularizer: Callable | None = None,
             trainable: bool = True, collections: Collections | None = None,
             caching_device: DeviceLike | None = None, device: DeviceLike | None = None,
             partitioner: Callable | None = None, custom_getter: Callable | None = None,
             use_resource: bool | None = None) -> Any:
    """Return the variable `name` of the variable scope, as ``get_variable``, on a `device`.

    `collections` are those it joins, the global variables if None; `device` is a device string
    or function.
    """
    names = list(collections if collections is not None else [GraphKeys.GLOBAL_VARIABLES])
    with _on(device):
        return get_variable(name, shape, dtype, initializer, regularizer, trainable,
                            list(dict.fromkeys(names)), caching_device, partitioner,
                            use_resource=use_resource, custom_getter=custom_getter)


def _on(where: Any) -> Any:
    return device(where or "")


@add_arg_scope
def model_variable(name: str, shape: ShapeLike | None = None, dtype: DTypeLike | None = None,
                   initializer: InitializerLike | None = None, regularizer: Callable | None = None,
                   trainable: bool = True, collections: Collections | None = None,
                   caching_device: DeviceLike | None = None, device: DeviceLike | None = None,
                   partitioner: Callable | None = None, custom_getter: Callable | None = None,
                   use_resource: bool | None = None) -> Any:
    """Return a :func:`variable` that also is one of the model variables."""
    names = [*(collections or ()), GraphKeys.GLOBAL_VARIABLES, GraphKeys.MODEL_VARIABLES]
    # By name: a scope of arguments may have some of them for variables, too.
    return variable(name, shape=shape, dtype=dtype, initializer=initializer,
                    regularizer=regularizer, trainable=trainable, collections=names,
                    caching_device=caching_device, device=device, partitioner=partitioner,
                    custom_getter=custom_getter, use_resource=use_resource)


def local_variable(initial_value: TensorLike, validate_shape: bool = True,
                   name: str | None = None, use_resource: bool | None = None) -> Variable:
    """Return a new variable that is not trained and not saved; arguments as of ``Variable``."""
    return Variable(initial_value, trainable=False, collections=[GraphKeys.LOCAL_VARIABLES],
                    validate_shape=validate_shape, name=name, use_resource=use_resource)


def add_model_variable(var: Variable) -> None:
    """Add `var` to the model variables."""
    if var not in get_collection(GraphKeys.MODEL_VARIABLES):
        add_to_collection(GraphKeys.MODEL_VARIABLES, var)


def get_variables(scope: str | VariableScope | None = None, suffix: str | None = None,
                  collection: str = GraphKeys.GLOBAL_VARIABLES) -> list:
    """Return the variables of a collection whose names begin with `scope` and end in `suffix`.

    `scope`: a variable scope, or a regular expression for the beginning of names.
    """
    if isinstance(scope, VariableScope):
        scope = scope.name
    if suffix is not None:
        scope = (scope or "") + ".*" + (suffix if ":" in suffix else suffix + ":")
    return get_collection(collection, scope)


def get_model_variables(scope: str | VariableScope | None = None,
                        suffix: str | None = None) -> list:
    """:func:`get_variables` of the model variables."""
    return get_variables(scope, suffix, GraphKeys.MODEL_VARIABLES)


def get_local_variables(scope: str | VariableScope | None = None,
                        suffix: str | None = None) -> list:
    """:func:`get_variables` of the local variables."""
    return get_variables(scope, suffix, GraphKeys.LOCAL_VARIABLES)


def get_trainable_variables(scope: str | VariableScope | None = None,
                            suffix: str | None = None) -> list:
    """:func:`get_variables` of the trainable variables."""
    return get_variables(scope, suffix, GraphKeys.TRAINABLE_VARIABLES)


def get_variables_by_name(given_name: str, scope: str | VariableScope | None = None) -> list:
    """Return the variables with the last name `given_name`."""
    return get_variables(scope, rf"/{given_name}:|^{given_name}:")


def get_variables_by_suffix(suffix: str, scope: str | VariableScope | None = None) -> list:
    """Return the variables whose names end in `suffix`."""
    return get_variables(scope, suffix)


def get_unique_variable(var_op_name: str) -> Any:
    """Return the variable of that full name; ``ValueError`` unless there is exactly one."""
    found = [v for v in get_variables(var_op_name) if v.op.name == var_op_name]
    if len(found) != 1:
        raise ValueError(f"Variable {var_op_name} does not uniquely identify a variable: "
                         f"{len(found)} have this name")
    return found[0]


def filter_variables(var_list: list, include_patterns: list[str] | None = None,
                     exclude_patterns: list[str] | None = None, reg_search: bool = True) -> list:
    """Return the variables whose names match one of the patterns to include, and none to exclude.

    With `reg_search` a pattern may match anywhere in a name, else at its beginning.
    """
    match = re.search if reg_search else re.match

    def matches(patterns: list[str], var: Variable) -> bool:
        return any(match(p, var.op.name) for p in patterns)

    chosen = [v for v in var_list if not include_patterns or matches(include_patterns, v)]
    return [v for v in chosen if not exclude_patterns or not matches(exclude_patterns, v)]


def get_variables_to_restore(include: list[str] | None = None,
                             exclude: list[str] | None = None) -> list:
    """Return the variables in the scopes to include (all if None), but in none to exclude."""
    found = get_variables() if include is None else [
        v for scope in _scopes(include, "include") for v in get_variables(scope)]
    dropped = {v for scope in _scopes(exclude or [], "exclude") for v in get_variables(scope)}
    return [v for v in found if v not in dropped]


def _scopes(given: Sequence[str], what: str) -> list:
    if not isinstance(given, (list, tuple)):
        raise TypeError(f"{what} is not a list but is {given!r}")
    return list(given)


def get_variable_full_name(var: Any) -> str:
    """Return the name of a variable, or of the whole that a slice belongs to."""
    info = getattr(var, "_save_slice_info", None)
    return info.full_name if info else var.op.name


class VariableDeviceChooser:
    """A device function: the devices of variables, over the tasks of a job in turn.

    Args:
        num_tasks: the number of tasks; 0 for devices without a job and a task.
        job_name: the job.
        device_type, device_index: the device of each task.
        replica: the replica, or None.
    """

    def __init__(self, num_tasks: int = 0, job_name: str = "ps", device_type: str = "CPU",
                 device_index: int = 0, replica: int | None = None) -> None:
        self._options = {"device_type": device_type, "device_index": device_index,
                         "replica": replica}
        self._tasks = itertools.cycle([{"job": job_name, "task": task}
                                       for task in range(num_tasks)] or [{}])

    def __call__(self, op: Any) -> str:
        """Return the device of the next variable."""
        options: dict[str, Any] = {**self._options, **next(self._tasks)}
        return DeviceSpec(**options).to_string()
