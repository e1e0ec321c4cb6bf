"""Exponential moving averages of variables and tensors."""

from __future__ import annotations

import itertools
from typing import Any

from hpcflow import dtypes
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import (
    add_to_collection,
    colocate_with,
    control_dependencies,
    get_default_graph,
    name_scope,
)
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.likes import TensorHandle, TensorLike
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.common.grouping import group
from hpcflow.ops.state import variable_lists
from hpcflow.ops.state.initializers import Zeros
from hpcflow.ops.state.state import assign_sub
from hpcflow.ops.state.variable_scope import get_variable, get_variable_scope, variable_scope
from hpcflow.ops.state.variables import Variable
from hpcflow.optimizers.optimizer import cast
from hpcflow.optimizers.slots import create_filled_slot, create_slot


class ExponentialMovingAverage:
    """Keeps shadow variables: ``shadow = decay * shadow + (1 - decay) * value``.

    The shadow of a variable begins at the variable's initial value, that of another tensor at 0.

    Args:
        decay: a number or scalar tensor near 1.
        num_updates: number of updates made so far; if given the decay is at most
            ``(1 + num_updates) / (10 + num_updates)``, which lets averages move faster at first.
        zero_debias: correct the averages of tensors for having begun at 0.
        name: last part of the shadow variables' names.
    """

    def __init__(self, decay: TensorLike, num_updates: Any = None, zero_debias: bool = False,
                 name: str = "ExponentialMovingAverage") -> None:
        self._decay = decay
        self._num_updates = num_updates
        self._zero_debias = zero_debias
        self._name = name
        self._averages: dict[Any, Variable] = {}

    @property
    def name(self) -> str:
        """The last part of the shadow variables' names."""
        return self._name

    def apply(self, var_list: list | None = None) -> Operation:
        """Make the shadow variables and return an operation that updates them.

        `var_list`: variables or tensors; the trainable variables if None.

        One that has a shadow variable from an earlier call keeps it.

        Raises ``TypeError`` for types other than floats.
        """
        if var_list is None:
            var_list = variable_lists.trainable_variables()
        debiased = set()
        for var in var_list:
            self._check(var)
            if var not in self._averages:
                with control_dependencies(None):
                    self._averages[var] = self._create_shadow(var)
            if self._zero_debias and not isinstance(var, Variable):
                debiased.add(var)
        with name_scope(self._name) as scope:
            decay = self._decay_tensor()
            updates = [assign_moving_average(self._averages[var], var, decay, var in debiased)
                       for var in var_list]
            return group(*updates, name=scope)

    def _check(self, var: Tensor | Variable) -> None:
        if var.dtype.base_dtype not in (dtypes.float16, dtypes.bfloat16, dtypes.float32,
                                         dtypes.float64):
            raise TypeError(f"The variables must be half, float, or double: {var.name}")

    def _create_shadow(self, var: Tensor | Variable) -> Variable:
        if isinstance(var, Variable):
            add_to_collection(GraphKeys.MOVING_AVERAGE_VARIABLES, var)
            return create_slot(var, var.initialized_value(), self._name)
        is_reference = var.op.type in ("Variable", "VariableV2")
        return create_filled_slot(var, 0, self._name, colocate_with_primary=is_reference)

    def _decay_tensor(self) -> Tensor:
        decay = convert_to_tensor(self._decay, name="decay")
        if self._num_updates is None:
            return decay
        made: Any = cast(self._num_updates, dtypes.float32)
        return raw_ops.Minimum(decay, raw_ops.RealDiv(made + 1.0, made + 10.0))

    def average(self, var: TensorHandle) -> Variable | None:
        """Return the shadow variable of `var`, or None."""
        return self._averages.get(var)

    def average_name(self, var: Variable) -> str:
        """Return the name that the average of `var` has, or would have."""
        if var in self._averages:
            return self._averages[var].op.name
        return get_default_graph().unique_name(f"{var.op.name}/{self._name}", mark_as_used=False)

    def variables_to_restore(self, moving_avg_variables: list | None = None) -> dict[str, Any]:
        """Return checkpoint name -> variable, such that a Saver restores averages as the values.

        `moving_avg_variables`: those whose averages to restore; if None the trainable variables
        and the collection MOVING_AVERAGE_VARIABLES. Other global variables keep their names.
        """
        if moving_avg_variables is None:
            moving_avg_variables = (variable_lists.trainable_variables()
                                    + variable_lists.moving_average_variables())
        averaged = list(dict.fromkeys(moving_avg_variables))
        names = {self.average_name(v): v for v in averaged}
        for var in variable_lists.global_variables():
            if var not in averaged:
                names.setdefault(var.op.name, var)
        return names


