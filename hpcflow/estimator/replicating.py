"""Model functions whose batch is shared between the devices of one task."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from hpcflow.estimator.export import ClassificationOutput, PredictOutput, RegressionOutput
from hpcflow.estimator.spec import EstimatorSpec, ModeKeys
from hpcflow.framework import nest
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import control_dependencies, device, get_default_graph, name_scope
from hpcflow.graph.indexed_slices import IndexedSlices
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.raw import raw_ops
from hpcflow.losses import Reduction
from hpcflow.ops.arrays.joining import concat, split
from hpcflow.ops.common.grouping import group
from hpcflow.ops.state.state import assign, assign_add
from hpcflow.ops.state.variable_scope import get_variable_scope, variable_scope
from hpcflow.optimizers import Optimizer
from hpcflow.platform.device_lib import list_local_devices

__all__ = ["TowerOptimizer", "replicate_model_fn"]

_TOWERS = "towers_of_a_replicated_model_fn"


class _Towers:
    """The towers of a graph: how many, which of them is being built, and their gradients."""

    def __init__(self, count: int = 1, reduction: str | None = None) -> None:
        self.count, self.reduction = count, reduction
        self.built = 0
        self.scopes: tuple[Any, str] | None = None
        self.gradients: list[list[list]] = []

    def is_last(self) -> bool:
        """True while the tower is built whose optimizers apply the gradients of all."""
        return self.built == self.count - 1


def _towers() -> _Towers:
    """The towers of the default graph; one, if its model function is not replicated."""
    found = get_default_graph().get_collection(_TOWERS)
    return found[-1] if found else _Towers()


class TowerOptimizer(Optimizer):
    """An optimizer that applies the gradients of all towers of :func:`replicate_model_fn` at once.

    `optimizer_or_optimizer_fn` is the optimizer that applies them, or a function that makes it.
    Each tower is to call its optimizers in the same order. Without towers, or with one, it does
    what that optimizer does.
    """

    def __init__(self, optimizer_or_optimizer_fn: Any) -> None:
        super().__init__(False, "TowerOptimizer")
        self._given = optimizer_or_optimizer_fn

    def _optimizer(self) -> Optimizer:
        if callable(self._given):
            self._given = self._given()
        return self._given

    def get_name(self) -> str:
        """Return the name of the optimizer within."""
        return self._optimizer().get_name()

    def get_slot(self, var: Any, name: str) -> Any:
        """Return the slot of the optimizer within."""
        return self._optimizer().get_slot(var, name)

    def get_slot_names(self) -> list[str]:
        """Return the names of the slots of the optimizer within."""
        return self._optimizer().get_slot_names()

    def variables(self) -> list:
        """Return the variables of the optimizer within."""
        return self._optimizer().variables()

    def compute_gradients(self, loss: Any, *args: Any, **kwargs: Any) -> Any:
        """Return (gradient, variable) pairs of this tower's part of the loss."""
        towers = _towers()
        if towers.reduction != Reduction.SUM and towers.count > 1:
            loss = loss / float(towers.count)
        return self._optimizer().compute_gradients(loss, *args, **kwargs)

    def apply_gradients(self, grads_and_vars: Iterable, global_step: Any = None,
                        name: str | None = None) -> Any:
        """Return the operation that applies the gradients of all towers; nothing in all but the
        last one."""
        towers, pairs = _towers(), list(grads_and_vars)
        if towers.count == 1:
            return self._optimizer().apply_gradients(pairs, global_step, name)
        own = towers.gradients[towers.built]
        own.append(pairs)
        if not towers.is_last():
            with control_dependencies([g.op for g, _ in pairs if g is not None]):
                return group(name="train_op_placeholder")
        call = len(own) - 1
        together = [pair for tower in towers.gradients for pair in tower[call]]
        scope, names = towers.scopes  # type: ignore[misc]
        with variable_scope(scope), name_scope(names):
            return self._optimizer().apply_gradients(_summed(together), global_step, name)


def replicate_model_fn(model_fn: Callable, loss_reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
                       devices: Sequence[str] | None = None) -> Callable:
    """Return a model function that calls `model_fn` for a part of the batch on each device.

    The parts are equal and share all variables; the optimizers of `model_fn` are to be
    :class:`TowerOptimizer`. Losses and gradients are added, and divided by the number of devices
    unless `loss_reduction` is ``SUM``; variables of metrics are added; predictions and outputs are
    put one behind the other. All else is that of the first device.

    Args:
        model_fn: as of ``Estimator``.
        loss_reduction: of ``losses.Reduction``.
        devices: the GPUs of this process, or its CPU, unless given.

    Raises ``ValueError`` for ``Reduction.NONE``, and in the model for a batch that the devices
    cannot share equally.
    """
    if loss_reduction == Reduction.NONE:
        raise ValueError("Tower losses need to be reduced in some way, yet "
                         f"{loss_reduction} reduction is specified.")
    places = list(devices or _local_devices("GPU") or _local_devices("CPU"))
    known = inspect.signature(model_fn).parameters

    def replicated(features: Any, labels: Any, mode: str, params: Any = None,
                   config: Any = None) -> EstimatorSpec:
        more = {name: value for name, value in (("params", params), ("config", config))
                if name in known}
        towers = _Towers(len(places), loss_reduction)
        parts = zip(_shared(features, len(places)), _shared(labels, len(places)), places,
                    strict=True)
        specs = []
        for features_part, labels_part, place in parts:
            given = {"labels": labels_part} if "labels" in known else {}
            with _tower(towers, place):
                specs.append(model_fn(features=features_part, mode=mode, **given, **more))
        return specs[0] if len(specs) == 1 else _merged(mode, specs, loss_reduction)

    return replicated


