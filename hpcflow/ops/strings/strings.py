"""Op types on strings: join, split, cut, hash, convert to and from numbers and base64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hpcflow import dtypes
from hpcflow.base.keywords import also_called
from hpcflow.dtypes import DTypeLike
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import AxisLike, TensorLike
from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import (
    broadcast_dims,
    constant_value,
    merge_dims,
    show,
    unchanged,
    with_rank,
    with_rank_at_least,
)
from hpcflow.graph.sparse_tensor import SparseTensor

__all__ = [
    "as_string",
    "decode_base64",
    "encode_base64",
    "fingerprint",
    "reduce_join",
    "string_join",
    "string_split",
    "string_to_hash_bucket",
    "string_to_hash_bucket_fast",
    "string_to_hash_bucket_strong",
    "string_to_number",
    "substr",
]


def _join_shape(op: Operation) -> list[Dims]:
    """Scalars go with every shape; all others must agree."""
    dims: Dims = ()
    for tensor in op.inputs:
        if tensor._dims is None:
            return [None]
        if tensor._dims:
            dims = merge_dims(dims, tensor._dims) if dims else tensor._dims
    return [dims]


def _split_shape(op: Operation) -> list[Dims]:
    with_rank(op.input_dims(0), 1, "The input")
    with_rank(op.input_dims(1), 0, "The delimiter")
    return [(None, 2), (None,), (2,)]


def _substr_shape(op: Operation) -> list[Dims]:
    positions = op.input_dims(1)
    lengths = op.input_dims(2)
    if positions is not None and lengths is not None:
        positions = merge_dims(positions, lengths)
    return [broadcast_dims(op.input_dims(0), positions)]


def _reduce_join_shape(op: Operation) -> list[Dims]:
    axes = op.input_dims(1)
    if axes is not None and len(axes) > 1:
        raise ValueError(f"The reduction indices must be a scalar or a vector, got {show(axes)}")
    dims, value = op.input_dims(0), constant_value(op.inputs[1])
    if dims is None or value is None:
        return [None]
    reduced = set()
    for axis in value.reshape(-1).tolist():
        if not -len(dims) <= axis < len(dims):
            raise ValueError(f"Invalid reduction dimension {axis} for input with {len(dims)} "
                             "dimensions.")
        reduced.add(axis % len(dims))
    if op.attr("keep_dims"):
        return [tuple([1 if i in reduced else d for i, d in enumerate(dims)])]
    return [tuple([d for i, d in enumerate(dims) if i not in reduced])]


register_op("StringJoin", "inputs: N * string", "output: string",
            'N: int >= 1; separator: string = ""', shape=_join_shape)
register_op("StaticRegexFullMatch", "input: string", "output: bool", "pattern: string",
            shape=unchanged)
register_op("AsString", "input: T", "output: string",
            "T: {int8, int16, int32, int64, uint8, uint16, half, float, double, complex64, "
            "complex128, bool}; precision: int = -1; "
            "scientific: bool = false; shortest: bool = false; width: int = -1; "
            "fill: string = ''", shape=unchanged)
register_op("StringToNumber", "string_tensor: string", "output: out_type",
            "out_type: {float, double, int32, int64} = float", shape=unchanged)
# skip_empty came after 1.0; graphs of later versions have it.
register_op("StringSplit", "input: string; delimiter: string",
            "indices: int64; values: string; shape: int64", "skip_empty: bool = true",
            shape=_split_shape)
register_op("Substr", "input: string; pos: T; len: T", "output: string",
            "T: {int32, int64}; unit: {'BYTE', 'UTF8_CHAR'} = 'BYTE'", shape=_substr_shape)
register_op("ReduceJoin", "inputs: string; reduction_indices: int32", "output: string",
            "keep_dims: bool = false; separator: string = ''", shape=_reduce_join_shape)
register_op("EncodeBase64", "input: string", "output: string", "pad: bool = false",
            shape=unchanged)
register_op("DecodeBase64", "input: string", "output: string", shape=unchanged)
register_op("StringToHashBucket", "string_tensor: string", "output: int64",
            "num_buckets: int >= 1", shape=unchanged)
register_op("StringToHashBucketFast", "input: string", "output: int64", "num_buckets: int >= 1",
            shape=unchanged)
register_op("StringToHashBucketStrong", "input: string", "output: int64",
            "num_buckets: int >= 1; key: list(int)", shape=unchanged)
not_differentiable(
    "StringJoin", "StaticRegexFullMatch", "AsString", "StringToNumber", "StringSplit", "Substr",
    "ReduceJoin", "EncodeBase64", "DecodeBase64", "StringToHashBucket", "StringToHashBucketFast",
    "StringToHashBucketStrong")


def string_join(inputs: TensorLike, separator: str | None = None,
                name: str | None = None) -> Tensor:
    """Join strings element by element: ``output[i] = inputs[0][i] + separator + inputs[1][i] ...``.

    `inputs` is a list of string tensors of one shape, or scalars, which go with every element.
    Raises (when run) ``InvalidArgumentError`` for shapes that differ.
    """
    return raw_ops.StringJoin(inputs, separator=separator, name=name)


@also_called(keepdims="keep_dims")
def reduce_join(inputs: TensorLike, axis: TensorLike | None = None, keep_dims: bool = False,
                separator: str = "", name: str | None = None,
                reduction_indices: AxisLike | None = None) -> Tensor:
    """Join the strings of a tensor along dimensions, with `separator` between them.

    Args:
        inputs: strings of any shape.
        axis: the dimensions to join, the first one first: ``[0, 1]`` joins columns, then what they
            gave; None for all, the last one first. Negative ones count from the end.
        keep_dims: keep the joined dimensions, with size 1.
        separator: between every two strings.
        name: name of the op.
        reduction_indices: the old name of `axis`.

    Raises ``ValueError`` for dimensions that `inputs` do not have (``OutOfRangeError`` when run),
    when run ``InvalidArgumentError`` for one given twice.
    """
    if reduction_indices is not None:
        if axis is not None:
            raise ValueError("Can't specify both 'axis' and 'reduction_indices'.")
        axis = reduction_indices
    inputs = convert_to_tensor(inputs, dtypes.string)
    if axis is None:
        axis = _all_axes(inputs)
    return raw_ops.ReduceJoin(inputs, convert_to_tensor(axis, dtypes.int32), keep_dims=keep_dims,
                              separator=separator, name=name)


def _all_axes(inputs: Tensor) -> Any:
    rank = inputs.get_shape().ndims
    if rank is not None:
        return list(range(rank - 1, -1, -1))
    return raw_ops.Range(raw_ops.Rank(inputs) - 1, -1, -1)


@also_called(sep="delimiter")
def string_split(source: TensorLike, delimiter: str = " ", skip_empty: bool = True,
                 name: str | None = None) -> SparseTensor:
    """Split each string of the vector `source`; the parts are a ``SparseTensor``.

    Part `j` of string `i` is at ``[i, j]``. Every byte of `delimiter` separates; an empty one
    splits into bytes. Empty parts are left out if `skip_empty`.
    """
    return SparseTensor(*raw_ops.StringSplit(source, delimiter, skip_empty=skip_empty, name=name))


def substr(input: TensorLike, pos: TensorLike, len: TensorLike, name: str | None = None,
           unit: str = "BYTE") -> Tensor:
    """Return `len` bytes of each string from byte `pos` on (fewer where the string ends).

    With the `unit` "UTF8_CHAR" positions and lengths count characters instead of bytes.

    `pos` and `len` have one shape (int32 or int64), which is broadcast with that of `input`. A
    negative position counts from the end.
    Raises (when run) ``InvalidArgumentError`` for a position outside of its string.
    """
    return raw_ops.Substr(input, pos, len, unit=unit, name=name)


def as_string(input: TensorLike, precision: int | None = None, scientific: bool | None = None,
              shortest: bool | None = None, width: int | None = None, fill: str | None = None,
              name: str | None = None) -> Tensor:
    """Return each number (or bool) of `input` as a string, as ``printf`` writes it.

    Args:
        input: int8, int32, int64, float32, float64, complex64 or bool.
        precision: digits after the point; 6 by default. Not for integers and bools.
        scientific: with an exponent (``%e``).
        shortest: the shorter of both (``%g``).
        width: pad to at least so many characters.
        fill: one of ``0``, ``-``, ``+`` and space: how to pad, or what to put for a plus.
        name: name of the op.

    Raises (when run) ``InvalidArgumentError`` for options that do not go together.
    """
    return raw_ops.AsString(input, precision=precision, scientific=scientific, shortest=shortest,
                            width=width, fill=fill, name=name)


@also_called(input="string_tensor")
def string_to_number(string_tensor: TensorLike, out_type: DTypeLike | None = None,
                     name: str | None = None) -> Tensor:
    """Return the number that each string spells, of `out_type` (float32 by default).

    White space around a number does not count. Raises (when run) ``InvalidArgumentError`` for what
    is no number, or none of that type.
    """
    return raw_ops.StringToNumber(string_tensor, out_type=out_type, name=name)


def encode_base64(input: TensorLike, pad: bool | None = None, name: str | None = None) -> Tensor:
    """Return each string in web-safe base64 (``-`` and ``_``), with ``=`` at the end if `pad`."""
    return raw_ops.EncodeBase64(input, pad=pad, name=name)


def decode_base64(input: TensorLike, name: str | None = None) -> Tensor:
    """Decode strings in web-safe base64, padded or not.

    Raises (when run) ``InvalidArgumentError`` for other characters or an impossible length.
    """
    return raw_ops.DecodeBase64(input, name=name)


def string_to_hash_bucket_fast(input: Any, num_buckets: int, name: str | None = None) -> Tensor:
    """Return the hash of each string modulo `num_buckets`, int64: FarmHash's Fingerprint64.

    The hash never changes, but whoever knows it can find strings for one bucket.
    """
    return raw_ops.StringToHashBucketFast(input, num_buckets=num_buckets, name=name)


def string_to_hash_bucket_strong(input: TensorLike, num_buckets: int, key: Sequence[int],
                                 name: str | None = None) -> Tensor:
    """Return the SipHash of each string under `key` (two integers), modulo `num_buckets`, int64.

    Without the key nobody can find strings for one bucket.
    Raises (when run) ``InvalidArgumentError`` unless `key` has two elements.
    """
    return raw_ops.StringToHashBucketStrong(input, num_buckets=num_buckets, key=key, name=name)


@also_called(input="string_tensor")
def string_to_hash_bucket(string_tensor: TensorLike, num_buckets: int,
                          name: str | None = None) -> Tensor:
    """Return a hash of each string modulo `num_buckets`, int64 (the buckets of 1.x programs).

    New programs take :func:`string_to_hash_bucket_fast` or :func:`string_to_hash_bucket_strong`.
    """
    return raw_ops.StringToHashBucket(string_tensor, num_buckets=num_buckets, name=name)


def _fingerprint_shape(op: Operation) -> list[Dims]:
    dims = with_rank_at_least(op.input_dims(0), 1, "data")
    return [(None if dims is None else dims[0], 8)]


register_op("Fingerprint", "data: T; method: string", "fingerprint: uint8", "T: type",
            shape=_fingerprint_shape)
not_differentiable("Fingerprint")


def fingerprint(data: TensorLike, method: str = "farmhash64", name: str | None = None) -> Tensor:
    """Return the fingerprint of each element along the first dimension: ``[count, 8]``, uint8.

    `method` may be ``"farmhash64"``.
    """
    return raw_ops.Fingerprint(data, method, name=name)