def assign_moving_average(variable: Any, value: Any, decay: Any, zero_debias: bool = True,
                          name: str | None = None) -> Tensor:
    """Return the update ``variable -= (1 - decay) * (variable - value)``.

    With `zero_debias` the average is divided by ``1 - decay**updates``, which makes up for its
    beginning at 0 (Kingma and Ba, 2014); its raw value is kept in ``<variable>/biased``.
    """
    with name_scope(name, "AssignMovingAvg", [variable, value]) as scope:
        with colocate_with(variable):
            dtype = variable.dtype.base_dtype
            gain: Any = cast(1.0 - decay, dtype)
            if zero_debias:
                delta = _debiased_delta(variable, value, gain)
            else:
                delta = (variable - value) * gain
            return assign_sub(variable, delta, name=scope)


def _free_name(name: str) -> str:
    """`name`, numbered if the open variable scope has a variable of that name and shares none."""
    scope = get_variable_scope()
    if scope.reuse:
        return name
    taken = {v.op.name for v in variable_lists.global_variables()}
    names = (f"{name}_{k}" if k else name for k in itertools.count())
    return next(n for n in names if f"{scope.name}/{n}" not in taken)


def _debiased_delta(unbiased: Any, value: TensorLike, gain: Any) -> Tensor:
    dtype = unbiased.dtype.base_dtype
    with variable_scope(unbiased.op.name, values=[unbiased, value, gain]):
        with control_dependencies(None):
            biased = get_variable(_free_name("biased"), shape=unbiased.shape, dtype=dtype,
                                  trainable=False, initializer=Zeros(dtype))
            count = get_variable(_free_name("local_step"), shape=[], dtype=dtype,
                                 trainable=False, initializer=Zeros(dtype))
        updates = [biased.assign_sub((biased - value) * gain), count.assign_add(1)]
        with control_dependencies(updates):
            weight = 1 - raw_ops.Pow(1 - gain, count.read_value())
            return unbiased - biased.read_value() / weight


def weighted_moving_average(value: Tensor, decay: Any, weight: Tensor, truediv: bool = True,
                            collections: list | None = None, name: str | None = None) -> Tensor:
    """Return the moving average of `value`, weighted by `weight`, after an update with both.

    It is the average of ``value * weight`` divided by that of `weight`, both in variables of its
    own below the scope `name`.

    Args:
        value: what is averaged, of static shape.
        decay: the factor of the averages so far.
        weight: of a shape that multiplies `value`.
        truediv: divide as real numbers; else as the types say.
        collections: of the two variables; GLOBAL_VARIABLES by default.
        name: of the scope, ``WeightedMovingAvg`` by default.
    """
    with variable_scope(name, "WeightedMovingAvg", [value, weight, decay]) as scope:
        parts: list[Tensor] = []
        for part, update in (("value_x_weight", raw_ops.Mul(value, weight)), ("weight", weight)):
            zeros: Any = Zeros(update.dtype)
            variable = get_variable(part, shape=update.shape, dtype=update.dtype, trainable=False,
                                    initializer=zeros, collections=collections)
            parts.append(assign_moving_average(variable, update, decay, zero_debias=False))
        average, total = parts
        divide: Any = raw_ops.RealDiv if truediv else raw_ops.Div
        return divide(average, total, name=scope.name)
