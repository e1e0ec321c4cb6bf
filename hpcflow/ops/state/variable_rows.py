"""Reading and updating rows and elements of variables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hpcflow.graph.indexed_slices import IndexedSlices
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops


class RowsOfVariable:
    """Methods of ``Variable``. Those that change it return its reference, of a variable by handle a
    variable that is read after the change.

    The updates of rows take an :class:`IndexedSlices`; anything else is a ``ValueError``.
    """

    _variable: Tensor

    def scatter_update(self, sparse_delta: IndexedSlices, use_locking: bool = False,
                       name: str | None = None) -> Any:
        """Set the rows."""
        return self._scatter("ScatterUpdate", sparse_delta, use_locking, name)

    def scatter_add(self, sparse_delta: IndexedSlices, use_locking: bool = False,
                    name: str | None = None) -> Any:
        """Add to the rows."""
        return self._scatter("ScatterAdd", sparse_delta, use_locking, name)

    def scatter_sub(self, sparse_delta: IndexedSlices, use_locking: bool = False,
                    name: str | None = None) -> Any:
        """Subtract from the rows."""
        return self._scatter("ScatterSub", sparse_delta, use_locking, name)

    def scatter_mul(self, sparse_delta: IndexedSlices, use_locking: bool = False,
                    name: str | None = None) -> Any:
        """Multiply the rows."""
        return self._scatter("ScatterMul", sparse_delta, use_locking, name)

    def scatter_div(self, sparse_delta: IndexedSlices, use_locking: bool = False,
                    name: str | None = None) -> Any:
        """Divide the rows."""
        return self._scatter("ScatterDiv", sparse_delta, use_locking, name)

    def scatter_max(self, sparse_delta: IndexedSlices, use_locking: bool = False,
                    name: str | None = None) -> Any:
        """Keep the larger of each element and its update."""
        return self._scatter("ScatterMax", sparse_delta, use_locking, name)

    def scatter_min(self, sparse_delta: IndexedSlices, use_locking: bool = False,
                    name: str | None = None) -> Any:
        """Keep the smaller of each element and its update."""
        return self._scatter("ScatterMin", sparse_delta, use_locking, name)

    def scatter_nd_update(self, indices: TensorLike, updates: Sequence[TensorLike],
                          name: str | None = None) -> Any:
        """Set elements or slices by coordinates; shapes as of ``scatter_nd_update``."""
        return self._changed("ScatterNdUpdate", indices, updates, name=name, use_locking=True)

    def scatter_nd_add(self, indices: TensorLike, updates: Sequence[TensorLike],
                       name: str | None = None) -> Any:
        """Add to elements or slices by coordinates."""
        return self._changed("ScatterNdAdd", indices, updates, name=name, use_locking=True)

    def scatter_nd_sub(self, indices: TensorLike, updates: Sequence[TensorLike],
                       name: str | None = None) -> Any:
        """Subtract from elements or slices by coordinates."""
        return self._changed("ScatterNdSub", indices, updates, name=name, use_locking=True)

    def sparse_read(self, indices: TensorLike, name: str | None = None) -> Tensor:
        """Return the rows ``variable[indices, ...]``."""
        return raw_ops.Gather(self, indices, name=name)

    def gather_nd(self, indices: TensorLike, name: str | None = None) -> Tensor:
        """Return elements or slices by coordinates: ``variable[tuple(indices[i])]``."""
        return raw_ops.GatherNd(self, indices, name=name)

    def _scatter(self, op_type: str, rows: IndexedSlices, use_locking: bool,
                 name: str | None) -> Any:
        if not isinstance(rows, IndexedSlices):
            raise ValueError(f"sparse_delta must be IndexedSlices, got {rows!r}")
        return self._changed(op_type, rows.indices, rows.values, use_locking=use_locking,
                             name=name)

    def _changed(self, op_type: str, *args: Any, **options: Any) -> Any:
        """The result of an operation that changes the variable."""
        return getattr(raw_ops, op_type)(self._variable, *args, **options)
