"""Objects of HDF5 files that hold what they say themselves.

HDF5 follows links into other files and reads data sets from them, so that a file from elsewhere
could show any local one. These functions accept hard links and data inside of the file only, and
no claim of more data than there are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hpcflow.storage.checkpoint_file import Damage
from hpcflow.storage.hdf5_files import open_file
from hpcflow.storage.raw_files import require_regular

if TYPE_CHECKING:
    import h5py

_ATTRIBUTE_BYTES = 1 << 16
# The best that deflate can do is 1032 to 1.
_COMPRESSION = 1100


def open_plain(path: str) -> Any:
    """An h5py File for reading. Raises OSError, also for what is no regular file."""
    require_regular(path)
    return open_file(path, "r")


def member(group: h5py.File | h5py.Group, path: str) -> Any:
    """The group or data set of a path below a group, all of whose links are hard.

    Raises Damage for other links, KeyError where there is none.
    """
    from h5py import h5l

    found = group
    for name in path.encode().split(b"/"):
        if not hasattr(found, "keys"):
            raise Damage("a group is no group")
        if name in (b"", b"."):
            continue
        if found.id.links.get_info(name).type != h5l.TYPE_HARD:
            raise Damage("a link leads elsewhere")
        found = found[name]
    return found


def dataset(group: h5py.File | h5py.Group, path: str) -> Any:
    """A data set whose data lie in the file, as `member` finds it."""
    from h5py import Dataset, h5d

    found = member(group, path)
    if not isinstance(found, Dataset):
        raise Damage("a data set is none")
    plan = found.id.get_create_plist()
    if plan.get_layout() == h5d.VIRTUAL or plan.get_external_count():
        raise Damage("the values of a data set lie in another file")
    if stored_bytes(found) > found.id.get_storage_size() * _COMPRESSION:
        raise Damage("a data set claims more values than it holds")
    return found


def stored_bytes(found: h5py.Dataset) -> int:
    """The bytes that the elements of a data set take in the file."""
    return int(found.id.get_type().get_size()) * int(found.size or 0)


def place(found: h5py.Dataset, file_size: int) -> int:
    """The first byte of a data set that lies in one piece in a file of this size.

    Raises Damage for one that is compressed, cut in chunks, or not all inside of the file.
    """
    from h5py import h5d

    plan, size = found.id.get_create_plist(), stored_bytes(found)
    if plan.get_layout() != h5d.CONTIGUOUS or plan.get_nfilters():
        raise Damage("a data set is not stored as it is")
    if not size:
        return 0
    offset = found.id.get_offset()
    if offset is None or found.id.get_storage_size() != size or offset + size > file_size:
        raise Damage("a data set does not lie inside of the file")
    return int(offset)


def attribute(holder: h5py.File | h5py.Dataset, name: str) -> Any:
    """A small attribute of fixed size. Raises Damage for another, KeyError where there is none."""
    from h5py import h5t

    found = holder.attrs.get_id(name)
    kind = found.get_type()
    variable = isinstance(kind, h5t.TypeStringID) and kind.is_variable_str()
    if found.get_storage_size() > _ATTRIBUTE_BYTES or variable or kind.detect_class(h5t.VLEN):
        raise Damage(f"the attribute '{name}' is no small value")
    return holder.attrs[name]