def _local_devices(kind: str) -> list[str]:
    return [d.name for d in list_local_devices() if d.device_type == kind]


@contextmanager
def _tower(towers: _Towers, place: str) -> Iterator[None]:
    """The scopes of one tower, which reuses the variables of the first one."""
    first = towers.built == 0
    towers.gradients.append([])
    being_built = get_default_graph().get_collection_ref(_TOWERS)
    being_built.append(towers)
    try:
        with (variable_scope(get_variable_scope(), reuse=None if first else True) as scope,
              name_scope("" if first else f"tower_{towers.built}") as names, device(place)):
            if first:
                towers.scopes = scope, names
            yield
    finally:
        being_built.pop()
        towers.built += 1


def _shared(values: Any, count: int) -> list:
    """The equal parts of tensors, along their first dimension."""
    if values is None or count == 1:
        return [values] * count
    flat = [convert_to_tensor(x) for x in nest.flatten(values)]
    for x in flat:
        if x.shape.ndims and x.shape[0].value is not None and x.shape[0].value % count:
            raise ValueError(f"Batch size {x.shape[0].value} needs to be divisible by the number "
                             f"of devices, {count}")
    parts = [split(x, count) for x in flat]
    return [nest.pack_sequence_as(values, list(part)) for part in zip(*parts, strict=True)]


def _summed(pairs: list) -> list:
    """One (gradient, variable) pair for each variable that has gradients."""
    gradients: dict[Any, list] = {}
    variables = {}
    for gradient, variable in pairs:
        if gradient is not None:
            gradients.setdefault(id(variable), []).append(gradient)
            variables[id(variable)] = variable
    return [(_sum(found), variables[key]) for key, found in gradients.items()]


def _sum(gradients: list) -> Any:
    if isinstance(gradients[0], IndexedSlices):
        return IndexedSlices(concat([g.values for g in gradients], 0),
                             concat([g.indices for g in gradients], 0), gradients[0].dense_shape)
    return raw_ops.AddN(gradients) if len(gradients) > 1 else gradients[0]


def _merged(mode: str, specs: list[EstimatorSpec], reduction: str) -> EstimatorSpec:
    """One EstimatorSpec of those of all towers."""
    if mode == ModeKeys.PREDICT:
        outputs = specs[0].export_outputs or {}
        return specs[0]._replace(
            predictions=_joined([s.predictions for s in specs]),
            export_outputs={name: _joined_outputs([(s.export_outputs or {})[name] for s in specs])
                            for name in outputs} or None)
    loss = raw_ops.AddN([s.loss for s in specs])
    if reduction != Reduction.SUM:
        loss = loss / float(len(specs))
    if mode == ModeKeys.TRAIN:
        return specs[0]._replace(loss=loss, train_op=group(*[s.train_op for s in specs]))
    updates = [update for s in specs for _, update in (s.eval_metric_ops or {}).values()]
    with control_dependencies(updates):
        added = _add_metric_variables(len(specs))
    metrics = {name: (value, added) for name, (value, _) in specs[0].eval_metric_ops.items()}
    return specs[0]._replace(loss=loss, eval_metric_ops=metrics)


def _add_metric_variables(count: int) -> Any:
    """The operation that adds the variables of the other towers to those of the first one."""
    variables = get_default_graph().get_collection(GraphKeys.METRIC_VARIABLES)
    each, rest = divmod(len(variables), count)
    if rest:
        raise ValueError(f"{len(variables)} variables of metrics are not shared by {count} towers: "
                         "each is to have the same metrics")
    done = []
    for i, first in enumerate(variables[:each]):
        others = variables[i + each::each]
        moved = assign_add(first, raw_ops.AddN([v.value() for v in others]))
        with control_dependencies([moved.op]):
            done += [assign(v, raw_ops.ZerosLike(v.value())) for v in others]
    return group(*done)


def _joined(parts: list) -> Any:
    """Tensors, or dicts of tensors, one behind the other."""
    if isinstance(parts[0], dict):
        return {name: concat([part[name] for part in parts], 0) for name in parts[0]}
    return concat(parts, 0)


def _joined_outputs(parts: list) -> Any:
    first = parts[0]
    if isinstance(first, PredictOutput):
        return type(first)(_joined([part.outputs for part in parts]))
    if isinstance(first, RegressionOutput):
        return type(first)(_joined([part.value for part in parts]))
    if not isinstance(first, ClassificationOutput):
        return first
    scores, classes = (None if getattr(first, name) is None
                       else _joined([getattr(part, name) for part in parts])
                       for name in ("scores", "classes"))
    return type(first)(scores, classes)
