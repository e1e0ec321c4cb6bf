"""Formats of the fuzzer (`fuzz.py`): HDF5 checkpoints, tensor bundles and checkpoints of the first
form. Bytes are damaged, and also what the checksums cover, with checksums that fit."""

from __future__ import annotations

import json
import random
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from faults.damage import BIG, Case, damaged_bytes

from hpcflow.storage.crc32c import masked_crc32c
from hpcflow.storage.sorted_table import FOOTER_BYTES, MAGIC, read_table
from hpcflow.storage.table_writing import encode_table
from hpcflow.storage.varints import write_varint

DATA = Path(__file__).parents[1] / "data" / "checkpoints"


def read_all(hf: Any, prefix: Path) -> str:
    """Read every variable as programs do."""
    reader = hf.train.NewCheckpointReader(str(prefix))
    shapes = reader.get_variable_to_shape_map()
    for name in shapes:
        reader.get_tensor(name)
    return "read" if shapes else "empty"


def _written(hf: Any, prefix: Path) -> None:
    with hf.Graph().as_default():
        hf.Variable(np.arange(12, dtype=np.float32).reshape(3, 4), name="w")
        hf.Variable(np.array([b"a", b"text", b""], object), name="text")
        hf.Variable(np.array([b"\0" * 3000, b"text"], object), name="long")
        hf.Variable(np.ones(5000), name="large")
        hf.Variable(np.array([1j], np.complex64), name="z")
        hf.Variable(True, name="flag")
        hf.get_variable("p", [6, 2], partitioner=hf.fixed_size_partitioner(3))
        with hf.Session() as session:
            session.run(hf.global_variables_initializer())
            hf.train.Saver().save(session, str(prefix), write_meta_graph=False)


# ---------------------------------------------------------------- HDF5


def prepare_hdf5(hf: Any, folder: Path) -> Case:
    """Cases of HDF5 checkpoints of both versions of the format."""
    _written(hf, folder / "new")
    contents = [(folder / "new.h5").read_bytes(), (DATA / "version1.h5").read_bytes()]
    path = folder / "m.h5"

    def case(rng: random.Random) -> str:
        content = rng.choice(contents)
        how = rng.randrange(3)
        path.write_bytes(damaged_bytes(rng, content) if how == 0 else content)
        if how:
            _change_file(rng, path, (_change_index, _change_object)[how - 1])
        return read_all(hf, folder / "m")

    return case


def _change_file(rng: random.Random, path: Path, change: Callable[..., None]) -> None:
    import h5py

    with h5py.File(path, "r+") as file:
        change(rng, file)


def _change_index(rng: random.Random, file: Any) -> None:
    """Change what the index says, or its bytes; the checksum fits."""
    content = file["index"][...].tobytes()
    if rng.random() < 0.3:
        content = damaged_bytes(rng, content)
    else:
        index = json.loads(content)
        for _ in range(rng.choice((1, 1, 2))):
            _change_json(rng, index)
        content = json.dumps(index).encode()
    del file["index"]
    file["index"] = np.frombuffer(content, np.uint8)
    file["index"].attrs["crc32"] = np.uint32(zlib.crc32(content))


def _change_json(rng: random.Random, value: Any) -> None:
    """Change something inside of a list or dictionary."""
    if not value:
        return
    keys = list(value) if isinstance(value, dict) else range(len(value))
    key = rng.choice(keys)
    if isinstance(value[key], list | dict) and value[key] and rng.random() < 0.85:
        _change_json(rng, value[key])
    elif rng.random() < 0.2:
        del value[key]
    else:
        value[key] = rng.choice((*BIG, "float32", "string", "complex64", "", None, [], {}, 0.5,
                                 [1 << 40], True, 1 << 70, -1, "float32_ref"))


