"""The HDF5 side of checkpoints: the only module that imports h5py, inside functions.

A checkpoint file holds the group `variables`, with a contiguous dataset (of some strings: a group)
per logical variable, the table `pieces` of what was written with its checksums, and the dataset
`index`, a JSON text with everything a reader needs. The root's attributes say what the file is. The
file format is that of HDF5 1.10, whose metadata carry checksums.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcflow import dtypes
from hpcflow.dtypes import DType
from hpcflow.errors import InternalError
from hpcflow.storage import encoding, plain_hdf5
from hpcflow.storage.checkpoint_file import Damage
from hpcflow.storage.file_image import FileImage
from hpcflow.storage.hdf5_files import open_file
from hpcflow.storage.layout import Entry
from hpcflow.storage.records import checksum

if TYPE_CHECKING:
    import h5py

VARIABLES = "variables"
INDEX = "index"
PIECES = "pieces"
_ATTRIBUTE_BYTES = 1 << 15  # of a name; longer ones are in the index only
Strings = Mapping[str, tuple[np.ndarray, np.ndarray]]
_FORMAT = b"hpcflow checkpoint"
# Large datasets start at multiples of this, so that their writers share no page or stripe.
_ALIGNMENT = {"alignment_threshold": 1 << 16, "alignment_interval": 1 << 12}


def lay_out(entries: Iterable[Entry]) -> tuple[FileImage, list[Entry]]:
    """A new file with a dataset per entry, as an image, and the entries with their offsets."""
    image = FileImage()
    with _open_image(image) as file:
        return image, _create_datasets(file, entries)


def complete(
    entries: Sequence[Entry],
    index: bytes,
    table: np.ndarray,
    attributes: Mapping[str, Any],
    strings: Strings,
    slices: Mapping[str, np.ndarray],
) -> FileImage:
    """A whole file, as an image without the data of numbers.

    It is what `lay_out` made of the same entries, with the string variables (link -> offsets,
    bytes), the attributes, the `slices` of variables that were written in several, the table of
    pieces and the index. Raises InternalError if the offsets come out differently.
    """
    image = FileImage()
    with _open_image(image) as file:
        if _create_datasets(file, entries) != list(entries):
            raise InternalError(None, None, "HDF5 laid out the same checkpoint in another way")
        for link, texts in slices.items():
            if texts.nbytes <= _ATTRIBUTE_BYTES:
                file[VARIABLES][link].attrs["slices"] = texts
        _finish(file, entries, index, table, attributes, strings)
    return image


def _open_image(image: FileImage) -> Any:
    return open_file(image, "w", **_ALIGNMENT)


def _create_datasets(file: h5py.File, entries: Iterable[Entry]) -> list[Entry]:
    from h5py import h5d, h5p

    plan = h5p.create(h5p.DATASET_CREATE)
    plan.set_layout(h5d.CONTIGUOUS)
    plan.set_alloc_time(h5d.ALLOC_TIME_EARLY)
    plan.set_fill_time(h5d.FILL_TIME_NEVER)
    plan.set_obj_track_times(False)
    group = file.create_group(VARIABLES).id
    return [entry if entry.is_string else _create_dataset(group, plan, entry) for entry in entries]


def _create_dataset(group: h5py.h5g.GroupID, plan: h5py.h5p.PropDCID, entry: Entry) -> Entry:
    """One contiguous dataset whose space is allocated now and never filled."""
    from h5py import h5d, h5s

    space = h5s.create_simple(entry.shape) if entry.shape else h5s.create(h5s.SCALAR)
    dataset = h5d.create(group, entry.link.encode(), file_type(entry.dtype), space, plan)
    _describe(dataset, entry)
    return replace(entry, offset=dataset.get_offset())


def _describe(holder: h5py.h5d.DatasetID | h5py.h5g.GroupID, entry: Entry) -> None:
    from h5py import h5a, h5s

    space = h5s.create(h5s.SCALAR)
    for name, text in ((b"name", entry.name.encode()[:_ATTRIBUTE_BYTES]),
                       (b"dtype", entry.dtype.name.encode())):
        value = np.array(text)
        h5a.create(holder, name, type_of(value.dtype), space).write(value)


@lru_cache(maxsize=64)
def file_type(dtype: DType) -> Any:
    """The HDF5 type of the elements of a (non-string) variable."""
    from h5py import h5t

    if dtype is not dtypes.bfloat16:
        return type_of(encoding.stored_dtype(dtype))
    kind = h5t.IEEE_F32LE.copy()
    kind.set_fields(15, 7, 8, 0, 7)  # sign; exponent and mantissa: first bit and length
    kind.set_ebias(127)
    kind.set_precision(16)
    kind.set_size(2)
    return kind


def type_of(kind: np.dtype[Any]) -> Any:
    """The HDF5 type of a NumPy type, as h5py would choose it."""
    from h5py import h5t

    return h5t.py_create(kind, logical=True)


def _finish(file: h5py.File, entries: Iterable[Entry], index: bytes, table: np.ndarray,
            attributes: Mapping[str, Any], strings: Strings) -> None:
    for entry in entries:
        if entry.is_string:
            _add_strings(file[VARIABLES], entry, *strings[entry.link])
    for name, value in attributes.items():
        file.attrs[name] = value
    file.create_dataset(PIECES, data=table)
    dataset = file.create_dataset(INDEX, data=np.frombuffer(index, f"S{len(index)}")[0])
    dataset.attrs["crc32"] = np.uint32(checksum(index))
    file.attrs["format"] = np.bytes_(_FORMAT)


def _add_strings(group: h5py.Group, entry: Entry, offsets: np.ndarray, data: np.ndarray) -> None:
    fixed = encoding.fixed_width(offsets, data, entry.shape)
    if fixed is not None:
        _describe(group.create_dataset(entry.link, data=fixed).id, entry)
        return
    parts = group.create_group(entry.link)
    _describe(parts.id, entry)
    parts.create_dataset("offsets", data=offsets)
    parts.create_dataset("bytes", data=data)


def format_version(file: h5py.File) -> int:
    """The version of the checkpoint that an open file is. Raises Damage where it is none."""
    if "format" not in file.attrs or plain_hdf5.attribute(file, "format") != _FORMAT:
        raise Damage("it holds no complete hpcflow checkpoint")
    return int(plain_hdf5.attribute(file, "format_version"))
