"""Values that go through few bits: where, and in which ranges."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from hpcflow.contrib.graph_editor.rerouting import reroute_ts
from hpcflow.contrib.quantize.layers import Layer, find_layers
from hpcflow.contrib.quantize.steps import quantization_step
from hpcflow.graph.graph import Graph, get_default_graph
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.flow.cond import cond
from hpcflow.ops.math.reductions import reduce_max, reduce_min
from hpcflow.ops.state.initializers import Constant
from hpcflow.ops.state.state import assign
from hpcflow.ops.state.variable_scope import get_variable, variable_scope
from hpcflow.optimizers.moving_averages import assign_moving_average

_SKIPPED = ("gradients/", "RMSProp/", "Adagrad/", "Const_", "HistogramSummary", "ScalarSummary")
_SUMS = ("Add", "AddV2", "Mul")
_RELUS = ("Relu", "Relu6")
_ACTIVATIONS = (*_RELUS, "Identity")
_PASSING = ("Reshape", "Identity", "BatchToSpaceND", "SpaceToBatchND", "MaxPool", "Max")
_DECAY = 0.999


class Bits(NamedTuple):
    """How values are rounded.

    Attributes:
        training: let the ranges follow the values.
        weights, activations: the numbers of bits.
        symmetric: use ranges around 0.
        delay: steps in which nothing is rounded, or None.
    """

    training: bool
    weights: int
    activations: int
    symmetric: bool
    delay: int | None


class _Inserter:
    """Inserts roundings into a graph; `scope` is the name scope to which it keeps."""

    def __init__(self, bits: Bits, scope: str | None) -> None:
        self.bits = bits
        self.scope = f"{scope.removesuffix('/')}/" if scope else ""
        self.done: set[Operation] = set()

    def weights(self, context: str, layer: Layer) -> None:
        """Round the weights of a layer, in the range that they have."""
        producer = layer.weights.op
        self._insert(_joined(context, "weights_quant"), producer, consumers=True)

    def values(self, name: str, op: Operation, lowest: float = -6.0, producers: bool = True,
               consumers: bool = False) -> None:
        """Round the result of `op`, in a range that is a moving average."""
        self.done.add(op)
        self._insert(name, op, lowest, True, producers, consumers)

    def _insert(self, name: str, producer: Operation, lowest: float = -6.0,
                averaged: bool = False, producers: bool = False, consumers: bool = False) -> None:
        value = producer.outputs[0]
        readers = [op for op in dict.fromkeys(value.consumers())
                   if not op.name.startswith(_SKIPPED)]
        inside = ([producer] if producers else []) + (readers if consumers else [])
        if not all(op.name.startswith(self.scope) for op in inside) or _is_rounded(value):
            return
        outer = get_default_graph().get_name_scope()
        name = name.removeprefix(f"{outer}/") if outer else name
        rounded = self._rounded(value, name, lowest, averaged)
        if self.bits.delay:
            active = raw_ops.GreaterEqual(quantization_step(), self.bits.delay,
                                          name=f"{name}/activate_quant")
            result = cond(active, lambda: rounded, lambda: value, name=f"{name}/delayed_quant")
        else:
            result = rounded
        if readers and reroute_ts(result, value, can_modify=readers) < len(readers):
            raise ValueError(f"No inputs quantized for ops: [{', '.join(r.name for r in readers)}]")

    def _rounded(self, value: Tensor, name: str, lowest: float, averaged: bool) -> Any:
        bits = self.bits.activations if averaged else self.bits.weights
        with variable_scope(None, default_name=name, values=[value]) as scope:
            scope.set_partitioner(None)
            low, high = (get_variable(which, [], initializer=Constant(at), trainable=False,
                                      collections=[GraphKeys.GLOBAL_VARIABLES])
                         for which, at in (("min", lowest), ("max", 6.0)))
            if self.bits.training:
                ends = _range(value, bits, self.bits.symmetric, narrow=not averaged)
                low, high = (
                    assign_moving_average(var, end, _DECAY, name=f"Assign{which}Ema")
                    if averaged else assign(var, end, name=f"Assign{which}Last")
                    for var, end, which in zip((low, high), ends, ("Min", "Max")))
            return raw_ops.FakeQuantWithMinMaxVars(value, low, high, num_bits=bits,
                                                   narrow_range=not averaged)


def _range(value: Tensor, bits: int, symmetric: bool, narrow: bool) -> tuple[Tensor, Tensor]:
    """The smallest and the largest number, and 0 between them; of one size if `symmetric`."""
    low: Any = reduce_min(value, name="BatchMin")
    high: Any = reduce_max(value, name="BatchMax")
    if not symmetric:
        return raw_ops.Minimum(low, 0.0), raw_ops.Maximum(high, 0.0)
    ratio = -1.0 if narrow else -((1 << bits) - 2) / (1 << bits)
    return raw_ops.Minimum(low, high / ratio), raw_ops.Maximum(high, low * ratio)


def quantize(graph: Graph, bits: Bits, scope: str | None = None) -> None:
    """Insert roundings of weights and results of all layers, and of sums of rounded values."""
    inserter = _Inserter(bits, scope)
    for layer in find_layers(graph):
        context = _scope_of(layer.product)
        inserter.weights(context, layer)
        outer = _scope_of_name(context) if layer.bypass is not None else context
        inserter.values(_joined(outer, "act_quant"), layer.activation, 0.0)
        if layer.bypass is not None and layer.biased is not None:
            inserter.values(_joined(context, "conv_quant"), layer.biased, consumers=True)
            if not _is_followed(layer.bypass, _ACTIVATIONS):
                inserter.values(_joined(outer, "add_quant"), layer.bypass, consumers=True)
        late = layer.late_bypass
        if late is not None and not _is_followed(late, _RELUS):
            inserter.values(_joined(_scope_of(late), "post_activation_bypass_quant"), late)
    for op in list(graph.get_operations()):
        if _sums_rounded(op, inserter.done):
            inserter._insert(f"{op.name}/activation_{op.type}_quant", op, -6.0, True, True)


def _sums_rounded(op: Operation, done: Iterable[Operation]) -> bool:
    """Is `op` a sum or product of rounded values, also through sums, that is not rounded?"""
    if op in done or op.type not in _SUMS:
        return False
    readers = op.outputs[0].consumers()
    if len(readers) == 1 and readers[0].type in _RELUS:
        return False
    for tensor in op.inputs:
        below = tensor.op
        while below.type in _PASSING:
            below = below.inputs[0].op
        if below.type == "FakeQuantWithMinMaxVars" or below.name.find("delayed_quant/Merge") > 0:
            return True
        if below.type in _SUMS and any(_sums_rounded(t.op, done) for t in below.inputs):
            return True
    return False


def _is_followed(op: Operation, types: tuple[str, ...]) -> bool:
    return any(reader.type in types for reader in op.outputs[0].consumers())


def _is_rounded(value: Tensor) -> bool:
    """Does a reader of the value, or of an identity or another shape of it, round it?"""
    waiting = list(value.consumers())
    while waiting:
        op = waiting.pop()
        if op.type.startswith("FakeQuantWithMinMax"):
            return True
        if op.type in ("Reshape", "Identity"):
            waiting += op.outputs[0].consumers()
    return False


def _scope_of(op: Operation) -> str:
    return _scope_of_name(op.name)


def _scope_of_name(name: str) -> str:
    return name.rpartition("/")[0]


def _joined(scope: str, name: str) -> str:
    return f"{scope}/{name}" if scope else name