def _change_object(rng: random.Random, file: Any) -> None:
    """Put something else in the place of an object or an attribute of the file."""
    import h5py

    names: list[str] = []
    file.visit(names.append)
    name = rng.choice([n for n in names if n in file] or ["index"])
    how = rng.randrange(10)
    if how < 2:
        holder = file if rng.random() < 0.5 else file[name]
        keys = sorted(holder.attrs) or ["format"]
        holder.attrs[rng.choice(keys)] = rng.choice((
            -1, 1 << 62, "text", b"hpcflow checkpoint", [1, 2], 0.5, np.void(b"x"), ""))
        return
    old = file[name]
    shape = getattr(old, "shape", (3,))
    del file[name]
    if how == 2:
        file[name] = h5py.SoftLink(rng.choice(("/", "/index", "/nowhere", f"/{name}")))
    elif how == 3:
        file[name] = h5py.ExternalLink("/etc/passwd", "/")
    elif how == 4:
        file.create_group(name)
    elif how == 5:
        file.create_dataset(name, data=rng.choice((1, "text", [b"a"], [[1.0]], np.zeros((2, 2)))))
    elif how == 6:
        file.create_dataset(name, (rng.choice((3, 1 << 20, 1 << 40)),), rng.choice(("f4", "u1")),
                            chunks=True, compression="gzip")
    elif how == 7:
        file.create_dataset(name, (2,), h5py.string_dtype())
    elif how == 8:
        file.create_dataset(name, shape or (1,), h5py.ref_dtype)
    else:
        file.create_dataset(name, shape or (1,), [("r", "f4"), ("i", "f4"), ("j", "f8")])


# ---------------------------------------------------------------- sorted tables


def _change_table(rng: random.Random, content: bytes) -> bytes:
    """The table of other entries, or of other blocks; its checksums fit."""
    how = rng.randrange(4)
    if how == 0:
        return damaged_bytes(rng, content)
    entries = dict(read_table(content))
    if how == 1:
        return _of_a_block(damaged_bytes(rng, _block(sorted(entries.items()))), rng.choice((0, 1)))
    for _ in range(rng.choice((1, 1, 2))):
        key = rng.choice(sorted(entries))
        if rng.random() < 0.15:
            entries[damaged_bytes(rng, key)] = entries.pop(key)
        else:
            entries[key] = damaged_bytes(rng, entries[key])
    return encode_table(sorted(entries.items()))


def _block(entries: list[tuple[bytes, bytes]]) -> bytes:
    parts = [write_varint(0) + write_varint(len(key)) + write_varint(len(value)) + key + value
             for key, value in entries]
    return b"".join(parts) + bytes(4) + (1).to_bytes(4, "little")


def _of_a_block(block: bytes, compression: int) -> bytes:
    """A table of one block, whatever is in it."""
    if compression:
        block = write_varint(len(block)) + b"".join([
            bytes([(len(block[at:at + 60]) - 1) << 2]) + block[at:at + 60]
            for at in range(0, len(block), 60)])
    table, handles = bytearray(), list[bytes]()
    for kind in (compression, 0):
        content = _block([(b"\xff", handles[0])]) if handles else block
        handles.append(write_varint(len(table)) + write_varint(len(content)))
        content += bytes([kind])
        table += content + masked_crc32c(content).to_bytes(4, "little")
    footer = (write_varint(0) * 2 + handles[1]).ljust(FOOTER_BYTES - 8, b"\0")
    return bytes(table) + footer + MAGIC.to_bytes(8, "little")


def prepare_bundle(hf: Any, folder: Path) -> Case:
    """Cases of tensor bundles."""
    from hpcflow import storage
    from hpcflow.storage.converting import write_bundle

    _written(hf, folder / "new")
    with storage.open_checkpoint(str(folder / "new")) as source:
        write_bundle(str(folder / "converted"), source)
    sources = [folder / "converted", DATA / "bundle"]
    ends = (".index", ".data-00000-of-00001")

    def case(rng: random.Random) -> str:
        source = rng.choice(sources)
        for end in ends:
            shutil.copy(f"{source}{end}", folder / f"m{end}")
        if rng.random() < 0.15:
            values = folder / f"m{ends[1]}"
            values.write_bytes(damaged_bytes(rng, values.read_bytes()))
        else:
            index = folder / f"m{ends[0]}"
            index.write_bytes(_change_table(rng, index.read_bytes()))
        return read_all(hf, folder / "m")

    return case


def prepare_v1(hf: Any, folder: Path) -> Case:
    """Cases of checkpoints of the first form."""
    content = (DATA / "first").read_bytes()

    def case(rng: random.Random) -> str:
        (folder / "m").write_bytes(_change_table(rng, content))
        return read_all(hf, folder / "m")

    return case


FORMATS = {"hdf5": prepare_hdf5, "bundle": prepare_bundle, "v1": prepare_v1}
