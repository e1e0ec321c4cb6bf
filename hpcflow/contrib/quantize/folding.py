"""Batch normalizations that become factors of the weights before them."""

from __future__ import annotations

from typing import Any, NamedTuple

from hpcflow import dtypes
from hpcflow.contrib.graph_editor.rerouting import reroute_ts
from hpcflow.contrib.quantize.steps import quantization_step
from hpcflow.graph.graph import Graph, name_scope
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import constant_value
from hpcflow.layers.helpers import smart_cond
from hpcflow.nn.normalization import moments
from hpcflow.ops.arrays.constants import ones_like, zeros_like

_LAYERS = ("Conv2D", "DepthwiseConv2dNative", "MatMul")
_FUSED = ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
_PASSING = ("Identity", "BatchToSpaceND", "Reshape")


class _Normalization(NamedTuple):
    """A batch normalization behind a layer; `output` is its result, `moved` what else is replaced
    by what."""

    layer: Operation
    output: Tensor
    gamma: Any
    beta: Any
    mean: Any
    variance: Any
    epsilon: float
    training: bool
    moved: tuple[tuple[Tensor, Tensor], ...] = ()


class _Averages(NamedTuple):
    """Moving averages of a mean and a variance, and the gains of their updates."""

    mean: Any
    variance: Any
    mean_gain: Tensor
    variance_gain: Tensor


def fold_batch_norms(graph: Graph, freeze_delay: int | None = None) -> None:
    """Let layers with batch normalizations behind them have the factors of these in their weights.

    In training the weights have those of the moving averages, and the layer's result is corrected
    to what the batch's statistics give; after `freeze_delay` steps it is not. Raises ``ValueError``
    where a normalization that is trained has no moving averages.
    """
    folded: set[Operation] = set()
    for op in list(graph.get_operations()):
        layer = _layer_below(op)
        if layer is None or layer in folded:
            continue
        scope, slash, _ = layer.name.rpartition("/")
        with name_scope(f"{scope}{slash}" or None):
            normalization = _fused(op, layer) if op.type in _FUSED else _unfused(op, layer)
            if normalization is not None and normalization.output.consumers():
                folded.add(layer)
                _fold(normalization, freeze_delay)


def _layer_below(op: Operation) -> Operation | None:
    """The layer whose result `op` normalizes: a fused normalization, or the sum of one in parts."""
    if op.type in _FUSED:
        below = op.inputs[0].op
    elif op.type in ("Add", "AddV2") and op.inputs[0].op.type == "Mul" \
            and op.inputs[1].op.type == "Sub":
        below = op.inputs[0].op.inputs[0].op
    else:
        return None
    while below.type in _PASSING:
        below = below.inputs[0].op
    return below if below.type in _LAYERS else None


def _fused(op: Operation, layer: Operation) -> _Normalization | None:
    x, gamma, beta, mean, variance = op.inputs
    training = bool(op.get_attr("is_training"))
    output = op.outputs[0]
    moved: tuple[tuple[Tensor, Tensor], ...] = ()
    if layer.type == "MatMul":
        reshaped = [c for c in output.consumers() if c.type == "Reshape"]
        if not reshaped:
            return None
        output = reshaped[0].outputs[0]
    if training:
        # The statistics, in a form that has gradients; the fused op is not needed then.
        axes = [0, 2, 3] if op.get_attr("data_format") == b"NCHW" else [0, 1, 2]
        mean, variance = moments(x, axes, name="BatchNorm_Fold/moments")
        count: Any = raw_ops.Cast(raw_ops.Size(x) / raw_ops.Size(mean), DstT=dtypes.float32)
        moved = ((op.outputs[1], mean), (op.outputs[2], variance * (count / (count - 1.0))))
    return _Normalization(layer, output, gamma, beta, mean, variance, op.get_attr("epsilon"),
                          training, moved)


def _unfused(op: Operation, layer: Operation) -> _Normalization | None:
    """A normalization of the form ``x * scale + (beta - mean * scale)``, with the scale
    ``rsqrt(variance + epsilon)``, or this times gamma."""
    product, shift = op.inputs[0].op, op.inputs[1].op
    scale = product.inputs[1]
    of_mean = shift.inputs[1].op
    if of_mean.type != "Mul" or of_mean.inputs[1] is not scale:
        return None
    root, gamma = scale.op, None
    if root.type == "Mul":
        gamma, root = root.inputs[1], root.inputs[0].op
    below = root.inputs[0].op if root.type == "Rsqrt" else root
    if below.type not in ("Add", "AddV2"):
        return None
    epsilon: Any = constant_value(below.inputs[1])
    if epsilon is None:
        return None
    mean, variance = of_mean.inputs[0], below.inputs[0]
    training = layer.outputs[0] in _above(mean)
    return _Normalization(layer, op.outputs[0], ones_like(mean) if gamma is None else gamma,
                          shift.inputs[0], mean, variance, float(epsilon), training)


