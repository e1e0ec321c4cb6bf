"""Pruning: when masks are updated, and how many weights they leave out."""

from __future__ import annotations

import re
from typing import Any

from hpcflow import dtypes
from hpcflow.contrib.model_pruning.masks import get_masks, get_thresholds, get_weights
from hpcflow.contrib.training.hparams import HParams
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import control_dependencies, name_scope
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.nn.measures import zero_fraction
from hpcflow.nn.pooling import pool
from hpcflow.ops.arrays.identities import no_op
from hpcflow.ops.arrays.joining import split
from hpcflow.ops.arrays.repeating import repeat
from hpcflow.ops.flow.cond import cond
from hpcflow.ops.io.summary import scalar
from hpcflow.ops.state.initializers import Zeros
from hpcflow.ops.state.partitioned import PartitionedVariable
from hpcflow.ops.state.state import assign
from hpcflow.ops.state.variable_scope import get_variable, variable_scope
from hpcflow.optimizers.global_step import get_global_step
from hpcflow.platform import logging

_DEFAULTS: dict[str, Any] = {
    "name": "model_pruning", "begin_pruning_step": 0, "end_pruning_step": -1,
    "weight_sparsity_map": [""], "block_dims_map": [""], "threshold_decay": 0.0,
    "pruning_frequency": 10, "nbins": 256, "block_height": 1, "block_width": 1,
    "block_pooling_function": "AVG", "initial_sparsity": 0.0, "target_sparsity": 0.5,
    "sparsity_function_begin_step": 0, "sparsity_function_end_step": 100,
    "sparsity_function_exponent": 3.0, "use_tpu": False,
}  # fmt: skip


def get_pruning_hparams() -> HParams:
    """Return the defaults of :class:`Pruning`.

    ``name``: of scopes. ``begin_pruning_step``, ``end_pruning_step``: when masks may change, -1
    for no end. ``weight_sparsity_map``, ``block_dims_map``: strings such as ``name:0.9`` and
    ``name:4x1``, names as regular expressions, for weights with a sparsity or blocks of their own.
    ``threshold_decay``: of the mean of thresholds. ``pruning_frequency``: steps between updates.
    ``block_height``, ``block_width``, ``block_pooling_function`` (``AVG`` or ``MAX``): masks of
    whole blocks of matrices. ``initial_sparsity``, ``target_sparsity``,
    ``sparsity_function_begin_step``, ``sparsity_function_end_step``,
    ``sparsity_function_exponent``: the share of zeros over the steps. ``nbins`` and ``use_tpu``
    are accepted.
    """
    return HParams(**_DEFAULTS)


