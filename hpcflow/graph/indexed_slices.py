"""IndexedSlices: a sparse representation of some rows of a dense tensor."""

from __future__ import annotations

from typing import Any, NamedTuple

from hpcflow.dtypes import DType
from hpcflow.graph.graph import Graph
from hpcflow.graph.operation import Operation, Tensor, refuse_array
from hpcflow.shapes import TensorShape


class IndexedSlices:
    """Rows of a dense tensor: ``dense[indices[i], ...] = values[i, ...]``, duplicates added.

    The gradient of Gather has this form, so that an update touches only the rows that were read.
    """

    __array__ = refuse_array

    def __init__(self, values: Tensor, indices: Tensor, dense_shape: Tensor | None = None) -> None:
        self._values = values
        self._indices = indices
        self._dense_shape = dense_shape

    @property
    def values(self) -> Tensor:
        """The rows, shape ``[n, ...]``."""
        return self._values

    @property
    def indices(self) -> Tensor:
        """The row numbers, shape ``[n]``."""
        return self._indices

    @property
    def dense_shape(self) -> Tensor | None:
        """The shape of the dense tensor, or None."""
        return self._dense_shape

    @property
    def shape(self) -> TensorShape:
        """The static shape of the dense tensor, as far as `dense_shape` and `values` tell it."""
        from hpcflow.graph.shape_inference import constant_value_as_dims

        rows = self._values._dims
        if self._dense_shape is None:
            return TensorShape(None if rows is None else (None, *rows[1:]))
        return TensorShape(constant_value_as_dims(self._dense_shape))

    @property
    def name(self) -> str:
        """The name of the values tensor."""
        return self._values.name

    @property
    def device(self) -> str:
        """The device of the values tensor."""
        return self._values.device

    @property
    def op(self) -> Operation:
        """The operation that produces the values."""
        return self._values.op

    @property
    def dtype(self) -> DType:
        """The element type of the values."""
        return self._values.dtype

    @property
    def graph(self) -> Graph:
        """The graph of the tensors."""
        return self._values.graph

    def __str__(self) -> str:
        shape = f", dense_shape={self._dense_shape}" if self._dense_shape is not None else ""
        return f"IndexedSlices(indices={self._indices}, values={self._values}{shape})"

    def __neg__(self) -> IndexedSlices:
        from hpcflow.graph.build import apply_op

        return IndexedSlices(apply_op("Neg", x=self._values), self._indices, self._dense_shape)


class IndexedSlicesValue(NamedTuple):
    """The fetched value of an :class:`IndexedSlices`."""

    values: Any
    indices: Any
    dense_shape: Any
