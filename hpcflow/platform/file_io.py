"""Files by the names of ``python.lib.io.file_io`` of 1.x; the same as :mod:`gfile`."""

from __future__ import annotations

from hpcflow.platform import gfile
from hpcflow.platform.gfile import GFile

__all__ = [
    "FileIO", "atomic_write_string_to_file", "copy", "create_dir", "delete_file",
    "delete_recursively", "file_exists", "get_matching_files", "is_directory", "list_directory",
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


def atomic_write_string_to_file(filename: str, contents: str | bytes) -> None:
    """As :func:`write_string_to_file`; a reader finds the old contents or the new."""
    unfinished = f"{filename}.unfinished"
    write_string_to_file(unfinished, contents)
    rename(unfinished, filename, overwrite=True)