class Pruning:
    """Updates the masks of the default graph.

    The share of zeros goes from initial to target sparsity within the steps that `spec` has for
    it, as ``target + (initial - target) (1 - progress)^exponent``.

    Args:
        spec: parameters, as of :func:`get_pruning_hparams`, or None for these.
        global_step: the step, or None for the global one.
        sparsity: a scalar in place of the share that follows from `spec`.

    Raises ``ValueError`` for parameters out of their ranges.
    """

    def __init__(self, spec: Any = None, global_step: TensorLike | None = None,
                 sparsity: Any = None) -> None:
        chosen: Any = get_pruning_hparams() if spec is None else spec
        _check(chosen)
        self._spec = chosen
        step = get_global_step() if global_step is None else global_step
        self._global_step = raw_ops.Cast(step, DstT=dtypes.int32)
        self._sparsity = self._scheduled() if sparsity is None else sparsity
        self._updates: list = []
        with variable_scope(self._spec.name, use_resource=self._spec.use_tpu) as scope:
            try:
                self._last_update = self._last_update_step()
            except ValueError:
                scope.reuse_variables()
                self._last_update = self._last_update_step()
        self._blocks = {re.compile(name): [int(n) for n in _parts(size, "x", name)]
                        for name, size in _named(self._spec.block_dims_map)}
        self._sparsities = {re.compile(name): float(share)
                            for name, share in _named(self._spec.weight_sparsity_map)}
        if any(share >= 1.0 for share in self._sparsities.values()):
            raise ValueError("Weight sparsity can not exceed 1.0")

    @staticmethod
    def _last_update_step() -> Any:
        return get_variable("last_mask_update_step", [], dtypes.int32, Zeros(), trainable=False)

    def _scheduled(self) -> Tensor:
        spec = self._spec
        begin, end = spec.sparsity_function_begin_step, spec.sparsity_function_end_step
        with name_scope(spec.name):
            steps: Any = raw_ops.Cast(self._global_step - begin, DstT=dtypes.float32)
            left: Any = 1 - raw_ops.Minimum(1.0, raw_ops.Maximum(0.0, steps / (end - begin)))
            return raw_ops.Add(
                (spec.initial_sparsity - spec.target_sparsity)
                * raw_ops.Pow(left, spec.sparsity_function_exponent),
                spec.target_sparsity, name="sparsity")

    # ------------------------------------------------------------ masks

    def _sparsity_of(self, name: str) -> Any:
        found = _of_name(self._sparsities, name, "weight_sparsity_map")
        return self._sparsity if found is None else (
            self._sparsity * (found / self._spec.target_sparsity))

    def _update(self, values: Tensor, threshold: Any, sparsity: Any) -> tuple[Tensor, Tensor]:
        """The next threshold, and the mask of absolute values, which leaves out the smallest."""
        size: int = values.get_shape().num_elements()  # type: ignore[assignment]
        kept = raw_ops.Cast(raw_ops.Round(size * (1 - sparsity)), DstT=dtypes.int32)
        ordered, _ = raw_ops.TopKV2(raw_ops.Reshape(values, [-1]), size)
        decay = self._spec.threshold_decay
        smoothed: Any = raw_ops.AddN([raw_ops.GatherV2(ordered, kept - 1, 0) * (1 - decay),
                                      convert_to_tensor(threshold) * decay])
        return smoothed, raw_ops.Cast(raw_ops.GreaterEqual(values, smoothed),
                                      DstT=values.dtype.base_dtype)

    def _updated(self, weights: Any, threshold: Any) -> tuple[Tensor, Tensor]:
        name = _name(weights)
        value: Any = convert_to_tensor(weights)
        sparsity = self._sparsity_of(name)
        block = _of_name(self._blocks, name, "block_dims_map") or [
            self._spec.block_height, self._spec.block_width]
        with name_scope(f"{name}_pruning_ops"):
            matrix: Any = raw_ops.Abs(raw_ops.Squeeze(value))
            if matrix.get_shape().ndims != 2 or block == [1, 1]:
                return self._update(raw_ops.Abs(value), threshold, sparsity)
            rows, columns = matrix.get_shape().as_list()
            block = [full if side == -1 else side for side, full in zip(block, (rows, columns))]
            if self._spec.block_pooling_function not in ("AVG", "MAX"):
                raise ValueError("Unknown pooling function for block sparsity: "
                                 f"{self._spec.block_pooling_function}")
            pooled = pool(raw_ops.Reshape(matrix, [1, rows, columns, 1]), block,
                          self._spec.block_pooling_function, "SAME", strides=block)
            smoothed, mask = self._update(raw_ops.Squeeze(pooled, squeeze_dims=[0, 3]), threshold,
                                          sparsity)
            whole: Any = repeat(repeat(mask, block[0], axis=0), block[1], axis=1)
            return smoothed, raw_ops.Reshape(whole[:rows, :columns], value.get_shape().as_list())

    def mask_update_op(self) -> Operation:
        """Return an operation that updates all masks of the default graph.

        Raises ``ValueError`` where there are not as many thresholds as masks.
        """
        with name_scope(self._spec.name):
            if not self._updates:
                masks, thresholds = get_masks(), get_thresholds()
                if len(masks) != len(thresholds):
                    raise ValueError(f"Number of masks {len(masks)} and number of thresholds "
                                     f"{len(thresholds)} mismatch")
                for mask, threshold, weights in zip(masks, thresholds, get_weights()):
                    smoothed, value = self._updated(weights, threshold)
                    self._updates += [assign(threshold, smoothed), *_assigned(mask, value)]
            noted = assign(self._last_update, self._global_step,
                           name="last_mask_update_step_assign")
            with control_dependencies([noted, *self._updates]):
                return no_op("mask_update")

    def conditional_mask_update_op(self) -> Any:
        """Return :meth:`mask_update_op` for the steps in which `spec` has masks change."""
        spec, step = self._spec, self._global_step
        with name_scope(spec.name):
            ended = spec.end_pruning_step >= 0 and raw_ops.Greater(step, spec.end_pruning_step)
            within = raw_ops.LogicalAnd(raw_ops.GreaterEqual(step, spec.begin_pruning_step),
                                        raw_ops.LogicalNot(ended))
            due = raw_ops.LessEqual(self._last_update + spec.pruning_frequency, step)
            wanted = raw_ops.LogicalAnd(within, due)
        return cond(wanted, self.mask_update_op, no_op)

    # ------------------------------------------------------------ reports

    def add_pruning_summaries(self) -> None:
        """Add summaries of sparsities and thresholds to the default graph."""
        with name_scope(f"{self._spec.name}_summaries"):
            scalar("sparsity", self._sparsity)
            scalar("last_mask_update_step", self._last_update)
            for mask, threshold in zip(get_masks(), get_thresholds()):
                scalar(f"{_name(mask)}/sparsity", zero_fraction(mask))
                scalar(f"{_name(threshold)}/threshold", threshold)

    def print_hparams(self) -> None:
        """Log the parameters as JSON."""
        logging.info(self._spec.to_json())


