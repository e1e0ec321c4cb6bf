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
    found = group
    for name in path.encode().split(b"/"):
        if not hasattr(found, "keys"):
            raise Damage("a group is no group")
        if name in (b"", b"."):
            continue
        _check_hard(found.id, name)
        found = found[name]
    return found


def dataset(group: h5py.File | h5py.Group, path: str) -> Any:
    """A data set whose data lie in the file, as `member` finds it."""
    from h5py import Dataset

    found = member(group, path)
    if not isinstance(found, Dataset):
        raise Damage("a data set is none")
    _check_inside(found.id, found.id.get_create_plist(), stored_bytes(found.id))
    return found


def dataset_id(group: h5py.h5g.GroupID, link: str) -> Any:
    """The identifier of a data set in a group, of which `place` says if its data lie in the file.
    """
    from h5py import h5d, h5o

    name = link.encode()
    _check_hard(group, name)
    found = h5o.open(group, name)
    if not isinstance(found, h5d.DatasetID):
        raise Damage("a data set is none")
    return found


def _check_hard(group: h5py.h5g.GroupID, name: bytes) -> None:
    from h5py import h5l

    if group.links.get_info(name).type != h5l.TYPE_HARD:
        raise Damage("a link leads elsewhere")


def _check_inside(found: h5py.h5d.DatasetID, plan: h5py.h5p.PropDCID, size: int) -> None:
    """Raise Damage for a data set of so many bytes, made by this plan, whose data lie in another
    file, or are fewer than it says."""
    from h5py import h5d

    if plan.get_layout() == h5d.VIRTUAL or plan.get_external_count():
        raise Damage("the values of a data set lie in another file")
    if size > found.get_storage_size() * _COMPRESSION:
        raise Damage("a data set claims more values than it holds")


def stored_bytes(found: h5py.h5d.DatasetID) -> int:
    """The bytes that the elements of a data set take in the file."""
    return int(found.get_type().get_size() * found.get_space().get_simple_extent_npoints())


def place(found: h5py.h5d.DatasetID, file_size: int) -> int:
    """The first byte of a data set that lies in one piece in a file of this size.

    Raises Damage for one that is compressed, cut in chunks, or not all inside of the file.
    """
    from h5py import h5d

    plan, size = found.get_create_plist(), stored_bytes(found)
    _check_inside(found, plan, size)
    if plan.get_layout() != h5d.CONTIGUOUS or plan.get_nfilters():
        raise Damage("a data set is not stored as it is")
    if not size:
        return 0
    offset = found.get_offset()
    if offset is None or found.get_storage_size() != size or offset + size > file_size:
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
