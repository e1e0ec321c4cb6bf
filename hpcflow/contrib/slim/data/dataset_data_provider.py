"""The items of a data set's records, read by queue runners."""

from __future__ import annotations

from typing import Any

from hpcflow.contrib.slim.data.data_provider import DataProvider
from hpcflow.contrib.slim.data.dataset import Dataset
from hpcflow.contrib.slim.data.parallel_reader import parallel_read


class DatasetDataProvider(DataProvider):
    """Gives the items of one record after another."""

    def __init__(self, dataset: Dataset, num_readers: int = 1,
                 reader_kwargs: dict[str, Any] | None = None, shuffle: bool = True,
                 num_epochs: int | None = None, common_queue_capacity: int = 256,
                 common_queue_min: int = 128, record_key: str = "record_key",
                 seed: int | None = None, scope: str | None = None) -> None:
        """Read and decode the records of `dataset`.

        Args:
            dataset: description of the data set.
            num_readers: number of readers, each with a thread of its own.
            reader_kwargs: arguments for each reader.
            shuffle: take the files, and the records, in random order.
            num_epochs: how often each file is read, counted by a local variable; without end if
                None.
            common_queue_capacity: the most records that wait.
            common_queue_min: how many records wait at least, from which one is drawn.
            record_key: name of the item that is the key of the record.
            seed: of the random order.
            scope: name scope.

        Raises ``ValueError`` if the data set has an item named `record_key`.
        """
        key, data = parallel_read(
            dataset.data_sources, dataset.reader, num_epochs, num_readers, reader_kwargs, shuffle,
            capacity=common_queue_capacity, min_after_dequeue=common_queue_min, seed=seed,
            scope=scope)
        items = dataset.decoder.list_items()
        tensors = dict(zip(items, dataset.decoder.decode(data, items), strict=True))
        if record_key in tensors:
            raise ValueError("The item name used for `record_key` cannot also be used for a "
                             f"dataset item: {record_key}")
        tensors[record_key] = key
        super().__init__(tensors, dataset.num_samples)
