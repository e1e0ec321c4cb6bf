"""The variables of a graph by kind, initializing them, and asking whether they are initialized."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcflow import dtypes
from hpcflow.graph.convert import constant_array
from hpcflow.graph.graph import (
    colocate_with,
    control_dependencies,
    get_collection,
    get_default_graph,
    name_scope,
)
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.common.grouping import group

if TYPE_CHECKING:
    from hpcflow.ops.state.variables import Variable

__all__ = [
    "all_variables",
    "assert_variables_initialized",
    "global_variables",
    "global_variables_initializer",
    "initialize_all_variables",
    "initialize_local_variables",
    "initialize_variables",
    "is_variable_initialized",
    "local_variables",
    "local_variables_initializer",
    "model_variables",
    "moving_average_variables",
    "report_uninitialized_variables",
    "trainable_variables",
    "variables_initializer",
]

# ---------------------------------------------------------------- lists
# With `scope`, a regular expression, only those whose names begin with it.


def global_variables(scope: str | None = None) -> list:
    """Return the variables that are shared between tasks and saved: all but local ones."""
    return get_collection(GraphKeys.GLOBAL_VARIABLES, scope)


def all_saveable_objects(scope: str | None = None) -> list:
    """Return what a Saver saves by default: the global variables, and tables and the like."""
    return global_variables(scope) + get_collection(GraphKeys.SAVEABLE_OBJECTS, scope)


def local_variables(scope: str | None = None) -> list:
    """Return the variables that belong to one process and are not saved, such as counters."""
    return get_collection(GraphKeys.LOCAL_VARIABLES, scope)


def model_variables(scope: str | None = None) -> list:
    """Return the variables of the collection MODEL_VARIABLES."""
    return get_collection(GraphKeys.MODEL_VARIABLES, scope)


def trainable_variables(scope: str | None = None) -> list:
    """Return the variables that optimizers change by default."""
    return get_collection(GraphKeys.TRAINABLE_VARIABLES, scope)


def moving_average_variables(scope: str | None = None) -> list:
    """Return the variables that have moving averages; see ``train.ExponentialMovingAverage``."""
    return get_collection(GraphKeys.MOVING_AVERAGE_VARIABLES, scope)


# ---------------------------------------------------------------- initializing


def variables_initializer(var_list: list, name: str = "init") -> Operation:
    """Return an operation that runs the initializers of `var_list`, in no particular order.

    In a graph with several replicas (``hpcflow.distribute``) all ranks must run it; they begin with
    the values of the first one.
    """
    replicas = get_default_graph()._replicas
    if replicas is None or not var_list:
        return _each_initializer(var_list, name)
    return replicas.with_equal_values(_each_initializer(var_list), var_list, name)


def _each_initializer(var_list: list, name: str = "init") -> Operation:
    """As :func:`variables_initializer`, for this rank alone."""
    if not var_list:
        return raw_ops.NoOp(name=name)
    return group(*[v.initializer for v in var_list], name=name)


def global_variables_initializer() -> Operation:
    """Return an operation that initializes all global variables of the graph so far."""
    return variables_initializer(global_variables())


def local_variables_initializer() -> Operation:
    """Return an operation that initializes all local variables of the graph so far."""
    return _each_initializer(local_variables())


# ---------------------------------------------------------------- asking


def is_variable_initialized(variable: Variable) -> Tensor:
    """Return a boolean tensor: whether `variable` has been initialized."""
    ref = variable._ref() if hasattr(variable, "_ref") else variable
    with colocate_with(ref.op):
        if ref.dtype is dtypes.resource:
            return raw_ops.VarIsInitializedOp(ref)
        return raw_ops.IsVariableInitialized(ref)


def report_uninitialized_variables(var_list: list | None = None,
                                   name: str = "report_uninitialized_variables") -> Tensor:
    """Return a 1-D string tensor with the names of the variables that are not initialized.

    `var_list` None: all global and local variables of the graph.
    """
    with name_scope(name):
        variables = _variables_or_all(var_list)
        if not variables:
            return constant_array(np.zeros(0, object), dtypes.string)
        initialized = raw_ops.Pack([is_variable_initialized(v) for v in variables])
        names = np.array([v.op.name.encode() for v in variables], object)
        where = raw_ops.Where(raw_ops.LogicalNot(initialized))
        rows = raw_ops.Squeeze(where, squeeze_dims=[1])
        return raw_ops.Gather(constant_array(names, dtypes.string), rows)


def assert_variables_initialized(var_list: list | None = None) -> Any:
    """Return a tensor whose evaluation raises ``FailedPreconditionError`` for an uninitialized
    variable; its value is the number of variables.

    It reads all of `var_list` (None: all variables of the graph). None if there are no variables.
    Prefer :func:`report_uninitialized_variables`, which names them all.
    """
    variables = _variables_or_all(var_list)
    if not variables:
        return None
    reads = []
    for variable in variables:
        with colocate_with(variable.op):
            ref = variable._ref() if hasattr(variable, "_ref") else variable
            if ref.dtype is dtypes.resource:
                reads.append(raw_ops.ReadVariableOp(ref, dtype=ref._handle_data[0]))
                continue
            # A read that is kept although nobody uses its value.
            reads.append(raw_ops.PreventGradient(ref))
    with control_dependencies([group(*reads)]):
        return constant_array(np.array(len(reads), np.int32))


def _variables_or_all(var_list: list | None) -> list:
    """The given variables; else those of the collections; else every variable operation."""
    if var_list is not None:
        return list(var_list)
    found = global_variables() + local_variables()
    if found:
        return found
    return [op.outputs[0] for op in get_default_graph().get_operations()
            if op.type in ("Variable", "VariableV2", "VarHandleOp")]


# ---------------------------------------------------------------- old names

_warned: set[str] = set()


def _old_name(name: str, function: Callable) -> Callable:
    @functools.wraps(function)
    def renamed(*args: Any, **kwargs: Any) -> Any:
        if name not in _warned:
            _warned.add(name)
            logging.getLogger("hpcflow").warning(
                "%s is deprecated; use %s", name, function.__name__)
        return function(*args, **kwargs)

    renamed.__name__ = renamed.__qualname__ = name
    renamed.__doc__ = f"The old name of :func:`{function.__name__}`."
    return renamed


all_variables = _old_name("all_variables", global_variables)
initialize_all_variables = _old_name("initialize_all_variables", global_variables_initializer)
initialize_local_variables = _old_name("initialize_local_variables", local_variables_initializer)
initialize_variables = _old_name("initialize_variables", variables_initializer)
