"""The description of a data set of files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hpcflow.contrib.slim.data.data_decoder import DataDecoder


class Dataset:
    """A data set: where it is, how its records are read, and what is in them."""

    def __init__(self, data_sources: str | Sequence[str], reader: Callable, decoder: DataDecoder,
                 num_samples: int, items_to_descriptions: dict[str, str], **kwargs: Any) -> None:
        """Keep all arguments as attributes.

        Args:
            data_sources: a file name or a pattern, or a list of them.
            reader: a class of readers, such as ``TFRecordReader``.
            decoder: makes the items of a record.
            num_samples: number of records.
            items_to_descriptions: a text for each item.
            kwargs: whatever else the data set has, such as a number of classes.
        """
        self.data_sources = data_sources
        self.reader = reader
        self.decoder = decoder
        self.num_samples = num_samples
        self.items_to_descriptions = items_to_descriptions
        vars(self).update(kwargs)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the data set has no {name!r}, only {sorted(vars(self))}")
