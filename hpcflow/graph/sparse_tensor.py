"""SparseTensor: the non-zero elements of a tensor, with their places and the dense shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from hpcflow import dtypes
from hpcflow.dtypes import DType, DTypeLike
from hpcflow.graph import nest
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.defaults import get_default_session
from hpcflow.graph.graph import Graph, name_scope
from hpcflow.graph.indexed_slices import IndexedSlices
from hpcflow.graph.likes import Feeds, SessionLike
from hpcflow.graph.operation import Operation, Tensor, refuse_array
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import constant_value_as_dims
from hpcflow.shapes import TensorShape

if TYPE_CHECKING:
    import numpy as np


class SparseTensorValue(NamedTuple):
    """The value of a :class:`SparseTensor`, fetched or to be fed: three arrays."""

    indices: Any
    values: Any
    dense_shape: Any


class SparseTensor:
    """A tensor that is zero (or absent) except for ``dense[indices[i]] = values[i]``.

    Args:
        indices: the places, int64, shape ``[n, rank]``; most ops want them in row-major order.
        values: the elements, any type, shape ``[n]``.
        dense_shape: the shape, int64, shape ``[rank]``.

    Raises ``ValueError`` where ranks or sizes disagree, ``TypeError`` for indices or a shape that
    are not int64.
    """

    # Neither NumPy nor Tensor must take the operators of ``array * sparse`` apart.
    __array_priority__ = 120
    __array__ = refuse_array

    def __init__(self, indices: Tensor | np.ndarray | Sequence[Any],
                 values: Tensor | np.ndarray | Sequence[Any],
                 dense_shape: Tensor | np.ndarray | Sequence[int]) -> None:
        with name_scope(None, "SparseTensor", [indices, values, dense_shape]):
            self._indices = convert_to_tensor(indices, dtypes.int64, name="indices")
            self._values = convert_to_tensor(values, name="values", as_ref=True)
            self._dense_shape = convert_to_tensor(dense_shape, dtypes.int64, name="dense_shape")
        places = self._indices.get_shape().with_rank(2)
        count = self._values.get_shape().with_rank(1)
        dims = self._dense_shape.get_shape().with_rank(1)
        places[0].merge_with(count[0])
        places[1].merge_with(dims[0])

    @classmethod
    def from_value(cls, sparse_tensor_value: Any) -> SparseTensor:
        """Return a sparse tensor of a ``SparseTensorValue`` (or of a ``SparseTensor``).

        Raises ``TypeError`` for anything else.
        """
        if not is_sparse(sparse_tensor_value):
            raise TypeError("Neither a SparseTensor nor SparseTensorValue: "
                            f"{sparse_tensor_value!r}.")
        return cls(*sparse_tensor_value) if isinstance(sparse_tensor_value, tuple) else cls(
            sparse_tensor_value.indices, sparse_tensor_value.values,
            sparse_tensor_value.dense_shape)

    @property
    def indices(self) -> Tensor:
        """The places of the elements, int64, shape ``[n, rank]``."""
        return self._indices

    @property
    def values(self) -> Tensor:
        """The elements, shape ``[n]``."""
        return self._values

    @property
    def dense_shape(self) -> Tensor:
        """The shape of the dense tensor, int64, shape ``[rank]``."""
        return self._dense_shape

    @property
    def shape(self) -> TensorShape:
        """The static shape, as far as it is known."""
        return self.get_shape()

    @property
    def op(self) -> Operation:
        """The operation that produces the values."""
        return self._values.op

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self._values.dtype

    @property
    def graph(self) -> Graph:
        """The graph of the three tensors."""
        return self._indices.graph

    def get_shape(self) -> TensorShape:
        """Return the static shape, as far as it is known."""
        return TensorShape(constant_value_as_dims(self._dense_shape))

    def consumers(self) -> list[Operation]:
        """Return the operations that read one of the three tensors, each once."""
        parts = (self._indices, self._values, self._dense_shape)
        return list(dict.fromkeys(op for part in parts for op in part.consumers()))

    def eval(self, feed_dict: Feeds | None = None,
             session: SessionLike | None = None) -> SparseTensorValue:
        """Return the value, run in `session` (default: the default session).

        Raises ``ValueError`` if there is no session.
        """
        session = session or get_default_session()
        if session is None:
            raise ValueError("Cannot evaluate a SparseTensor using `eval()`: no default session is "
                             "registered, and none was passed")
        if session.graph is not self.graph:
            raise ValueError("The session's graph is different from the graph of the SparseTensor")
        return session.run(self, feed_dict)

    def __str__(self) -> str:
        return (f"SparseTensor(indices={self._indices}, values={self._values}, "
                f"dense_shape={self._dense_shape})")

    __repr__ = __str__

    def _dense_operand(self, op_type: str, other: Any, name: str) -> SparseTensor:
        with name_scope(None, name, [self, other]) as scope:
            other = convert_to_tensor(other, self.dtype.base_dtype)
            build = getattr(raw_ops, op_type)
            values = build(self._indices, self._values, self._dense_shape, other, name=scope)
        return SparseTensor(self._indices, values, self._dense_shape)

    def __mul__(self, other: float) -> SparseTensor:
        return self._dense_operand("SparseDenseCwiseMul", other, "mul")

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> SparseTensor:
        """The quotients as floating-point numbers, of integers too (int8 and int16: float32)."""
        if self.dtype.base_dtype.is_integer:
            wide = dtypes.float32 if self.dtype.base_dtype.size < 4 else dtypes.float64
            other = raw_ops.Cast(convert_to_tensor(other, self.dtype.base_dtype), DstT=wide)
            values = raw_ops.Cast(self._values, DstT=wide)
            return SparseTensor(self._indices, values, self._dense_shape) / other
        return self._dense_operand("SparseDenseCwiseDiv", other, "truediv")

    def __div__(self, other: Any) -> SparseTensor:
        return self._dense_operand("SparseDenseCwiseDiv", other, "div")


def is_sparse(value: Any) -> bool:
    """True for a SparseTensor and a SparseTensorValue."""
    return isinstance(value, (SparseTensor, SparseTensorValue))


def to_sparse(value: Any, what: str = "Input") -> SparseTensor:
    """`value` (a SparseTensor or its value) as a SparseTensor; ``TypeError`` for anything else."""
    if isinstance(value, SparseTensor):
        return value
    if isinstance(value, SparseTensorValue):
        return SparseTensor.from_value(value)
    raise TypeError(f"{what} must be a SparseTensor, got {value!r}.")


def convert_to_tensor_or_sparse_tensor(value: Any, dtype: DTypeLike | None = None,
                                       name: str | None = None) -> Tensor | SparseTensor:
    """Return `value` as a SparseTensor if it is sparse, else as a Tensor.

    Raises ``RuntimeError`` for a sparse tensor of another dtype than `dtype`.
    """
    if not is_sparse(value):
        return convert_to_tensor(value, dtype, name)
    sparse = to_sparse(value)
    if dtype is not None and not dtypes.as_dtype(dtype).is_compatible_with(sparse.dtype):
        raise RuntimeError(f"Sparse dtype: requested = {dtypes.as_dtype(dtype).name}, actual = "
                           f"{sparse.dtype.name}")
    return sparse


def convert_to_tensor_or_indexed_slices(value: int | IndexedSlices, dtype: DTypeLike | None = None,
                                        name: str | None = None, as_ref: bool = False) -> Any:
    """Return a Tensor, or IndexedSlices and SparseTensors as they are.

    Raises ``ValueError`` for sparse values of another dtype than `dtype`.
    """
    if not isinstance(value, (IndexedSlices, SparseTensor)):
        return convert_to_tensor(value, dtype, name, as_ref=as_ref)
    if dtype is not None and not dtypes.as_dtype(dtype).is_compatible_with(value.dtype):
        raise ValueError("Tensor conversion requested dtype "
                         f"{dtypes.as_dtype(dtype).name} for Tensor with dtype "
                         f"{value.dtype.name}: {value!s}")
    return value


def _parts(value: SparseTensor) -> list:
    return [value.indices, value.values, value.dense_shape]


def _like(value: SparseTensor, tensors: Sequence[Any]) -> SparseTensor:
    return SparseTensor(*tensors)


nest.register_composite(SparseTensor, _parts, _like)
