"""Types that count as tensors (``python.framework.ops``), for packages that ask with isinstance."""

from __future__ import annotations

import abc
from typing import Any

from hpcflow.graph.indexed_slices import IndexedSlices
from hpcflow.graph.operation import Tensor
from hpcflow.graph.sparse_tensor import SparseTensor
from hpcflow.ops.state.variables import Variable


class TensorLike(abc.ABC):  # noqa: B024
    """The class of tensors, dense and sparse ones, and of what programs derive from it."""


for _kind in (Tensor, SparseTensor, IndexedSlices):
    TensorLike.register(_kind)

_dense: tuple[type, ...] = (Tensor, Variable)


def is_dense_tensor_like(t: Any) -> bool:
    """Return whether `t` is a tensor or a variable, or of a type registered as one."""
    return isinstance(t, _dense)


def register_dense_tensor_like_type(tensor_type: type) -> None:
    """Let objects of a type count as tensors.

    Raises ``TypeError`` unless the type has the properties ``name`` and ``dtype``.
    """
    global _dense
    for name in ("name", "dtype"):
        if not isinstance(getattr(tensor_type, name, None), property):
            raise TypeError(f"Type {tensor_type.__name__} does not define a `{name}` property")
    _dense = (*_dense, tensor_type)
