"""Operations that are no layers, between the layers of a model, as layers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import hpcflow as hf
from hpcflow.framework import nest
from hpcflow.keras.engine.calls import History, Node
from hpcflow.keras.engine.layer import Layer
from hpcflow.keras.session import get_value

if TYPE_CHECKING:
    from hpcflow.graph.operation import Operation

_PREFIX = "tf_op_layer_"


class TensorFlowOpLayer(Layer):
    """One operation.

    Args:
        node_def: the operation, a ``NodeDef`` or what one is written as: bytes or a dict.
        name: of the operation; that of the layer begins with ``tf_op_layer_``.
        constants: inputs that are no results of layers, by their positions.
    """

    def __init__(self, node_def: Any, name: str, constants: Mapping[Any, Any] | None = None,
                 trainable: bool = True, dtype: Any = None) -> None:
        super().__init__(trainable, f"{_PREFIX}{name}", dtype)
        self.node_def = _parsed(node_def)
        self.constants = {int(n): v for n, v in (constants or {}).items()}
        self.built = True

    def call(self, inputs: Any) -> Any:
        """Return the result of the operation, a list of several."""
        values = list(nest.flatten(inputs))
        for position in sorted(self.constants):
            values.insert(position, hf.convert_to_tensor(self.constants[position]))
        op = hf.get_default_graph().create_op(
            self.node_def.op, values, name=self.node_def.name.rsplit("/", 1)[-1],
            attrs=dict(self.node_def.attr))
        return op.outputs[0] if len(op.outputs) == 1 else list(op.outputs)

    def get_config(self) -> dict:
        """Return the arguments, with the values of the constants."""
        from google.protobuf import json_format

        return {"name": self.name.removeprefix(_PREFIX), "trainable": self.trainable,
                "dtype": None if self._dtype is None else self._dtype.name,
                "node_def": json_format.MessageToDict(self.node_def),
                "constants": {n: get_value(v) if isinstance(v, hf.Tensor) else v
                              for n, v in self.constants.items()}}


def _parsed(node_def: Any) -> Any:
    from google.protobuf import json_format

    if isinstance(node_def, dict):
        return json_format.ParseDict(node_def, hf.NodeDef())
    return hf.NodeDef.FromString(node_def) if isinstance(node_def, bytes) else node_def


def add_op_layers(tensor: Any) -> None:
    """Make a layer of each operation by which results of layers become `tensor`.

    Nothing is made where one of them is in a loop or a branch, which is more than one operation.
    """
    found: dict[int, Operation] = {}
    waiting = [tensor.op]
    while waiting:
        op = waiting.pop()
        found[op._id] = op
        waiting += [t.op for t in op.inputs
                    if not hasattr(t, "_keras_history") and t.op._id not in found]
    ops = [found[n] for n in sorted(found)]
    if any(op._control_flow_context is not None for op in ops):
        return
    for op in ops:
        sources = [t for t in op.inputs if hasattr(t, "_keras_history")]
        if sources:
            constants = {n: t for n, t in enumerate(op.inputs) if not hasattr(t, "_keras_history")}
            layer = TensorFlowOpLayer(op.node_def, op.name, constants)
            inputs = sources if len(sources) > 1 else sources[0]
            layer.inbound_nodes.append(Node(layer, inputs, sources, {}, list(op.outputs)))
            for n, output in enumerate(op.outputs):
                output._keras_history = History(layer, 0, n)  # type: ignore[attr-defined]
