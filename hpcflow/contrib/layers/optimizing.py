"""optimize_loss: the training operation of a loss, with the usual options in one call."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hpcflow import optimizers, summary
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import get_collection
from hpcflow.graph.indexed_slices import IndexedSlices
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.likes import Hyperparameter, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.common.grouping import with_dependencies
from hpcflow.ops.flow.checks import assert_scalar
from hpcflow.ops.math.clipping import clip_by_global_norm, global_norm
from hpcflow.ops.random.random_ops import truncated_normal
from hpcflow.ops.state.initializers import Constant, Zeros
from hpcflow.ops.state.variable_lists import trainable_variables
from hpcflow.ops.state.variable_scope import get_variable, variable_scope
from hpcflow.optimizers.global_step import assert_global_step, get_global_step
from hpcflow.optimizers.moving_averages import assign_moving_average

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
        global_step: counter of steps; that of the graph, if it has one, if None.
        learning_rate: a number or tensor, or None to leave it to `optimizer`.
        optimizer: a name in ``OPTIMIZER_CLS_NAMES``, a class, a function of the learning rate (of
            nothing without one), or an optimizer.
        gradient_noise_scale: of normal noise added to gradients.
        gradient_multipliers: variable or its name (``v:0``) -> factor of its gradient, if it has
            one.
        clip_gradients: the largest global norm, or a function of gradients and variables.
        learning_rate_decay_fn: a function of learning rate and global step.
        update_ops: run before the loss; the collection UPDATE_OPS if None.
        variables: those that are trained; all trainable ones if None.
        summaries: which of ``OPTIMIZER_SUMMARIES`` to write; learning rate, loss and the global
            norm of the gradients if None.
        increment_global_step: whether the step counts.

    Raises: ``ValueError`` for arguments that do not fit together, or are of the wrong kind.
    """
    loss = assert_scalar(convert_to_tensor(loss))
    if global_step is None:
        global_step = get_global_step()
    else:
        assert_global_step(global_step)
    with variable_scope(name, "OptimizeLoss", [loss, global_step]):
        updates = get_collection(GraphKeys.UPDATE_OPS) if update_ops is None else list(update_ops)
        if updates:
            loss = with_dependencies(updates, loss)
        wanted = _summaries(summaries)
        rate = _learning_rate(learning_rate, learning_rate_decay_fn, global_step)
        if rate is not None and "learning_rate" in wanted:
            summary.scalar("learning_rate", rate)
        trainer = _optimizer(optimizer, rate)
        pairs = trainer.compute_gradients(
            loss, trainable_variables() if variables is None else variables,
            colocate_gradients_with_ops=colocate_gradients_with_ops)
        if gradient_noise_scale is not None:
            pairs = _with_noise(pairs, gradient_noise_scale)
        if gradient_multipliers is not None:
            pairs = [(_multiplied(g, var, gradient_multipliers), var) for g, var in pairs]
        _summarize_norm("global_norm/gradient_norm", pairs, wanted)
        pairs = _clipped(pairs, clip_gradients)
        if "loss" in wanted:
            summary.scalar("loss", loss)
        _summarize_gradients(pairs, wanted)
        if clip_gradients is not None:
            _summarize_norm("global_norm/clipped_gradient_norm", pairs, wanted)
        applied = trainer.apply_gradients(
            pairs, global_step=global_step if increment_global_step else None, name="train")
        return with_dependencies([applied], loss)


def _multiplied(gradient: Any, var: Any, multipliers: dict) -> Any:
    key = var if var in multipliers else var.name
    if gradient is None or key not in multipliers:
        return gradient
    return _times(gradient, raw_ops.Cast(multipliers[key], DstT=gradient.dtype.base_dtype))


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
    if decay is None:
        return rate
    if global_step is None:
        raise ValueError("global_step is required for learning_rate_decay_fn.")
    return decay(rate, global_step)


def _summaries(given: list | None) -> list:
    if given is None:
        return ["loss", "learning_rate", "global_gradient_norm"]
    for name in given:
        if name not in OPTIMIZER_SUMMARIES:
            raise ValueError(f"Summaries should be one of [{', '.join(OPTIMIZER_SUMMARIES)}], "
                             f"you provided {name}.")
    return given


def _summarize_norm(name: str, pairs: list, wanted: list) -> None:
    if "gradient_norm" in wanted or "global_gradient_norm" in wanted:
        summary.scalar(name, global_norm([gradient for gradient, _ in pairs]))


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


def adaptive_clipping_fn(std_factor: Any = 2.0, decay: float = 0.95,
                         static_max_norm: float | None = None, global_step: Any = None,
                         report_summary: bool = False, epsilon: float = 1e-8,
                         name: str | None = None) -> Callable:
    """Return a function of pairs of gradients and variables that scales the gradients down where
    their global norm is unusual (arXiv:1412.1602, 3.2.1).

    Moving averages keep the mean and the deviation of the norm's logarithm. Above ``exp(mean +
    std_factor * deviation)`` the norm is made ``exp(mean)``.

    Args:
        std_factor: how many deviations are usual.
        decay: of the moving averages.
        static_max_norm: None, or a norm that is never exceeded.
        global_step: None; or a counter n that makes the decay at most n / (n + 1).
        report_summary: write the largest usual norm as a summary.
        epsilon: lower bound of the variance; added to the norm.
        name: the variable scope; "AdaptiveMaxNorm" if None.
    """
    def clipped(pairs: list) -> list:
        norm: Any = global_norm([gradient for gradient, _ in pairs])
        limit, mean = _usual_norm(norm, std_factor, decay, global_step, epsilon, name)
        if report_summary:
            summary.scalar("global_norm/adaptive_max_gradient_norm", limit)
        factor = raw_ops.Select(norm < limit, raw_ops.OnesLike(norm), raw_ops.Exp(mean) / norm)
        if static_max_norm is not None:
            factor = raw_ops.Minimum(static_max_norm / norm, factor)
        return [(_times(gradient, factor), var) for gradient, var in pairs]

    return clipped


def _usual_norm(norm: Any, std_factor: Any, decay: Any, global_step: Any, epsilon: float,
                name: str | None) -> tuple[Tensor, Tensor]:
    """The largest usual norm, and the mean of the logarithms, after their update."""
    with variable_scope(name, "AdaptiveMaxNorm", [norm]):
        logarithm = raw_ops.Log(norm + epsilon)
        if global_step is not None:
            steps: Any = raw_ops.Cast(global_step, DstT=norm.dtype)
            decay = raw_ops.Minimum(decay, steps / (steps + 1.0))
        mean, squares = (assign_moving_average(
            get_variable(kind, value.shape, value.dtype, Zeros(), trainable=False), value, decay,
            zero_debias=False) for kind, value in (
                ("mean", logarithm), ("sq_mean", raw_ops.Square(logarithm))))
        variance = raw_ops.Maximum(epsilon, squares - raw_ops.Square(mean))
        return raw_ops.Exp(mean + std_factor * raw_ops.Sqrt(variance)), mean


def _times(gradient: Any, factor: Any) -> Any:
    if isinstance(gradient, IndexedSlices):
        return IndexedSlices(gradient.values * factor, gradient.indices, gradient.dense_shape)
    return None if gradient is None else gradient * factor