def _name(variable: Any) -> str:
    return variable.name.partition(":")[0]


def _assigned(mask: Any, value: Tensor) -> list:
    """The assignments of `value` to a mask, or to the parts of a partitioned one."""
    if not isinstance(mask, PartitionedVariable):
        return [assign(mask, value)]
    parts: Any = list(mask)
    whole: Any = mask.get_shape().as_list()
    axis = next((i for i, size in enumerate(parts[0].get_shape().as_list()) if size != whole[i]),
                0)
    sizes = [part.get_shape().as_list()[axis] for part in parts]
    return [assign(part, piece) for part, piece in zip(parts, split(value, sizes, axis))]


def _named(items: Any) -> list[tuple[str, str]]:
    """Names and values of strings such as ``name:value``; empty ones are left out."""
    return [tuple(item.split(":")) for item in items if item]


def _parts(text: str, separator: str, name: str) -> list[str]:
    parts = text.split(separator)
    if len(parts) != 2:
        raise ValueError(f"Expected 2 values for block dim for {name}, got {parts}")
    return parts


def _of_name(table: dict[re.Pattern, Any], name: str, what: str) -> Any:
    """The value whose pattern is found in `name`, or None; ``ValueError`` for several."""
    found = [value for pattern, value in table.items() if pattern.search(name)]
    if len(found) > 1:
        raise ValueError(f"Multiple matches in {what} for weight {name}")
    return found[0] if found else None


def _check(spec: Any) -> None:
    if spec.begin_pruning_step < 0:
        raise ValueError("Illegal value for begin_pruning_step")
    if spec.begin_pruning_step >= spec.end_pruning_step != -1:
        raise ValueError("Pruning must begin before it can end: begin_pruning_step is "
                         f"{spec.begin_pruning_step}, end_pruning_step {spec.end_pruning_step} "
                         "(-1 for no end)")
    if spec.sparsity_function_begin_step < 0:
        raise ValueError("Illegal value for sparsity_function_begin_step")
    if spec.sparsity_function_begin_step >= spec.sparsity_function_end_step:
        raise ValueError("Sparsity function requires begin_step < end_step")
    for name in ("threshold_decay", "initial_sparsity", "target_sparsity"):
        if not 0.0 <= getattr(spec, name) < 1.0:
            raise ValueError(f"{name} must be in range [0,1)")
