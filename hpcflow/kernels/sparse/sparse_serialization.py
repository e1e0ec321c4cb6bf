"""Kernels that turn sparse tensors into strings, and keep them for later steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.base.formats.array_protos import make_ndarray
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown
from hpcflow.kernels.sparse.sparse_places import check_parts, check_sparse
from hpcflow.resources.tensors_map import TensorsMap

# ---------------------------------------------------------------- strings


def _encoder(node: KernelNode) -> Callable[[Any], Any]:
    """The function that makes strings of arrays; variants keep copies of the arrays."""
    return np.copy if node.attr("out_type") is dtypes.variant else tensor_encoder()


def tensor_encoder() -> Callable[[Any], bytes]:
    """The function that turns arrays into serialized ``TensorProto`` messages."""
    from tensorboard.compat.proto.tensor_pb2 import TensorProto

    def encode(array: Any) -> bytes:
        array = np.asarray(array)
        kind = dtypes.string if array.dtype == object else dtypes.as_dtype(array.dtype)
        proto = TensorProto(dtype=kind.as_datatype_enum)
        for size in array.shape:
            proto.tensor_shape.dim.add(size=size)
        if kind is dtypes.string:
            proto.string_val.extend(array.reshape(-1).tolist())
        else:
            proto.tensor_content = array.tobytes()
        return proto.SerializeToString()

    return encode


def _strings(rows: list) -> Any:
    out = np.empty((len(rows), 3), object)
    for i, row in enumerate(rows):
        for j, part in enumerate(row):
            out[i, j] = part
    return out


@kernel("SerializeSparse", device="CPU", fresh=True)
def _serialize(node: KernelNode) -> Callable:
    encode = _encoder(node)

    def run(indices: Any, values: Any, shape: Any) -> Any:
        check_parts(indices, values, shape, "sparse_")
        return _strings([[encode(indices), encode(values), encode(shape)]])[0]

    return run


@kernel("SerializeManySparse", device="CPU", fresh=True)
def _serialize_many(node: KernelNode) -> Callable:
    encode = _encoder(node)

    def run(indices: Any, values: Any, shape: Any) -> Any:
        rest = encode(shape[1:])
        return _strings([[encode(i), encode(v), rest] for i, v in _rows(indices, values, shape)])

    return run


def _rows(indices: Any, values: Any, shape: Any) -> list[tuple]:
    """(indices, values) of each row of the sparse tensor."""
    check_sparse(indices, values, shape, "sparse_")
    if len(shape) < 2:
        raise invalid(f"the rank of the sparse tensors must be at least 2, but is {len(shape)}")
    rows = indices[:, 0]
    if (rows[1:] < rows[:-1]).any():
        order = np.argsort(rows, kind="stable")
        indices, values, rows = indices[order], values[order], rows[order]
    cuts = np.cumsum(np.bincount(rows, minlength=int(shape[0])))[:-1]
    if not shape[0]:
        return []
    return list(zip(np.split(indices[:, 1:], cuts), np.split(values, cuts)))


def _row_decoder(node: KernelNode) -> Callable[[Any], list[tuple]]:
    """The function that turns a matrix of strings into (indices, values, shape) of each row."""
    from google.protobuf.message import DecodeError
    from tensorboard.compat.proto.tensor_pb2 import TensorProto

    expected = node.attr("dtype").np

    def parsed(text: bytes) -> Any:
        proto = TensorProto()
        proto.ParseFromString(text)
        return make_ndarray(proto)

    def decode(text: Any, dtype: Any, what: str, row: int) -> Any:
        try:
            array = text if isinstance(text, np.ndarray) else parsed(text)
        except (DecodeError, TypeError, ValueError) as e:
            raise invalid(f"Could not parse serialized proto of the {what} in row {row}: {e}"
                          ) from None
        if array.dtype != dtype:
            raise invalid(f"Requested SparseTensor of type {np.dtype(dtype)} but SparseTensor"
                          f"[{row}].{what}.dtype() == {array.dtype}")
        return array

    def rows_of(table: Any) -> list[tuple]:
        return [(decode(indices, np.int64, "indices", i), decode(values, expected, "values", i),
                 decode(shape, np.int64, "shape", i))
                for i, (indices, values, shape) in enumerate(table)]

    return rows_of


@kernel("DeserializeManySparse", device="CPU", fresh=True)
def _deserialize_many(node: KernelNode) -> Callable:
    decode, expected = _row_decoder(node), node.attr("dtype").np

    def run(table: Any) -> tuple:
        if table.ndim != 2 or table.shape[1] != 3:
            raise invalid("serialized_sparse must be a matrix of 3 columns, but has shape "
                          f"{shown(table)}")
        return _stacked(decode(table), expected)

    return run


@kernel("DeserializeSparse", device="CPU", fresh=True)
def _deserialize(node: KernelNode) -> Callable:
    decode, expected = _row_decoder(node), node.attr("dtype").np

    def run(table: Any) -> tuple:
        table = np.asarray(table, object)
        if not table.ndim or table.shape[-1] != 3:
            raise invalid("Serialized sparse should have 3 as the last dimension, but has shape "
                          f"{shown(table)}")
        outer = table.shape[:-1]
        rows = decode(table.reshape(-1, 3))
        if not outer:
            indices, values, shape = rows[0]
            check_parts(indices, values, shape, "sparse tensor: ")
            return rows[0]
        if not rows:
            raise invalid("Must have at least 1 serialized SparseTensor, but input shape is "
                          f"{shown(table)}")
        indices, values, shape = _stacked(rows, expected)
        places = np.stack(np.unravel_index(indices[:, 0], outer), axis=1)
        return (np.concatenate([places, indices[:, 1:]], axis=1), values,
                np.concatenate([np.array(outer, np.int64), shape[1:]]))

    return run


def _stacked(rows: list[tuple], dtype: Any, kept: bool = False) -> tuple:
    """The sparse tensors as one, with a new first dimension; the others as large as the largest.

    Messages about tensors that were `kept` count the new dimension.
    """
    if not rows:
        return (np.zeros((0, 0), np.int64), np.zeros(0, dtype), np.zeros(1, np.int64))
    for i, (indices, values, shape) in enumerate(rows):
        check_parts(indices, values, shape, f"sparse tensor {i}: ")
        if len(shape) != len(rows[0][2]):
            raise invalid(f"Inconsistent {'rank' if kept else 'shape'} across SparseTensors: rank "
                          f"prior to SparseTensor[{i}] was: {len(rows[0][2]) + kept} but rank of "
                          f"SparseTensor[{i}] is: {len(shape) + kept}")
    counts = [len(values) for _, values, _ in rows]
    first = np.repeat(np.arange(len(rows), dtype=np.int64), counts)
    indices = np.concatenate([first[:, None], np.concatenate([r[0] for r in rows])], axis=1)
    shape = np.concatenate([[len(rows)], np.max([r[2] for r in rows], axis=0)])
    return indices, np.concatenate([r[1] for r in rows]), shape.astype(np.int64)


# ---------------------------------------------------------------- kept by the task


def _store(node: KernelNode, own_name: bool) -> TensorsMap:
    name = (node.attr("shared_name") or b"").decode() or (node.name if own_name else "")
    if not name:
        raise invalid("shared_name must be the name of the op that stored the sparse tensors")
    container = (node.attr("container") or b"").decode()
    return node.resources.lookup_or_create(container, "tensors_map", name,
                                           lambda: TensorsMap(name))


@kernel("AddSparseToTensorsMap", device="CPU", fresh=True)
def _add(node: KernelNode) -> Callable:
    def run(indices: Any, values: Any, shape: Any) -> Any:
        check_parts(indices, values, shape, "sparse_")
        parts = (indices.copy(), values.copy(), shape.copy())
        return np.int64(_store(node, True).add([parts])[0])

    return run


@kernel("AddManySparseToTensorsMap", device="CPU", fresh=True)
def _add_many(node: KernelNode) -> Callable:
    def run(indices: Any, values: Any, shape: Any) -> Any:
        rest = shape[1:].copy()
        rows = [(i.copy(), v.copy(), rest) for i, v in _rows(indices, values, shape)]
        return np.array(_store(node, True).add(rows), np.int64)

    return run


@kernel("TakeManySparseFromTensorsMap", device="CPU", fresh=True)
def _take_many(node: KernelNode) -> Callable:
    expected = node.attr("dtype").np

    def run(handles: Any) -> tuple:
        if handles.ndim != 1:
            raise invalid(f"sparse_handles must be a vector, but have shape {shown(handles)}")
        rows = _store(node, False).take(handles.tolist())
        for _, values, _ in rows:
            if values.dtype != expected:
                raise invalid(f"the values stored are {values.dtype}, requested was {expected}")
        return _stacked(rows, expected, kept=True)

    return run