def _above(tensor: Tensor) -> set[Tensor]:
    """All tensors that `tensor` is computed from."""
    found: set[Tensor] = set()
    waiting = list(tensor.op.inputs)
    while waiting:
        item = waiting.pop()
        if item not in found:
            found.add(item)
            waiting += item.op.inputs
    return found


def _fold(norm: _Normalization, freeze_delay: int | None) -> None:
    layer, weights = norm.layer, norm.layer.inputs[1]
    with name_scope("BatchNorm_Fold"):
        scale: Any = norm.gamma * raw_ops.Rsqrt(norm.variance + norm.epsilon)
        bias = raw_ops.Sub(norm.beta, norm.mean * scale, name="bias")
        correction = _corrected(norm, freeze_delay) if norm.training else None
    if correction is not None:
        weights = raw_ops.Mul(_of_weights(correction[0], layer), weights, name="correction_mult")
    weights = raw_ops.Mul(weights, _of_weights(scale, layer), name="mul_fold")
    result = _copied(layer, [layer.inputs[0], weights])
    if correction is not None:
        result = raw_ops.Mul(correction[1], result, name="post_conv_mul")
        result = raw_ops.Add(result, correction[2], name="correction_add")
    result = raw_ops.Add(result, bias, name="add_fold")
    if reroute_ts(result, norm.output) == 0:
        raise ValueError(f"Folding batch norms failed, {norm.output.name} had no outputs.")
    for old, new in norm.moved:
        reroute_ts(new, old)


def _of_weights(factors: Tensor, layer: Operation) -> Tensor:
    """Factors of a layer's channels in a shape that the weights may be multiplied by."""
    if layer.type != "DepthwiseConv2dNative":
        return factors
    return raw_ops.Reshape(factors, layer.inputs[1].get_shape().as_list()[2:])


def _copied(layer: Operation, inputs: list[Tensor]) -> Any:
    """The layer with other inputs, and what moves blocks back into space behind it."""
    graph: Any = layer.graph
    name = layer.name.rpartition("/")[2]
    result = graph.create_op(layer.type, inputs, attrs=dict(layer._attrs),
                             name=f"{name}_Fold").outputs[0]
    back = next((c for c in layer.outputs[0].consumers() if c.type == "BatchToSpaceND"), None)
    return result if back is None else raw_ops.BatchToSpaceND(result, *back.inputs[1:])


def _corrected(norm: _Normalization, freeze_delay: int | None) -> tuple[Tensor, Tensor, Tensor]:
    """The factor of the weights, that of the result, and what is added to it."""
    averages = _averages(norm)
    moving_root: Any = raw_ops.Rsqrt(averages.variance + norm.epsilon)
    root: Any = raw_ops.Rsqrt(norm.variance + norm.epsilon)
    scale = raw_ops.Identity(moving_root / root, name="correction_scale")
    back = raw_ops.Reciprocal(scale)
    offset = norm.gamma * (norm.mean * root - averages.mean * moving_root)
    if freeze_delay is None:
        return scale, back, zeros_like(offset)
    frozen = raw_ops.GreaterEqual(quantization_step(), freeze_delay, name="use_moving_average")
    for gain in dict.fromkeys((averages.mean_gain, averages.variance_gain)):
        readers = gain.consumers()
        reroute_ts(smart_cond(frozen, lambda gain=gain: zeros_like(gain), lambda gain=gain: gain),
                   gain, can_modify=readers)
    return (scale, smart_cond(frozen, lambda: ones_like(scale), lambda: back),
            smart_cond(frozen, lambda: offset, lambda: zeros_like(offset)))


def _averages(norm: _Normalization) -> _Averages:
    """The moving averages: updated by ``(average - statistic) * gain``."""
    found = []
    for source in [old for old, _ in norm.moved] or [norm.mean, norm.variance]:
        update = next(((sub.inputs[0], mul) for sub in source.consumers()
                       if sub.type == "Sub" and sub.inputs[1] is source
                       for mul in sub.outputs[0].consumers() if mul.type == "Mul"), None)
        if update is None:
            raise ValueError(f"{norm.output.name} is normalized in training, but there are no "
                             "moving averages of its statistics")
        found.append((update[0], update[1].inputs[1]))
    (mean, mean_gain), (variance, variance_gain) = found
    return _Averages(mean, variance, mean_gain, variance_gain)
