"""Checkpoints in another form: what hpcflow writes, and the bundles of other 1.x runtimes.

Values are converted one variable at a time, verified as they are read.
"""

from __future__ import annotations

import os
import struct
from contextlib import suppress
from typing import BinaryIO

import numpy as np

from hpcflow import dtypes
from hpcflow.base.formats import protos
from hpcflow.storage import encoding, paths
from hpcflow.storage.checkpoint_file import CheckpointFile
from hpcflow.storage.crc32c import masked_crc32c
from hpcflow.storage.saving import abandon, commit, create
from hpcflow.storage.system_errors import system_errors
from hpcflow.storage.table_writing import encode_table
from hpcflow.storage.varints import write_varint
from hpcflow.storage.writing import write

_UINT32 = struct.Struct("<I")


def write_hdf5(prefix: str, source: CheckpointFile) -> str:
    """Write all variables of an open checkpoint as a file of hpcflow; returns its path.

    Raises DataLossError where the source is damaged, and OpErrors of the file system.
    """
    names = source.names()
    layout = create(paths.checkpoint_path(prefix),
                    [(name, source.dtype(name), source.shape(name)) for name in names])
    try:
        records = [write(layout, [(name, None, source.read(name))]) for name in names]
        return commit(layout, records)
    finally:
        abandon(layout)


def write_bundle(prefix: str, source: CheckpointFile) -> str:
    """Write all variables of an open checkpoint as a bundle; returns the path of its index.

    Raises DataLossError where the source is damaged, and OpErrors of the file system.
    """
    index, values = paths.bundle_index_path(prefix), paths.bundle_data_path(prefix, 0, 1)
    header = protos.message_class("BundleHeader")(num_shards=1, endianness=0)
    header.version.producer = 1
    entries = [(b"", header.SerializeToString())]
    temporary = [paths.temporary_path(path) for path in (values, index)]
    try:
        with system_errors(f"writing checkpoint '{prefix}'"):
            with open(temporary[0], "xb") as file:
                for name in sorted(source.names(), key=str.encode):
                    entries.append((name.encode(), _add_values(file, name, source)))
                _sync(file)
            with open(temporary[1], "xb") as file:
                file.write(encode_table(entries))
                _sync(file)
            os.replace(temporary[0], values)
            os.replace(temporary[1], index)  # the last: it makes the checkpoint
            paths.sync_directory(os.path.abspath(index))
    finally:
        for path in temporary:
            with suppress(OSError):
                os.unlink(path)
    return index


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _add_values(file: BinaryIO, name: str, source: CheckpointFile) -> bytes:
    """Append a variable to the file of values; returns its entry."""
    array, dtype = source.read(name), source.dtype(name)
    data: bytes | memoryview
    if dtype is dtypes.string:
        data, checksum = _encode_strings(array)
    else:
        data = encoding.to_bytes(array).data
        checksum = masked_crc32c(data)
    entry = protos.message_class("BundleEntry")(
        dtype=dtype.as_datatype_enum, offset=file.tell(), size=len(data), crc32c=checksum)
    for dim in source.shape(name):
        entry.shape.dim.add(size=dim)
    file.write(data)
    encoded: bytes = entry.SerializeToString()
    return encoded


def _encode_strings(array: np.ndarray) -> tuple[bytes, int]:
    """Strings as bundles have them, and their checksum; `bundle` decodes them."""
    items = [bytes(item) for item in array.reshape(-1)]
    lengths = b"".join([write_varint(len(item)) for item in items])
    fixed = b"".join([len(item).to_bytes(4 if len(item) < 1 << 32 else 8, "little")
                      for item in items])
    check, content = _UINT32.pack(masked_crc32c(fixed)), b"".join(items)
    return lengths + check + content, masked_crc32c(fixed + check + content)
