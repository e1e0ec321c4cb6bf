"""The interface of all lookup tables."""

from __future__ import annotations

from typing import Any

from hpcflow import dtypes as dtypes_lib
from hpcflow.dtypes import DType, DTypeLike
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import get_default_graph
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.sparse_tensor import SparseTensor, is_sparse, to_sparse
from hpcflow.shapes import as_shape


class KeyValueTypes:
    """A base class with the dtypes of the keys and the values of a table."""

    def __init__(self, key_dtype: DTypeLike, value_dtype: DTypeLike) -> None:
        self._key_dtype = dtypes_lib.as_dtype(key_dtype)
        self._value_dtype = dtypes_lib.as_dtype(value_dtype)

    @property
    def key_dtype(self) -> DType:
        """The dtype of the keys."""
        return self._key_dtype

    @property
    def value_dtype(self) -> DType:
        """The dtype of the values."""
        return self._value_dtype


class LookupInterface(KeyValueTypes):
    """A lookup table: the base class with a handle, the dtypes, ``size`` and ``lookup``."""

    def __init__(self, key_dtype: DType, value_dtype: DTypeLike, default_value: TensorLike,
                 table_ref: Tensor, value_shape: Any = ()) -> None:
        super().__init__(key_dtype, value_dtype)
        self._table_ref = table_ref
        self._default_value = convert_to_tensor(default_value, self._value_dtype)
        self._default_value.get_shape().assert_is_compatible_with(as_shape(value_shape))
        self._name = table_ref.op.name.split("/")[-1]

    @property
    def table_ref(self) -> Tensor:
        """The handle of the table."""
        return self._table_ref

    resource_handle = table_ref

    @property
    def name(self) -> str:
        """The last part of the name of the table's op."""
        return self._name

    @property
    def default_value(self) -> Tensor:
        """The value of keys that the table does not have."""
        return self._default_value

    def size(self, name: str | None = None) -> Tensor:
        """Return the number of keys, int64."""
        return self._op("LookupTableSize", name or f"{self._name}_Size")

    def lookup(self, keys: Any, name: str | None = None) -> Any:
        """Return the values of `keys`, the default where the table has none.

        Of a sparse tensor's keys the values at the same places are returned, sparse too.
        Raises ``TypeError`` for keys of another type, when run ``FailedPreconditionError`` if the
        table is to be initialized first.
        """
        if is_sparse(keys):
            keys = to_sparse(keys)
            return SparseTensor(keys.indices, self.lookup(keys.values, name), keys.dense_shape)
        keys = self._checked(keys, self._key_dtype, "keys")
        return self._op("LookupTableFind", name or f"{self._name}_Lookup", keys=keys,
                        default_value=self._default_value)

    def _checked(self, value: TensorLike, dtype: DType, what: str) -> Tensor:
        if isinstance(value, Tensor) and value.dtype.base_dtype != dtype:
            raise TypeError(f"Signature mismatch: the {what} of table '{self._name}' must be "
                            f"{dtype.name}, got {value.dtype.name}")
        return convert_to_tensor(value, dtype)

    def _op(self, op_type: str, name: str, **keywords: Any) -> Any:
        version = "V2" if self._table_ref.dtype is dtypes_lib.resource else ""
        with get_default_graph().colocate_with(self._table_ref.op):
            return getattr(raw_ops, op_type + version)(table_handle=self._table_ref, name=name,
                                                       **keywords)
