"""The interface of what makes items of a serialized record."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor


class DataDecoder(ABC):
    """Makes the items of a record, such as an image and its label."""

    @abstractmethod
    def decode(self, data: TensorLike, items: Sequence[str]) -> list[Tensor]:
        """Return a tensor for each of the named items of the record `data`."""

    @abstractmethod
    def list_items(self) -> list[str]:
        """Return the names of the items."""
