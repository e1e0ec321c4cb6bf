"""Tensors by the names of items."""

from __future__ import annotations

from collections.abc import Sequence

from hpcflow.graph.operation import Tensor


class DataProvider:
    """Gives tensors for the items of a data set."""

    def __init__(self, items_to_tensors: dict[str, Tensor], num_samples: int) -> None:
        """Keep the tensors by name, and the number of samples of the data set."""
        self._items_to_tensors = items_to_tensors
        self._num_samples = num_samples

    def get(self, items: Sequence[str]) -> list[Tensor]:
        """Return the tensors of the items.

        Raises ``ValueError`` for what is no list or tuple, and for an item that is not there.
        """
        if not isinstance(items, (list, tuple)):
            raise ValueError(f"items must be a list or tuple, got {items!r}")
        for item in items:
            if item not in self._items_to_tensors:
                raise ValueError(f"Item [{item}] is invalid. Valid entries include: "
                                 f"{self.list_items()}")
        return [self._items_to_tensors[item] for item in items]

    def list_items(self) -> list[str]:
        """Return the names of the items."""
        return list(self._items_to_tensors)

    def num_samples(self) -> int:
        """Return the number of samples of the data set."""
        return self._num_samples
