"""optimize_loss: the training operation of a loss, with the usual options in one call."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hpcflow import optimizers, summary
from hpcflow.contrib.training.gradients import multiply_gradients
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import control_dependencies, get_collection
from hpcflow.graph.indexed_slices import IndexedSlices
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.likes import Hyperparameter, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.math.clipping import clip_by_global_norm, global_norm
from hpcflow.ops.random.random_ops import truncated_normal
from hpcflow.ops.state.initializers import Constant
from hpcflow.ops.state.variable_lists import trainable_variables
from hpcflow.ops.state.variable_scope import get_variable, variable_scope
from hpcflow.optimizers.global_step import assert_global_step, get_or_create_global_step

if TYPE_CHECKING:
    from hpcflow.ops.state.variables import Variable

OPTIMIZER_CLS_NAMES = {
    "Adagrad": optimizers.AdagradOptimizer, "Adam": optimizers.AdamOptimizer,
    "Ftrl": optimizers.FtrlOptimizer,
    "Momentum": lambda learning_rate: optimizers.MomentumOptimizer(learning_rate, momentum=0.9),
    "RMSProp": optimizers.RMSPropOptimizer, "SGD": optimizers.GradientDescentOptimizer,
}  # fmt: skip
OPTIMIZER_SUMMARIES = ["learning_rate", "loss", "gradients", "gradient_norm",
                       "global_gradient_norm"]


def optimize_loss(loss: TensorLike, global_step: TensorLike, learning_rate: Hyperparameter | None,
                  optimizer: Any, gradient_noise_scale: float | None = None,
                  gradient_multipliers: dict | None = None, clip_gradients: Any = None,
                  learning_rate_decay_fn: Callable | None = None, update_ops: Any = None,
                  variables: list | None = None, name: str | None = None,
                  summaries: list | None = None, colocate_gradients_with_ops: bool = False,
                  increment_global_step: bool = True) -> Tensor:
    """Return the loss after a step of training: an operation that runs the whole step.

    Args:
        loss: a scalar.
        global_step: counter of steps; that of the graph if None.
        learning_rate: a number or tensor, or None to leave it to `optimizer`.
        optimizer: a name in ``OPTIMIZER_CLS_NAMES``, a class, a function of the learning rate (of
            nothing without one), or an optimizer.
        gradient_noise_scale: of normal noise added to gradients.
        gradient_multipliers: variable or its name -> factor of its gradient.
        clip_gradients: the largest global norm, or a function of gradients and variables.
        learning_rate_decay_fn: a function of learning rate and global step.
        update_ops: run before the loss; the collection UPDATE_OPS if None.
        variables: those that are trained; all trainable ones if None.
        summaries: which of ``OPTIMIZER_SUMMARIES`` to write; learning rate, loss and the global
            norm of the gradients if None.
        increment_global_step: whether the step counts.

    Raises: ``ValueError`` for arguments that do not fit together, or are of the wrong kind.
    """
    loss = convert_to_tensor(loss)
    global_step = get_or_create_global_step() if global_step is None else global_step
    assert_global_step(global_step)
    with variable_scope(name, "OptimizeLoss", [loss, global_step]):
        updates = get_collection(GraphKeys.UPDATE_OPS) if update_ops is None else list(update_ops)
        if updates:
            with control_dependencies(updates):
                loss = raw_ops.Identity(loss)
        rate = _learning_rate(learning_rate, learning_rate_decay_fn, global_step)
        wanted = _summaries(summaries)
        if rate is not None and "learning_rate" in wanted:
            summary.scalar("learning_rate", rate)
        trainer = _optimizer(optimizer, rate)
        pairs = trainer.compute_gradients(
            loss, trainable_variables() if variables is None else variables,
            colocate_gradients_with_ops=colocate_gradients_with_ops)
        if gradient_noise_scale is not None:
            pairs = _with_noise(pairs, gradient_noise_scale)
        if gradient_multipliers is not None:
            pairs = multiply_gradients(pairs, gradient_multipliers)
        if "loss" in wanted:
            summary.scalar("loss", loss)
        if "gradient_norm" in wanted or "global_gradient_norm" in wanted:
            summary.scalar("global_norm/gradient_norm", global_norm([g for g, _ in pairs]))
        pairs = _clipped(pairs, clip_gradients)
        _summarize_gradients(pairs, wanted)
        applied = trainer.apply_gradients(
            pairs, global_step=global_step if increment_global_step else None, name="train")
        with control_dependencies([applied]):
            return raw_ops.Identity(loss)


def _learning_rate(given: Any, decay: Callable | None, global_step: TensorLike) -> Any:
    if given is None:
        return None
    if isinstance(given, Tensor) and given.get_shape().ndims == 0:
        rate: Any = given
    elif isinstance(given, float):
        if given < 0.0:
            raise ValueError(f"Invalid learning_rate {given}.")
        rate = get_variable("learning_rate", [], trainable=False, initializer=Constant(given))
    else:
        raise ValueError("Learning rate should be 0d Tensor or float. "
                         f"Got {given} of type {type(given)}")
    return rate if decay is None else decay(rate, global_step)


def _summaries(given: list | None) -> list:
    if given is None:
        return ["loss", "learning_rate", "global_gradient_norm"]
    for name in given:
        if name not in OPTIMIZER_SUMMARIES:
            raise ValueError(f"Summaries should be one of [{', '.join(OPTIMIZER_SUMMARIES)}], "
                             f"you provided {name}.")
    return given


def _summarize_gradients(pairs: list, wanted: list) -> None:
    for gradient, var in pairs:
        if gradient is None:
            continue
        values = gradient.values if isinstance(gradient, IndexedSlices) else gradient
        name = var.name.replace(":", "_")
        if "gradients" in wanted:
            summary.histogram(f"gradients/{name}", values)
        if "gradient_norm" in wanted:
            summary.scalar(f"gradient_norm/{name}", global_norm([values]))


def _optimizer(given: Any, rate: Tensor | Variable | None) -> Any:
    if isinstance(given, str):
        if given not in OPTIMIZER_CLS_NAMES:
            raise ValueError("Optimizer name should be one of "
                             f"[{', '.join(OPTIMIZER_CLS_NAMES)}], you provided {given}.")
        given = OPTIMIZER_CLS_NAMES[given]
        if rate is None:
            raise ValueError(f"Learning rate is None, but should be specified if optimizer is "
                             f"string ({given}).")
    if isinstance(given, optimizers.Optimizer):
        return given
    if isinstance(given, type) and issubclass(given, optimizers.Optimizer):
        if rate is None:
            raise ValueError(f"Learning rate is None, but should be specified if optimizer is "
                             f"class ({given}).")
        return given(learning_rate=rate)  # type: ignore[call-arg]
    if not callable(given):
        raise ValueError(f"Unrecognized optimizer: should be string, subclass of Optimizer, "
                         f"instance of subclass of Optimizer or function with one argument. "
                         f"Got {given}.")
    made = given() if rate is None else given(rate)
    if not isinstance(made, optimizers.Optimizer):
        raise ValueError(f"Unrecognized optimizer: function should return subclass of Optimizer. "
                         f"Got {made}.")
    return made


def _with_noise(pairs: list, scale: float) -> list:
    """Gradients with normal noise added (arXiv:1511.06807)."""
    def noisy(gradient: Tensor) -> Any:
        if gradient is None:
            return None
        shape = gradient.dense_shape if isinstance(gradient, IndexedSlices) else gradient.shape
        return raw_ops.Add(convert_to_tensor(gradient), truncated_normal(shape, stddev=scale))

    return [(noisy(gradient), var) for gradient, var in pairs]


def _clipped(pairs: list, clip: Any) -> list:
    if clip is None:
        return pairs
    if isinstance(clip, (int, float)):
        gradients, variables = zip(*pairs, strict=True)
        return list(zip(clip_by_global_norm(gradients, clip)[0], variables, strict=True))
    if callable(clip):
        return clip(pairs)
    raise ValueError(f"Unknown type {type(clip)} for clip_gradients")
