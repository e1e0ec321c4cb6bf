"""Arrays in files: lists of arrays of every dtype, strings too, as .npz without pickle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

# Dtypes that .npz does not know, and what their elements are stored as.
STORED_AS = {"bfloat16": np.uint16}


def named(dtype: str) -> np.dtype:
    """The NumPy dtype of a name; strings are objects."""
    if dtype == "string":
        return np.dtype(object)
    return np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)


def name_of(array: np.ndarray) -> str:
    """The name of an array's dtype, as both libraries call it."""
    return "string" if array.dtype.kind in "OSU" else array.dtype.name


def strings(values: Any) -> np.ndarray:
    """An object array of bytes, of the shape of a nest of bytes."""
    if isinstance(values, bytes):
        boxed = np.empty((), object)
        boxed[()] = values
        return boxed
    return np.array(values, object)


def as_array(value: Any) -> np.ndarray:
    """`value` as an array; bytes and str become object arrays of bytes."""
    if isinstance(value, (bytes, str)):
        return strings(value.encode() if isinstance(value, str) else value)
    array = np.asarray(value)
    if array.dtype.kind in "SU":
        array = array.astype(object)
    return array


def save(path: Path, meta: Any, arrays: list[np.ndarray]) -> None:
    """Write `arrays`, and `meta` as JSON, into one file, under its final name when complete."""
    files: dict[str, np.ndarray] = {}
    names = []
    for index, array in enumerate(map(as_array, arrays)):
        name = name_of(array)
        names.append([name, list(array.shape)])
        if name == "string":
            items = [v if isinstance(v, bytes) else str(v).encode() for v in array.ravel().tolist()]
            files[f"l{index}"] = np.array([len(v) for v in items], np.int64)
            array = np.frombuffer(b"".join(items), np.uint8)
        elif name in STORED_AS:
            array = np.ascontiguousarray(array).reshape(-1).view(STORED_AS[name])
        files[f"a{index}"] = array
    text = json.dumps({"meta": meta, "names": names}).encode()
    partial = path.with_suffix(".partial")
    with open(partial, "wb") as file:
        np.savez(file, meta=np.frombuffer(text, np.uint8), **files)
    partial.rename(path)


def load(path: Path) -> tuple[Any, list[np.ndarray]]:
    """What :func:`save` wrote."""
    with np.load(path, allow_pickle=False) as files:
        text = json.loads(files["meta"].tobytes())
        arrays = []
        for index, (name, shape) in enumerate(text["names"]):
            array = files[f"a{index}"]
            if name == "string":
                array = _unpack(array.tobytes(), files[f"l{index}"])
            elif name in STORED_AS:
                array = array.view(named(name))
            arrays.append(array.reshape(shape))
    return text["meta"], arrays


def _unpack(data: bytes, lengths: np.ndarray) -> np.ndarray:
    ends = np.cumsum(lengths).tolist()
    result = np.empty(len(ends), object)
    for index, (end, length) in enumerate(zip(ends, lengths.tolist())):
        result[index] = data[end - length:end]
    return result
