"""HDF5 files of the variables of layers, in the layout that models of 1.x have.

The group of the variables (or the file itself) has the attribute ``layer_names``, and a group for
each layer with the attribute ``weight_names``, names of datasets below it. A file of a whole model
has texts as attributes, and the values of its optimizer in the group ``optimizer_weights``.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from hpcflow.errors import DataLossError
from hpcflow.storage import plain_hdf5
from hpcflow.storage.hdf5_files import open_file
from hpcflow.storage.whole_files import write_atomically

if TYPE_CHECKING:
    import h5py

Named = Sequence[tuple[str, np.ndarray]]
_OPTIMIZER = "optimizer_weights"
_LIMIT = 64000  # bytes of an attribute


class _Damaged(DataLossError, OSError):
    """The error of a file that is damaged or no HDF5 file: for Keras, an ``OSError``."""


@contextmanager
def _opened(path: str) -> Iterator[h5py.File]:
    """The file of a path. Raises OSError, and DataLossError for whatever HDF5 finds wrong in it."""
    try:
        with plain_hdf5.open_plain(path) as file:
            yield file
    except (LookupError, RuntimeError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise _Damaged(None, None, f"file '{path}' is damaged: {error}") from error


def write(path: str, layers: Sequence[tuple[str, Named]], texts: dict[str, str] | None = None,
          optimizer: Named | None = None, group: str | None = None) -> None:
    """Write variables by layers, below `group` if given; the file appears when it is complete.

    It is made in memory: HDF5 does not recover from a disk that is full, nor always say so. Raises
    the OpError of what the file system reports.
    """
    image = io.BytesIO()
    with open_file(image, "w") as file:
        for key, text in (texts or {}).items():
            file.attrs[key] = np.bytes_(text.encode())
        top = file.create_group(group) if group else file
        for place in (file, top):  # both, as 1.x does
            place.attrs["backend"], place.attrs["keras_version"] = b"tensorflow", b"2.2.4-tf"
        _put_names(top, "layer_names", [name for name, _ in layers])
        for name, values in layers:
            _put(top.create_group(name), values)
        if optimizer is not None:
            _put(file.create_group(_OPTIMIZER), optimizer)
    write_atomically(path, image.getbuffer())


def _put(group: h5py.Group, values: Named) -> None:
    _put_names(group, "weight_names", [name for name, _ in values])
    for name, value in values:
        group.create_dataset(name, data=value)


def _put_names(group: h5py.File | h5py.Group, key: str, names: list[str]) -> None:
    """Names as an attribute, or several where they are too long for one."""
    data = [n.encode() for n in names]
    width = max(map(len, data), default=1)
    count = max(1, _LIMIT // max(width, 1))
    if len(data) <= count:
        group.attrs[key] = np.array(data, f"S{max(width, 1)}")
        return
    for number, start in enumerate(range(0, len(data), count)):
        group.attrs[f"{key}{number}"] = np.array(data[start:start + count], f"S{width}")


def _names(group: h5py.File | h5py.Group, key: str) -> list[str]:
    keys = [key] if key in group.attrs else []
    while key not in keys and f"{key}{len(keys)}" in group.attrs:
        keys.append(f"{key}{len(keys)}")
    return [n.decode() if isinstance(n, bytes) else str(n) for k in keys for n in group.attrs[k]]


def _values(group: h5py.Group) -> list[tuple[str, np.ndarray]]:
    return [(name, np.asarray(plain_hdf5.dataset(group, name)))
            for name in _names(group, "weight_names")]


def read(path: str, group: str | None = None) -> list[tuple[str, list[tuple[str, np.ndarray]]]]:
    """Return the variables by layers; those of a model's file too, without naming the group.

    Raises ValueError where values are not in the file itself, DataLossError for a damaged file.
    """
    with _opened(path) as file:
        if group is None and "layer_names" not in file.attrs and "model_weights" in file:
            group = "model_weights"
        top = plain_hdf5.member(file, group) if group else file
        names = _names(top, "layer_names")
        return [(name, _values(plain_hdf5.member(top, name))) for name in names]


def texts(path: str) -> dict[str, str]:
    """Return the attributes of a file that are texts."""
    with _opened(path) as file:
        found = {k: v for k, v in file.attrs.items() if isinstance(v, (bytes, str))}
        return {k: v.decode() if isinstance(v, bytes) else v for k, v in found.items()}


def optimizer_values(path: str) -> list[np.ndarray] | None:
    """Return the values of the optimizer, or None where the file has none."""
    with _opened(path) as file:
        if _OPTIMIZER not in file:
            return None
        return [v for _, v in _values(plain_hdf5.member(file, _OPTIMIZER))]


def is_layer_file(path: str) -> bool:
    """True if there is an HDF5 file of layers at `path`."""
    try:
        with _opened(path) as file:
            return "layer_names" in file.attrs or "model_weights" in file
    except OSError:
        return False
