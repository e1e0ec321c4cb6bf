"""The plan of a checkpoint file: which variable lies where. It travels between processes."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from hpcflow import dtypes
from hpcflow.dtypes import DType
from hpcflow.errors import InternalError


@dataclass(frozen=True)
class Entry:
    """One logical variable: its place in the file.

    `link` is the name of its dataset (or, of strings, group); `offset` the position of its
    first byte in the file, None for strings and for variables without elements.
    """

    name: str
    dtype: DType
    shape: tuple[int, ...]
    link: str
    offset: int | None = None

    @property
    def is_string(self) -> bool:
        """True if the elements are strings, which the coordinator stores."""
        return self.dtype is dtypes.string


@dataclass(frozen=True)
class Layout:
    """A checkpoint file in the making: its final and its temporary path, and its variables."""

    path: str
    temporary: str
    entries: tuple[Entry, ...]
    by_name: dict[str, Entry] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_name", {entry.name: entry for entry in self.entries})

    def to_bytes(self) -> bytes:
        """Encode for another process."""
        entries = [{**asdict(entry), "dtype": entry.dtype.name} for entry in self.entries]
        fields = {"path": self.path, "temporary": self.temporary, "entries": entries}
        return json.dumps(fields).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Layout:
        """Decode what `to_bytes` encoded. Raises InternalError for anything else."""
        try:
            fields = json.loads(data)
            entries = tuple([_entry_of(item) for item in fields["entries"]])
            return cls(fields["path"], fields["temporary"], entries)
        except (ValueError, KeyError, TypeError) as error:
            raise InternalError(None, None, f"this is no checkpoint layout: {error}") from error


def _entry_of(item: dict[str, Any]) -> Entry:
    return Entry(
        item["name"],
        dtypes.as_dtype(item["dtype"]),
        tuple(item["shape"]),
        item["link"],
        item["offset"],
    )


def as_layout(layout: Layout | bytes) -> Layout:
    """A layout as it is, or decoded."""
    return layout if isinstance(layout, Layout) else Layout.from_bytes(layout)


def link_name(name: str) -> str:
    """The HDF5 link of a variable: `/` becomes `|`, because `w` and `w/Adam` are both datasets.

    Other characters that would be ambiguous are percent-encoded. One to one.
    """
    escaped = name.replace("%", "%25").replace("|", "%7C").replace("\0", "%00")
    return escaped.replace("/", "|") if name.strip(".") else escaped.replace(".", "%2E") or "%"
