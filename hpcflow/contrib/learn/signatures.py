"""Types and shapes of labels, for placeholders like them."""

from __future__ import annotations

from typing import Any, NamedTuple

from hpcflow.dtypes import DType
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.sparse_tensor import SparseTensor, is_sparse
from hpcflow.ops.arrays.constants import placeholder
from hpcflow.ops.sparse.sparse_layout import sparse_placeholder
from hpcflow.shapes import TensorShape


class Signature(NamedTuple):
    """The type of a tensor, its shape (None of a sparse one), and whether it is sparse."""

    dtype: DType
    shape: TensorShape | None
    is_sparse: bool

    def placeholder(self) -> Any:
        """Return a placeholder for batches of any size."""
        if self.is_sparse:
            return sparse_placeholder(self.dtype)
        known = self.shape is not None and self.shape.ndims
        return placeholder(self.dtype, [None, *self.shape[1:]] if known else None)  # type: ignore[index]


def signatures_of(tensors: Any) -> Any:
    """Return the signatures of a tensor, of a dict of them, or None of None."""
    if tensors is None:
        return None
    if isinstance(tensors, dict):
        return {key: signatures_of(value) for key, value in tensors.items()}
    if is_sparse(tensors):
        kind = tensors.dtype if isinstance(tensors, SparseTensor) else tensors.values.dtype
        return Signature(kind.base_dtype, None, True)
    tensor = convert_to_tensor(tensors)
    return Signature(tensor.dtype.base_dtype, tensor.shape, False)


def placeholders(signatures: Any) -> Any:
    """Return placeholders for what has these signatures."""
    if isinstance(signatures, dict):
        return {key: placeholders(value) for key, value in signatures.items()}
    return None if signatures is None else signatures.placeholder()
