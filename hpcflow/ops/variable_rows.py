"""What variables let read and change of their rows and elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcflow.graph.indexed_slices import IndexedSlices
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops import state


class RowsOfVariable:
    """Methods of ``Variable``. Those that change it return its reference.

    The updates of rows take an :class:`IndexedSlices`; anything else is a ``ValueError``.
    """

    _variable: Tensor

    def scatter_update(self, sparse_delta: IndexedSlices, use_locking: bool = False,
                       name: str | None = None) -> Tensor:
        """Set the rows."""
        return self._scatter(state.scatter_update, sparse_delta, use_locking, name)

    def scatter_add(self, sparse_delta: IndexedSlices, use_locking: bool = False,
                    name: str | None = None) -> Tensor:
        """Add to the rows."""
        return self._scatter(state.scatter_add, sparse_delta, use_locking, name)

    def scatter_sub(self, sparse_delta: IndexedSlices, use_locking: bool = False,
                    name: str | None = None) -> Tensor:
        """Subtract from the rows."""
        return self._scatter(state.scatter_sub, sparse_delta, use_locking, name)

    def scatter_mul(self, sparse_delta: IndexedSlices, use_locking: bool = False,
                    name: str | None = None) -> Tensor:
        """Multiply the rows."""
        return self._scatter(state.scatter_mul, sparse_delta, use_locking, name)

    def scatter_div(self, sparse_delta: IndexedSlices, use_locking: bool = False,
                    name: str | None = None) -> Tensor:
        """Divide the rows."""
        return self._scatter(state.scatter_div, sparse_delta, use_locking, name)

    def scatter_max(self, sparse_delta: IndexedSlices, use_locking: bool = False,
                    name: str | None = None) -> Tensor:
        """Keep the larger of each element and its update."""
        return self._scatter(raw_ops.ScatterMax, sparse_delta, use_locking, name)

    def scatter_min(self, sparse_delta: IndexedSlices, use_locking: bool = False,
                    name: str | None = None) -> Tensor:
        """Keep the smaller of each element and its update."""
        return self._scatter(raw_ops.ScatterMin, sparse_delta, use_locking, name)

    def scatter_nd_update(self, indices: Any, updates: Any, name: str | None = None) -> Tensor:
        """Set elements or slices by coordinates; shapes as of ``scatter_nd_update``."""
        return state.scatter_nd_update(self._variable, indices, updates, True, name)

    def scatter_nd_add(self, indices: Any, updates: Any, name: str | None = None) -> Tensor:
        """Add to elements or slices by coordinates."""
        return state.scatter_nd_add(self._variable, indices, updates, True, name)

    def scatter_nd_sub(self, indices: Any, updates: Any, name: str | None = None) -> Tensor:
        """Subtract from elements or slices by coordinates."""
        return state.scatter_nd_sub(self._variable, indices, updates, True, name)

    def sparse_read(self, indices: Any, name: str | None = None) -> Tensor:
        """Return the rows ``variable[indices, ...]``."""
        return raw_ops.Gather(self, indices, name=name)

    def gather_nd(self, indices: Any, name: str | None = None) -> Tensor:
        """Return elements or slices by coordinates: ``variable[tuple(indices[i])]``."""
        return raw_ops.GatherNd(self, indices, name=name)

    def _scatter(self, update: Callable, rows: IndexedSlices, use_locking: bool,
                 name: str | None) -> Tensor:
        if not isinstance(rows, IndexedSlices):
            raise ValueError(f"sparse_delta must be IndexedSlices, got {rows!r}")
        changed: Tensor = update(self._variable, rows.indices, rows.values,
                                 use_locking=use_locking, name=name)
        return changed
