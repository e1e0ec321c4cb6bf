"""Rearranged tensors: Transpose, Tile, Pad, MirrorPad, Reverse and ReverseSequence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.opdef import RegisterGradient, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import (
    constant_value,
    constant_value_as_dims,
    merge_dim,
    show,
    with_rank,
)
from hpcflow.ops.common.static_shape import normalize_axis, rank_of, shape_of
from hpcflow.ops.common.type_sets import INDEX

__all__ = ["matrix_transpose", "pad", "reverse", "reverse_sequence", "reverse_v2", "tile",
           "transpose"]  # fmt: skip

# ---------------------------------------------------------------- Transpose


def transpose_shape(op: Operation) -> list[Dims]:
    dims = op.input_dims(0)
    length = with_rank(op.input_dims(1), 1, "perm")[0]
    rank = len(dims) if dims is not None else length
    if rank is None:
        return [None]
    merge_dim(length, rank)
    if dims is None and rank < 2:  # a scalar may be transposed by a perm of one element, too
        return [None]
    perm = constant_value(op.inputs[1])
    if perm is None or dims is None:
        return [(None,) * rank]
    order = [normalize_axis(p, rank, "perm") for p in perm.tolist()]
    return [tuple(dims[p] for p in order)]


register_op("Transpose", "x: T; perm: Tperm", "y: T", f"T: type; Tperm: {INDEX} = int32",
            shape=transpose_shape)


@RegisterGradient("Transpose")
def _transpose_grad(op: Operation, grad: Tensor) -> list:
    perm = constant_value(op.inputs[1])
    if perm is None:
        return [raw_ops.Transpose(grad, raw_ops.InvertPermutation(op.inputs[1])), None]
    return [raw_ops.Transpose(grad, np.argsort(perm % max(perm.size, 1)).astype(np.int32)), None]


def transpose(a: TensorLike, perm: TensorLike | None = None, name: str = "transpose",
              conjugate: bool = False) -> Tensor:
    """Return `a` with its dimensions permuted: dimension i of the result is ``perm[i]`` of `a`.

    Without `perm` the order of the dimensions is reversed, which transposes a matrix. With
    `conjugate` complex elements are conjugated too.
    """
    with name_scope(name, "transpose", [a]) as scope:
        a = convert_to_tensor(a, name="x")
        return _transposed(a, _order_of(a, perm), conjugate, scope)


def _transposed(a: Tensor, perm: Tensor | np.ndarray | Sequence[int], conjugate: bool,
                name: str) -> Tensor:
    if conjugate and a.dtype.is_complex:
        return raw_ops.Conj(raw_ops.Transpose(a, perm), name=name)
    return raw_ops.Transpose(a, perm, name=name)


def _order_of(a: Tensor, perm: TensorLike | None) -> Any:
    """`perm`, or the dimensions of `a` from the last to the first."""
    if perm is not None:
        return perm
    rank = rank_of(a)
    if not isinstance(rank, Tensor):
        return np.arange(rank, dtype=np.int32)[::-1]
    return raw_ops.Range(raw_ops.Sub(rank, 1), -1, -1)


def matrix_transpose(a: TensorLike, name: str = "matrix_transpose",
                     conjugate: bool = False) -> Tensor:
    """Return `a` (rank 2 or more) with its last two dimensions exchanged.

    With `conjugate` complex numbers are conjugated. Raises ``ValueError`` for a smaller rank.
    """
    with name_scope(name, "matrix_transpose", [a]):
        a = convert_to_tensor(a, name="a")
        if a._dims is not None:
            rank = len(a._dims)
            if rank < 2:
                raise ValueError("Argument 'a' should be a (batch) matrix, with rank >= 2. Found: "
                                 f"{a.shape}")
            perm: Any = np.array([*range(rank - 2), rank - 1, rank - 2], np.int32)
        else:
            rank = raw_ops.Rank(a)
            last = raw_ops.Pack([raw_ops.Sub(rank, 1), raw_ops.Sub(rank, 2)])
            perm = raw_ops.ConcatV2([raw_ops.Range(0, raw_ops.Sub(rank, 2), 1), last], 0)
        return _transposed(a, perm, conjugate, "transpose")


# ---------------------------------------------------------------- Tile


def _tile_shape(op: Operation) -> list[Dims]:
    dims, length = op.input_dims(0), with_rank(op.input_dims(1), 1, "multiples")[0]
    rank = len(dims) if dims is not None else length
    if rank is None:
        return [None]
    merge_dim(length, rank)
    multiples = constant_value_as_dims(op.inputs[1]) or (None,) * rank
    pairs = zip(dims or (None,) * rank, multiples)
    return [tuple(None if d is None or m is None else d * m for d, m in pairs)]


def _tile_grad_shape(op: Operation) -> list[Dims]:
    dims, multiples = op.input_dims(0), constant_value(op.inputs[1])
    if dims is None or multiples is None:
        return [None if dims is None else (None,) * len(dims)]
    return [tuple(None if d is None or m == 0 else d // m
                  for d, m in zip(dims, multiples.tolist()))]


register_op("Tile", "input: T; multiples: Tmultiples", "output: T",
            f"T: type; Tmultiples: {INDEX} = int32", shape=_tile_shape)
register_op("TileGrad", "input: T; multiples: int32", "output: T", "T: type",
            shape=_tile_grad_shape, deprecated="TileGrad is the sum over the copies")


@RegisterGradient("Tile")
def _tile_grad(op: Operation, grad: Tensor) -> list:
    """Gradient of Tile: reshaped to [m0, d0, m1, d1, ...] and summed over the copies, the m."""
    x, multiples = op.inputs
    known, dims = constant_value(multiples), x._dims
    if known is not None and dims is not None and sum(d is None for d in dims) <= 1:
        copies = known.tolist()
        if all(m == 1 for m in copies):
            return [grad, None]
        split: Any = np.array([v for m, d in zip(copies, dims)
                               for v in (m, -1 if d is None else d)], np.int32)
        axes: Any = np.arange(0, 2 * len(dims), 2, dtype=np.int32)
    else:
        pairs = raw_ops.Pack([multiples, shape_of(x, multiples.dtype.base_dtype)], axis=1)
        split = raw_ops.Reshape(pairs, [-1])
        axes = raw_ops.Range(0, raw_ops.Size(split), 2)
    result = raw_ops.Sum(raw_ops.Reshape(grad, split), axes)
    result.set_shape(x.shape)
    return [result, None]


def tile(input: TensorLike, multiples: TensorLike, name: str | None = None) -> Tensor:
    """Return `input` repeated ``multiples[i]`` times along dimension i.

    Args:
        input: a tensor of rank R.
        multiples: R integers, none negative.
        name: name of the operation.
    """
    return raw_ops.Tile(input=input, multiples=multiples, name=name)


# ---------------------------------------------------------------- Pad, MirrorPad


def _padding_rows(op: Operation) -> tuple[int | None, np.ndarray | None]:
    """The rank that the paddings are made for, and their values; None for what is unknown."""
    shape = with_rank(op.input_dims(1), 2, "paddings")
    if shape[1] not in (None, 2):
        raise ValueError(f"paddings must be a matrix with 2 columns, but has shape {show(shape)}")
    value = constant_value(op.inputs[1])
    if value is not None and (value < 0).any():
        raise ValueError(f"paddings must be non-negative: {value.tolist()}")
    return shape[0], value


def _padded_shape(op: Operation, sign: int = 1) -> list[Dims]:
    rows, paddings = _padding_rows(op)
    dims = op.input_dims(0)
    rank = len(dims) if dims is not None else rows
    if rank is None:
        return [None]
    merge_dim(rows, rank)
    added = _added(op, rank) if paddings is None else paddings.sum(axis=1).tolist()
    if dims is None:
        return [(None,) * rank]
    out = tuple(None if d is None or n is None else d + sign * n for d, n in zip(dims, added))
    if any(d is not None and d < 0 for d in out):
        raise ValueError(f"paddings {added} are larger than {show(dims)}")
    return [out]


def _added(op: Operation, rank: int) -> list[int | None]:
    """Return the amount added to each dimension, None where the padding is unknown."""
    source = op.inputs[1].op
    if source.type != "Pack":
        return [None] * rank
    parts = [constant_value_as_dims(part) for part in source.inputs]
    if source.attr("axis") in (1, -1):  # what is added before, and what is added after
        parts = [None] * rank if None in parts else [*zip(*parts)]
    return [None if part is None or None in part else sum(part) for part in parts]


def _mirror_pad_shape(op: Operation) -> list[Dims]:
    # Whether the paddings are larger than what they mirror is left to the kernel.
    return _padded_shape(op)


def _mirror_pad_grad_shape(op: Operation) -> list[Dims]:
    return _padded_shape(op, -1)


_MODE = "mode: {'REFLECT', 'SYMMETRIC'}"
register_op("Pad", "input: T; paddings: Tpaddings", "output: T",
            f"T: type; Tpaddings: {INDEX} = int32", shape=_padded_shape)
register_op("PadV2", "input: T; paddings: Tpaddings; constant_values: T", "output: T",
            f"T: type; Tpaddings: {INDEX} = int32", shape=_padded_shape)
register_op("MirrorPad", "input: T; paddings: Tpaddings", "output: T",
            f"T: type; Tpaddings: {INDEX} = int32; {_MODE}", shape=_mirror_pad_shape)
register_op("MirrorPadGrad", "input: T; paddings: Tpaddings", "output: T",
            f"T: type; Tpaddings: {INDEX} = int32; {_MODE}", shape=_mirror_pad_grad_shape)


def _without_padding(op: Operation, grad: Tensor) -> Tensor:
    x, paddings = op.inputs[:2]
    known = constant_value(paddings)
    if known is not None:
        begin: Any = known[:, 0].astype(np.int32)
        return raw_ops.Slice(grad, begin, shape_of(x))
    index = paddings.dtype.base_dtype
    rank = raw_ops.Pack([rank_of(x), 1])
    before = raw_ops.Reshape(raw_ops.Slice(paddings, [0, 0], rank), [-1])
    return raw_ops.Slice(grad, before, shape_of(x, index))


@RegisterGradient("Pad")
def _pad_grad(op: Operation, grad: Tensor) -> list:
    return [_without_padding(op, grad), None]


@RegisterGradient("PadV2")
def _pad_v2_grad(op: Operation, grad: Tensor) -> list:
    inner = _without_padding(op, grad)
    border = raw_ops.Sub(raw_ops.Sum(grad, raw_ops.Range(0, rank_of(grad), 1)),
                         raw_ops.Sum(inner, raw_ops.Range(0, rank_of(inner), 1)))
    return [inner, None, border]


@RegisterGradient("MirrorPad")
def _mirror_pad_gradient(op: Operation, grad: Tensor) -> list:
    return [raw_ops.MirrorPadGrad(grad, op.inputs[1], mode=op._attrs["mode"]), None]


@RegisterGradient("MirrorPadGrad")
def _mirror_pad_grad_gradient(op: Operation, grad: Tensor) -> list:
    return [raw_ops.MirrorPad(grad, op.inputs[1], mode=op._attrs["mode"]), None]


def pad(tensor: TensorLike, paddings: TensorLike, mode: str = "CONSTANT", name: str | None = None,
        constant_values: TensorLike = 0) -> Tensor:
    """Return `tensor` with ``paddings[i]`` = (before, after) elements added to dimension i.

    Args:
        tensor: a tensor of rank R.
        paddings: integers of shape ``[R, 2]``, none negative.
        mode: "CONSTANT" adds `constant_values`; "REFLECT" mirrors the content without,
            "SYMMETRIC" with the border element; any case.
        name: name of the operation.
        constant_values: a scalar, what "CONSTANT" adds.

    Raises ``ValueError`` for an unknown mode or paddings larger than the content mirrored.
    """
    kind = mode.upper()
    if kind == "CONSTANT" and (isinstance(constant_values, Tensor) or constant_values != 0):
        return raw_ops.PadV2(input=tensor, paddings=paddings, constant_values=constant_values,
                             name=name)
    if kind == "CONSTANT":
        return raw_ops.Pad(input=tensor, paddings=paddings, name=name)
    if kind in ("REFLECT", "SYMMETRIC"):
        return raw_ops.MirrorPad(input=tensor, paddings=paddings, mode=kind, name=name)
    raise ValueError(f"Unknown padding mode: {mode}; want CONSTANT, REFLECT or SYMMETRIC")


# ---------------------------------------------------------------- Reverse, ReverseSequence


def _reverse_shape(op: Operation) -> list[Dims]:
    dims, length = op.input_dims(0), with_rank(op.input_dims(1), 1, "dims")[0]
    if dims is None:
        return [None if length is None else (None,) * length]
    merge_dim(length, len(dims))
    return [dims]


def _reversed_axis(axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        raise ValueError(f"'axis' {axis} is out of valid range [{-rank}, {rank})")
    return axis % rank


def _reverse_v2_shape(op: Operation) -> list[Dims]:
    dims, axis = op.input_dims(0), constant_value(op.inputs[1])
    with_rank(op.input_dims(1), 1, "axis")
    if dims is not None and axis is not None:
        axes = [_reversed_axis(a, len(dims)) for a in axis.tolist()]
        if len(set(axes)) != len(axes):
            twice = next(a for a in axes if axes.count(a) > 1)
            raise ValueError(f"axis {twice} specified more than once.")
    return [dims]


def _reverse_sequence_shape(op: Operation) -> list[Dims]:
    dims, lengths = op.input_dims(0), with_rank(op.input_dims(1), 1, "seq_lengths")
    if dims is None:
        return [None]
    for name in ("seq_dim", "batch_dim"):
        if op._attrs[name] >= len(dims):
            raise ValueError(f"{name} must be < input rank: {op._attrs[name]} vs. {len(dims)}")
    batch = normalize_axis(op._attrs["batch_dim"], len(dims), "batch_dim")
    size = merge_dim(dims[batch], lengths[0])
    return [dims[:batch] + (size,) + dims[batch + 1 :]]


_REVERSIBLE = ("{uint8, int8, uint16, int16, int32, int64, bool, half, float, double, complex64, "
               "complex128, string, bfloat16, uint32, uint64}")  # fmt: skip
register_op("Reverse", "tensor: T; dims: bool", "output: T", f"T: {_REVERSIBLE}",
            shape=_reverse_shape)
register_op("ReverseV2", "tensor: T; axis: Tidx", "output: T",
            f"Tidx: {INDEX} = int32; T: {_REVERSIBLE}", shape=_reverse_v2_shape)
register_op("ReverseSequence", "input: T; seq_lengths: Tlen", "output: T",
            f"seq_dim: int; batch_dim: int = 0; T: type; Tlen: {INDEX} = int64",
            shape=_reverse_sequence_shape)


@RegisterGradient("Reverse")
def _reverse_grad(op: Operation, grad: Tensor) -> list:
    return [raw_ops.Reverse(grad, op.inputs[1]), None]


@RegisterGradient("ReverseV2")
def _reverse_v2_grad(op: Operation, grad: Tensor) -> list:
    return [raw_ops.ReverseV2(grad, op.inputs[1]), None]


@RegisterGradient("ReverseSequence")
def _reverse_sequence_grad(op: Operation, grad: Tensor) -> list:
    return [raw_ops.ReverseSequence(grad, op.inputs[1], seq_dim=op._attrs["seq_dim"],
                                    batch_dim=op._attrs["batch_dim"]), None]


def reverse(tensor: TensorLike, axis: TensorLike, name: str | None = None) -> Tensor:
    """Return `tensor` with the order along the dimensions listed in `axis` (1-D) reversed."""
    return raw_ops.ReverseV2(tensor=tensor, axis=axis, name=name)


reverse_v2 = reverse


def reverse_sequence(input: TensorLike, seq_lengths: TensorLike, seq_axis: int | None = None,
                     batch_axis: int | None = None, name: str | None = None,
                     seq_dim: int | None = None, batch_dim: int | None = None) -> Tensor:
    """Return `input` with the first ``seq_lengths[b]`` elements of each sequence b reversed.

    Args:
        input: a tensor whose dimension `batch_axis` (default 0) counts the sequences and whose
            dimension `seq_axis` runs along them.
        seq_lengths: 1-D integers, one for each sequence, none longer than the dimension.
        seq_axis: see above; `seq_dim` is its old name.
        batch_axis: see above; `batch_dim` is its old name.
        name: name of the operation.
    """
    seq = _renamed("seq_axis", seq_axis, "seq_dim", seq_dim)
    batch = _renamed("batch_axis", batch_axis, "batch_dim", batch_dim)
    if seq is None:
        raise ValueError("Must specify seq_axis")
    lengths = seq_lengths if isinstance(seq_lengths, Tensor) else convert_to_tensor(
        seq_lengths, preferred_dtype=dtypes.int64)
    return raw_ops.ReverseSequence(input=input, seq_lengths=lengths, seq_dim=seq,
                                   batch_dim=batch or 0, name=name)


def _renamed(name: str, value: int | None, old_name: str, old_value: int | None) -> Any:
    if value is not None and old_value is not None:
        raise ValueError(f"Cannot specify both '{name}' and '{old_name}'")
    return old_value if value is None else value
