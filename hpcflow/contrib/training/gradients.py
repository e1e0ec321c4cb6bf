"""Gradients scaled, clipped and summarized before they are applied; create_train_op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcflow import summary
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import add_to_collection, control_dependencies, get_collection, name_scope
from hpcflow.graph.indexed_slices import IndexedSlices
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.arrays.identities import verify_tensor_all_finite
from hpcflow.ops.math.clipping import clip_by_norm, global_norm
from hpcflow.ops.state.variable_lists import trainable_variables
from hpcflow.optimizers import Optimizer
from hpcflow.optimizers.global_step import get_or_create_global_step

USE_GLOBAL_STEP = 0  # says that the step counter is that of the graph


def _changed(gradient: Tensor, change: Callable) -> Any:
    if isinstance(gradient, IndexedSlices):
        return IndexedSlices(change(gradient.values), gradient.indices, gradient.dense_shape)
    return change(gradient)


def multiply_gradients(grads_and_vars: list, gradient_multipliers: dict) -> list:
    """Return the pairs with gradients multiplied, by variable or by the variable's name.

    Raises ``ValueError`` if a variable has no gradient, or the multipliers are no dict.
    """
    if not isinstance(grads_and_vars, list) or not gradient_multipliers:
        raise ValueError("grads_and_vars must be a list and gradient_multipliers not empty")
    if not isinstance(gradient_multipliers, dict):
        raise ValueError("`gradient_multipliers` must be a dict.")
    found = []
    for gradient, var in grads_and_vars:
        key = var if var in gradient_multipliers else var.op.name
        if key in gradient_multipliers:
            if gradient is None:
                raise ValueError("Requested multiple of `None` gradient.")
            factor = convert_to_tensor(gradient_multipliers[key], var.dtype.base_dtype)
            gradient = _changed(gradient, lambda g, by=factor: raw_ops.Mul(g, by))
        found.append((gradient, var))
    return found


def clip_gradient_norms(gradients_to_variables: list, max_norm: float) -> list:
    """Return the pairs with the norm of each gradient at most `max_norm`."""
    return [(None if g is None else _changed(g, lambda x: clip_by_norm(x, max_norm)), v)
            for g, v in gradients_to_variables]


def clip_gradient_norms_fn(max_norm: float) -> Callable:
    """Return :func:`clip_gradient_norms` as a function of the pairs."""
    return lambda pairs: clip_gradient_norms(pairs, max_norm)


def add_gradients_summaries(grads_and_vars: list) -> list:
    """Return histograms of the gradients, and scalars of their norms."""
    found = []
    for gradient, var in grads_and_vars:
        if gradient is not None:
            values = gradient.values if isinstance(gradient, IndexedSlices) else gradient
            found.append(summary.histogram(f"{var.op.name}_gradient", values))
            found.append(summary.scalar(f"{var.op.name}_gradient_norm", global_norm([values])))
    return found


def create_train_op(total_loss: Any, optimizer: Optimizer, global_step: Any = USE_GLOBAL_STEP,
                    update_ops: Any = None, variables_to_train: list | None = None,
                    transform_grads_fn: Callable | None = None, summarize_gradients: bool = False,
                    gate_gradients: int = Optimizer.GATE_OP, aggregation_method: Any = None,
                    colocate_gradients_with_ops: bool = False,
                    check_numerics: bool = True) -> Tensor:
    """Return the total loss after a step of training: an operation that runs the whole step.

    Args:
        total_loss: a scalar.
        optimizer: applies the gradients.
        global_step: counter of steps, none if None; that of the graph by default.
        update_ops: run before the loss; the collection UPDATE_OPS if None.
        variables_to_train: all trainable variables if None.
        transform_grads_fn: a function of the pairs of gradients and variables.
        summarize_gradients: whether to write summaries of the gradients.
        gate_gradients, aggregation_method, colocate_gradients_with_ops: as of ``gradients``.
        check_numerics: whether a loss that is not finite is an error.
    """
    if isinstance(global_step, int) and global_step == USE_GLOBAL_STEP:
        global_step = get_or_create_global_step()
    total_loss = convert_to_tensor(total_loss)
    updates = get_collection(GraphKeys.UPDATE_OPS) if update_ops is None else list(update_ops)
    if updates:
        with control_dependencies(list(dict.fromkeys(updates))), name_scope("update_barrier"):
            total_loss = raw_ops.Identity(total_loss)
    pairs = optimizer.compute_gradients(
        total_loss, trainable_variables() if variables_to_train is None else variables_to_train,
        gate_gradients, aggregation_method, colocate_gradients_with_ops)
    pairs = transform_grads_fn(pairs) if transform_grads_fn else pairs
    if summarize_gradients:
        with name_scope("summarize_grads"):
            add_gradients_summaries(pairs)
    applied = optimizer.apply_gradients(pairs, global_step=global_step)
    with name_scope("train_op"):
        if check_numerics:
            total_loss = verify_tensor_all_finite(total_loss, "LossTensor is inf or nan")
        with control_dependencies([applied]):
            train_op = raw_ops.Identity(total_loss)
    if train_op not in get_collection(GraphKeys.TRAIN_OP):
        add_to_collection(GraphKeys.TRAIN_OP, train_op)
    return train_op
