"""Input: the placeholder that a model begins with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import hpcflow as hf
from hpcflow.keras.engine.calls import History, Node
from hpcflow.keras.engine.layer import Layer
from hpcflow.keras.settings import floatx
from hpcflow.layers.names import get_uid

if TYPE_CHECKING:
    from hpcflow.graph.likes import TensorHandle, TensorLike


class InputLayer(Layer):
    """The layer of a placeholder, or of a tensor that takes its place.

    Args:
        input_shape: shape without the batch.
        batch_size: size of the batch, if it is fixed.
        dtype: float32 if None.
        input_tensor: a tensor to begin with.
        sparse: whether the placeholder is for sparse tensors.
        name: its name.
        batch_input_shape: shape with the batch.

    Raises ``NotImplementedError`` if `ragged`.
    """

    def __init__(self, input_shape: Any = None, batch_size: int | None = None, dtype: Any = None,
                 input_tensor: Any = None, sparse: bool = False, name: str | None = None,
                 batch_input_shape: Any = None, ragged: bool = False, **keywords: Any) -> None:
        if ragged:
            raise NotImplementedError(f"InputLayer {name}: there are no ragged placeholders")
        if dtype is None:
            dtype = floatx() if input_tensor is None else input_tensor.dtype.base_dtype
        super().__init__(name=name or f"input_{get_uid('input')}", dtype=dtype, **keywords)
        self.is_placeholder = input_tensor is None
        self.sparse, self.built = sparse, True
        if input_tensor is None:
            if batch_input_shape is None and input_shape is not None:
                sizes = (input_shape,) if isinstance(input_shape, int) else input_shape
                batch_input_shape = (batch_size, *sizes)
            make = hf.sparse_placeholder if sparse else hf.placeholder
            input_tensor = make(self._dtype, batch_input_shape, name=self.name)
        else:
            input_tensor = hf.convert_to_tensor(input_tensor)
        dims = input_tensor.get_shape()
        self._batch_input_shape = None if dims.ndims is None else tuple(dims.as_list())
        self.inbound_nodes.append(Node(self, [], [], {}, [input_tensor]))
        input_tensor._keras_history = History(self, 0, 0)

    def get_config(self) -> dict:
        """Return the arguments."""
        return {"batch_input_shape": self._batch_input_shape, "dtype": self.dtype.name,
                "sparse": self.sparse, "ragged": False, "name": self.name}


def Input(shape: TensorLike | None = None, batch_size: int | None = None, name: str | None = None,
          dtype: Any = None, sparse: bool | None = False, tensor: TensorHandle | None = None,
          batch_shape: TensorLike | None = None, ragged: bool | None = False,
          **keywords: Any) -> Any:
    """Return the tensor that a model begins with: a placeholder, unless `tensor` is given.

    `shape` is without the batch, `batch_shape` with it. Raises ``ValueError`` without any of them,
    and with both, ``NotImplementedError`` if `ragged`.
    """
    batch_shape = keywords.pop("batch_input_shape", batch_shape)
    if shape is not None and batch_shape is not None:
        raise ValueError("Only provide the `shape` OR `batch_input_shape` argument to Input, not "
                         "both at the same time.")
    if shape is None and batch_shape is None and tensor is None:
        raise ValueError("Please provide to Input either a `shape` or a `tensor` argument. Note "
                         "that `shape` does not include the batch dimension.")
    if keywords:
        raise ValueError(f"Unrecognized keyword arguments: {sorted(keywords)}")
    layer = InputLayer(shape, batch_size, dtype, tensor, bool(sparse), name, batch_shape,
                       bool(ragged))
    return layer.inbound_nodes[0].outputs[0]
