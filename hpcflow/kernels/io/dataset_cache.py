"""Caches in files: the elements of the first full pass, kept for later passes and programs."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from hpcflow.dtypes import DType
from hpcflow.errors import DataLossError
from hpcflow.resources.datasets.base import Dataset, Dims, Element, Run
from hpcflow.resources.datasets.order import Derived
from hpcflow.storage.system_errors import system_errors
from hpcflow.storage.tfrecords import encode_record, open_records, read_records

_SUFFIX = ".elements"


class FileCacheDataset(Derived):
    """The elements of `source`, read from a file that the first full pass writes.

    The file, ``NAME.elements``, is one of records: a component of an element each. It appears when
    it is complete; a pass that is given up leaves nothing.

    Args:
        name: path without the suffix.
        encode, decode: a component as bytes, and back.
    """

    def __init__(self, source: Dataset, types: list[DType], shapes: list[Dims], name: str,
                 encode: Callable[[Any], bytes], decode: Callable[[bytes], Any]) -> None:
        super().__init__(source, types, shapes)
        self.path = name + _SUFFIX
        self.encode, self.decode = encode, decode

    def _pass(self, run: Run) -> Iterator[Element]:
        if os.path.exists(self.path):
            return _Kept(self)
        return _Written(self, self.source.iterate(run))

    def cardinality(self) -> int:
        """As many as the source has."""
        return self.source.cardinality()


class _Kept:
    """A pass over the elements in the file."""

    def __init__(self, cache: FileCacheDataset) -> None:
        self._cache = cache
        with system_errors(cache.path):
            self._file = open_records(cache.path)
        self._records = read_records(self._file, cache.path)

    def __iter__(self) -> Iterator[Element]:
        return self

    def __next__(self) -> Element:
        decode, count = self._cache.decode, len(self._cache.types)
        parts = [decode(record) for _, (_, record) in zip(range(count), self._records)]
        if len(parts) == count:
            return tuple(parts)
        self._file.close()
        if parts:
            raise DataLossError(None, None, f"the cache {self._cache.path} ends within an element")
        raise StopIteration


class _Written:
    """The pass that writes the file."""

    def __init__(self, cache: FileCacheDataset, source: Iterator[Element]) -> None:
        self._cache, self._source = cache, source
        self._path = f"{cache.path}.{uuid.uuid4().hex}.incomplete"
        self._file: Any = None
        self._failed = self._done = False

    def __iter__(self) -> Iterator[Element]:
        return self

    def __next__(self) -> Element:
        if self._done:
            raise StopIteration
        try:
            element = next(self._source)
        except StopIteration:
            self._finish()
            raise
        except BaseException:
            self._failed = True  # what has no value cannot be kept
            raise
        with system_errors(self._path):
            self._opened().write(b"".join(encode_record(self._cache.encode(v)) for v in element))
        return element

    def _opened(self) -> Any:
        if self._file is None:
            self._file = open(self._path, "xb")  # noqa: SIM115 - closed at the end of the pass
        return self._file

    def _finish(self) -> None:
        self._done = True
        with system_errors(self._path):
            self._opened().close()
            if self._failed:
                os.remove(self._path)
            else:
                os.replace(self._path, self._cache.path)

    def __del__(self) -> None:
        if self._file is not None and not self._done:
            self._file.close()
            with contextlib.suppress(OSError):
                os.remove(self._path)
