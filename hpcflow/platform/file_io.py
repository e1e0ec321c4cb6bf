"""Files by the names of ``python.lib.io.file_io`` of 1.x; the same as :mod:`gfile`."""

from __future__ import annotations

import uuid
import zlib

from hpcflow import errors
from hpcflow.platform import gfile
from hpcflow.platform.gfile import GFile

__all__ = [
    "FileIO", "atomic_write_string_to_file", "copy", "create_dir", "delete_file",
    "delete_recursively", "file_crc32", "file_exists", "filecmp", "get_matching_files",
    "is_directory", "list_directory",
    "read_file_to_string", "recursive_create_dir", "rename", "stat", "walk",
    "write_string_to_file",
]  # fmt: skip

FileIO = GFile
copy = gfile.Copy
create_dir = gfile.MkDir
delete_file = gfile.Remove
delete_recursively = gfile.DeleteRecursively
file_exists = gfile.Exists
get_matching_files = gfile.Glob
is_directory = gfile.IsDirectory
list_directory = gfile.ListDirectory
recursive_create_dir = gfile.MakeDirs
rename = gfile.Rename
stat = gfile.Stat
walk = gfile.Walk


def read_file_to_string(filename: str, binary_mode: bool = False) -> str | bytes:
    """Return the contents of a file, bytes with `binary_mode`."""
    with GFile(filename, "rb" if binary_mode else "r") as file:
        return file.read()


def write_string_to_file(filename: str, file_content: str | bytes) -> None:
    """Make the text or bytes `file_content` the contents of a file."""
    with GFile(filename, "wb" if isinstance(file_content, bytes) else "w") as file:
        file.write(file_content)


def atomic_write_string_to_file(filename: str, contents: str | bytes,
                                overwrite: bool = True) -> None:
    """As :func:`write_string_to_file`; a reader finds the old contents or the new.

    Raises ``AlreadyExistsError`` if the file exists and is not to be overwritten.
    """
    unfinished = f"{filename}.{uuid.uuid4().hex}.unfinished"
    write_string_to_file(unfinished, contents)
    try:
        rename(unfinished, filename, overwrite)
    except errors.OpError:
        delete_file(unfinished)
        raise


def filecmp(filename_a: str, filename_b: str) -> bool:
    """True if two files have the same contents."""
    if stat(filename_a).length != stat(filename_b).length:
        return False
    return file_crc32(filename_a) == file_crc32(filename_b)


def file_crc32(filename: str, block_size: int = 1 << 24) -> str:
    """Return the CRC-32 of a file's contents in hexadecimal digits, read `block_size` at a time."""
    found = 0
    with GFile(filename, "rb") as file:
        while block := file.read(block_size):
            found = zlib.crc32(block, found)
    return hex(found & 0xFFFFFFFF)
