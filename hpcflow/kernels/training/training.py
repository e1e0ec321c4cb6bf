"""Kernels of the training updates: dense and sparse, by reference and by resource handle.

The arithmetic is in ``update_rules``; ``block_rules`` runs it over large arrays, in one pass over
memory instead of one per operation. Sparse updates gather the rows, apply the same rule to them and
put them back.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from hpcflow.errors import InvalidArgumentError
from hpcflow.kernels.common.indices import check_rows, occurrence_rounds
from hpcflow.kernels.registry import KernelNode, invalid, kernel
from hpcflow.kernels.training import device_row_rules, ftrl_rules, moment_rules, row_rules
from hpcflow.kernels.training import update_rules as rules
from hpcflow.kernels.training.block_rules import run_rule
from hpcflow.loops import compiling
from hpcflow.resources.variables import VariableState
from hpcflow.shapes import TensorShape


class Update(NamedTuple):
    """One kind of training update.

    Attributes:
        name: the op types are ``[Resource][Sparse]Apply<name>``.
        inputs: the dense op's inputs in order; the first `states` are variables.
        states: the number of variables: the trained one and its slots.
        scratch: the number of scratch arrays the rule takes.
        rule: the arithmetic.
        prepare: makes the rule's scalars from the scalar inputs, or None to pass these.
        on_host: the scalars are wanted as NumPy numbers on every device.
        types: the dtypes of T, empty for all that the op allows.
        sparse_inputs: the sparse op's inputs in order, empty if there is none.
        variant: (attribute, value, the rule for that value).
        choose: the rule for some scalars, of the rule and these.
    """

    name: str
    inputs: str
    states: int
    scratch: int
    rule: Callable
    prepare: Callable | None = None
    on_host: bool = False
    types: tuple[str, ...] = ("half", "bfloat16", "float", "double")
    sparse_inputs: str = ""
    variant: tuple[str, bool, Callable] | None = None
    choose: Callable[[Callable, tuple], Callable] | None = None

    def rule_of(self, node: KernelNode) -> Callable:
        """The arithmetic that the attributes of `node` ask for."""
        if self.variant is not None and bool(node.attr(self.variant[0])) is self.variant[1]:
            return self.variant[2]
        return self.rule


GRADIENT_NAMES = ("grad", "delta")


class DenseForm(NamedTuple):
    """A dense update as an op: where its gradient and its scalars are among the inputs."""

    update: Update
    gradient: int
    scalars: tuple[int, ...]


_DENSE: dict[str, DenseForm] = {}


def dense_form(op_type: str) -> DenseForm | None:
    """The form of the op type of a dense update; None for every other one."""
    return _DENSE.get(op_type)


# ---------------------------------------------------------------- running a rule


def _apply_to_scalars(update: Update, rule: Callable, states: tuple, arrays: list,
                      scalars: tuple) -> None:
    """The dense update of variables of rank 0, whose values are replaced."""
    arrays = [np.array(a) for a in arrays]
    rule(np, arrays, scalars, [np.empty_like(arrays[0]) for _ in range(update.scratch)])
    for state, array in zip(states, arrays):
        state.value = array[()]


def _shapes_differ(states: tuple, arrays: list, grad: Any) -> InvalidArgumentError:
    of = ", ".join(f"'{s.name}' {TensorShape(a.shape)}" for s, a in zip(states, arrays))
    return invalid(f"a variable, its slots and its gradient must have the same shape, got {of} and "
                   f"gradient {TensorShape(grad.shape)}")


def _apply_to_rows(xp: Any, update: Update, rule: Callable, states: tuple, scalars: tuple,
                   grad: Any, indices: Any) -> None:
    """The sparse update of the rows `indices` of `states`. A row that occurs several times is
    updated as often, in the order of the indices."""
    name = states[0].name
    shape = states[0].read().shape
    if not shape:
        raise invalid(f"variable '{name}' is a scalar; sparse updates need rows")
    if indices.ndim != 1:
        raise invalid(f"indices must be one-dimensional, got {TensorShape(indices.shape)}")
    if grad.shape != (len(indices), *shape[1:]):
        raise invalid(f"the gradient must have the shape of the indices followed by that of a row: "
                      f"variable '{name}' {TensorShape(shape)}, indices "
                      f"{TensorShape(indices.shape)}, gradient {TensorShape(grad.shape)}")
    check_rows(xp, indices, shape[0])
    arrays = [s.writable() for s in states]
    if any(a.shape != shape for a in arrays):
        raise _shapes_differ(states, arrays, grad)
    if xp is not np and device_row_rules.apply(xp, rule, arrays, indices, grad, scalars,
                                               update.scratch):
        return
    by_loop = row_rules.loop_of(rule, arrays, indices, grad, scalars, update.scratch) if (
        xp is np) else None
    if by_loop is None or not by_loop.run():
        compiling.timed(by_loop and by_loop.found, lambda: _apply_in_rounds(
            xp, update, rule, arrays, scalars, grad, indices))


def _apply_in_rounds(xp: Any, update: Update, rule: Callable, arrays: list, scalars: tuple,
                     grad: Any, indices: Any) -> None:
    """The sparse update of copies of the rows: the first occurrence of each, then the second..."""
    for selection in occurrence_rounds(xp, indices):
        rows = indices if selection is None else indices[selection]
        blocks = [a[rows] for a in arrays]
        blocks.append(grad if selection is None else grad[selection])
        run_rule(xp, rule, blocks, scalars, update.scratch)
        for array, block in zip(arrays, blocks):
            array[rows] = block


# ---------------------------------------------------------------- registration


def _register(update: Update) -> None:
    _register_form(update, update.inputs.split(), sparse=False)
    if update.sparse_inputs:
        _register_form(update, update.sparse_inputs.split(), sparse=True)


def _register_form(update: Update, names: list[str], sparse: bool) -> None:
    n = update.states
    grad_at = next(i for i, name in enumerate(names) if name in GRADIENT_NAMES)
    indices_at = names.index("indices") if sparse else -1
    scalars_at = [i for i in range(n, len(names)) if i not in (grad_at, indices_at)]

    def factory(node: KernelNode) -> Callable:
        rule = update.rule_of(node)
        prepare = _preparation(node, update, names, scalars_at)
        if sparse:
            apply = _sparse_function(node.xp, update, rule, prepare, grad_at, indices_at)
        else:
            apply = _dense_function(node.xp, update, rule, prepare, grad_at)
        if node.output_dtypes:
            return apply
        return lambda *inputs: apply(*inputs) and None  # forms on handles have no output

    base = f"{'Sparse' if sparse else ''}Apply{update.name}"
    if not sparse:
        form = DenseForm(update, grad_at, tuple(scalars_at))
        _DENSE.update({base: form, f"Resource{base}": form})
    types: dict[str, Iterable] = {"T": update.types} if update.types else {}
    kernel(base, f"Resource{base}", types=types,
           host_inputs=tuple(scalars_at) if update.on_host else ())(factory)


def _dense_function(xp: Any, update: Update, own: Callable, prepare: Callable,
                    grad_at: int) -> Callable:
    n, scratch_count, choose = update.states, update.scratch, update.choose

    def apply(*inputs: Any) -> VariableState:
        states, grad, scalars = inputs[:n], inputs[grad_at], prepare(inputs)
        rule = own if choose is None else choose(own, scalars)
        with states[0].lock:
            arrays = [s.writable() for s in states]
            shape = grad.shape
            for array in arrays:
                if array.shape != shape:
                    raise _shapes_differ(states, arrays, grad)
            arrays.append(grad)
            if shape or xp is not np:
                run_rule(xp, rule, arrays, scalars, scratch_count)
            else:
                _apply_to_scalars(update, rule, states, arrays, scalars)
        return states[0]

    return apply


def _sparse_function(xp: Any, update: Update, own: Callable, prepare: Callable, grad_at: int,
                     indices_at: int) -> Callable:
    n, choose = update.states, update.choose

    def apply(*inputs: Any) -> VariableState:
        states = inputs[:n]
        with states[0].lock:
            scalars = prepare(inputs)
            rule = own if choose is None else choose(own, scalars)
            _apply_to_rows(xp, update, rule, states, scalars, inputs[grad_at], inputs[indices_at])
        return states[0]

    return apply


def _preparation(node: KernelNode, update: Update, names: list[str],
                 positions: list[int]) -> Callable:
    """``prepare(inputs)``: the rule's scalars from the op's inputs."""
    xp, own = node.xp, update.prepare
    pick = (operator.itemgetter(*positions) if len(positions) > 1
            else lambda inputs, i=positions[0]: (inputs[i],))
    check = _scalar_check(node, names, positions)
    if check is None and own is None:
        return pick

    def prepare(inputs: tuple) -> tuple:
        scalars = pick(inputs)
        if check is not None:
            check(scalars)
        return scalars if own is None else own(xp, *scalars)

    return prepare


def _scalar_check(node: KernelNode, names: list[str], positions: list[int]) -> Callable | None:
    """A check of the scalars whose static shape does not prove them to be scalars."""
    open_names = [(k, names[i]) for k, i in enumerate(positions) if node.input_dims[i] != ()]
    if not open_names:
        return None

    def check(scalars: tuple) -> None:
        for k, name in open_names:
            if getattr(scalars[k], "shape", ()) != ():
                raise invalid(f"{name} is not a scalar: {TensorShape(scalars[k].shape)}")

    return check


def _positive(name: str, value: Any) -> None:
    if not value > 0:
        raise invalid(f"{name} must be positive, got {value}")


def _not_negative(name: str, value: Any) -> None:
    if not value >= 0:
        raise invalid(f"{name} must not be negative, got {value}")


def _checked_proximal(xp: Any, lr: Any, l1: Any, l2: Any) -> tuple:
    _positive("the learning rate", lr)
    _not_negative("the l1 regularization strength", l1)
    _not_negative("the l2 regularization strength", l2)
    return lr, l1, l2


def _checked_ftrl(xp: Any, lr: Any, l1: Any, l2: Any, *others: Any) -> tuple:
    """`others` are the shrinkage, if the op type has it, and the power."""
    _checked_proximal(xp, lr, l1, l2)
    *shrinkage, lr_power = others
    for strength in shrinkage:
        _not_negative("the l2 shrinkage regularization strength", strength)
    if not lr_power <= 0:
        raise invalid(f"lr_power must not be positive, got {lr_power}")
    return lr, l1, l2, *others


_register(Update("GradientDescent", "var alpha delta", 1, 1, rules.gradient_descent, types=()))
_register(Update("Momentum", "var accum lr grad momentum", 2, 1, rules.momentum, types=(),
                 sparse_inputs="var accum lr grad indices momentum",
                 variant=("use_nesterov", True, rules.nesterov_momentum)))
_register(Update("Adagrad", "var accum lr grad", 2, 1, rules.adagrad,
                 sparse_inputs="var accum lr grad indices"))
_register(Update("AdagradDA", "var gradient_accumulator gradient_squared_accumulator grad lr l1 "
                 "l2 global_step", 3, 2, rules.adagrad_da, on_host=True,
                 sparse_inputs="var gradient_accumulator gradient_squared_accumulator grad "
                 "indices lr l1 l2 global_step"))
_register(Update("ProximalGradientDescent", "var alpha l1 l2 delta", 1, 2,
                 rules.proximal_gradient_descent, _checked_proximal, on_host=True,
                 sparse_inputs="var alpha l1 l2 grad indices"))
_register(Update("ProximalAdagrad", "var accum lr l1 l2 grad", 2, 3, rules.proximal_adagrad,
                 _checked_proximal, on_host=True,
                 sparse_inputs="var accum lr l1 l2 grad indices"))
_register(Update("Ftrl", "var accum linear grad lr l1 l2 lr_power", 3, 2, ftrl_rules.ftrl,
                 _checked_ftrl, on_host=True,
                 sparse_inputs="var accum linear grad indices lr l1 l2 lr_power",
                 choose=ftrl_rules.for_scalars))
_register(Update("Adam", "var m v beta1_power beta2_power lr beta1 beta2 epsilon grad", 3, 2,
                 moment_rules.adam, moment_rules.adam_scalars,
                 variant=("use_nesterov", True, moment_rules.nesterov_adam)))
_register(Update("RMSProp", "var ms mom lr rho momentum epsilon grad", 3, 2, rules.rms_prop,
                 sparse_inputs="var ms mom lr rho momentum epsilon grad indices"))
_register(Update("CenteredRMSProp", "var mg ms mom lr rho momentum epsilon grad", 4, 2,
                 rules.centered_rms_prop,
                 sparse_inputs="var mg ms mom lr rho momentum epsilon grad indices"))
_register(Update("Adadelta", "var accum accum_update lr rho epsilon grad", 3, 2, rules.adadelta,
                 sparse_inputs="var accum accum_update lr rho epsilon grad indices"))
_register(Update("KerasMomentum", "var accum lr grad momentum", 2, 1, rules.rate_in_momentum,
                 types=(), sparse_inputs="var accum lr grad indices momentum",
                 variant=("use_nesterov", True, rules.nesterov_rate_in_momentum)))
_register(Update("AdagradV2", "var accum lr epsilon grad", 2, 1, rules.adagrad_v2,
                 sparse_inputs="var accum lr epsilon grad indices",
                 variant=("update_slots", False, rules.adagrad_step)))
_register(Update("FtrlV2", "var accum linear grad lr l1 l2 l2_shrinkage lr_power", 3, 3,
                 ftrl_rules.ftrl_shrunk, _checked_ftrl, on_host=True,
                 sparse_inputs="var accum linear grad indices lr l1 l2 l2_shrinkage lr_power",
                 variant=("multiply_linear_by_lr", True, ftrl_rules.ftrl_scaled),
                 choose=ftrl_rules.for_scalars))
_register(Update("AdamWithAmsgrad", "var m v vhat beta1_power beta2_power lr beta1 beta2 epsilon "
                 "grad", 4, 2, moment_rules.amsgrad, moment_rules.adam_scalars))
_register(Update("AdaMax", "var m v beta1_power lr beta1 beta2 epsilon grad", 3, 2,
                 moment_rules.ada_max, moment_rules.ada_max_scalars))
_register(Update("AddSign", "var m lr alpha sign_decay beta grad", 2, 2, moment_rules.add_sign))
_register(Update("PowerSign", "var m lr logbase sign_decay beta grad", 2, 2,
                 moment_rules.power_sign))
